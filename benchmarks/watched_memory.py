"""Memory of `poolsieve moderate` over many files, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from random_bundles import random_bundle

LIMIT = 1500.0
"""Megabytes that are never to be exceeded."""


@dataclass(frozen=True)
class Watched:
    """Memory of a process at a moment."""

    seconds: float
    judged: int
    megabytes: float


def watch_memory(names: Sequence[str], count: int, bundle: Path | None) -> None:
    """Moderate `count` links to some files and tell what memory that took.

    Args:
        names: Image files.
        count: Files to moderate.
        bundle: What to moderate with; None for a tiny network, as memory hardly depends on it.
    """
    with tempfile.TemporaryDirectory(prefix="poolsieve-memory-") as temporary:
        folder = Path(temporary)
        used = bundle or random_bundle(folder / "tiny", "resnet18", 32).path
        link_files(names, folder / "photos", count)
        watched, status = watch(used, folder / "photos", folder / "verdicts.parquet")
    print(f"\nmemory: {count:,} files, {used.name}, adaptive, exit status {status}")
    later = [moment.megabytes for moment in watched if moment.judged >= count / 4]
    if status != 0 or not later:
        sys.exit("poolsieve moderate failed, or there were too few files to watch it")
    print(f"{'seconds':>8} {'judged':>9} {'RSS in MB':>10}")
    for moment in watched[:: max(1, len(watched) // 12)]:
        print(f"{moment.seconds:>8.0f} {moment.judged:>9,} {moment.megabytes:>10.0f}")
    most = max(moment.megabytes for moment in watched)
    print(
        f"most {most:.0f} MB ({LIMIT:.0f} MB {'kept' if most < LIMIT else 'BROKEN'}); from the first quarter "
        f"to the end it went from {later[0]:.0f} to {later[-1]:.0f} MB"
    )


def link_files(names: Sequence[str], folder: Path, count: int) -> None:
    """So many files in folders of a thousand; links where the file system can, so that they take no room."""
    for number in range(count):
        name = names[number % len(names)]
        inside = folder / f"{number // 1000:04d}"
        inside.mkdir(parents=True, exist_ok=True)
        target = inside / f"{number:07d}{Path(name).suffix}"
        try:
            os.link(name, target)
        except OSError:
            target.write_bytes(Path(name).read_bytes())


def watch(bundle: Path, photos: Path, out: Path) -> tuple[list[Watched], int]:
    """Run `poolsieve moderate` and look at its memory every second."""
    command = [sys.executable, "-m", "poolsieve", "moderate", str(photos)]
    options = ["--bundle", str(bundle), "--out", str(out), "--scheme", "adaptive", "--seed", "1"]
    watched: list[Watched] = []
    log, begin, position, judged = Path(f"{out}.partial"), time.monotonic(), 0, 0
    with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if log.exists():
                with log.open("rb") as stream:
                    stream.seek(position)
                    new = stream.read()
                position += len(new)
                judged += new.count(b'"sha256"')
            watched.append(Watched(time.monotonic() - begin, judged, resident_megabytes(process.pid)))
            time.sleep(1)
        return watched, process.returncode


def resident_megabytes(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0]) * 1024 / 1e6 if lines else 0.0
