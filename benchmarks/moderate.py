"""Speed of moderating from JPEG files to verdicts, as ratios to testing every image individually.

    python benchmarks/moderate.py BUNDLE TASK.csv [--images N] [--rounds N] [--out FILE.csv]
    python benchmarks/moderate.py BUNDLE TASK.csv --part resnext --cache DIR
    python benchmarks/moderate.py BUNDLE TASK.csv --memory 100000

TASK.csv has the columns file, label and split; images of the split `test` are mixed to each prevalence. All
that is compared runs in turn (A B C D A B C D …) in one process, on the same files, bundle and engine, and
medians over the rounds are taken, so that a busy machine slows all alike. Parts:

- schemes: individual, dorfman, oneshot 50×100, adaptive and glance at four prevalences. Beside the time is
  processor time, the multiply-adds that the meter counted, and how far time is from them once reading is
  taken out. Reading alone is timed in the same rounds; where it takes more than a tenth of a scheme's
  processor time, or the network waited for it as long, the row says so. Where other processes keep the
  machine busy, processor time is judged in place of time, and the table says that too.
- engines: the individual scheme with OpenVINO and with torch eager.
- resnext: individual and oneshot 50×100 with ResNeXt-101 32x8d and random weights, kept in --cache.

With --memory N, N links to the files are moderated by `poolsieve moderate` in a process of its own, whose
memory is watched. That needs no more than a tiny network, which is made unless --with-bundle is given.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_bundles import random_bundle
from watched_memory import watch_memory

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.engines import Engine, open_engine
from poolsieve.evaluation.tables import write_table
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import Item, Loaded, list_items, read_content
from poolsieve.images.transforms import plain_view
from poolsieve.moderation import Moderator
from poolsieve.schemes import make_scheme

PREVALENCES = (0.001, 0.01, 0.05, 0.1)
SCHEMES = ("individual", "dorfman", "oneshot", "adaptive")
READING = "reading alone"
NEAR = 0.15
"""How far the time of a scheme may be from its multiply-adds."""
HEAVY = 0.1
"""Share of reading from which a row says that it weighs."""
FREE = 0.5
"""Load for each processor up to which time is worth looking at."""
RESNEXT_SHARE, OPENVINO_FACTOR = 0.63, 2.0
PARTS = ("schemes", "engines", "resnext")


@dataclass(frozen=True)
class Sample:
    """One pass over all files.

    Attributes:
        wall: Seconds.
        processor: Seconds of all threads together.
        share: Multiply-adds as a share of individual testing.
        waiting: Share of the stages' time in which the network waited for reading.
        front: Share of the network's time that the front took.
    """

    wall: float
    processor: float
    share: float = 0.0
    waiting: float = 0.0
    front: float = 0.0


Samples = Mapping[str, Sequence[Sample]]
Row = dict[str, Any]


def timed(work: Callable[[], Moderator | None]) -> Sample:
    wall, processor = time.perf_counter(), time.process_time()
    moderator = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    if moderator is None:
        return Sample(wall, processor)
    meter = moderator.totals.meter
    seconds = meter.seconds
    networks = sum(seconds.get(stage, 0.0) for stage in ("front", "head", "pools", "retests"))
    waiting = seconds.get("reading", 0.0) / meter.total_seconds
    return Sample(wall, processor, meter.share, waiting, seconds.get("front", 0.0) / networks)


def in_turn(ways: Mapping[str, Callable[[], Moderator | None]], rounds: int) -> Samples:
    """Samples of each way, after one round that is thrown away."""
    found: dict[str, list[Sample]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            sample = timed(work)
            if number:
                found[name].append(sample)
    return found


def moderating(moderator: Moderator, files: Sequence[str]) -> Callable[[], Moderator]:
    def work() -> Moderator:
        for verdict in moderator.moderate(files):
            if verdict.status == "error":
                sys.exit(f"{verdict.path}: {verdict.reason}")
        return moderator

    return work


def reading(bundle: Bundle, files: Sequence[str]) -> Callable[[], None]:
    """Reads and decodes as the moderator does, for nothing."""
    size, resize_mode = bundle.config.input_size, bundle.config.resize_mode
    threads = min(8, os.cpu_count() or 1)

    def prepare(item: Item, data: Loaded) -> NDArray[np.uint8] | None:
        image = read_content(item, data, at_least=size).image
        return None if image is None else plain_view(image, size, resize_mode)

    def work() -> None:
        deque(read_ahead(list_items(files), prepare, threads=threads, ahead=200), maxlen=0)

    return work


def prepared(bundle: Bundle, engine: Engine, scheme: str) -> Moderator:
    return Moderator(bundle, engine, make_scheme(scheme, bundle.config.pool_sizes), seed=1)


class Files:
    """Files of a task's test split, mixed to a prevalence; the same ones every time."""

    def __init__(self, table: Path) -> None:
        with table.open(newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if row["split"] == "test"]
        self.by_label = {
            label: [str(table.parent / row["file"]) for row in rows if row["label"] == label]
            for label in ("0", "1")
        }

    def mixed(self, count: int, prevalence: float) -> list[str]:
        """So many files in a random order."""
        rng = np.random.default_rng(0)
        bad = round(count * prevalence)
        chosen = [
            name
            for label, number in (("1", bad), ("0", count - bad))
            for name in rng.choice(
                self.by_label[label], number, replace=number > len(self.by_label[label])
            ).tolist()
        ]
        return [chosen[k] for k in rng.permutation(count)]


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def ratio(samples: Samples, name: str, base: str, of: str, without: str | None = None) -> float:
    """Median over the rounds of one way's time to another's in the same round."""
    return median(
        [
            (getattr(one, of) - getattr(spare, of)) / (getattr(other, of) - getattr(spare, of))
            if without is not None
            else getattr(one, of) / getattr(other, of)
            for one, other, spare in zip(samples[name], samples[base], samples[without or base], strict=True)
        ]
    )


