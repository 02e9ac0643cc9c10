"""What an evaluation found, as plain records for tables, figures and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.detection_measures import Detection
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.statistics import Proportion, proportion

EQUAL_DETECTION = 0.01
"""A method detects as well as individual testing if neither sensitivity nor specificity is lower by more."""


@dataclass(frozen=True)
class Wording:
    """What a report calls the images that are to be flagged, and the others."""

    bad: str = "bad"
    ordinary: str = "ordinary"


OFF_TOPIC = Wording("off-topic", "on-topic")


def _picked(row: object, *names: str) -> dict[str, object]:
    return {name: getattr(row, name) for name in names}


@dataclass(frozen=True)
class EvaluationRow:
    """One method at one prevalence.

    Attributes:
        prevalence: Share of bad images.
        method: Name of the method.
        title: Its name in figures.
        half: Whether it looked at images of half the side.
        scheme: The scheme with all its parameters.
        tuned: What was chosen on validation images.
        images: Draws.
        distinct_bad: Different bad images among them.
        distinct_clear: Different ordinary images among them.
        detection: Sensitivity, specificity and precision with 95% intervals by distinct image.
        cost: Multiply-adds as a share of individual testing at full resolution.
        pools: Pools read for each image.
        retests: Individual tests for each image.
        decoding: Milliseconds of decoding for each image.
    """

    prevalence: float
    method: str
    title: str
    half: bool
    scheme: str
    tuned: str
    images: int
    distinct_bad: int
    distinct_clear: int
    detection: Detection
    cost: float
    pools: float
    retests: float
    decoding: float

    def as_record(self) -> dict[str, object]:
        """Flat form for tables and files."""
        record = _picked(self, "prevalence", "method")
        for name in ("sensitivity", "specificity", "precision"):
            record |= getattr(self.detection, name).columns(name)
        record |= {"cost": self.cost, "pools_per_image": self.pools, "retests_per_image": self.retests}
        record["decoding_ms_per_image"] = self.decoding
        return record | _picked(self, "images", "distinct_bad", "distinct_clear", "tuned", "scheme")


@dataclass(frozen=True)
class FrontierPoint:
    """What a method finds if its flags are as specific as those of individual testing.

    Attributes:
        prevalence: Share of bad images.
        method: Name of the method.
        title: Its name in figures.
        scheme: The scheme with all its parameters.
        cost: As a share of individual testing.
        specificity: The specificity that was asked for.
        sensitivity: The largest sensitivity that has it.
        chosen: Whether this setting is the one that was chosen on validation images.
    """

    prevalence: float
    method: str
    title: str
    scheme: str
    cost: float
    specificity: float
    sensitivity: Proportion
    chosen: bool

    def as_record(self) -> dict[str, object]:
        """Flat form for tables and files."""
        known = _picked(self, "prevalence", "method", "cost", "specificity")
        return known | self.sensitivity.columns("sensitivity") | _picked(self, "chosen", "scheme")


@dataclass(frozen=True)
class TimingRow:
    """Wall-clock time of one method, from files to verdicts.

    Attributes:
        prevalence: Share of bad images.
        method: Name of the method.
        title: Its name in figures.
        images: Images that were timed.
        seconds: Time for all of them.
        processor_seconds: What all threads computed in that time.
    """

    prevalence: float
    method: str
    title: str
    images: int
    seconds: float
    processor_seconds: float

    @property
    def images_per_second(self) -> float:
        """Speed."""
        return self.images / self.seconds

    def as_record(self) -> dict[str, object]:
        """Flat form for tables and files."""
        names = ("prevalence", "method", "images", "seconds", "processor_seconds", "images_per_second")
        return _picked(self, *names)


@dataclass(frozen=True)
class ConfusionTable:
    """Pools by true count (rows) and reading (columns).

    Attributes:
        pool_size: Images in a pool.
        half: Whether images had half the side.
        split: Split that the pools were drawn from.
        pools: Numbers of pools, up to the largest count that is told.  # (r + 1, r + 1) or less
    """

    pool_size: int
    half: bool
    split: str
    pools: tuple[tuple[int, ...], ...]

    @property
    def title(self) -> str:
        """What it shows."""
        size = ", images of half size" if self.half else ""
        return f"Pools of {self.pool_size}{size}, split {self.split}"


@dataclass(frozen=True)
class TwoObjects:
    """Pools with one bad image that shows two bad objects, against pools with a usual one.

    Attributes:
        pool_size: Images in a pool.
        images: Distinct images that show two.
        double: Pools by reading, where the bad image shows two.  # (r + 1,)
        single: Pools by reading, where it shows one.  # (r + 1,)
        found: Share of the images with two objects that the individual network flags.
    """

    pool_size: int
    images: int
    double: tuple[int, ...]
    single: tuple[int, ...]
    found: Proportion


@dataclass(frozen=True)
class ImageErrors:
    """How often one image was judged wrongly.

    Attributes:
        file: The image.
        draws: Times that it was drawn.
        wrong: Times that it was missed, or falsely flagged.
    """

    file: Path
    draws: int
    wrong: int


@dataclass(frozen=True)
class Saving:
    """The cheapest method that detects as well as individual testing, at one prevalence.

    Attributes:
        prevalence: Share of bad images.
        individual: Individual testing.
        best: The method; None if no other method detects as well.
    """

    prevalence: float
    individual: EvaluationRow
    best: EvaluationRow | None


@dataclass(frozen=True)
class Evaluation:
    """All that an evaluation found.

    Attributes:
        task: What the bundle looks for.
        bundle: Its name.
        rows: Every method at every prevalence.
        frontier: Cost against sensitivity.
        timings: Wall-clock times; empty if none were taken.
        confusions: What the counting networks read.
        two_objects: Two bad objects in one image; None if it was not tried.
        errors_of: The method whose errors are shown.
        missed: Bad images that it missed most often.
        false_flags: Ordinary images that it flagged most often.
        notes: What a reader must know.
        provenance: How everything was run.
        wording: What images are called.
    """

    task: str
    bundle: str
    rows: tuple[EvaluationRow, ...]
    frontier: tuple[FrontierPoint, ...]
    timings: tuple[TimingRow, ...]
    confusions: tuple[ConfusionTable, ...]
    two_objects: TwoObjects | None
    errors_of: str
    missed: tuple[ImageErrors, ...]
    false_flags: tuple[ImageErrors, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]
    wording: Wording = field(default_factory=Wording)

    @property
    def prevalences(self) -> list[float]:
        """Ascending."""
        return sorted({row.prevalence for row in self.rows})

    def savings(self) -> list[Saving]:
        """The best method at each prevalence."""
        return savings(self.rows)


def savings(rows: Sequence[EvaluationRow]) -> list[Saving]:
    """At each prevalence the cheapest method that detects as well as individual testing."""
    found = []
    for prevalence in sorted({row.prevalence for row in rows}):
        here = [row for row in rows if row.prevalence == prevalence]
        individual = next(row for row in here if row.method == "individual")
        equal = [row for row in here if row is not individual and detects_as_well(row, individual)]
        best = min(equal, key=lambda row: row.cost, default=None)
        found.append(Saving(prevalence, individual, best if best and best.cost < individual.cost else None))
    return found


def detects_as_well(row: EvaluationRow, individual: EvaluationRow) -> bool:
    """Whether neither measure is lower than that of individual testing by more than `EQUAL_DETECTION`."""
    own, other = row.detection, individual.detection
    return (
        own.sensitivity.value >= other.sensitivity.value - EQUAL_DETECTION
        and own.specificity.value >= other.specificity.value - EQUAL_DETECTION
    )


def sensitivity_at(mixture: Mixture, ranks: NDArray[np.float64], specificity: float) -> Proportion:
    """The largest sensitivity of `ranks > threshold` over thresholds with at least some specificity."""
    clear = np.sort(ranks[~mixture.bad])
    allowed = int(np.floor((1 - specificity) * len(clear) + 1e-9))
    threshold = clear[len(clear) - 1 - allowed] if allowed < len(clear) else -np.inf
    images = mixture.images[mixture.bad]
    found = ranks[mixture.bad] > threshold
    return proportion(np.bincount(images[found], minlength=images.max() + 1), np.bincount(images))
