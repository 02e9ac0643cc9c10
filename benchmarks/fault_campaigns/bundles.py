"""Altered bundles: refused in words, or they judge; never a traceback, a crash or a verdict without sense."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from altered_bundles import ALTERATIONS, Alteration, copy_bundle, damage_bytes, pick, put
from PIL import Image

from fault_campaigns.campaign import Broken, Findings, judged, rng_of, wrong_record
from fault_campaigns.commands import CANNOT_RUN, Command, complaint, finished, run_command
from poolsieve.moderation.verdict_files import read_verdicts

AT_ONCE = 2
IMAGES = 9
LONGEST = 240.0
"""Seconds on the clock to load a bundle and judge a few images, on a machine that others use too."""
ENGINES = ("openvino", "onnxruntime")
SCHEMES = ("adaptive", "glance", "cascade", "individual")
_POOLS = ("--chunk", "16", "--pool-size", "8", "--pools-per-image", "1")


def _cut_off(folder: Path, rng: np.random.Generator) -> None:
    file = pick(rng, sorted(folder.iterdir()))
    put(file, file.read_bytes()[: int(rng.integers(file.stat().st_size))])


def _remove(folder: Path, rng: np.random.Generator) -> None:
    pick(rng, sorted(folder.iterdir())).unlink()


def _damage(folder: Path, rng: np.random.Generator) -> None:
    damage_bytes(folder, rng)


ACCIDENTS: dict[str, Alteration] = {"damaged": _damage, "cut off": _cut_off, "removed": _remove}
"""What happens to files whose hashes stay as they were; so a bundle that still judges must judge the same."""
KINDS = {**ALTERATIONS, **ACCIDENTS}


class AlteredBundles:
    """Bundles that were damaged, or altered and signed anew.

    Args:
        seed: Of all cases.
        bundle: Folder of a sound bundle.
        command: Runs the command; must be importable, as it runs in another process.
    """

    name = "bundles"
    together = 2 * AT_ONCE

    def __init__(self, seed: int, bundle: Path, command: Command = run_command) -> None:
        self._seed, self._bundle, self._command = seed, bundle, command
        self._work = tempfile.TemporaryDirectory(prefix="poolsieve-bundles-")
        self._images = Path(self._work.name) / "images"
        self._images.mkdir()
        rng = np.random.default_rng(5)
        for number in range(IMAGES):
            pixels = rng.integers(0, rng.integers(40, 256), (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(self._images / f"{number}.png")
        self._sound: dict[tuple[str, str], list[tuple[object, ...]]] = {}

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""
        findings = Findings(len(numbers))
        for number in numbers:  # before the others, which compare with them
            if _kind(number) in ACCIDENTS:
                self._judged_by_sound(*_way(number))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for number, (words, noted) in zip(numbers, threads.map(self._try, numbers), strict=True):
                findings.noted[noted] += 1
                if words is not None:
                    findings.broken.append(Broken(number, words))
        return findings

    def _try(self, number: int) -> tuple[str | None, str]:
        kind = _kind(number)
        with tempfile.TemporaryDirectory(dir=self._work.name) as temporary:
            folder = copy_bundle(self._bundle, Path(temporary) / "bundle")
            KINDS[kind](folder, rng_of(self._seed, self.name, number))
            words, rows = self._judge(folder, *_way(number), Path(temporary))
            if words is None and rows is None:
                return None, "refused"
            if words is None and kind in ACCIDENTS and rows != self._judged_by_sound(*_way(number)):
                words = "other verdicts than those of the sound bundle"
        return words and f"{kind}, {' '.join(_way(number))}: {words}", "broken" if words else "judged"

    def _judge(
        self, bundle: Path, engine: str, scheme: str, folder: Path
    ) -> tuple[str | None, list[tuple[object, ...]] | None]:
        """What is wrong, and what was judged if anything was."""
        out, printed = folder / "v.jsonl", folder / "printed.txt"
        options: Sequence[str] = _POOLS if scheme == "adaptive" else ()
        run = ["moderate", str(self._images), "--bundle", str(bundle), "--out", str(out), "--seed", "1"]
        run += ["--engine", engine, "--scheme", scheme, "--threads", "1", *options]
        status = finished(self._command, run, printed, LONGEST)
        words = complaint(status, printed.read_text(errors="replace"), [0, CANNOT_RUN])
        if words is not None or status == CANNOT_RUN:
            return words, None
        verdicts = list(read_verdicts(out))
        if len(verdicts) != IMAGES:
            return f"{len(verdicts)} verdicts on {IMAGES} images", None
        words = next((words for words in map(wrong_record, verdicts) if words is not None), None)
        return words, [judged(verdict) for verdict in verdicts]

    def _judged_by_sound(self, engine: str, scheme: str) -> list[tuple[object, ...]]:
        if (engine, scheme) not in self._sound:
            with tempfile.TemporaryDirectory(dir=self._work.name) as temporary:
                words, rows = self._judge(self._bundle, engine, scheme, Path(temporary))
            if words is not None or rows is None:
                raise RuntimeError(f"the sound bundle does not judge: {words or 'it is refused'}")
            self._sound[engine, scheme] = rows
        return self._sound[engine, scheme]


def _kind(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def _way(number: int) -> tuple[str, str]:
    """Engine and scheme of a case."""
    return ENGINES[number % len(ENGINES)], SCHEMES[number // len(ENGINES) % len(SCHEMES)]
