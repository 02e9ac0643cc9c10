"""Runs in parts: the same tables, what they cost beside a plain run, kills, and memory over a long listing.

    python benchmarks/cluster.py tables FOLDER [--images N]      # same tables for all schemes and workers
    python benchmarks/cluster.py overhead FOLDER [--images N]    # seconds beside plain `moderate`
    python benchmarks/cluster.py kills FOLDER [--kills N]        # random kills of workers and driver
    python benchmarks/cluster.py listing [--keys N]              # memory over so many keys of an S3 server

Every command is run as people run it, in a process of its own. `overhead` compares the time that judging
takes, from the first part of a run to the last, with that of as many chunks of a plain run, without start-up.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from poolsieve.distributed import RunFolder, run_verdicts
from poolsieve.moderation.verdict_files import read_verdicts

SCHEMES = ("auto", "adaptive", "dorfman", "glance")
WAYS = (("local", 1), ("local", 2), ("ray", 1), ("ray", 2))
PAGE = 1000
"""Keys of a page of S3."""


def link_images(folder: Path, target: Path, count: int) -> Path:
    """A folder with links to so many images, the same ones again if there are fewer."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    target.mkdir()
    for number in range(count):
        (target / f"{number:07d}.jpg").symlink_to(files[number % len(files)].resolve())
    return target


def command(source: Path, out: Path, bundle: str, *more: object) -> list[str]:
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
    print(
        f"{given.images:,} images; the same table as the first\n\n| scheme | plain | "
        + " | ".join(f"{on}, {workers}" for on, workers in WAYS)
        + " |\n|---|---|"
        + "---|" * len(WAYS)
    )
    for scheme in SCHEMES:
        plain = place / f"{scheme}.parquet"
        run(command(source, plain, given.bundle, "--scheme", scheme, "--threads", 1))
        expected, told = None, []
        for on, workers in WAYS:
            out = place / f"{scheme}-{on}-{workers}"
            run(command(source, out, given.bundle, "--scheme", scheme, *parted(on, workers, given.segment)))
            found = list(run_verdicts(str(out)))
            expected = found if expected is None else expected
            told.append("yes" if found == expected else "NO")
        same = (
            "by other plans"
            if scheme == "auto"
            else "yes"
            if list(read_verdicts(plain)) == expected
            else "NO"
        )
        print(f"| {scheme} | {same} | {' | '.join(told)} |", flush=True)


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
    load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors"
    print(f"{load}, best of {given.rounds} rounds, one thread")
    print("| | seconds of a segment, all rounds | ratio to plain |\n|---|---|---|")
    for name, values in seconds.items():
        shown = ", ".join(f"{value:.2f}" for value in values)
        print(f"| {name} | {shown} | {best[name] / best['plain']:.3f} |")


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
    out, rng = place / "run", random.Random(given.seed)
    options = ("--scheme", given.scheme, *parted(given.on, 2, 1))
    if given.chunk is not None:
        options = (*options, "--chunk", given.chunk)
    run(command(source, place / "calm", given.bundle, *options))
    expected = list(run_verdicts(str(place / "calm")))
    segments = len(RunFolder(str(place / "calm")).parts())
    moments = sorted(rng.choices(range(1, segments - 1), k=given.kills))
    written: dict[Path, int] = {}
    killed: Counter[str] = Counter()
    starts = twice = 0
    while not (out / "_SUCCESS").exists():
        starts += 1
        driver = subprocess.Popen(command(source, out, given.bundle, *options))
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
        if driver.returncode not in (0, 1, -signal.SIGKILL):
            raise SystemExit(f"the driver ended with {driver.returncode}")
    same = list(run_verdicts(str(out))) == expected
    told = ", ".join(f"{whom} {times}" for whom, times in sorted(killed.items()))
    print(
        f"{given.on}: {killed.total()} kills ({told}) on {segments} segments of {given.images:,} images, "
        f"{starts} starts: the table is {'the same' if same else 'ANOTHER ONE'}, {twice} parts were written "
        "twice"
    )


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


class _Keys(BaseHTTPRequestHandler):
    """S3 as far as listings ask for it: so many keys, made up as they are asked for."""

    keys = 0

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        first = int(asked.get("continuation-token", ["0"])[0])
        last = min(first + PAGE, self.keys)
        rows = "".join(
            f"<Contents><Key>up/{n:09d}.jpg</Key><Size>1</Size><ETag>&quot;{n:032x}&quot;</ETag></Contents>"
            for n in range(first, last)
        )
        more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < self.keys else ""
        truncated = str(last < self.keys).lower()
        head = f"<IsTruncated>{truncated}</IsTruncated>{more}"
        body = f"<ListBucketResult>{head}{rows}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: object) -> None:
        """Say nothing."""


@contextmanager
def served_keys(count: int) -> Iterator[str]:
    """The address of a server with so many keys."""
    handler = type("Keys", (_Keys,), {"keys": count})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def listing(given: argparse.Namespace, place: Path) -> None:
    """Put the listing of so many keys on record, in a process apart from the server; tell its memory."""
    with served_keys(given.keys) as address:
        settings = {
            **os.environ,
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        script = "import sys, cluster; cluster.list_keys(sys.argv[1], int(sys.argv[2]))"
        subprocess.run(
            [sys.executable, "-c", script, str(place / "run"), str(given.keys)], env=settings, check=True
        )
    shutil.rmtree(place / "run", ignore_errors=True)


def list_keys(out: str, keys: int) -> None:
    """Write the listing of a run, a tenth at a time."""
    from poolsieve.distributed.listing import ListedImage, list_segments
    from poolsieve.distributed.run_folder import RunSettings
    from poolsieve.images.locations import Location

    images = (ListedImage(f.name, f.size, f.version) for f in Location("s3://bucket/up").files())
    settings = RunSettings(("s3://bucket/up",), None, "b", "h", "s", {}, (), 0, chunk=100, segment=10)
    begin, segments = time.perf_counter(), list_segments(RunFolder(out), settings, images)
    step = max(keys // settings.images // 10, 1)
    print("| keys | seconds | MB resident, most so far |\n|---|---|---|")
    done = 0
    while taken := sum(1 for _ in islice(segments, step)):
        done += taken
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {done * settings.images:,} | {time.perf_counter() - begin:.0f} | {most:.0f} |", flush=True)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("tables", "overhead", "kills", "listing"))
    parser.add_argument("folder", nargs="?", type=Path, help="images; not for listing")
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
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what != "listing" and given.folder is None:
        parser.error("name a folder of images")
    chosen = {"tables": tables, "overhead": overhead, "kills": kills, "listing": listing}[given.what]
    with tempfile.TemporaryDirectory(prefix="poolsieve-cluster-") as temporary:
        chosen(given, Path(temporary))


if __name__ == "__main__":
    main()
