"""Stages, of which schemes are made: what each looks at, what that costs, and what it decides.

A stage looks at the images that are still undecided, clears or flags some of them, and hands on the rest. To
add one, derive from `Stage` in a file of its own and register it; `check_scheme` says whether it keeps the
contract.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.decoders import Readings
from poolsieve.designs import NO_IMAGE, Pooling
from poolsieve.schemes.cost_model import Part, Price, Work
from poolsieve.schemes.likelihood_model import Likelihoods
from poolsieve.schemes.runner import Chunk

if TYPE_CHECKING:
    from poolsieve.bundles import BundleConfig

BY_INDIVIDUAL = "individual"
"""What `decided_by` says of images that the individual network decided about."""
_CERTAIN = 1e-12
"""Posteriors are not taken to be nearer to certainty, so that logarithms stay finite."""


@dataclass(frozen=True)
class Decision:
    """What a scheme decided about the k readable images of a chunk, and on what grounds.

    Attributes:
        scores: Higher is worse.  # (k,)
        flags: Which images are bad.  # (k,)
        decided_by: The stage that decided: "pools" for all stages with pools, "individual" for the individual
            network, else its name.  # (k,)
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
        judged_with: The image that each was cleared with because they look alike, mostly itself; None if all
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
    judged_with: NDArray[np.intp] | None = None


@dataclass
class Undecided:
    """What is known of the images of a chunk while stages look at them.

    Attributes:
        chunk: The images.
        prevalence: Expected share of bad ones.
        rng: Deals images into pools.
        full_chunk: Images in a chunk that is not short.
        open: Images that nothing is decided about.  # (k,)
        aside: Open images that look so bad that pools are left to the others.  # (k,)
        log_likelihoods: Log-likelihoods (clear, bad) of what was seen of each image.  # (k, 2)
        later: Looks that are taken when somebody asks for posteriors.
        stand_ins: The image that each looks like and is pooled for it, mostly itself.  # (k,)
        priors: As in `Decision`, like what follows.
    """

    chunk: Chunk
    prevalence: float
    rng: np.random.Generator
    full_chunk: int
    open: NDArray[np.bool_] = field(init=False)
    aside: NDArray[np.bool_] = field(init=False)
    log_likelihoods: NDArray[np.float64] = field(init=False)
    stand_ins: NDArray[np.intp] = field(init=False)
    later: list[Callable[[Undecided], None]] = field(default_factory=list)
    priors: NDArray[np.float64] | None = None
    pool_scores: NDArray[np.float64] | None = None
    note: str | None = None
    solved: bool = True
    _scores: NDArray[np.float64] = field(init=False)
    _flags: NDArray[np.bool_] = field(init=False)
    _decided_by: NDArray[np.str_] = field(init=False)
    _seen: bool = False
    _pools: list[tuple[Pooling, Readings]] = field(default_factory=list)
    _groups: tuple[NDArray[np.float64], NDArray[np.int64], float] | None = None
    _judged_with: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        k = len(self.chunk)
        self.open, self.aside = np.ones(k, dtype=bool), np.zeros(k, dtype=bool)
        self.log_likelihoods, self._scores, self.stand_ins = np.zeros((k, 2)), np.zeros(k), np.arange(k)
        self._flags, self._decided_by = np.zeros(k, dtype=bool), np.full(k, "", dtype="<U32")

    def see(self, images: NDArray[np.intp], likelihoods: NDArray[np.float64]) -> None:
        """Add what was seen of images to what is known of them.

        Args:
            images: Their numbers.
            likelihoods: Log-likelihoods (clear, bad), up to a constant.  # (len(images), 2)
        """
        self.log_likelihoods[images] += likelihoods
        self._seen = True

    def log_odds(self) -> NDArray[np.float64]:
        """Log-odds of being bad by all that was seen.  # (k,)."""
        waiting, self.later = self.later, []
        for look in waiting:
            look(self)
        prior = scipy.special.logit(self.prevalence)
        odds: NDArray[np.float64] = prior + np.diff(self.log_likelihoods, axis=1)[:, 0]
        return odds

    def posteriors(self) -> NDArray[np.float64]:
        """Probability of being bad by all that was seen.  # (k,)."""
        odds = self.log_odds()
        return scipy.special.expit(odds) if self._seen else np.full(len(self.chunk), self.prevalence)

    def believe(self, posteriors: NDArray[np.float64]) -> None:
        """Take posteriors of all images for what is known of them."""
        odds = scipy.special.logit(np.clip(posteriors, _CERTAIN, 1 - _CERTAIN))
        ratios = odds - scipy.special.logit(self.prevalence)
        self.log_likelihoods = np.stack([np.zeros_like(ratios), ratios], axis=1)
        self._seen = True

    def decide(
        self,
        which: NDArray[np.bool_],
        scores: NDArray[np.float64],
        flags: NDArray[np.bool_] | bool,
        decided_by: str,
    ) -> None:
        """Decide about images.

        Args:
            which: The images.  # (k,)
            scores: Of all images.  # (k,)
            flags: Whether they are bad, of all images or the same for each.  # (k,)
            decided_by: The stage.
        """
        self._scores[which] = scores[which]
        self._flags[which] = flags if isinstance(flags, bool) else flags[which]
        self._decided_by = np.where(which, decided_by, self._decided_by)  # as wide as the longest name
        self.open &= ~which

    def follow_stand_ins(self) -> None:
        """Clear what looks like an image that is clear by now."""
        judged = ~self.open[self.stand_ins] & ~self._flags[self.stand_ins]
        followers = self.open & judged & (self.stand_ins != self.chunk.everyone)
        if followers.any():
            by = self._decided_by[self.stand_ins]
            for name in np.unique(by[followers]):
                self.decide(followers & (by == name), self._scores[self.stand_ins], False, str(name))
            before = self.chunk.everyone if self._judged_with is None else self._judged_with
            self._judged_with = np.where(followers, self.stand_ins, before)

    def record_pools(self, pooling: Pooling, readings: Readings, *, tell_prevalence: bool) -> None:
        """Keep pools for the record.

        Args:
            pooling: The pools.
            readings: What was read of them.
            tell_prevalence: Estimate the prevalence from these pools, if all images are in them but those
                that others stand for. Pools of the images that earlier pools left are of chosen images: the
                earlier ones go on telling it.
        """
        self._pools.append((pooling, readings))
        assert readings.log_likelihoods is not None
        pooled = pooling.image_weights > 0
        if tell_prevalence and (pooled | (self.stand_ins != self.chunk.everyone)).all():
            weight = np.count_nonzero(pooled) / float(pooling.pool_sizes.sum())
            self._groups = readings.log_likelihoods[0], pooling.pool_sizes, weight

    def decision(self) -> Decision:
        """What was decided, when nothing is open any more."""
        assert not self.open.any(), "the last stage left images undecided"
        groups, sizes, weight = self._groups or (
            *(self.log_likelihoods, np.ones(len(self.chunk), dtype=np.int64)),
            1.0,
        )
        pooling, readings = together(self._pools) if self._pools else (None, None)
        return Decision(
            self._scores,
            self._flags,
            self._decided_by,
            groups,
            sizes,
            weight,
            pooling,
            readings,
            self.priors,
            self.pool_scores,
            self.note,
            self.solved,
            self._judged_with,
        )


