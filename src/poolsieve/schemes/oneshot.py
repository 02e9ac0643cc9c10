"""The paper's scheme: overlapping pools, read once and decoded; no image is tested again.

But for chunks whose readings are a surprise: there doubtful images are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.decoders import BeliefPropagation, Decoder, Readings, parse_decoder
from poolsieve.decoders.base import Instance, parameter
from poolsieve.decoders.binary_evidence import possibly_bad
from poolsieve.designs import Pooling
from poolsieve.schemes.base import BalancedScheme, Decision, register_scheme
from poolsieve.schemes.plausibility import Surprise, find_surprise
from poolsieve.schemes.runner import Chunk

NODE_LIMIT = 5000
"""Search nodes that an exact decoder may spend on a chunk, about half a second.

Readings that fit nothing would else be searched for hours; the best answer found by then is taken.
"""

DOUBTFUL = 0.01
"""Posterior from which an image of a chunk with surprising readings is tested individually."""


@register_scheme("oneshot")
@dataclass(frozen=True)
class OneShot(BalancedScheme):
    """A balanced design and any decoder (paper, section "CS/GT Decoding Algorithms").

    The defaults are the paper's: 50 pools of 8 for 100 images, every image in 4, and MIP.

    Where a chunk's counts are improbable at the stated prevalence or beyond what the pools can tell apart,
    belief propagation decodes it with its own estimated prevalence. Every image that is not clear by that,
    or that is in no pool which was read as clean, is tested individually: with such pool-mates no image is
    flagged on the word of pools.

    Attributes:
        threshold: With the decoder bp, the posterior above which an image is flagged, unless the text of the
            decoder gives one.
        decoder: A decoder in its text form: `mip`, `classo:penalty=0.3,threshold=0.2`, `bp`, or `bp-hard` to
            read counts alone; see `poolsieve.decoders.parse_decoder`.
    """

    decoder: str = parameter("mip", Instance(str))

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_decoder(self.decoder)  # complains of unknown names

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        readings = chunk.read_pools(pooling)
        noise = chunk.evidence.count_noise(pooling.pool_size)
        surprise = find_surprise(readings, pooling, noise, self.prevalence)
        if surprise is not None:
            return self._decide_surprise(chunk, pooling, readings, surprise)
        with chunk.meter.time("decoding"):
            choice = parse_decoder(self.decoder)
            decoder = choice.decoder
            if "node_limit" in decoder.parameters and "node_limit" not in choice.fixed:
                decoder = decoder.replace(node_limit=NODE_LIMIT)
            if isinstance(decoder, BeliefPropagation) and "threshold" not in choice.fixed:
                decoder = decoder.replace(threshold=self.threshold)
            if decoder.uses_priors and not choice.soft:
                decoder = decoder.replace(noise=noise)
            decoding = decoder.decode(readings if choice.soft else readings.hard(), pooling, self.prevalence)
        solved = bool(decoding.solved[0])
        return self._decision(
            chunk,
            pooling,
            readings,
            decoding.scores[0],
            decoding.flags[0],
            note=None if solved else _stopped(self.decoder, decoder),
            solved=solved,
        )

    def _decide_surprise(
        self, chunk: Chunk, pooling: Pooling, readings: Readings, surprise: Surprise
    ) -> Decision:
        priors = np.full(len(chunk), surprise.prevalence)
        with chunk.meter.time("decoding"):
            posteriors = BeliefPropagation().decode(readings, pooling, priors).scores[0]
        # With so many bad images posteriors may be sure and wrong: a clear image is in a clean pool as well.
        doubtful = np.flatnonzero((posteriors >= DOUBTFUL) | possibly_bad(readings, pooling)[0])
        flags = np.zeros(len(chunk), dtype=bool)
        note = surprise.note(len(doubtful))
        return self._decision(chunk, pooling, readings, posteriors, flags, doubtful, priors, note=note)


def _stopped(name: str, decoder: Decoder) -> str:
    """What a record says where a decoder did not finish."""
    limit = decoder.parameters.get("node_limit")
    if limit is None:
        return f"{name} stopped before its answer had settled"
    return f"{name} stopped at its limit of {limit:,} nodes; a better answer may exist"
