"""Runs that are killed anywhere and resumed: they must end as if nothing had been."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from PIL import Image

from fault_campaigns.campaign import Broken, Findings, rng_of
from fault_campaigns.commands import CANNOT_RUN, Command, complaint, finished, run_command, start
from fault_campaigns.image_files import mutated_file
from poolsieve.images.own_outputs import NOTES
from poolsieve.moderation.verdict_files import VerdictLog

IN_A_ROW = 10
"""Kills that one run suffers before it may end."""
AT_ONCE = 2
IMAGES = 48
DAMAGED_EVERY = 4
LONGEST = 240.0
"""Seconds on the clock for a run of some images, on a machine that others use too."""
_LOOK_EVERY = 0.002
_CHUNK_DONE = b'{"chunk_done"'
_CUT_OFF = "is cut off; there is nothing to go on from"
"""What is said of a log that was killed with its first line, to begin anew."""
_START_UP = 1.5
"""Seconds in which most commands begin to judge."""


@dataclass(frozen=True)
class Setup:
    """A way to run the command.

    Attributes:
        source: Name of what is moderated.
        out: Name of the table.
        options: What else is given.
        chunks: Chunks that there will be.
    """

    source: str
    out: str
    options: tuple[str, ...]
    chunks: int


def _setup(source: str, ending: str, scheme: str, chunk: int, *options: str) -> Setup:
    chosen = ("--scheme", scheme, "--chunk", str(chunk), *options)
    return Setup(source, f"v.{ending}", chosen, -(-IMAGES // chunk))


_PICTURES = ("--report", "r.html", "--contact-sheet", "s.png", "--copy-flagged", "copies")
_POOLS = ("--pool-size", "8", "--pools-per-image", "1")
SETUPS = (
    _setup("sound", "csv", "individual", 6),
    _setup("damaged", "jsonl", "individual", 4, *_PICTURES),
    _setup("damaged.zip", "parquet", "glance", 6),
    _setup("damaged", "csv", "adaptive", 16, *_POOLS, "--prevalence", "0.3"),
    _setup("sound.csv", "jsonl", "dorfman", 8, "--pool-size", "8"),
    _setup("damaged.csv", "parquet", "cascade", 6, *_PICTURES),
)


class Kills:
    """Kills by SIGKILL, some while the program starts, most between and within chunks and while it finishes.

    A run is killed several times in a row and resumed after each. In the end its table, contact sheet and
    copies must have the same bytes as those of a run that nobody disturbed, and nothing else may be left.

    Args:
        seed: Of all cases.
        bundle: Folder of the bundle that judges.
        command: Runs the command; must be importable, as it runs in another process.
    """

    name = "kills"
    together = AT_ONCE * IN_A_ROW

    def __init__(self, seed: int, bundle: Path, command: Command = run_command) -> None:
        self._seed, self._bundle, self._command = seed, bundle, command
        self._work = tempfile.TemporaryDirectory(prefix="poolsieve-kills-")
        self._folder = Path(self._work.name)
        _write_sources(self._folder)
        self._unbroken: dict[Setup, tuple[dict[str, bytes], int]] = {}
        self._lock = threading.Lock()

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""
        rows = [numbers[k : k + IN_A_ROW] for k in range(0, len(numbers), IN_A_ROW)]
        findings = Findings()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for found in threads.map(self._kill_in_a_row, rows):
                findings.add(found)
        return findings

    def _kill_in_a_row(self, numbers: range) -> Findings:
        setup = SETUPS[numbers[0] // IN_A_ROW % len(SETUPS)]
        findings = Findings(len(numbers))
        words = self._undisturbed_words(setup)
        left = list(numbers)
        draws = {number: rng_of(self._seed, self.name, number) for number in numbers}
        while words is None and left:
            with self._output() as folder:
                words, left = self._until_the_end(setup, folder, left, draws, findings.noted)
        if words is not None:
            case = f"{setup.source} {' '.join(setup.options)}"
            findings.broken.append(
                Broken(numbers[0], f"{case}, kills {numbers[0]} to {numbers[-1]}: {words}")
            )
        return findings

    def _until_the_end(
        self,
        setup: Setup,
        folder: Path,
        left: Sequence[int],
        draws: dict[int, np.random.Generator],
        noted: Counter[str],
    ) -> tuple[str | None, list[int]]:
        """Kill and resume until a run ends; gives what is wrong, and the kills that came too late."""
        rest = list(left)
        while rest:
            status = self._killed(setup, folder, draws[rest[0]])
            if status is not None:  # it was quicker
                printed = _printed(folder)
                words = None if _CUT_OFF in printed else complaint(status, printed, [0, 1])
                if words is not None:
                    return words, rest
                break
            noted[_moment(setup, folder)] += 1
            del rest[0]
        words, status = self._resumed(setup, folder)
        if words is not None:
            return words, rest
        files, expected = self._undisturbed(setup)
        if status != expected:
            return f"ended with {status}, undisturbed with {expected}", rest
        return _difference(_contents(folder), files), rest

    def _killed(self, setup: Setup, folder: Path, rng: np.random.Generator) -> int | None:
        """Run or resume, and kill it some time; the exit status if it came to its end before."""
        log = VerdictLog.path_for(folder / setup.out)
        before = _chunks_in(log)
        kind = rng.random()
        if kind < 0.15:
            wanted, delay = -1, rng.uniform(0, _START_UP)
        elif kind < 0.85:
            wanted, delay = min(before + int(rng.integers(1, 3)), setup.chunks), rng.uniform(0, 0.03)
        else:
            wanted, delay = setup.chunks, rng.uniform(0, 0.06)
        process = start(self._command, self._arguments(setup, folder), folder.with_suffix(".txt"))
        end = time.monotonic() + LONGEST
        while wanted >= 0 and _chunks_in(log, -1) < wanted and process.is_alive() and time.monotonic() < end:
            time.sleep(_LOOK_EVERY)
        process.join(delay)
        process.kill()
        process.join()
        return None if process.exitcode == -9 else process.exitcode

    def _resumed(self, setup: Setup, folder: Path) -> tuple[str | None, int | None]:
        """What is wrong with going on to the end, and the exit status."""
        output = folder.with_suffix(".txt")
        status: int | None = CANNOT_RUN
        for more in ((), ("--force",)):
            output.unlink(missing_ok=True)
            status = finished(self._command, self._arguments(setup, folder, *more), output, LONGEST)
            printed = _printed(folder)
            if _CUT_OFF not in printed:
                break  # else it says to begin anew
        if "finished already" in printed:  # the summary was all that was missing
            return complaint(status, printed, [0]), self._undisturbed(setup)[1]
        return complaint(status, printed, [0, 1]), status

    def _arguments(self, setup: Setup, folder: Path, *more: str) -> list[str]:
        files = {"r.html", "s.png", "copies"}
        options = [str(folder / word) if word in files else word for word in setup.options]
        how = list(more) or ["--resume"]
        places = ["--out", str(folder / setup.out), "--bundle", str(self._bundle)]
        source = str(self._folder / setup.source)
        return ["moderate", source, *places, "--seed", "5", "--threads", "1", *options, *how]

    def _undisturbed_words(self, setup: Setup) -> str | None:
        """What is wrong with a run that nobody disturbs."""
        with self._lock:
            if setup in self._unbroken:
                return None
            with self._output() as folder:
                words, status = self._resumed(setup, folder)
                assert status is not None or words is not None
                if words is None and status is not None:
                    self._unbroken[setup] = _contents(folder), status
                return words

    def _undisturbed(self, setup: Setup) -> tuple[dict[str, bytes], int]:
        return self._unbroken[setup]

    @contextmanager
    def _output(self) -> Iterator[Path]:
        """An empty folder for the results of a run."""
        folder = Path(tempfile.mkdtemp(prefix="out-", dir=self._folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            folder.with_suffix(".txt").unlink(missing_ok=True)


def _write_sources(folder: Path) -> None:
    rng = np.random.default_rng(4)
    pictures = [rng.integers(0, rng.integers(40, 256), (40, 44, 3), dtype=np.uint8) for _ in range(IMAGES)]
    damaged = (mutated_file(0, number)[1] for number in count())
    for name in ("sound", "damaged"):
        (folder / name).mkdir()
        for number, pixels in enumerate(pictures):
            file = folder / name / f"{number:03d}.png"
            Image.fromarray(pixels).save(file)
            if name == "damaged" and number % DAMAGED_EVERY == 1:
                file.write_bytes(next(damaged))
        files = sorted((folder / name).iterdir())
        (folder / f"{name}.csv").write_text("file\n" + "".join(f"{file}\n" for file in files))
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for file in files:
                archive.write(file, file.name)


def _printed(folder: Path) -> str:
    """What a command said, on one line."""
    return " ".join(folder.with_suffix(".txt").read_text(errors="replace").split())


def _chunks_in(log: Path, without: int = 0) -> int:
    try:
        return log.read_bytes().count(_CHUNK_DONE)
    except FileNotFoundError:
        return without


def _moment(setup: Setup, folder: Path) -> str:
    """When a run was killed, by what it left."""
    log = VerdictLog.path_for(folder / setup.out)
    if (folder / setup.out).exists():
        return "killed after the table was there"
    if not log.exists():
        return "killed before the first record"
    return "killed while finishing" if _chunks_in(log) >= setup.chunks else "killed while judging"


def _contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder; of those that tell times, the report and notes, only that they are there."""
    return {
        str(file.relative_to(folder)): b"" if file.name in ("r.html", NOTES) else file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _difference(found: dict[str, bytes], wanted: dict[str, bytes]) -> str | None:
    if found.keys() != wanted.keys():
        return f"the files {sorted(found.keys() ^ wanted.keys())} are left or missing"
    differing = [name for name in found if found[name] != wanted[name]]
    return f"{differing} differ from those of an undisturbed run" if differing else None
