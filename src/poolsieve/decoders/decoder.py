"""The one interface of all decoders, and their registry."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling
from poolsieve.parameters import (  # noqa: F401 - what a decoder needs is at one place
    Choice,
    Instance,
    Interval,
    check_parameters,
    parameter,
)

BLOCK_CHUNKS = 2048
"""Chunks that are decoded at a time, so that working memory does not grow with the number of chunks."""


@dataclass(frozen=True)
class Decoding:
    """What a decoder found.

    Attributes:
        scores: Higher is worse; what the number means is the decoder's to say.  # (chunks, n)
        flags: Which images the decoder declares bad.  # (chunks, n)
        solved: False where an iterative decoder stopped early: a node limit was hit, so the answer is not
            proven best, or messages had not settled.  # (chunks,)
        objective: Value of the minimised objective, for decoders that minimise one.  # (chunks,)
    """

    scores: NDArray[np.float64]
    flags: NDArray[np.bool_]
    solved: NDArray[np.bool_]
    objective: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Decoder(ABC):
    """Finds the bad images of each chunk from the readings of its pools.

    A decoder is an immutable set of parameters; `decode` is a pure function of its arguments. To write one,
    derive a frozen data class, give it `_decode` and decorate it with `register_decoder`; `check_decoder`
    tells whether it keeps the contract. docs/decoding.md has an example.
    """

    uses_priors: ClassVar[bool] = False
    """Whether `decode` needs the prior probability of each image."""
    reads_counts: ClassVar[bool] = False
    """Whether it takes a count for exact, so that pools read as clean or not are of no use to it."""
    thresholds_scores: ClassVar[bool] = False
    """Whether flags are exactly `scores > self.threshold`: tuning then decodes once for all thresholds."""
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Parameter values that `tune` tries unless told otherwise."""

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def replace(self, **changes: Any) -> Decoder:
        """The same decoder with some parameters changed."""
        unknown = sorted(set(changes) - set(self.parameters))
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise ValueError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; its parameters are: {known}"
            )
        return dataclasses.replace(self, **changes)

    def check_weight(self, pools_per_image: int) -> None:  # noqa: B027 - most decoders have nothing to refuse
        """Raise ValueError if no image that is in so many pools could ever be flagged."""

    def grid(self, design: Pooling) -> dict[str, tuple[Any, ...]]:
        """The values of `default_grid` that make sense for a design."""
        return self.default_grid

    def decode(
        self, readings: Readings | ArrayLike, design: Pooling, priors: ArrayLike | None = None
    ) -> Decoding:
        """Decode any number of chunks.

        Args:
            readings: Readings, or just counts for one chunk (m,) or many (chunks, m).
            design: Which images share which pool.
            priors: Probability of being bad: one number, one for each image (n,), or one for each image of
                each chunk (chunks, n). Needed where `uses_priors` is true, otherwise ignored.

        Raises:
            ValueError: The arguments do not fit together; the message says what and where.
        """
        readings = Readings.coerce(readings)
        readings.check(design)
        self.check_weight(design.pools_per_image)
        probabilities = self._check_priors(priors, readings.chunks, design.images)
        scores = np.empty((readings.chunks, design.images))
        flags = np.empty((readings.chunks, design.images), dtype=bool)
        solved = np.empty(readings.chunks, dtype=bool)
        objective: NDArray[np.float64] | None = None
        for start in range(0, max(readings.chunks, 1), BLOCK_CHUNKS):  # no chunks are one empty block
            stop = min(start + BLOCK_CHUNKS, readings.chunks)
            prior = probabilities[start:stop] if np.ndim(probabilities) == 2 else probabilities
            part = self._decode(
                readings.block(start, stop),
                design,
                np.ascontiguousarray(np.broadcast_to(prior, (stop - start, design.images)), dtype=np.float64),
            )
            scores[start:stop], flags[start:stop], solved[start:stop] = part.scores, part.flags, part.solved
            if part.objective is not None:
                objective = np.empty(readings.chunks) if objective is None else objective
                objective[start:stop] = part.objective
        return Decoding(scores, flags, solved, objective)

    @abstractmethod
    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        """Decode one block of checked readings; `priors` has shape (chunks, n)."""

    def _check_priors(self, priors: ArrayLike | None, chunks: int, images: int) -> NDArray[np.float64]:
        if priors is None:
            if self.uses_priors:
                raise ValueError(
                    f"{type(self).__name__} needs priors: the share of bad images, or a probability per image"
                )
            return np.asarray(0.5)
        table = np.asarray(priors, dtype=np.float64)
        if table.shape not in ((), (images,), (chunks, images)):
            raise ValueError(
                f"priors: one number, or shape ({images},) or ({chunks}, {images}), not {table.shape}"
            )
        wrong = ~((table >= 0) & (table <= 1))
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = f"priors{list(where)}" if where else "priors"
            raise ValueError(f"{place} = {table[where]}; a probability lies between 0 and 1")
        return table


_REGISTRY: dict[str, type[Decoder]] = {}
DecoderClass = TypeVar("DecoderClass", bound=type[Decoder])


def register_decoder(name: str) -> Callable[[DecoderClass], DecoderClass]:
    """Class decorator: make a decoder known under `name`.

    Args:
        name: Small letters, digits and hyphens. It is written on the command line, where endings -hard and
            -soft say what a decoder reads, and dorfman is a scheme.

    Raises:
        ValueError: The name is taken or cannot be one.
    """
    reserved = name.endswith(("-hard", "-soft")) or name == "dorfman" or name.startswith("dorfman-")
    if reserved or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"a decoder cannot be named {name!r}: take small letters, digits and hyphens, no ending -hard or "
            "-soft, and not dorfman"
        )

    def register(decoder: DecoderClass) -> DecoderClass:
        if name in _REGISTRY:
            raise ValueError(f"a decoder named {name!r} is registered already: {_REGISTRY[name].__name__}")
        _REGISTRY[name] = decoder
        return decoder

    return register


def list_decoders(pattern: str = "*") -> list[str]:
    """Names of registered decoders that match a shell pattern, sorted."""
    return sorted(fnmatch.filter(_REGISTRY, pattern))


def decoder_name(decoder: Decoder) -> str:
    """The name a decoder is registered under."""
    for name, registered in _REGISTRY.items():
        if registered is type(decoder):
            return name
    raise ValueError(f"{type(decoder).__name__} is not registered; use @register_decoder(name)")


def make_decoder(name: str, **parameters: Any) -> Decoder:
    """Make a decoder by its registered name.

    Raises:
        ValueError: The name is unknown (the message lists what exists) or a parameter is.
    """
    if name not in _REGISTRY:
        close = get_close_matches(name.lower(), _REGISTRY, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no decoder is named {name!r}.{hint} There are: {', '.join(list_decoders())}")
    return _REGISTRY[name]().replace(**parameters)
