"""The command with networks that see the truth, in this process or in one of its own."""

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow.parquet as pq
from planted import PlantedEngine, planted_bundle

import poolsieve
from poolsieve.moderation import Moderator
from poolsieve.planning.choosing import choose_scheme


def load_planted(
    bundle, *, engine, scheme, target, plan, seed, threads, batch_size, precision, frames, **parameters
):
    """In place of `Moderator.load`: no trained network is needed to test the command."""
    made = planted_bundle()
    chosen, _ = choose_scheme(made, scheme, target, plan, parameters)
    return Moderator(made, PlantedEngine(), chosen, seed=seed, reading_threads=2, frames=frames)


def records(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


SLOW = textwrap.dedent(
    """
    import sys, time
    import planted, planted_command
    from poolsieve.cli import main
    from poolsieve.moderation import Moderator

    real = planted.PlantedEngine.front
    def slow(self, images):
        time.sleep(float(sys.argv[1]))
        return real(self, images)
    planted.PlantedEngine.front = slow
    Moderator.load = planted_command.load_planted
    main(["moderate", "--bundle", "planted", *sys.argv[2:]])
    """
)


def command(delay, *arguments, **settings):
    here = Path(__file__).parent
    paths = [str(Path(poolsieve.__file__).parents[1]), str(here), str(here.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    options = [sys.executable, "-c", SLOW, str(delay), *map(str, arguments)]
    return subprocess.Popen(
        options, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings
    )
