"""The paper's scheme: overlapping pools, read once and decoded; no image is tested again."""

from __future__ import annotations

from dataclasses import dataclass

from poolsieve.decoders import make_decoder
from poolsieve.decoders.base import Interval, parameter
from poolsieve.designs import Pooling
from poolsieve.schemes.base import Decision, PooledScheme, design_of, fitting_chunk, register_scheme
from poolsieve.schemes.runner import Chunk


@register_scheme("oneshot")
@dataclass(frozen=True)
class OneShot(PooledScheme):
    """A balanced design and any decoder (paper, section "CS/GT Decoding Algorithms").

    The defaults are the paper's: 50 pools of 8 for 100 images, every image in 4, and MIP.

    Attributes:
        pools_per_image: Pools that every image is in.
        decoder: Name of a decoder; see `poolsieve.decoders.list_decoders`.
    """

    pools_per_image: int = parameter(4, Interval(low=1, whole=True))
    decoder: str = parameter("mip")

    def __post_init__(self) -> None:
        super().__post_init__()
        make_decoder(self.decoder)  # complains of unknown names

    @property
    def chunk_size(self) -> int:
        """Images in a chunk, by default the least from 100 on that has a design."""
        return self.chunk or fitting_chunk(self.pool_size, self.pools_per_image)

    @property
    def design(self) -> Pooling:
        """A balanced design for a full chunk."""
        return design_of(self.chunk_size, self.pool_size, self.pools_per_image)

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        readings = chunk.read_pools(pooling)
        with chunk.meter.time("decoding"):
            decoding = make_decoder(self.decoder).decode(readings, pooling, self.prevalence)
        return self._decision(chunk, pooling, readings, decoding.scores[0], decoding.flags[0])
