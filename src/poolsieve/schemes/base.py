"""The one interface of all schemes, and their registry."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import Readings
from poolsieve.decoders.base import Interval, parameter
from poolsieve.designs import Pooling, PoolingDesign, balanced_design
from poolsieve.designs.feasibility import Parameters, broken_bound, larger
from poolsieve.schemes.runner import Chunk

BY_POOLS, BY_INDIVIDUAL, BY_HEAD, BY_GLANCE = "pools", "individual", "head", "glance"
"""Who decided about an image."""
USUAL_CHUNK = 100
"""Images of a chunk where neither the caller nor a design says otherwise."""
USUAL_POOL_SIZE = 8


@dataclass(frozen=True)
class Decision:
    """What a scheme decided about the k readable images of a chunk, and on what grounds.

    Attributes:
        scores: Higher is worse.  # (k,)
        flags: Which images are bad.  # (k,)
        decided_by: "pools", "individual", "head" or "glance".  # (k,)
        likelihoods: Log-likelihoods of the number of bad images in groups that the prevalence can be
            estimated from: all pools, or all single images (as groups of one).  # (groups, r + 1)
        group_sizes: Images in each group.  # (groups,)
        group_weight: What each group counts for, so that every image counts once.
        pooling: Which images shared which pool, if any did.
        readings: What was read of these pools.
        priors: Probability of being bad before pools were read.  # (k,)
        pool_scores: The decoder's score, before any test of the image alone.  # (k,)
        note: What one should know of this decision, such as a decoder that stopped at its limit.
        solved: False where a decoder stopped early; see `Decoding.solved`.
        stands_for: The image that each was judged with because they look alike, mostly itself; None if all
            were judged by themselves.  # (k,)
    """

    scores: NDArray[np.float64]
    flags: NDArray[np.bool_]
    decided_by: NDArray[np.str_]
    likelihoods: NDArray[np.float64]
    group_sizes: NDArray[np.int64]
    group_weight: float
    pooling: Pooling | None = None
    readings: Readings | None = None
    priors: NDArray[np.float64] | None = None
    pool_scores: NDArray[np.float64] | None = None
    note: str | None = None
    solved: bool = True
    stands_for: NDArray[np.intp] | None = None


@dataclass(frozen=True)
class Scheme(ABC):
    """Decides about chunks of images; an immutable set of parameters.

    Attributes:
        chunk: Images in a chunk; None for what suits the scheme.
        threshold: The individual network's score above which an image is flagged.
    """

    chunk: int | None = parameter(None, Interval(low=1, whole=True, optional=True))
    threshold: float = parameter(0.5, Interval(low=0, high=1))

    name: ClassVar[str]
    pools: ClassVar[bool] = False
    """Whether the scheme has pools, so that a pool size must be chosen."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            allowed = field.metadata.get("allowed")
            if allowed is not None:
                allowed.check(self.name, field.name, getattr(self, field.name))

    @property
    def chunk_size(self) -> int:
        """Images in a chunk."""
        return self.chunk or USUAL_CHUNK

    @abstractmethod
    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Decide about at least one readable image."""

    def __str__(self) -> str:
        """Name and all parameters: what a verdict record tells of the scheme."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["chunk"] = self.chunk_size
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in values.items())})"

    def _test_all(self, chunk: Chunk) -> Decision:
        """Test every image individually."""
        logits = chunk.test(np.arange(len(chunk)))
        scores = chunk.evidence.image_scores(logits)
        return Decision(
            scores,
            scores > self.threshold,
            np.full(len(chunk), BY_INDIVIDUAL),
            chunk.evidence.of_images(logits),
            np.ones(len(chunk), dtype=np.int64),
            1.0,
        )


