"""What reports and summaries ask of a run, whoever ran it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.moderation.moderator import Totals
    from poolsieve.moderation.verdicts import Verdict
    from poolsieve.schemes import Scheme


class JudgedRun(Protocol):
    """A run, such as the last one of a `Moderator`."""

    @property
    def bundle(self) -> Bundle:
        """The bundle."""

    @property
    def scheme(self) -> Scheme:
        """The scheme; with plans, that of the last one."""

    @property
    def totals(self) -> Totals:
        """Counts, cost and estimated prevalence."""

    @property
    def description(self) -> str:
        """The scheme with its parameters, or all plans that may be followed."""

    @property
    def seed(self) -> int:
        """Decides who shares a pool with whom."""


class VerdictRecords(Protocol):
    """Where the verdicts of a run are."""

    def verdicts(self) -> Iterator[Verdict]:
        """All, in order, one at a time."""
