"""Seconds from the command to the first verdict, and to its end.

    python benchmarks/startup.py BUNDLE FOLDER_OR_TABLE [--rounds N] [--scheme NAME]...

`poolsieve moderate` runs in a process of its own, as people start it, once for every scheme in turn, several
times over. A verdict is there when it stands in the file from which an interrupted run would go on. The first
round does not count: it fills the caches of a machine that is to be warm.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from poolsieve.moderation.verdict_files import VerdictLog

SCHEMES = ("auto", "individual", "cascade", "glance", "dorfman", "oneshot", "adaptive")
WANTED = 3.0
_LOOK_EVERY = 0.01


def start_up(bundle: str, source: str, scheme: str, folder: Path) -> tuple[float, float]:
    """Seconds to the first verdict and to the end of one command."""
    out = folder / "verdicts.csv"
    out.unlink(missing_ok=True)
    log = VerdictLog.path_for(out)
    command = [sys.executable, "-m", "poolsieve", "moderate", source, "--bundle", bundle]
    begin = time.perf_counter()
    with subprocess.Popen(
        [*command, "--scheme", scheme, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        first = None
        while process.poll() is None:
            if first is None and _has_verdict(log):
                first = time.perf_counter() - begin
            time.sleep(_LOOK_EVERY)
        whole = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"poolsieve moderate --scheme {scheme} ended with {process.returncode}")
    return (whole if first is None else first), whole


def _has_verdict(log: Path) -> bool:
    """The header is one line, the first chunk the next."""
    try:
        return log.read_bytes().count(b"\n") > 1
    except FileNotFoundError:
        return False


def main() -> None:
    """Time all schemes and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("source", help="what `poolsieve moderate` takes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scheme", action="append", choices=SCHEMES, help="only this; may be repeated")
    given = parser.parse_args()
    schemes = given.scheme or SCHEMES
    times: dict[str, list[tuple[float, float]]] = {scheme: [] for scheme in schemes}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds + 1):
            for scheme in schemes:
                seen = start_up(given.bundle, given.source, scheme, Path(folder))
                if number:
                    times[scheme].append(seen)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, {given.rounds} rounds")
    print("| scheme | first verdict, median (range), s | whole command, median, s | |\n|---|---|---|---|")
    for scheme, pairs in times.items():
        first, whole = sorted(one for one, _ in pairs), [one for _, one in pairs]
        middle = statistics.median(first)
        verdict = f"within {WANTED:.0f} s" if middle <= WANTED else "**later**"
        shown = f"{middle:.2f} ({first[0]:.2f}–{first[-1]:.2f}) | {statistics.median(whole):.2f}"
        print(f"| {scheme} | {shown} | {verdict} |")


if __name__ == "__main__":
    main()