@dataclass(frozen=True)
class PooledScheme(Scheme):
    """A scheme with pools.

    Attributes:
        pool_size: Images in a pool; one of the sizes that the bundle has networks for.
        prevalence: Expected share of bad images.
    """

    pool_size: int = parameter(USUAL_POOL_SIZE, Interval(low=2, whole=True))
    prevalence: float = parameter(0.01, Interval(low=1e-6, high=0.5))

    pools: ClassVar = True

    @property
    @abstractmethod
    def design(self) -> Pooling:
        """Which images of a full chunk share which pool."""

    def design_for(self, images: int) -> Pooling:
        """A design for at least that many images, of which a short chunk takes the first."""
        return self.design

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Decide from pools; where they would be as many as the images, test each image instead.

        That happens at the end of a source, when a few images are left over.
        """
        pooling = chunk.arrange(self.design_for(chunk.size), rng)
        if pooling.pool_count >= len(chunk):
            return self._test_all(chunk)
        return self._decide(chunk, pooling)

    @abstractmethod
    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision: ...

    def _decision(
        self,
        chunk: Chunk,
        pooling: Pooling,
        readings: Readings,
        pool_scores: NDArray[np.float64],
        flags: NDArray[np.bool_],
        retested: NDArray[np.intp] = np.empty(0, dtype=np.intp),  # noqa: B008 - never written to
        priors: NDArray[np.float64] | None = None,
        *,
        recompute: bool = False,
        image_evidence: NDArray[np.float64] | None = None,
        note: str | None = None,
        solved: bool = True,
    ) -> Decision:
        """What pools say, except for the retested images, about which the individual network decides.

        The prevalence is estimated from the pools, or image by image if evidence of each, (clear, bad), is
        given; that of retested images is the individual network's.
        """
        scores, flags = pool_scores.copy(), flags.copy()
        decided_by = np.full(len(chunk), BY_POOLS, dtype="<U10")
        logits = chunk.test(retested, recompute=recompute)
        scores[retested] = chunk.evidence.image_scores(logits)
        flags[retested] = scores[retested] > self.threshold
        decided_by[retested] = BY_INDIVIDUAL
        assert readings.log_likelihoods is not None
        likelihoods, sizes = readings.log_likelihoods[0], pooling.pool_sizes
        if image_evidence is not None:
            likelihoods, sizes = image_evidence.copy(), np.ones(len(chunk), dtype=np.int64)
            likelihoods[retested] = chunk.evidence.of_images(logits)
        return Decision(
            scores,
            flags,
            decided_by,
            likelihoods,
            sizes,
            len(chunk) / float(sizes.sum()),
            pooling,
            readings,
            np.full(len(chunk), self.prevalence) if priors is None else priors,
            pool_scores,
            note,
            solved,
        )


@dataclass(frozen=True)
class BalancedScheme(PooledScheme):
    """A scheme whose pools follow a balanced design.

    Attributes:
        pools_per_image: Pools that every image is in.
    """

    pools_per_image: int = parameter(4, Interval(low=1, whole=True))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pools_per_image >= self.pool_size:
            raise ValueError(
                f"{self.name}: pools_per_image={self.pools_per_image} with pool_size={self.pool_size} makes "
                "as many pools as images; take fewer pools per image, or the scheme individual"
            )

    @property
    def chunk_size(self) -> int:
        """Images in a chunk, by default the least number from 100 on that has a design."""
        return self.chunk or _fitting_chunk(self.pool_size, self.pools_per_image)

    @property
    def design(self) -> Pooling:
        """A balanced design for a full chunk; images are dealt onto it in a secret order."""
        return _balanced(self.chunk_size, self.pool_size, self.pools_per_image)

    def design_for(self, images: int) -> Pooling:
        """The smallest balanced design for that many images: the fewer images, the fewer pools."""
        return _smallest_balanced(images, self.chunk_size, self.pool_size, self.pools_per_image)


@cache
def _balanced(chunk: int, pool_size: int, pools_per_image: int) -> PoolingDesign:
    return balanced_design(chunk, pool_size, pools_per_image, seed=0)


@cache
def _smallest_balanced(images: int, chunk: int, pool_size: int, pools_per_image: int) -> PoolingDesign:
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


@cache
def _fitting_chunk(pool_size: int, pools_per_image: int) -> int:
    usual = Parameters(USUAL_CHUNK, pool_size, pools_per_image)
    return USUAL_CHUNK if broken_bound(usual) is None else next(larger(usual)).images


_REGISTRY: dict[str, type[Scheme]] = {}
SchemeClass = TypeVar("SchemeClass", bound=type[Scheme])


def register_scheme(name: str) -> Callable[[SchemeClass], SchemeClass]:
    """Class decorator: make a scheme known under `name`."""

    def register(scheme: SchemeClass) -> SchemeClass:
        if name in _REGISTRY:
            raise ValueError(f"a scheme named {name!r} is registered already: {_REGISTRY[name].__name__}")
        scheme.name = name
        _REGISTRY[name] = scheme
        return scheme

    return register


def list_schemes() -> list[str]:
    """Names of all schemes, sorted."""
    return sorted(_REGISTRY)


def make_scheme(name: str, pool_sizes: Sequence[int], **parameters: Any) -> Scheme:
    """Make a scheme by its name.

    Args:
        name: One of `list_schemes()`.
        pool_sizes: Sizes that there are counting networks for. The scheme takes 8 if that is among them, else
            the largest, unless told otherwise.
        parameters: The scheme's parameters; None stands for the default.

    Raises:
        ValueError: The scheme, a parameter or its value is not known.
    """
    if name not in _REGISTRY:
        raise ValueError(f"no scheme is named {name!r}. There are: {', '.join(list_schemes())}")
    scheme = _REGISTRY[name]
    known = [field.name for field in dataclasses.fields(scheme)]
    given = {key: value for key, value in parameters.items() if value is not None}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; its parameters are: {', '.join(known)}")
    if scheme.pools:
        given.setdefault("pool_size", USUAL_POOL_SIZE if USUAL_POOL_SIZE in pool_sizes else max(pool_sizes))
        for key in ("pool_size", "large_pool_size"):
            if key in given and given[key] not in pool_sizes:
                there = ", ".join(map(str, pool_sizes))
                raise ValueError(f"{key}={given[key]}, but the bundle has networks for pools of {there}")
    return scheme(**given)
