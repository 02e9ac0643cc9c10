"""What all stages with pools share: designs, dealing images onto them, and reading pools."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.bundles.config import FRONT_GRAPH, HEAD_GRAPH, BundleConfig
from poolsieve.bundles.recordings import PoolRecording
from poolsieve.decoders import Readings
from poolsieve.designs import Pooling, PoolingDesign, balanced_design
from poolsieve.designs.feasibility import Parameters, broken_bound, larger
from poolsieve.parameters import Interval, parameter
from poolsieve.schemes.cost_model import FRONT, HEAD, Part, Price
from poolsieve.schemes.look import Look
from poolsieve.schemes.look_alikes import find_stand_ins
from poolsieve.schemes.stages import Stage, Undecided, together

USUAL_POOL_SIZE = 8
Values = NDArray[np.float64]


@dataclass(frozen=True)
class RecordedPools:
    """Recorded pools that a stage can be planned with.

    Attributes:
        parameters: What they set of the stage.
        recordings: One for each group of images that share pools of a size.
        band: Log-likelihood ratios by the head of all images that are pooled.
        more: What else they set of the stage, where there is more than one group.
    """

    parameters: dict[str, Any]
    recordings: tuple[PoolRecording, ...]
    band: tuple[float, float]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def everyone(self) -> bool:
        """Whether all images are pooled, whatever the head says."""
        return bool(np.isinf(self.band).all())


@dataclass(frozen=True)
class PoolStage(Stage):
    """A look at images in pools; if these would be as many as the images, they are left to the next stage.

    That happens at the end of a source, when a few images are left over.

    Attributes:
        pool_size: Images in a pool; one of the sizes that the bundle has networks for.
    """

    pools: ClassVar = True

    pool_size: int = parameter(USUAL_POOL_SIZE, Interval(low=2, whole=True))

    @property
    def called(self) -> str:
        """The pools that an image was in."""
        return "its pools"

    @abstractmethod
    def design_for(self, images: int, chunk: int) -> Pooling:
        """A design for at least that many images, of which a short chunk takes the first.

        Args:
            images: Images to be pooled.
            chunk: Images in a full chunk.
        """

    @property
    def sizes(self) -> tuple[int, ...]:
        """All its pool sizes."""
        return (self.pool_size,)

    def look(self, undecided: Undecided) -> None:
        """Deal what is open into pools, read them, and decide by what they say.

        Of images that look alike one is pooled. If it is clear the others are, else they are left to the next
        stage.
        """
        read = self._read(undecided)
        if read is not None:
            self._decide(undecided, *read)
            undecided.follow_stand_ins()

    @abstractmethod
    def values(self, readings: Readings, pooling: Pooling, priors: Values) -> Values:
        """What it decides by, from readings of chunks with one pooling, live or recorded.  # (chunks, n).

        Args:
            readings: Of all pools of the chunks.
            pooling: Which images of a chunk share which pool.
            priors: Probability of being bad before that.  # (chunks, n)
        """

    @property
    def classes(self) -> int:
        """Pools that every image is in."""
        return 1

    def offers(self, recordings: Sequence[PoolRecording], prevalence: float) -> Iterator[RecordedPools]:
        """Settings that there are recorded pools for."""
        for one in recordings:
            yield RecordedPools({"pool_size": one.pool_size}, (one,), one.band)

    def variants(self, recordings: Sequence[PoolRecording]) -> Iterator[PoolStage]:
        """Ways to decide by the same pools."""
        yield self

    @property
    def teller(self) -> PoolStage:
        """A stage with the same pools that decides by posteriors: what pools tell, whoever decides by it."""
        return self

    def scaled(self, values: Values) -> Values:
        """Values as bounds are set on them: log-odds of posteriors."""
        odds: Values = scipy.special.logit(np.clip(values, 1e-15, 1 - 1e-15))
        return odds

    @abstractmethod
    def _decide(self, undecided: Undecided, pooling: Pooling, readings: Readings) -> None: ...

    def groups(self, undecided: Undecided, images: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], int]]:
        """Images that share pools among themselves, with the size of these pools."""
        return [(images, self.pool_size)]

    def _read(self, undecided: Undecided) -> tuple[Pooling, Readings] | None:
        """Pools of all open images that are not set aside; None if there are too few."""
        chunk, images = undecided.chunk, undecided.open & ~undecided.aside
        if images.sum() > self.pool_size:
            undecided.stand_ins = find_stand_ins(chunk, np.flatnonzero(images))
            images = images & (undecided.stand_ins == chunk.everyone)
        groups = self.groups(undecided, images)
        poolings = []
        if len(groups) == 1 and images.all():
            pooling = chunk.arrange(self.design_for(chunk.size, undecided.full_chunk), undecided.rng)
            poolings += [pooling] if pooling.pool_count < len(chunk) else []
        else:
            for some, size in groups:
                numbers = np.flatnonzero(some)
                if len(numbers):
                    design = self._design_of(size, len(numbers), undecided.full_chunk)
                    pooling = chunk.arrange_some(design, numbers, undecided.rng)
                    poolings += [pooling] if pooling.pool_count < len(numbers) else []
        if not poolings:
            return None
        needed = np.flatnonzero(undecided.open)  # what is set aside is tested later and needs its front too
        return together([(pooling, chunk.read_pools(pooling, needed)) for pooling in poolings])

    def _design_of(self, size: int, images: int, chunk: int) -> Pooling:
        return self.design_for(images, chunk)

    def graphs(self, config: BundleConfig) -> list[str]:
        """Front, gate if there is one, and the counting networks."""
        gate = [HEAD_GRAPH] if config.merge == "gated" else []
        return [FRONT_GRAPH, *gate, *(config.counting_graph(size) for size in self.sizes)]

    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """Front, and gate if there is one, for each image; pools are counted apart."""
        return (FRONT, HEAD) if gated else (FRONT,)

    def futile(self, before: Sequence[Stage], prevalence: float) -> str | None:
        """Whether a look before leaves no image to pools."""
        for look in before:
            if isinstance(look, Look) and look.test_above < 1 and look.test_above <= look.clear_below:
                return (
                    f"has no image to pool: {look.name} clears all below clear_below={look.clear_below} and "
                    f"keeps the others out of pools with test_above={look.test_above}; raise that, or leave "
                    "these pools out"
                )
        return None

    def unfit(self, chunk: int) -> str | None:
        """Whether its pools are larger than a chunk."""
        size = max(self.sizes)
        if size <= chunk:
            return None
        return (
            f"has pools of {size}, which no chunk of {chunk} can fill; take chunks of at least {size}, or "
            "smaller pools"
        )

    def check(self, pool_sizes: Sequence[int]) -> None:
        """Whether there are counting networks for its pools."""
        for name in ("pool_size", "large_pool_size"):
            size = getattr(self, name, None)
            if size is not None and size not in pool_sizes:
                there = ", ".join(map(str, pool_sizes))
                raise ValueError(f"{name}={size}, but the bundle has networks for pools of {there}")

    def prepare(self, chunk: int) -> None:
        """Make the design of a full chunk."""
        self.design_for(chunk, chunk)


@dataclass(frozen=True)
class BalancedPools(PoolStage):
    """Pools that follow a balanced design.

    Attributes:
        pools_per_image: Pools that every image is in.
    """

    pools_per_image: int = parameter(2, Interval(low=1, whole=True))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pools_per_image >= self.pool_size:
            raise ValueError(
                f"{self.name}: pools_per_image={self.pools_per_image} with pool_size={self.pool_size} makes "
                "as many pools as images; take fewer pools per image, or the scheme individual"
            )

    @property
    def classes(self) -> int:
        """Pools that every image is in."""
        return self.pools_per_image

    def offers(self, recordings: Sequence[PoolRecording], prevalence: float) -> Iterator[RecordedPools]:
        """Every number of pools per image that was recorded; as many pools as images never pay."""
        for one in recordings:
            for classes in range(1, min(one.classes, one.pool_size - 1) + 1):
                yield RecordedPools(
                    {"pool_size": one.pool_size, "pools_per_image": classes}, (one,), one.band
                )

    def chunk_size(self, usual: int) -> int:
        """The least number of images from the usual one on that has a design."""
        wanted = Parameters(usual, self.pool_size, self.pools_per_image)
        return usual if broken_bound(wanted) is None else next(larger(wanted)).images

    def design_for(self, images: int, chunk: int) -> Pooling:
        """The smallest balanced design for that many images: the fewer images, the fewer pools."""
        return _smallest(images, chunk, self.pool_size, self.pools_per_image)


@cache
def _balanced(chunk: int, pool_size: int, pools_per_image: int) -> PoolingDesign:
    return balanced_design(chunk, pool_size, pools_per_image, seed=0)


@cache
def _smallest(images: int, chunk: int, pool_size: int, pools_per_image: int) -> PoolingDesign:
    if images == chunk:
        return _balanced(chunk, pool_size, pools_per_image)
    found = design_from(images, pool_size, pools_per_image)
    return found if found.images < chunk else _balanced(chunk, pool_size, pools_per_image)


@cache
def design_from(images: int, pool_size: int, pools_per_image: int) -> PoolingDesign:
    """The smallest balanced design for at least that many images."""
    for choice in larger(Parameters(images - 1, pool_size, pools_per_image)):
        try:
            return _balanced(*choice)
        except ValueError:
            continue  # allowed by the bounds, but none was found; the next size will do
    raise AssertionError("there is always a larger design")