@dataclass(frozen=True)
class Stage(ABC):
    """One look at the images that are still undecided; an immutable set of parameters."""

    name: ClassVar[str]
    decides: ClassVar[bool] = False
    """Whether it leaves nothing undecided, so that it is the last stage."""
    pools: ClassVar[bool] = False
    """Whether images are looked at in pools."""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            allowed = one.metadata.get("allowed")
            if allowed is not None:
                allowed.check(self.name, one.name, getattr(self, one.name))

    @abstractmethod
    def look(self, undecided: Undecided) -> None:
        """Look at what is open, and decide what can be decided."""

    @abstractmethod
    def graphs(self, config: BundleConfig) -> list[str]:
        """Files of the graphs that it runs, in the order of their use."""

    def sees_small(self, config: BundleConfig) -> bool:
        """Whether its networks shrink images first, so that it may be given small views of them."""
        return any(config.shrinks(file) for file in self.graphs(config))

    @abstractmethod
    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """What it runs once for each image that it looks at, unless an earlier stage did.

        Args:
            price: What the networks' parts cost.
            gated: Whether features are multiplied by the gate before they are merged.
        """

    def reckon(self, work: Work, share: float, *, gated: bool) -> None:
        """Add what it runs on a share of the images to what is run for each image."""
        for part in self.parts(work.price, gated=gated):
            work.runs[part.name] = max(work.runs[part.name], share)

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Values of its parameters that are worth searching."""
        return {}

    @property
    def bound(self) -> str | None:
        """The parameter that a plan sets last and finely, if it decides by a bound."""
        return None

    def bounds(self, clear: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bounds that a plan chooses from, ascending, by the values of clear images."""
        return bounds_among(clear)

    def at(self, bound: float) -> dict[str, Any]:
        """The parameters that one of `bounds` means."""
        return {} if self.bound is None else {self.bound: float(scipy.special.expit(bound))}

    def leaving(self, band: tuple[float, float], prevalence: float) -> dict[str, float] | None:
        """Parameters that leave to pools a band of the head's log-likelihood ratios; None if it cannot."""
        return None

    @property
    def complexity(self) -> int:
        """Of plans that cost nearly the same the simplest is chosen, by the sum of its stages."""
        return 0

    @property
    def called(self) -> str:
        """What people call it where it decided: "decided by …"."""
        return self.name

    @property
    def unplanned(self) -> str | None:
        """Why recordings cannot tell what it does, for people; None if they can."""
        return None

    def known(self, likelihoods: Likelihoods) -> bool:
        """Whether outputs can tell what it asks; else it does nothing, or cannot be run if it has a bound."""
        return True

    def futile(self, before: Sequence[Stage], prevalence: float) -> str | None:
        """Why it can find nothing after those stages, and what would help; None if it can."""
        return None

    def unfit(self, chunk: int) -> str | None:
        """Why it makes no sense in chunks of so many images, and what would help; None if it does."""
        return None

    def check(self, pool_sizes: Sequence[int]) -> None:  # noqa: B027 - most stages need nothing of the bundle
        """Raise ValueError if a bundle with these pool sizes cannot run it."""

    def chunk_size(self, usual: int) -> int:
        """Images in a chunk that suit it, from the usual number on."""
        return usual

    def prepare(self, chunk: int) -> None:  # noqa: B027 - most stages need nothing
        """Complain at once of what would fail with full chunks."""

    def __str__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in values.items())})"


