"""One way to decide, seen on recorded images, with its thresholds left open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from poolsieve.schemes import Scheme
from poolsieve.schemes.cost_model import Price

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
        bound_name: The parameter that the bound is.
        images: Which image each sample is of.  # (samples,)
        values: Log-odds of being bad, or what the decoder compares; images from the bound on are tested
            individually, or flagged.  # (samples,)
        groups: Bad pool-mates, at most `candidates.MOST_MATES`.  # (samples,)
        shares: How often images of each tier have so many at the prevalence, sum 1.  # (tiers, groups)
        at_once: Images that are tested before any pool.  # (images,)
        cleared: Images that are cleared before any pool.  # (images,)
        pools: What each image takes part in pools for, as a share of a pool; 0 where it is tested or cleared
            at once.  # (images,)
        tests: Whether the individual network decides; else images from the bound on are flagged.
        bounds: The bounds to choose from, ascending.
        complexity: For ties; the simpler the lower.
        tiers: Which row of `shares` each image belongs to, where pools have several sizes; None for one size.
            # (images,)
        decoder: What decodes pools that decide alone.
    """

    scheme: Scheme
    price: Price
    gated: bool
    parameters: dict[str, Any]
    bound_name: str | None
    images: NDArray[np.intp]
    values: NDArray[np.float64]
    groups: NDArray[np.intp]
    shares: NDArray[np.float64]
    at_once: NDArray[np.bool_]
    cleared: NDArray[np.bool_]
    pools: NDArray[np.float64]
    tests: bool
    bounds: NDArray[np.float64]
    complexity: int = field(default=0)
    tiers: NDArray[np.intp] | None = None
    decoder: str | None = None

    def settings(self, bound: float) -> dict[str, Any]:
        """The parameters that a bound means."""
        if self.decoder == "ncomp":
            return {"decoder": f"ncomp:t={int(bound)}"}
        if self.decoder == "classo":  # decoders flag what lies above their threshold
            return {"decoder": f"classo:threshold={bound - 5e-6:.6f}"}
        if self.decoder == "bp":
            return {"decoder": f"bp:threshold={float(expit(bound)) * (1 - 1e-9)}"}
        return {} if self.bound_name is None else {self.bound_name: float(expit(bound))}

    def costs(self, pools: float, tested: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cost as a share of individual testing.

        Args:
            pools: Pools for each image.
            tested: Shares of the images that are tested individually.
        """
        rest, each = self.test_cost(pools)
        return rest + tested * each

    def test_cost(self, pools: float) -> tuple[float, float]:
        """Cost of all that comes before individual tests, and of one such test."""
        looks = [1.0] * len(self.scheme.stages)
        if not self.tests:
            return self._reckoned(looks, pools), 0.0
        untested = self._reckoned([*looks[:-1], 0.0], pools)
        return untested, self._reckoned(looks, pools) - untested

    def _reckoned(self, reaching: list[float], pools: float) -> float:
        return self.scheme.work(self.price, reaching, pools, gated=self.gated).share

    def weights(self, bad: NDArray[np.bool_], among: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Weight of each sample; those of bad and those of clear images sum to the pooled share of each.

        Args:
            bad: The truth.  # (images,)
            among: Images that count.  # (images,)
        """
        weights = np.zeros(len(self.images))
        tiers = np.zeros(len(bad), dtype=np.intp) if self.tiers is None else self.tiers
        for kind in (bad & among, ~bad & among):
            for tier, shares in enumerate(self.shares):
                inside = kind & (tiers == tier)
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


def bounds_for(clear: NDArray[np.float64], least: float = 0.002) -> NDArray[np.float64]:
    """Bounds that leave from most to `least` of the clear images above them, or none."""
    return np.unique(np.append(np.quantile(clear, 1 - np.geomspace(0.9, least, 80)), clear.max() + 1e-3))
