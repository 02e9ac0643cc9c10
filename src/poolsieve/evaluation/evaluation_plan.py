"""What an evaluation is to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poolsieve.evaluation.competitors import Competitor, choose_competitors
from poolsieve.evaluation.experiments import read_names
from poolsieve.evaluation.mixtures import bad_draws
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.images.datasets import SPLITS

LEAST_TUNING = 20_000
LEAST_TUNING_BAD = 50


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate.

    Attributes:
        prevalences: Shares of bad images.
        images: Draws at each prevalence.
        tuning_images: Draws of validation images at each prevalence, to tune on; None for `LEAST_TUNING`, and
            at least as many as hold `LEAST_TUNING_BAD` bad ones at the smallest prevalence.
        methods: Names of the methods; None for all.
        split: Split to measure on.
        tuning_split: Split to tune on; None if there is none: methods then keep their defaults, and nothing
            is tried that must be calibrated first.
        seed: Makes the run repeatable.
        timing_images: Images to take the time of; 0 takes none.
        known_pools: Pools of known content: to show how counts err, and to calibrate half the resolution.
        two_objects: A file with the names of bad images that show two objects, one a line; None leaves the
            experiment with them out.
        two_object_pools: Pools with one of them; the paper has 100.
        by_density: Read an outlier bundle by the density alone, as in the paper, whatever else it listens to.
        any_task: Go on although the bundle does not seem to know the task.
    """

    prevalences: tuple[float, ...] = PAPER_PREVALENCES
    images: int = 100_000
    tuning_images: int | None = None
    methods: tuple[str, ...] | None = None
    split: str = "test"
    tuning_split: str | None = "val"
    seed: int = 0
    timing_images: int = 500
    known_pools: int = 2000
    two_objects: Path | None = None
    two_object_pools: int = 1000
    by_density: bool = False
    any_task: bool = False

    def check(self) -> list[Competitor]:
        """The methods; raises ValueError, before long work, if the plan cannot be followed."""
        for name in self.splits:
            if name not in SPLITS:
                raise ValueError(f"there is no split {name!r}; the splits are {', '.join(SPLITS)}")
        if self.split == self.tuning_split:
            raise ValueError(
                f"tuning and measuring on the same split {self.split!r} flatters; name two different ones"
            )
        if not self.prevalences:
            raise ValueError("name at least one prevalence")
        for prevalence in self.prevalences:
            for images in (self.images, self.tuning_draws)[: len(self.splits)]:
                bad_draws(prevalence, images)
        if self.by_density and self.tuning_split is None:
            raise ValueError("reading by density is calibrated on a split to tune on, and there is none")
        if self.two_objects is not None:
            read_names(self.two_objects)
        if self.timing_images < 0:
            raise ValueError(f"timing_images is {self.timing_images}; give a number from 0 on")
        return choose_competitors(self.methods)

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that images are needed of: that to measure on and, if there is one, that to tune on."""
        return (self.split,) if self.tuning_split is None else (self.split, self.tuning_split)

    @property
    def tuning_draws(self) -> int:
        """Draws of validation images at each prevalence, as many at all of them: see `draw_mixture`."""
        if self.tuning_images is not None:
            return self.tuning_images
        return max(LEAST_TUNING, round(LEAST_TUNING_BAD / max(min(self.prevalences), 1e-6)))
