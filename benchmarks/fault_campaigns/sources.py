"""What archives and lists have in common: one source with something wrong in it, judged image by image."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import hostile
import numpy as np
from PIL import Image

from fault_campaigns.campaign import (
    EXPECTED_ERRORS,
    Broken,
    Findings,
    TookTooLong,
    judged,
    time_limit,
    told,
    wrong_record,
)
from poolsieve.moderation import Moderator
from poolsieve.moderation.verdict_files import ENDINGS, read_verdicts, write_verdicts
from poolsieve.moderation.verdicts import Verdict

LONGEST = 60.0
"""Seconds on the clock for a source: a member of an archive has 30 of processor time."""
IMAGES = 8


@dataclass(frozen=True)
class Source:
    """A source with something wrong in it.

    Attributes:
        ending: Of its name.
        data: Its content.
        sound: Images that come before what is wrong, in their order, and must be judged as ever.
        may_be_refused: Whether the whole may be refused in words.
    """

    ending: str
    data: bytes
    sound: Sequence[int] = ()
    may_be_refused: bool = True


@cache
def sound_images() -> tuple[bytes, ...]:
    """The images of all sources."""
    rng = np.random.default_rng(2)
    pictures = (rng.integers(0, top, (12, 14, 3), dtype=np.uint8) for top in rng.integers(40, 256, IMAGES))
    return tuple(hostile.encoded(Image.fromarray(pixels), format="png") for pixels in pictures)


class SourceCampaign(ABC):
    """Sources that are mutated or made to harm.

    It survives if it is refused in words, or if every image that comes before what is wrong, and every other
    one that is found unchanged, is judged as in a sound source, everything else has its reason, and the
    verdicts can be written as every kind of table.

    Args:
        seed: Of all cases.
        bundle: Folder of the bundle that judges.
    """

    name: str
    together = 20

    def __init__(self, seed: int, bundle: Path) -> None:
        self._seed = seed
        self._moderator = Moderator.load(bundle, scheme="individual", seed=1)
        images = self._moderator.moderate(sound_images())
        self._expected = {verdict.sha256: judged(verdict) for verdict in images}
        self._order = list(self._expected)

    @abstractmethod
    def source(self, number: int) -> Source:
        """A case."""

    def beside(self) -> Mapping[str, bytes]:
        """Files that a source needs beside it."""
        return {}

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""
        findings = Findings(len(numbers))
        for number in numbers:
            with tempfile.TemporaryDirectory(prefix="poolsieve-faults-") as temporary:
                for name, data in self.beside().items():
                    (Path(temporary) / name).write_bytes(data)
                words, noted = self._try(self.source(number), Path(temporary))
            if words is not None:
                findings.broken.append(Broken(number, words))
            findings.noted[noted] += 1
        return findings

    def _try(self, source: Source, folder: Path) -> tuple[str | None, str]:
        """What broke, if anything, and what it came to."""
        file = folder / f"source.{source.ending}"
        file.write_bytes(source.data)
        verdicts: list[Verdict] = []
        try:
            with time_limit(LONGEST):
                verdicts += self._moderator.moderate(file)
        except EXPECTED_ERRORS as error:
            if not str(error):
                return f"{source.ending}: refused without words: {type(error).__name__}", "refused"
            wrong = None if source.may_be_refused else f"{source.ending}: refused as a whole: {told(error)}"
            return wrong, "refused"
        except (Exception, TookTooLong) as error:
            return f"{source.ending}: {told(error)}", "broken"
        words = self._wrong(source, verdicts) or self._unwritable(verdicts, folder)
        return words and f"{source.ending}: {words}", "judged"

    def _wrong(self, source: Source, verdicts: Sequence[Verdict]) -> str | None:
        for verdict in verdicts:
            if (words := wrong_record(verdict)) is not None:
                return words
            wanted = self._expected.get(verdict.sha256)
            if wanted is not None and judged(verdict) != wanted:
                return f"{verdict.path} is {judged(verdict)}, but {wanted} in a sound source"
        found = [verdict.sha256 for verdict in verdicts]
        sound = [self._order[image] for image in source.sound]
        if [sha256 for sha256 in found if sha256 in sound][: len(sound)] != sound:
            return f"of the images {list(source.sound)} before the damage some are missing"
        return None

    def _unwritable(self, verdicts: Sequence[Verdict], folder: Path) -> str | None:
        for ending in ENDINGS:
            table = folder / f"verdicts{ending}"
            try:
                write_verdicts(verdicts, table)
                rows = sum(1 for _ in read_verdicts(table))
            except Exception as error:
                return f"verdicts cannot be written as {ending}: {told(error)}"
            if rows != len(verdicts):
                return f"{rows} rows in a {ending} of {len(verdicts)} verdicts"
        return None
