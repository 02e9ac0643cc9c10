"""Runs in parts: the same tables, what they cost beside a plain run, kills, and a listing of a million keys.

    python benchmarks/cluster.py tables FOLDER [--images N]      # same tables for all schemes and workers
    python benchmarks/cluster.py overhead FOLDER [--images N]    # seconds beside plain `moderate`
    python benchmarks/cluster.py kills FOLDER [--kills N]        # random kills of workers and driver
    python benchmarks/cluster.py keys [--keys N] [--place RUN] [--seconds S]    # memory against images

Every command is run as people run it, in a process of its own. `overhead` compares the time that judging
takes, from the first part of a run to the last, with that of as many chunks of a plain run, without start-up.
`keys` judges small images of a server with S3's interface by a tiny network; with --place it stops after so
many seconds, and the same command goes on. What was measured is kept in benchmarks/results/cluster.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from noted_judging import Noted, noting
from result_files import RESULTS, read_result, write_result
from result_tables import fill_pages
from small_bundle import small_bundle
from stub_store import SOURCE, served_images
from watched_memory import resident_megabytes

from poolsieve.distributed import RunFolder, run_verdicts
from poolsieve.moderation.verdict_files import read_verdicts

SCHEMES = ("auto", "adaptive", "dorfman", "glance")
WAYS = (("local", 1), ("local", 2), ("ray", 1), ("ray", 2))
NAME = "cluster"
MOST_FAILED = 3
"""Drivers that may end by themselves before all is judged."""
POINTS = 100
"""Of the curve of memory against images."""


def keep(what: str, rows: list[dict[str, Any]]) -> None:
    """Put rows in place of those that the same measurement gave before."""
    kept = read_result(NAME)["rows"] if (RESULTS / f"{NAME}.json").exists() else []
    words = sys.argv[1:]
    for option in ("--place", "--seconds"):  # only say in how many pieces it was done
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    asked = ["FOLDER" if Path(word).is_dir() else word for word in words]
    given = {"what": what, "command": shlex.join(["python", "benchmarks/cluster.py", *asked])}
    others = [row for row in kept if row["what"] != what]
    everything = sorted([*others, *({**given, **row} for row in rows)], key=lambda row: row["what"])
    write_result(NAME, "python benchmarks/cluster.py WHAT", everything)
    fill_pages()
    for row in rows:
        print(row)


def link_images(folder: Path, target: Path, count: int) -> Path:
    """A folder with links to so many images, from all below the folder; the same ones again if need be."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    target.mkdir()
    for number in range(count):
        place = number * len(files) // count if count < len(files) else number % len(files)
        (target / f"{number:07d}.jpg").symlink_to(files[place].resolve())
    return target


def command(source: Path | str, out: Path, bundle: str, *more: object) -> list[str]:
    """`poolsieve moderate` as it is typed."""
    given = ("moderate", source, "--bundle", bundle, "--out", out, "--seed", 7, "--quiet", *more)
    return [sys.executable, "-m", "poolsieve", *map(str, given)]


def parted(on: str, workers: int, segment: int) -> list[object]:
    """The options of a run in parts; two actors of half a processor leave one free on two."""
    options: list[object] = ["--on", on, "--workers", workers, "--segment", segment, "--threads", 1]
    return [*options, "--cpus-per-worker", 0.5] if on == "ray" else options


def run(arguments: list[str]) -> float:
    """Seconds that a command takes; some images may be unreadable."""
    begin = time.perf_counter()
    ended = subprocess.run(arguments, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} ended with {ended.returncode}")
    return time.perf_counter() - begin


def tables(given: argparse.Namespace, place: Path) -> None:
    """Whether all tables are the same."""
    source = link_images(given.folder, place / "photos", given.images)
    rows = []
    for scheme in SCHEMES:
        plain = place / f"{scheme}.parquet"
        run(command(source, plain, given.bundle, "--scheme", scheme, "--threads", 1))
        found = {}
        for on, workers in WAYS:
            out = place / f"{scheme}-{on}-{workers}"
            run(command(source, out, given.bundle, "--scheme", scheme, *parted(on, workers, given.segment)))
            found[f"{on}, {workers}"] = list(run_verdicts(str(out)))
        expected = found["local, 1"]
        rows.append(
            {
                "scheme": scheme,
                "images": len(expected),
                "flagged": sum(verdict.flagged for verdict in expected),
                "plans": len({verdict.scheme for verdict in expected}),
                "plain": list(read_verdicts(plain)) == expected,
                **{way: verdicts == expected for way, verdicts in found.items()},
            }
        )
        keep("tables", rows)