def compare_schemes(bundle: Bundle, engine: Engine, files: Files, options: argparse.Namespace) -> list[Row]:
    judged_by = "wall" if os.getloadavg()[0] < FREE * (os.cpu_count() or 1) else "processor"
    print(
        f"\nschemes: {bundle.config.backbone}, {engine.name}, {options.images} images, median of "
        f"{options.rounds} rounds; ratios to individual"
    )
    if judged_by == "processor":
        print("other processes keep this machine busy: `off` compares processor time, not time")
    print(
        f"{'':>18} {'':>8} {'':>6} {'processor':>9} {'multiply-':>9} {'without reading':>16}\n"
        f"{'p':>6} {'scheme':<11} {'images/s':>8} {'time':>6} {'time':>9} {'adds':>9} "
        f"{'time':>6} {'processor':>9} {'off':>5}"
    )
    rows = []
    names = SCHEMES if bundle.config.glance is None else (*SCHEMES, "glance")
    for prevalence in PREVALENCES:
        chosen = files.mixed(options.images, prevalence)
        ways: dict[str, Callable[[], Moderator | None]] = {
            name: moderating(prepared(bundle, engine, name), chosen) for name in names
        }
        samples = in_turn({**ways, READING: reading(bundle, chosen)}, options.rounds)
        for name in names:
            row = scheme_row(samples, name, prevalence, options.images, judged_by)
            rows.append(row)
            print(line_of(row), flush=True)
        alone = options.images / median([sample.wall for sample in samples[READING]])
        front = median([sample.front for sample in samples["individual"]])
        print(
            f"{'':>6} reading alone: {alone:.0f} images/s; the front takes {front:.3f} of the networks' "
            f"time in individual tests and {bundle.config.cost.front_share:.3f} of their multiply-adds"
        )
    judged = [row for row in rows if row["scheme"] != "individual"]
    far = [row for row in judged if abs(row["off"]) > NEAR]
    print(
        f"{len(judged) - len(far)} of {len(judged)} rows are within {NEAR:.0%} of their multiply-adds"
        + "".join(f"; {row['scheme']} at p = {row['prevalence']:g} is not" for row in far)
    )
    return rows


def scheme_row(samples: Samples, name: str, prevalence: float, images: int, judged_by: str) -> Row:
    own = samples[name]
    share = median([sample.share for sample in own])
    net = {of: ratio(samples, name, "individual", of, READING) for of in ("wall", "processor")}
    return {
        "prevalence": prevalence,
        "scheme": name,
        "images_per_second": images / median([sample.wall for sample in own]),
        "time": ratio(samples, name, "individual", "wall"),
        "processor": ratio(samples, name, "individual", "processor"),
        "multiply_adds": share,
        "time_without_reading": net["wall"],
        "processor_without_reading": net["processor"],
        "off": net[judged_by] / share - 1,
        "judged_by": judged_by,
        "reading_share": ratio(samples, READING, name, "processor"),
        "waiting_share": median([sample.waiting for sample in own]),
    }


