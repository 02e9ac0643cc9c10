"""What all campaigns share: numbered cases, what is broken, limits of time."""

from __future__ import annotations

import signal
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from poolsieve.moderation.verdicts import Verdict

EXPECTED_ERRORS = (ValueError, OSError)
"""What the command line shows as words to a user; anything else is a fault of the program."""


@dataclass(frozen=True)
class Broken:
    """A case that did not survive.

    Attributes:
        number: With the seed and the name of the campaign it makes the case again.
        words: What happened.
    """

    number: int
    words: str


@dataclass
class Findings:
    """What cases of a campaign came to.

    Attributes:
        tried: Number of cases.
        broken: Those that did not survive.
        noted: What else is worth counting, such as files that ended their decoder.
    """

    tried: int = 0
    broken: list[Broken] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)

    def add(self, other: Findings) -> None:
        """Count those of other cases too."""
        self.tried += other.tried
        self.broken += other.broken
        self.noted += other.noted


class Campaign(Protocol):
    """Cases of one kind."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def together(self) -> int:
        """How many cases are best run at once."""

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""


class TookTooLong(BaseException):
    """A case that goes on and on; not an Exception, so that nobody takes it for a damaged file."""


def rng_of(seed: int, campaign: str, number: int) -> np.random.Generator:
    """Random numbers of one case, which do not depend on any other case."""
    return np.random.default_rng([seed, zlib.crc32(campaign.encode()), number])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in this thread, the main one, after so many seconds."""

    def end(*_: object) -> None:
        raise TookTooLong(f"took more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def told(error: BaseException) -> str:
    """An exception in a line."""
    return f"{type(error).__name__}: {error}"[:300]


def wrong_record(verdict: Verdict) -> str | None:
    """What is wrong with the form of a record; None if it is a judged image or says why it is none."""
    if verdict.status in ("clear", "flagged"):
        sound = verdict.score is not None and 0 <= verdict.score <= 1 and verdict.reason is None
    else:
        sound = verdict.score is None and bool(verdict.reason) and "Traceback" not in str(verdict.reason)
    return None if sound else f"a record without sense: {verdict}"[:300]


def judged(verdict: Verdict) -> tuple[object, ...]:
    """What was decided, without where the image stood."""
    return verdict.status, verdict.score, verdict.decided_by, verdict.prior


def note_reasons(verdicts: Sequence[Verdict]) -> Counter[str]:
    """How many images were read, were not, and what became of their decoders."""
    noted: Counter[str] = Counter()
    for verdict in verdicts:
        reason = verdict.reason or ""
        if verdict.status in ("clear", "flagged"):
            noted["judged"] += 1
        elif "decoder died" in reason:
            noted["ended the decoder"] += 1
        elif "seconds" in reason:
            noted["out of time"] += 1
        else:
            noted["refused"] += 1
    return noted