def judging_seconds(out: Path) -> float:
    """Time between the first and the last part of a run, for each part after the first."""
    times = sorted(path.stat().st_mtime for path in (out / "parts").iterdir())
    return (times[-1] - times[0]) / (len(times) - 1)


def overhead(given: argparse.Namespace, place: Path) -> None:
    """Seconds of a segment in a plain run, and in runs in parts by one worker; rounds take turns."""
    source = link_images(given.folder, place / "photos", given.images)
    seconds: dict[str, list[float]] = {"plain": [], "local, 1": [], "ray, 1": []}
    for number in range(given.rounds):
        chunk = ("--scheme", "adaptive", "--threads", 1)
        out = place / f"plain-{number}.parquet"
        seconds["plain"].append(
            _plain_seconds(command(source, out, given.bundle, *chunk), out, given.segment)
        )
        for name, on in (("local, 1", "local"), ("ray, 1", "ray")):
            folder = place / f"{on}-{number}"
            run(command(source, folder, given.bundle, *chunk[:2], *parted(on, 1, given.segment)))
            seconds[name].append(judging_seconds(folder))
    best = {name: min(values) for name, values in seconds.items()}
    keep(
        "overhead",
        [
            {
                "way": name,
                "images": given.images,
                "segment_seconds": [round(value, 3) for value in values],
                "ratio": round(best[name] / best["plain"], 3),
                "load": round(os.getloadavg()[0], 1),
                "processors": os.cpu_count(),
            }
            for name, values in seconds.items()
        ],
    )


def _plain_seconds(arguments: list[str], out: Path, segment: int) -> float:
    """As `judging_seconds`, by the times at which chunks reach the log of a plain run."""
    log = Path(f"{out}.partial")
    seen: dict[int, float] = {}
    with subprocess.Popen(arguments) as process:
        while process.poll() is None:
            try:
                chunks = log.read_bytes().count(b'"chunk_done"')
            except FileNotFoundError:
                chunks = 0
            if chunks:
                seen.setdefault(chunks, time.perf_counter())
            time.sleep(0.02)
    first, last = min(seen), max(seen)
    return (seen[last] - seen[first]) / (last - first) * segment


def kills(given: argparse.Namespace, place: Path) -> None:
    """Kill a worker, the driver or both at random moments of a run, and begin it again when it ended.

    Moments are numbers of parts, so that kills are spread over the run on a fast machine as on a slow one.
    """
    source = link_images(given.folder, place / "photos", given.images)
    out, rng, noted = place / "run", random.Random(given.seed), Noted(place / "judged.txt")
    options = ("--scheme", given.scheme, *parted(given.on, 2, 1))
    if given.chunk is not None:
        options = (*options, "--chunk", given.chunk)
    run(command(source, place / "calm", given.bundle, *options))
    expected = list(run_verdicts(str(place / "calm")))
    segments = len(RunFolder(str(place / "calm")).parts())
    moments = sorted(rng.choices(range(1, segments - 1), k=given.kills))
    written: dict[Path, int] = {}
    killed: Counter[str] = Counter()
    starts = failed = twice = 0
    while not (out / "_SUCCESS").exists():
        starts += 1
        driver = subprocess.Popen(
            noting(command(source, out, given.bundle, *options)), env={**os.environ, **noted.environment()}
        )
        dead: set[int] = set()
        while driver.poll() is None:
            time.sleep(0.02)
            for path in (out / "parts").glob("0*.parquet"):
                twice += written.get(path, path.stat().st_mtime_ns) != path.stat().st_mtime_ns
                written[path] = path.stat().st_mtime_ns
            if not moments or len(written) < moments[0]:
                continue
            workers = sorted(_workers_of(driver.pid) - dead)
            if len(workers) < 2:
                continue  # those that were killed are being replaced
            time.sleep(rng.uniform(0.0, given.pause))
            if driver.poll() is not None:
                break  # it ended by itself
            del moments[0]
            whom = rng.choice(("worker", "driver", "both"))
            killed[whom] += 1
            if whom != "driver":
                dead.add(victim := rng.choice(workers))
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            if whom != "worker":
                driver.kill()
        failed += driver.returncode not in (0, 1, -signal.SIGKILL)  # as Ray may not start on a busy machine
        if failed > MOST_FAILED:
            raise SystemExit(f"the driver ended with {driver.returncode}")
    row = {
        "on": given.on,
        "images": given.images,
        "segments": segments,
        "kills": killed.total(),
        **{f"kills_of_{whom}": killed[whom] for whom in ("worker", "driver", "both")},
        "starts": starts,
        "failed_starts": failed,
        "same_table": list(run_verdicts(str(out))) == expected,
        "written_twice": twice,
        "judged_again": noted.again(),
        "most_by_a_worker": noted.most_lost_by_a_worker(),
    }
    keep(f"kills, {given.on}", [row])


