"""What a simulation compares: one-shot decoding of a design, Dorfman's two rounds, testing one by one."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import (
    CountNoise,
    Decoder,
    LatentNoise,
    Readings,
    decoder_name,
    parse_decoder,
    tune,
)
from poolsieve.designs import Pooling, disjoint_design


@dataclass(frozen=True)
class Outcome:
    """Flags of a block of chunks and what they cost.

    Attributes:
        flags: Which images are declared bad.  # (chunks, n)
        tests: Pools and individual tests used in all.
        solved: Share of chunks whose decoder finished; see `Decoding.solved`.
    """

    flags: NDArray[np.bool_]
    tests: int
    solved: float = 1.0


class Method(ABC):
    """One line of a comparison."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables and figures."""

    @property
    @abstractmethod
    def pooling(self) -> Pooling:
        """The pools of the first round."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters worth reporting."""
        return {}

    @abstractmethod
    def decide(
        self, readings: Readings, bad: NDArray[np.bool_], prevalence: float, generator: np.random.Generator
    ) -> Outcome:
        """Flags from the first round's readings; `bad` is the truth, for rounds that test again."""

    def informed(self, noise: CountNoise) -> Method:
        """The method told how readings err."""
        return self

    def tuned(self, readings: Readings, bad: NDArray[np.bool_], prevalence: float) -> Method:
        """The method with its parameters chosen on labelled readings."""
        return self


@dataclass(frozen=True)
class OneShot(Method):
    """All pools of a design at once, then a decoder: the paper's scheme.

    Attributes:
        decoder: Any decoder.
        design: Which images share which pool.
        soft: Whether the decoder sees the likelihood of every count or the counts alone.
        fixed: Names of parameters that tuning leaves as they are.
    """

    decoder: Decoder
    design: Pooling
    soft: bool = False
    fixed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The decoder's registered name, with what it reads where that matters and what is fixed."""
        reads = ("-soft" if self.soft else "-hard") if self.decoder.uses_priors else ""
        fixed = ", ".join(f"{name}={self.decoder.parameters[name]}" for name in self.fixed)
        return decoder_name(self.decoder) + reads + (f" ({fixed})" if fixed else "")

    @property
    def pooling(self) -> Pooling:
        """The design."""
        return self.design

    @property
    def parameters(self) -> dict[str, Any]:
        """The decoder's parameters that tuning chooses among."""
        return {name: self.decoder.parameters[name] for name in self.decoder.default_grid}

    def decide(
        self, readings: Readings, bad: NDArray[np.bool_], prevalence: float, generator: np.random.Generator
    ) -> Outcome:
        """Decode once."""
        decoding = self.decoder.decode(self._seen(readings), self.design, prevalence)
        return Outcome(decoding.flags, self.design.pool_count * len(bad), float(decoding.solved.mean()))

    def informed(self, noise: CountNoise) -> OneShot:
        """Decoders that turn counts into likelihoods get the confusion matrix, unless they have one."""
        if self.decoder.parameters.get("noise", noise) is not None:
            return self
        known = self.decoder.replace(noise=CountNoise(noise.confusion))
        return dataclasses.replace(self, decoder=known)

    def tuned(self, readings: Readings, bad: NDArray[np.bool_], prevalence: float) -> OneShot:
        """Grid search for sensitivity × specificity, as in the paper."""
        grid = {
            name: tried for name, tried in self.decoder.grid(self.design).items() if name not in self.fixed
        }
        if not grid:
            return self
        found = tune(self.decoder, self._seen(readings), bad, grid, design=self.design, priors=prevalence)
        return dataclasses.replace(self, decoder=found.decoder)

    def _seen(self, readings: Readings) -> Readings:
        return readings if self.soft else readings.hard()


@dataclass(frozen=True)
class Dorfman(Method):
    """Two rounds (Dorfman 1943): disjoint pools, then every image of a positive pool by itself.

    Attributes:
        images: Images in a chunk.
        pool_size: Images in a pool; a last short pool is allowed.
        sensitivity: Of the individual test of the second round.
        specificity: Of the individual test of the second round.
    """

    images: int = 100
    pool_size: int = 8
    sensitivity: float = 1.0
    specificity: float = 1.0

    @property
    def name(self) -> str:
        """With the pool size, as in the paper."""
        return f"dorfman-{self.pool_size}"

    @property
    def pooling(self) -> Pooling:
        """Consecutive pools."""
        return disjoint_design(self.images, self.pool_size)

    def decide(
        self, readings: Readings, bad: NDArray[np.bool_], prevalence: float, generator: np.random.Generator
    ) -> Outcome:
        """Test again what a positive pool holds."""
        again = (readings.counts > 0).astype(np.int32) @ self.pooling.sparse > 0
        draw = generator.random(bad.shape)
        verdict = np.where(bad, draw < self.sensitivity, draw >= self.specificity)
        return Outcome(again & verdict, readings.counts.size + int(again.sum()))


def parse_method(text: str, design: Pooling) -> Method:
    """A method from its text form, as on the command line.

    `dorfman-8` is Dorfman's scheme with that pool size. Anything else is a decoder on the given design, in
    the form that `poolsieve.decoders.parse_decoder` takes; parameters that are given stay fixed in tuning.

    Raises:
        ValueError: The decoder or a parameter is unknown, or a value is not allowed.
    """
    if text == "dorfman" or text.startswith("dorfman-"):
        size = text.removeprefix("dorfman").removeprefix("-") or "8"
        if not size.isdigit() or int(size) < 1:
            raise ValueError(f"{text!r}: write dorfman-8 for pools of 8 images")
        return Dorfman(images=design.images, pool_size=min(int(size), design.images))
    choice = parse_decoder(text)
    if choice.fixed:
        choice.decoder.check_weight(design.pools_per_image)
    return OneShot(choice.decoder, design, choice.soft, choice.fixed)


def noise_for(noise: CountNoise, pool_size: int) -> CountNoise:
    """The same noise for pools of another size.

    Raises:
        ValueError: The noise was given as a matrix, which says nothing about larger pools.
    """
    if noise.pool_size == pool_size:
        return noise
    if noise.pool_size < pool_size:
        raise ValueError(
            f"the noise is known for pools of {noise.pool_size} images, but a method has pools of "
            f"{pool_size}: give a noise for the largest pool"
        )
    if isinstance(noise, LatentNoise):
        return LatentNoise.from_centres(noise.centres[: pool_size + 1])
    smaller = noise.confusion[: pool_size + 1, : pool_size + 1].copy()
    smaller[:, -1] += noise.confusion[: pool_size + 1, pool_size + 1 :].sum(axis=1)  # it cannot read more
    return CountNoise(smaller)
