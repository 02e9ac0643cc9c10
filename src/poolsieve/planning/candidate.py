"""One way to decide, seen on recorded images, with its thresholds left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.schemes import Scheme, Stage
from poolsieve.schemes.cost_model import Price, Work

_FEWEST = 25
"""Recorded images of a kind below which the next kind stands in for it."""


@dataclass(frozen=True)
class Candidate:
    """One way to decide, seen on recorded images; a bound on `values` is left to choose.

    There may be many samples of an image, or none if it is tested at once. Recorded chunks hold more bad
    images than real ones, so samples are weighted: by how many bad images the image shared its pools with,
    and how often that happens at the prevalence.

    Attributes:
        scheme: The stages, with any bound and threshold: what is run does not depend on them.
        price: What the networks' parts cost.
        gated: Whether features are multiplied by the gate before they are merged.
        parameters: Parameters of the scheme, except those that the bound and the individual threshold give.
        stage: The stage whose bound is left to choose; None if none has one.
        names: What the scheme calls the parameters of that stage.
        images: Which image each sample is of.  # (samples,)
        values: Log-odds of being bad, or what the decoder compares; images from the bound on are tested
            individually, or flagged.  # (samples,)
        groups: Bad pool-mates, at most `candidates.MOST_MATES`.  # (samples,)
        shares: How often images of each tier have so many at the prevalence, sum 1.  # (tiers, groups)
        tiers: Which row of `shares` each image belongs to: pools may have several sizes.  # (images,)
        at_once: Images that are tested before any pool.  # (images,)
        cleared: Images that are cleared before the bound matters.  # (images,)
        reached: Which images each stage looks at, but for the test of those that are left.  # each (images,)
        pools: What each image takes part in pools for, as a share of a pool; 0 where it is tested or cleared
            at once.  # (images,)
        bounds: The bounds to choose from, ascending.
    """

    scheme: Scheme
    price: Price
    gated: bool
    parameters: dict[str, Any]
    stage: Stage | None
    names: Mapping[str, str]
    images: NDArray[np.intp]
    values: NDArray[np.float64]
    groups: NDArray[np.intp]
    shares: NDArray[np.float64]
    tiers: NDArray[np.intp]
    at_once: NDArray[np.bool_]
    cleared: NDArray[np.bool_]
    reached: tuple[NDArray[np.bool_], ...]
    pools: NDArray[np.float64]
    bounds: NDArray[np.float64]

    @property
    def tests(self) -> bool:
        """Whether the individual network decides; else images from the bound on are flagged."""
        return not self.scheme.stages[-1].pools

    @property
    def complexity(self) -> int:
        """For ties; the simpler the lower."""
        return sum(stage.complexity for stage in self.scheme.stages)

    def settings(self, bound: float) -> dict[str, Any]:
        """The parameters that a bound means."""
        own = {} if self.stage is None else self.stage.at(bound)
        return {self.names[name]: value for name, value in own.items()}

    def costs(
        self, reaching: Sequence[float], pools: float, tested: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Cost as a share of individual testing.

        Args:
            reaching: Share of the images that each stage looks at, but for the test of those that are left.
            pools: Pools for each image.
            tested: Shares of the images that are tested individually.
        """
        rest, each = self.test_cost(reaching, pools)
        return rest + tested * each

    def test_cost(self, reaching: Sequence[float], pools: float) -> tuple[float, float]:
        """Cost of all that comes before individual tests, and of one such test."""
        if not self.tests:
            return self._work(reaching, pools).share, 0.0
        before = self._work([*reaching, 0.0], pools)
        # Fronts that were run are not paid for again, and whatever is tested had one if others had.
        parts = self.scheme.stages[-1].parts(self.price, gated=self.gated)
        most = max(before.runs[part.name] for part in parts) or 1.0
        return before.share, (self._work([*reaching, most], pools).share - before.share) / most

    def _work(self, reaching: Sequence[float], pools: float) -> Work:
        return self.scheme.work(self.price, reaching, pools, gated=self.gated)

    def weights(self, bad: NDArray[np.bool_], among: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Weight of each sample; those of bad and those of clear images sum to the pooled share of each.

        Args:
            bad: The truth.  # (images,)
            among: Images that count.  # (images,)
        """
        weights = np.zeros(len(self.images))
        for kind in (bad & among, ~bad & among):
            for tier, shares in enumerate(self.shares):
                inside = kind & (self.tiers == tier)
                mine = inside[self.images]
                pooled = (inside & ~self.at_once & ~self.cleared).sum() / max(kind.sum(), 1)
                kinds = self._merged_groups(mine)
                for group in np.unique(kinds):
                    here = mine & (kinds[self.groups] == group)
                    share = shares[kinds == group].sum()
                    weights[here] = pooled * share / max(here.sum(), 1)  # no sample where no image was pooled
        return weights

    def _merged_groups(self, mine: NDArray[np.bool_]) -> NDArray[np.intp]:
        """For each group itself, or the one below it that stands in for it as it has too few samples."""
        groups = self.shares.shape[1]
        numbers = np.bincount(self.groups[mine], minlength=groups)
        kinds = np.arange(groups)
        enough = np.flatnonzero(numbers >= min(_FEWEST, numbers.max()))
        for group in range(groups):
            below = enough[enough <= group]
            kinds[group] = below[-1] if len(below) else enough[0]
        return kinds