def bounds_among(clear: NDArray[np.float64], least: float = 0.002) -> NDArray[np.float64]:
    """Bounds that leave from most to `least` of the clear images above them, or none."""
    return np.unique(np.append(np.quantile(clear, 1 - np.geomspace(0.9, least, 80)), clear.max() + 1e-3))


_REGISTRY: dict[str, type[Stage]] = {}
StageClass = TypeVar("StageClass", bound=type[Stage])


def register_stage(name: str) -> Callable[[StageClass], StageClass]:
    """Class decorator: make a stage known under `name`."""

    def register(stage: StageClass) -> StageClass:
        if name in _REGISTRY:
            raise ValueError(f"a stage named {name!r} is registered already: {_REGISTRY[name].__name__}")
        stage.name = name
        _REGISTRY[name] = stage
        return stage

    return register


def list_stages() -> list[str]:
    """Names of all stages, sorted."""
    return sorted(_REGISTRY)


def find_stage(name: str) -> type[Stage] | None:
    """The class of a stage; None if there is none of that name."""
    return _REGISTRY.get(name)


def make_stage(name: str, **parameters: Any) -> Stage:
    """Make a stage by its name.

    Raises:
        ValueError: The stage, a parameter or its value is not known.
    """
    if name not in _REGISTRY:
        raise ValueError(f"no stage is named {name!r}. There are: {', '.join(list_stages())}")
    known = [one.name for one in dataclasses.fields(_REGISTRY[name])]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"{name} has no parameter {unknown[0]!r}; its parameters are: {', '.join(known) or 'none'}"
        )
    return _REGISTRY[name](**parameters)


def together(parts: Sequence[tuple[Pooling, Readings]]) -> tuple[Pooling, Readings]:
    """Pools of several sizes over the same images as one pooling, with their readings."""
    if len(parts) == 1:
        return parts[0]
    size = max(pooling.pool_size for pooling, _ in parts)
    rows, counts, tables = [], [], []
    for pooling, readings in parts:
        assert readings.log_likelihoods is not None
        wider = ((0, 0), (0, size - pooling.pool_size))
        rows.append(np.pad(pooling.pools, wider, constant_values=NO_IMAGE))
        counts.append(readings.counts[0])
        # A smaller pool cannot hold so many bad images.
        tables.append(np.pad(readings.log_likelihoods[0], wider, constant_values=-np.inf))
    pooling = Pooling(np.concatenate(rows), parts[0][0].images, pool_size=size)
    return pooling, Readings(np.concatenate(counts)[None], np.concatenate(tables)[None])
