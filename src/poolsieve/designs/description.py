"""What a design can do, in numbers: the properties of the paper's appendix for one design."""

from __future__ import annotations

from dataclasses import dataclass

from poolsieve.designs.collisions import Collision, smallest_collision
from poolsieve.designs.pooling import Guarantees, Pooling
from poolsieve.designs.properties import (
    LARGEST_SEARCH_IMAGES,
    LARGEST_SEARCH_WEIGHT,
    coherence,
    disjunctness_limit,
    exact_disjunctness,
    fewest_binary_tests,
    fewest_quantitative_tests,
    guaranteed_disjunctness,
    normalised_coherence,
)


@dataclass(frozen=True)
class DesignDescription:
    """Facts about a design and what they imply for k = `bad` bad images among its n.

    A word on RIP-1 (paper, appendix): for vectors of up to s entries (1 − 2ε)c‖x‖₁ ≤ ‖Φx‖₁ ≤ c‖x‖₁ with
    ε = λ(s − 1)/(2c), which says something only for ε < 1/2. That is order c with single overlaps, not the
    2c that the paper states, where ε is still below 1: most designs map some vector of 2c entries to 0. And
    the difference of two vectors of k entries has up to 2k: recovery of k bad images takes order 2k.

    Attributes:
        pools: Number of pools m.
        images: Number of images n.
        pool_sizes: Size of the smallest and of the largest pool; both are r in a balanced design.
        image_weights: Pools of the image in fewest and of that in most; both are c in a balanced design.
        guarantees: What holds for pools, images and overlaps.
        coherence: The largest dot product λ of two columns, the paper's mutual coherence.
        normalised_coherence: The largest cosine between two columns, as in compressed sensing.
        guaranteed_disjunctness: ⌈c/λ⌉ − 1, which is c − 1 with single overlaps.
        exact_disjunctness: The largest k for which the design is k-disjunct; None if too large to search.
        disjunctness_limit: What no design with as many pools per image can exceed if it has fewer pools than
            images (Erdős, Frankl and Füredi); None if it has not.
        rip1_order: Largest s with ε = λ(s − 1)/(2c) < 1/2: ⌈c/λ⌉, hence c with single overlaps; None if
            images are in different numbers of pools.
        robust_bad: Most bad images for which there is an error factor: half the RIP-1 order; None as above.
        collision: The smallest two sets of images that give the same counts, by search.
        bad: Number of bad images k that the rest is about.
        expansion: ε of order 2k: any 2k images are together in at least (1 − ε)·2kc pools. None if images are
            in different numbers of pools, or if ε ≥ 1.
        error_factor: (7 − 4ε)/(1 − 2ε), by which noise in the readings may grow in the recovered vector in
            ℓ1 norm; None unless ε < 1/2.
        fewest_binary_tests: Fewest pools of any design that finds k of n bad images by yes or no.
        fewest_quantitative_tests: Fewest pools of any design that finds k of n bad images by counts.
    """

    pools: int
    images: int
    pool_sizes: tuple[int, int]
    image_weights: tuple[int, int]
    guarantees: Guarantees
    coherence: int
    normalised_coherence: float
    guaranteed_disjunctness: int
    exact_disjunctness: int | None
    disjunctness_limit: int | None
    rip1_order: int | None
    robust_bad: int | None
    collision: Collision
    bad: int
    expansion: float | None
    error_factor: float | None
    fewest_binary_tests: int
    fewest_quantitative_tests: int

    @property
    def cost_ratio(self) -> float:
        """Pools per image m/n: tests as a share of those that individual testing takes."""
        return self.pools / self.images

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of every fact, as text for a table."""
        too_large = (
            f"not searched: over {LARGEST_SEARCH_IMAGES} images, "
            f"or an image in over {LARGEST_SEARCH_WEIGHT} pools"
        )
        exact = self.exact_disjunctness
        irregular = "none: images in different numbers of pools"
        beyond = irregular if self.rip1_order is None else "none: not below 1"
        return [
            ("pools × images", f"{self.pools} × {self.images}"),
            ("images per pool r", _range(self.pool_sizes)),
            ("pools per image c", _range(self.image_weights)),
            ("tests per image m/n", f"{self.cost_ratio:.3g}"),
            ("guarantees", str(self.guarantees)),
            ("coherence λ (most pools two images share)", str(self.coherence)),
            ("coherence, normalised", f"{self.normalised_coherence:.3g}"),
            ("disjunctness, guaranteed", _disjunctness(self.guaranteed_disjunctness)),
            ("disjunctness, exact", too_large if exact is None else _disjunctness(exact)),
            (
                "disjunctness, limit of the shape",
                _or(self.disjunctness_limit, "none: not fewer pools than images"),
            ),
            ("smallest sets with equal counts", str(self.collision)),
            ("RIP-1 order (ε < 1/2)", _or(self.rip1_order, irregular)),
            ("bad images recovered robustly", _or(self.robust_bad, irregular)),
            (f"expansion ε of order 2k, k = {self.bad}", _or(self.expansion, beyond)),
            (f"error factor (7−4ε)/(1−2ε), k = {self.bad}", _or(self.error_factor, "none: needs ε < 1/2")),
            (f"fewest yes/no tests for k = {self.bad}", str(self.fewest_binary_tests)),
            (f"fewest counting tests for k = {self.bad}", str(self.fewest_quantitative_tests)),
        ]

    def __str__(self) -> str:
        """The facts, one a line."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def describe(design: Pooling, bad: int | None = None) -> DesignDescription:
    """Work out what a design can do (paper, appendix).

    Args:
        design: The design.
        bad: Number of bad images k for the expansion and the counting bounds; by default as many as the
            design is guaranteed to find by COMP, and at least 1.
    """
    weights, shared = design.image_weights, coherence(design)
    lightest, heaviest = int(weights.min()), int(weights.max())
    guaranteed = guaranteed_disjunctness(design)
    k = max(1, guaranteed) if bad is None else bad
    if not 1 <= k <= design.images:
        raise ValueError(f"bad={k}: the number of bad images is 1 to {design.images}")
    order = _rip1_order(design, shared)
    expansion = None if order is None else shared * (2 * k - 1) / (2 * heaviest)
    if expansion is not None and expansion >= 1:
        expansion = None
    return DesignDescription(
        pools=design.pool_count,
        images=design.images,
        pool_sizes=(int(design.pool_sizes.min()), int(design.pool_sizes.max())),
        image_weights=(lightest, heaviest),
        guarantees=design.guarantees,
        coherence=shared,
        normalised_coherence=normalised_coherence(design),
        guaranteed_disjunctness=guaranteed,
        exact_disjunctness=exact_disjunctness(design),
        disjunctness_limit=disjunctness_limit(design),
        rip1_order=order,
        robust_bad=None if order is None else order // 2,
        collision=smallest_collision(design),
        bad=k,
        expansion=expansion,
        error_factor=_error_factor(expansion),
        fewest_binary_tests=fewest_binary_tests(design.images, k),
        fewest_quantitative_tests=fewest_quantitative_tests(design.images, k),
    )


def _rip1_order(design: Pooling, shared: int) -> int | None:
    """Largest s with λ(s − 1) < c, for designs with every image in as many pools."""
    weight = int(design.image_weights[0])
    if not design.guarantees.equal_images or weight == 0:
        return None
    return -(-weight // shared) if shared else design.images


def _error_factor(expansion: float | None) -> float | None:
    """Growth of the noise in ℓ1 norm (Khajehnejad et al. 2011, Theorem 6.1, in the paper's appendix)."""
    if expansion is None or expansion >= 0.5:
        return None
    return (7 - 4 * expansion) / (1 - 2 * expansion)


def _range(ends: tuple[int, int]) -> str:
    low, high = ends
    return str(low) if low == high else f"{low} to {high}"


def _disjunctness(value: int) -> str:
    return "none: an image is in no pool" if value < 0 else str(value)


def _or(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
