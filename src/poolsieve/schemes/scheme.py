"""Schemes: lists of stages, and the table of those that have a name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from poolsieve.parameters import Interval, parameter
from poolsieve.schemes.cost_model import POOLS, Price, Work
from poolsieve.schemes.decoded_pools import DecodedPools
from poolsieve.schemes.dorfman_pools import DisjointPools
from poolsieve.schemes.glance_look import Glance
from poolsieve.schemes.head_look import Head
from poolsieve.schemes.individual import Test
from poolsieve.schemes.likelihood_model import Likelihoods
from poolsieve.schemes.pool_stage import USUAL_POOL_SIZE, PoolStage
from poolsieve.schemes.pools import Pools
from poolsieve.schemes.runner import Chunk
from poolsieve.schemes.stages import Decision, Stage, Undecided, make_stage

if TYPE_CHECKING:
    from poolsieve.bundles import BundleConfig

USUAL_CHUNK = 100
"""Images of a chunk where neither the caller nor a design says otherwise."""
UNNAMED = "stages"
"""Name of schemes that are not in the table."""
BETWEEN_STAGES = " → "
"""In the text of these."""

SCHEMES: dict[str, tuple[Stage, ...]] = {
    "individual": (Test(),),
    "dorfman": (DisjointPools(), Test()),
    "oneshot": (DecodedPools(),),
    "glance": (Glance(), Test()),
    "cascade": (Head(), Test()),
    "early_exit": (Head(), Glance(), Test()),
    "adaptive": (Head(clear_below=0), Pools(), Test()),
}
"""The schemes that have a name: `moderate` takes it, plans are made with it, `evaluate` measures it."""


@dataclass(frozen=True)
class Scheme:
    """Decides about chunks of images, stage by stage.

    Attributes:
        stages: What looks at the images, one after the other; the last one decides what is left.
        name: In the table of schemes, else "stages".
        chunk: Images in a chunk; None for what suits the stages.
        prevalence: Expected share of bad images.
    """

    stages: tuple[Stage, ...]
    name: str = UNNAMED
    chunk: int | None = parameter(None, Interval(low=1, whole=True, optional=True))
    prevalence: float = parameter(0.01, Interval(low=1e-6, high=0.5))

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        for one in dataclasses.fields(self):
            allowed = one.metadata.get("allowed")
            if allowed is not None:
                allowed.check(self.name, one.name, getattr(self, one.name))
        _check_order(self.stages)
        for place, stage in enumerate(self.stages):
            before = self.stages[:place]
            senseless = stage.futile(before, self.prevalence) or stage.unfit(self.chunk_size)
            if senseless is not None:
                raise ValueError(f"{stage.name} {senseless}")

    @property
    def chunk_size(self) -> int:
        """Images in a chunk."""
        if self.chunk is not None:
            return self.chunk
        size = USUAL_CHUNK
        for stage in self.stages:
            size = stage.chunk_size(size)
        return size

    @property
    def pools(self) -> bool:
        """Whether images are pooled."""
        return any(stage.pools for stage in self.stages)

    def small_first(self, config: BundleConfig) -> bool:
        """Whether the first look at images needs no more than small views of them."""
        return self.stages[0].sees_small(config)

    @property
    def threshold(self) -> float:
        """The individual network's score above which an image is flagged."""
        return float(getattr(self.stages[-1], "threshold", 0.5))

    def get(self, parameter: str) -> Any:
        """The value of a parameter; None if no stage has it."""
        for stage in self.stages:
            if hasattr(stage, parameter):
                return getattr(stage, parameter)
        return None

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Decide about at least one readable image."""
        undecided = Undecided(chunk, self.prevalence, rng, self.chunk_size)
        for stage in self.stages:
            if undecided.open.any():
                stage.look(undecided)
        return undecided.decision()

    def graphs(self, config: BundleConfig) -> list[str]:
        """Files of the graphs of a bundle that a full chunk needs, in the order of their use."""
        return list(dict.fromkeys(file for stage in self.stages for file in stage.graphs(config)))

    def work(self, price: Price, reaching: Sequence[float], pools: float, *, gated: bool) -> Work:
        """What is run for each image, from how many images reach each stage.

        Args:
            price: What the networks' parts cost.
            reaching: Share of the images that each stage looks at.
            pools: Pools for each image.
            gated: Whether features are multiplied by the gate before they are merged.
        """
        work = Work(price, images=1)
        for stage, share in zip(self.stages, reaching, strict=True):
            stage.reckon(work, share, gated=gated)
        work.runs[POOLS.name] += pools
        return work

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Values of parameters that are worth searching, those of every stage."""
        names = parameter_names(self.stages)
        grids = [stage.grid() for stage in self.stages]
        return {name: grids[k][field] for name, (k, field) in names.items() if field in grids[k]}

    def prepare(self, config: BundleConfig, likelihoods: Likelihoods) -> None:
        """Raise ValueError if a bundle, or no design, can serve full chunks.

        Args:
            config: The bundle's.
            likelihoods: What its outputs are worth.
        """
        for stage in self.stages:
            stage.check(config.pool_sizes)
            lacking = next((file for file in stage.graphs(config) if file not in config.graphs), None)
            if lacking is not None or (stage.bound and not stage.known(likelihoods)):
                what = "calibration for it" if lacking is None else lacking
                raise ValueError(
                    f"the bundle has no {what}, which the stage {stage.name} needs; use a scheme without it"
                )
            stage.prepare(self.chunk_size)

    def parameters(self) -> dict[str, Any]:
        """All parameters by name, those of every stage."""
        own = {name: getattr(self.stages[k], one) for name, (k, one) in parameter_names(self.stages).items()}
        return {"chunk": self.chunk_size, "prevalence": self.prevalence, **own}

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        stages = [
            {"stage": stage.name, **{one.name: getattr(stage, one.name) for one in dataclasses.fields(stage)}}
            for stage in self.stages
        ]
        return {"stages": stages, "chunk": self.chunk, "prevalence": self.prevalence}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Scheme:
        """The reverse of `to_json`; what is left out has its default.

        Raises:
            ValueError: It is no list of stages, or one that makes no sense.
        """
        stages = values.get("stages")
        if not isinstance(stages, list) or not all(_names_stage(one) for one in stages):
            raise ValueError('a list of stages looks like [{"stage": "head"}, {"stage": "test"}]')
        unknown = sorted(set(values) - {"stages", "chunk", "prevalence"})
        if unknown:
            raise ValueError(
                f"a list of stages has a chunk and a prevalence beside it, but no {unknown[0]!r}"
            )
        made = tuple(
            make_stage(str(one["stage"]), **{name: value for name, value in one.items() if name != "stage"})
            for one in stages
        )
        given = {name: values[name] for name in ("chunk", "prevalence") if values.get(name) is not None}
        return cls(made, **given)

    def __str__(self) -> str:
        """Name and all parameters: what a verdict record tells of the scheme."""
        if self.name == UNNAMED:
            stages = BETWEEN_STAGES.join(map(str, self.stages))
            return f"{stages} (chunk={self.chunk_size}, prevalence={self.prevalence})"
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.parameters().items())})"