def _workers_of(driver: int) -> set[int]:
    """Processes of a driver that judge: those that it spawned, or the actors of its Ray."""
    parents: dict[int, int] = {}
    judging = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        parents[int(entry.name)] = int(parent)
        spawned = int(parent) == driver and b"multiprocessing" in words and b"resource_tracker" not in words
        if state != "Z" and (spawned or words.startswith(b"ray::SegmentJudge")):
            judging.add(int(entry.name))
    return {worker for worker in judging if driver in _ancestors(worker, parents)}


def _ancestors(process: int, parents: dict[int, int]) -> Iterator[int]:
    while process in parents:
        process = parents[process]
        yield process


def keys(given: argparse.Namespace, place: Path) -> None:
    """Judge so many keys of a server, or as many as the time allows, and tell the memory of all processes."""
    place = given.place or place
    out, curve, bundle = place / "run", place / "curve.jsonl", place / "bundle"
    place.mkdir(parents=True, exist_ok=True)
    if not bundle.exists():
        small_bundle(bundle)
    options: tuple[object, ...] = (
        "--on",
        "local",
        "--workers",
        given.workers,
        "--scheme",
        given.scheme,
        "--threads",
        1,
    )
    if given.chunk is not None:
        options = (*options, "--chunk", given.chunk)
    begin, step = time.monotonic(), given.keys // POINTS
    with served_images(given.keys) as environment:
        driver = subprocess.Popen(command(SOURCE, out, str(bundle), *options), env=environment)
        began_with = _judged(out)
        seen = began_with
        while driver.poll() is None and time.monotonic() - begin < given.seconds:
            time.sleep(1)
            ending = time.monotonic() - begin > given.seconds - 2
            if _judged(out) >= seen + (1 if ending else step):
                point = _point(driver.pid, out, time.monotonic() - begin, began_with)
                seen = point["images"]
                with curve.open("a") as stream:
                    stream.write(f"{json.dumps(point)}\n")
                print(point, flush=True)
        if driver.poll() is None:
            driver.kill()
        driver.wait()
    lines = curve.read_text().splitlines()
    finished = (out / "_SUCCESS").exists()
    keep("keys", [{"keys": given.keys, "finished": finished, **json.loads(line)} for line in lines])


def _judged(out: Path) -> int:
    """Images whose verdicts are written, but for a shorter last part."""
    try:
        settings = RunFolder(str(out)).settings()
    except (OSError, ValueError):  # it is just being written
        return 0
    return 0 if settings is None else len(list((out / "parts").glob("0*.parquet"))) * settings.images


def _point(driver: int, out: Path, seconds: float, began_with: int) -> dict[str, Any]:
    """Images so far, and megabytes of driver and workers."""
    images, workers = _judged(out), _workers_of(driver)
    return {
        "images": images,
        "listed_segments": len(list((out / "listing").glob("0*.parquet"))),
        "driver_mb": round(resident_megabytes(driver)),
        "workers_mb": [round(resident_megabytes(worker)) for worker in sorted(workers)],
        "images_per_second": round((images - began_with) / seconds),
    }


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("tables", "overhead", "kills", "keys"))
    parser.add_argument("folder", nargs="?", type=Path, help="images; not for keys")
    parser.add_argument("--bundle", default="firearms")
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--segment", type=int, default=2, help="chunks of a part")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--scheme", default="auto", help="of kills")
    parser.add_argument("--chunk", type=int, help="images of a chunk, in kills; not with auto")
    parser.add_argument("--pause", type=float, default=1.0, help="most seconds that a kill comes later")
    parser.add_argument("--on", choices=("local", "ray"), default="local")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1, help="of keys; the server takes a processor too")
    parser.add_argument("--place", type=Path, help="folder in which keys goes on")
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which keys stops")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what != "keys" and given.folder is None:
        parser.error("name a folder of images")
    chosen = {"tables": tables, "overhead": overhead, "kills": kills, "keys": keys}[given.what]
    with tempfile.TemporaryDirectory(prefix="poolsieve-cluster-") as temporary:
        chosen(given, Path(temporary))


if __name__ == "__main__":
    main()