def line_of(row: Row) -> str:
    notes = []
    if row["waiting_share"] > HEAVY:
        notes.append(f"decoding is the bottleneck: the network waited {row['waiting_share']:.0%} of the time")
    if row["reading_share"] > HEAVY:
        notes.append(f"decoding takes {row['reading_share']:.0%} of the processor time")
    return (
        f"{row['prevalence']:>6g} {row['scheme']:<11} {row['images_per_second']:>8.1f} {row['time']:>6.3f} "
        f"{row['processor']:>9.3f} {row['multiply_adds']:>9.3f} {row['time_without_reading']:>6.3f} "
        f"{row['processor_without_reading']:>9.3f} {row['off']:>+5.0%}  {', '.join(notes)}"
    ).rstrip()


def compare_engines(bundle: Bundle, files: Files, options: argparse.Namespace) -> None:
    chosen = files.mixed(min(options.images, 100), 0.01)
    engines = {name: open_engine(bundle, name) for name in ("openvino", "torch")}
    samples = in_turn(
        {
            name: moderating(prepared(bundle, engine, "individual"), chosen)
            for name, engine in engines.items()
        },
        options.rounds,
    )
    print(f"\nengines: {bundle.config.backbone}, individual, {len(chosen)} images")
    for name, found in samples.items():
        print(f"{name:<10} {len(chosen) / median([sample.wall for sample in found]):>8.1f} images/s")
    factor = ratio(samples, "torch", "openvino", "wall")
    verdict = "reached" if factor >= OPENVINO_FACTOR else "MISSED"
    print(
        f"OpenVINO is {factor:.1f}× as fast as torch eager ({OPENVINO_FACTOR:g}× {verdict}); processor time "
        f"{ratio(samples, 'torch', 'openvino', 'processor'):.1f}×"
    )


def compare_resnext(files: Files, options: argparse.Namespace) -> None:
    bundle = random_bundle(options.cache / "resnext101_32x8d", "resnext101_32x8d", None)
    engine = open_engine(bundle, "auto")
    chosen = files.mixed(100, 0.01)
    samples = in_turn(
        {name: moderating(prepared(bundle, engine, name), chosen) for name in ("individual", "oneshot")},
        options.resnext_rounds,
    )
    taken = ratio(samples, "oneshot", "individual", "wall")
    share = median([sample.share for sample in samples["oneshot"]])
    print(
        f"\nresnext: {bundle.config.backbone}, random weights, {engine.name}, {len(chosen)} images, "
        f"the front is {bundle.config.cost.front_share:.3f} of the multiply-adds"
    )
    for name, found in samples.items():
        print(f"{name:<10} {len(chosen) / median([sample.wall for sample in found]):>8.2f} images/s")
    verdict = "reached" if taken <= RESNEXT_SHARE else "MISSED"
    print(
        f"oneshot 50×100 takes {taken:.3f} of individual (≤ {RESNEXT_SHARE:g} {verdict}); processor time "
        f"{ratio(samples, 'oneshot', 'individual', 'processor'):.3f}, multiply-adds {share:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path, help="folder of a bundle with pools of 8")
    parser.add_argument("data", type=Path, help="CSV with the columns file, label and split")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--images", type=int, default=400, help="images at each prevalence")
    parser.add_argument("--rounds", type=int, default=5, help="times that each way is timed")
    parser.add_argument("--resnext-rounds", type=int, default=2)
    parser.add_argument("--engine", default="auto")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "poolsieve-benchmarks",
        help="where the bundle with random weights is kept, 900 MB",
    )
    parser.add_argument("--out", type=Path, help="also write the rows of the schemes as .csv or .parquet")
    parser.add_argument("--memory", type=int, metavar="N", help="watch memory over N files, and nothing else")
    parser.add_argument("--with-bundle", action="store_true", help="--memory: run BUNDLE, not a tiny network")
    options = parser.parse_args()

    files = Files(options.data)
    print(f"{os.cpu_count()} processors of {platform.machine()}, load {os.getloadavg()[0]:.1f} at the start")
    if options.memory is not None:
        names = [*files.by_label["0"][:300], *files.by_label["1"][:3]]
        watch_memory(names, options.memory, options.bundle if options.with_bundle else None)
        return
    parts = options.part or PARTS
    if "schemes" in parts or "engines" in parts:
        bundle = load_bundle(options.bundle)
    if "schemes" in parts:
        rows = compare_schemes(bundle, open_engine(bundle, options.engine), files, options)
        if options.out is not None:
            print(f"rows: {write_table(rows, options.out)}")
    if "engines" in parts:
        compare_engines(bundle, files, options)
    if "resnext" in parts:
        compare_resnext(files, options)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