def _names_stage(values: object) -> bool:
    return isinstance(values, dict) and isinstance(values.get("stage"), str)


def _check_order(stages: Sequence[Stage]) -> None:
    """Raise ValueError if a list of stages makes no sense."""
    if not stages:
        raise ValueError("a scheme needs at least one stage")
    for stage in stages[:-1]:
        if stage.decides:
            raise ValueError(f"{stage.name} leaves nothing undecided, so that no stage can come after it")
    if not stages[-1].decides:
        raise ValueError(
            f"{stages[-1].name} leaves images undecided; the last stage must be test or decoded_pools"
        )
    looks = [stage.name for stage in stages if not stage.pools]
    twice = next((name for name in looks if looks.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"a second {twice} sees nothing new; leave one out")


def list_schemes() -> list[str]:
    """Names of all schemes, sorted."""
    return sorted(SCHEMES)


def make_scheme(name: str, pool_sizes: Sequence[int], **parameters: Any) -> Scheme:
    """Make a scheme by its name.

    Args:
        name: One of `list_schemes()`.
        pool_sizes: Sizes that there are counting networks for. The scheme takes 8 if that is among them, else
            the largest, unless told otherwise.
        parameters: `chunk`, `prevalence` and parameters of its stages; `use_head=False` leaves the head out,
            where it only gives priors. None stands for the default.

    Raises:
        ValueError: The scheme, a parameter or its value is not known.
    """
    if name not in SCHEMES:
        raise ValueError(f"no scheme is named {name!r}. There are: {', '.join(list_schemes())}")
    given = {key: value for key, value in parameters.items() if value is not None}
    stages = SCHEMES[name]
    if given.pop("use_head", True) is False:
        stages = without_prior_head(stages)
        if len(stages) == len(SCHEMES[name]):
            raise ValueError(f"{name} has no parameter 'use_head': no head gives priors in it")
    whole = {key: given.pop(key) for key in ("chunk", "prevalence") if key in given}
    names = parameter_names(stages)
    unknown = sorted(set(given) - set(names))
    if unknown:
        known = ", ".join(("chunk", "prevalence", *names))
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; its parameters are: {known}")
    for key, (place, field) in names.items():
        if field == "pool_size" and isinstance(stages[place], PoolStage):
            given.setdefault(key, USUAL_POOL_SIZE if USUAL_POOL_SIZE in pool_sizes else max(pool_sizes))
    made = with_parameters(stages, given)
    for stage in made:
        stage.check(pool_sizes)
    return Scheme(made, name, **whole)


def without_prior_head(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages without a head that only gives priors."""
    return tuple(stage for stage in stages if stage.name != Head.name or stage.bound)


def parameter_names(stages: Sequence[Stage]) -> dict[str, tuple[int, str]]:
    """Names of all parameters of a list, and the stage and field of each.

    What only one stage has is named as its field, `clear_below`; else its stage comes first,
    `glance_clear_below`, and from the second stage of a name on its number, `pools_2_pool_size`.
    """
    fields = [(k, one.name) for k, stage in enumerate(stages) for one in dataclasses.fields(stage)]
    times = Counter(name for _, name in fields)
    names = [stage.name for stage in stages]
    numbers = [names[: k + 1].count(name) for k, name in enumerate(names)]
    labels = [name if k == 1 else f"{name}_{k}" for name, k in zip(names, numbers, strict=True)]
    return {name if times[name] == 1 else f"{labels[k]}_{name}": (k, name) for k, name in fields}


def with_parameters(stages: Sequence[Stage], given: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The stages with other values of some parameters, by their `parameter_names`."""
    own: list[dict[str, Any]] = [{} for _ in stages]
    for name, (place, field) in parameter_names(stages).items():
        if name in given:
            own[place][field] = given[name]
    return tuple(replace(stage, **values) for stage, values in zip(stages, own, strict=True))
