"""The paper's scheme: overlapping pools, read once and decoded; no image is tested again."""

from __future__ import annotations

from dataclasses import dataclass

from poolsieve.decoders import BeliefPropagation, Decoder, parse_decoder
from poolsieve.decoders.base import Instance, parameter
from poolsieve.designs import Pooling
from poolsieve.schemes.base import BalancedScheme, Decision, register_scheme
from poolsieve.schemes.runner import Chunk

NODE_LIMIT = 5000
"""Search nodes that an exact decoder may spend on a chunk, about half a second.

Readings that fit nothing, such as those of a network that sees two bad images in every pool, would else be
searched for hours; the best answer found by then is taken.
"""


@register_scheme("oneshot")
@dataclass(frozen=True)
class OneShot(BalancedScheme):
    """A balanced design and any decoder (paper, section "CS/GT Decoding Algorithms").

    The defaults are the paper's: 50 pools of 8 for 100 images, every image in 4, and MIP.

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
        with chunk.meter.time("decoding"):
            choice = parse_decoder(self.decoder)
            decoder = choice.decoder
            if "node_limit" in decoder.parameters and "node_limit" not in choice.fixed:
                decoder = decoder.replace(node_limit=NODE_LIMIT)
            if isinstance(decoder, BeliefPropagation) and "threshold" not in choice.fixed:
                decoder = decoder.replace(threshold=self.threshold)
            if decoder.uses_priors and not choice.soft:
                decoder = decoder.replace(noise=chunk.evidence.count_noise(pooling.pool_size))
            decoding = decoder.decode(readings if choice.soft else readings.hard(), pooling, self.prevalence)
        note = None if decoding.solved[0] else _stopped(self.decoder, decoder)
        return self._decision(chunk, pooling, readings, decoding.scores[0], decoding.flags[0], note=note)


def _stopped(name: str, decoder: Decoder) -> str:
    """What a record says where a decoder did not finish."""
    limit = decoder.parameters.get("node_limit")
    if limit is None:
        return f"{name} stopped before its answer had settled"
    return f"{name} stopped at its limit of {limit:,} nodes; a better answer may exist"
