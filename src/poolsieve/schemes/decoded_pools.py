"""Pools and a decoder, in one round (paper, section "CS/GT Decoding Algorithms")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy

from poolsieve.bundles.config import BundleConfig
from poolsieve.bundles.recordings import PoolRecording
from poolsieve.decoders import BeliefPropagation, CountNoise, Decoder, Readings, parse_decoder
from poolsieve.decoders.binary_decoders import possibly_bad
from poolsieve.designs import Pooling
from poolsieve.parameters import Instance, Interval, parameter
from poolsieve.schemes.individual import Test
from poolsieve.schemes.plausibility import Surprise, find_surprise
from poolsieve.schemes.pool_stage import BalancedPools, PoolStage, RecordedPools, Values
from poolsieve.schemes.stages import Undecided, bounds_among, register_stage

NODE_LIMIT = 5000
"""Search nodes that an exact decoder may spend on a chunk, about half a second.

Readings that fit nothing would else be searched for hours; the best answer found by then is taken.
"""

DOUBTFUL = 0.01
"""Posterior from which an image of a chunk with surprising readings is tested individually."""


PLANNED_DECODERS = ("ncomp", "classo", "bp")
"""Decoders that plans are made with, the simplest first; COMP is NCOMP at its largest t.

MIP reads what CLasso reads and takes fifty times as long where many are bad, as in recorded chunks.
"""


@register_stage("decoded_pools")
@dataclass(frozen=True)
class DecodedPools(BalancedPools):
    """A balanced design and any decoder; no image is tested again.

    The defaults are the paper's: 50 pools of 8 for 100 images, every image in 4, and MIP.

    Where a chunk's counts are improbable at the stated prevalence or beyond what the pools can tell apart,
    belief propagation decodes it with its own estimated prevalence. Every image that is not clear by that,
    or that is in no pool which was read as clean, is tested individually: with such pool-mates no image is
    flagged on the word of pools. Images that are too few for pools are tested as well.

    Attributes:
        pools_per_image: Pools that every image is in.
        threshold: Score of an individual test above which an image is flagged; with the decoder bp also the
            posterior above which it is, unless the text of the decoder gives one.
        decoder: A decoder in its text form: `mip`, `classo:penalty=0.3,threshold=0.2`, `bp`, or `bp-hard` to
            read counts alone; see `poolsieve.decoders.parse_decoder`.
    """

    decides: ClassVar = True

    pools_per_image: int = parameter(4, Interval(low=1, whole=True))
    threshold: float = parameter(0.5, Interval(low=0, high=1))
    decoder: str = parameter("mip", Instance(str))

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_decoder(self.decoder).decoder.check_weight(
            self.pools_per_image
        )  # complains of unknown names too

    def graphs(self, config: BundleConfig) -> list[str]:
        """Those of all pools; raises ValueError if the decoder needs counts and the networks do not count."""
        if config.readings == "binary" and parse_decoder(self.decoder).decoder.reads_counts:
            raise ValueError(
                f"{self.decoder} decodes counts, but this bundle's networks only tell whether a pool is "
                "clean; take comp, ncomp, bp or another scheme"
            )
        return super().graphs(config)

    def look(self, undecided: Undecided) -> None:
        """Decide by pools; test what they leave."""
        super().look(undecided)
        if undecided.open.any():
            Test(threshold=self.threshold).look(undecided)

    def _decide(self, undecided: Undecided, pooling: Pooling, readings: Readings) -> None:
        undecided.priors = undecided.posteriors()
        pooled = undecided.open & (pooling.image_weights > 0)
        undecided.record_pools(pooling, readings, tell_prevalence=True)
        noise = undecided.chunk.likelihoods.count_noise(pooling.pool_size)
        surprise = find_surprise(readings, pooling, noise, undecided.prevalence)
        if surprise is not None:
            self._clear_surely(undecided, pooling, readings, surprise)
            return
        with undecided.chunk.meter.time("decoding"):
            decoder, soft = self._decoder(noise)
            decoding = decoder.decode(readings if soft else readings.hard(), pooling, undecided.priors)
        undecided.pool_scores = decoding.scores[0]
        undecided.solved = bool(decoding.solved[0])
        if not undecided.solved:
            undecided.note = _stopped(self.decoder, decoder)
        undecided.decide(pooled, decoding.scores[0], decoding.flags[0], "pools")

    def values(self, readings: Readings, pooling: Pooling, priors: Values) -> Values:
        """The decoder's scores."""
        decoder, soft = self._decoder(None)
        return decoder.decode(readings if soft else readings.hard(), pooling, priors).scores

    @property
    def complexity(self) -> int:
        """By the place in `PLANNED_DECODERS`."""
        known = self._name in PLANNED_DECODERS
        return 3 + (PLANNED_DECODERS.index(self._name) if known else len(PLANNED_DECODERS))

    @property
    def _name(self) -> str:
        return self.decoder.partition(":")[0]

    @property
    def teller(self) -> PoolStage:
        """Belief propagation."""
        return replace(self, decoder="bp")

    def variants(self, recordings: Sequence[PoolRecording]) -> Iterator[PoolStage]:
        """With each of `PLANNED_DECODERS`; without those of counts where networks only tell clean pools."""
        counted = any(one.counts.max() > 1 for one in recordings)
        for decoder in PLANNED_DECODERS:  # the scores of NCOMP do not depend on t, whose bounds follow
            if counted or not parse_decoder(decoder).decoder.reads_counts:
                yield replace(self, decoder="ncomp:t=0" if decoder == "ncomp" else decoder)

    def offers(self, recordings: Sequence[PoolRecording], prevalence: float) -> Iterator[RecordedPools]:
        """Those of all images: nothing is left to a test."""
        return super().offers([one for one in recordings if one.everyone], prevalence)

    def scaled(self, values: Values) -> Values:
        """What each decoder compares with its bound."""
        if self._name == "ncomp":
            return np.rint(values * self.pools_per_image)  # positive pools of each image
        if self._name == "classo":
            return values.round(5)  # what is equal but for rounding stays together
        return super().scaled(values)

    def bounds(self, clear: Values) -> Values:
        """Numbers of positive pools, or thresholds."""
        if self._name == "ncomp":
            return np.arange(self.pools_per_image, dtype=np.float64) + 0.5
        bounds = bounds_among(clear, least=1e-4)
        return np.unique(np.clip(bounds, 1e-3, 1.0).round(5)) if self._name == "classo" else bounds

    def at(self, bound: float) -> dict[str, Any]:
        """The decoder with its parameter; decoders flag what lies above their threshold."""
        if self._name == "ncomp":
            return {"decoder": f"ncomp:t={int(bound)}"}
        if self._name == "classo":
            return {"decoder": f"classo:threshold={bound - 5e-6:.6f}"}
        return {"decoder": f"bp:threshold={float(scipy.special.expit(bound)) * (1 - 1e-9)}"}

    def _decoder(self, noise: CountNoise | None) -> tuple[Decoder, bool]:
        """The decoder, and whether it reads the likelihood of every count."""
        choice = parse_decoder(self.decoder)
        decoder = choice.decoder
        if "node_limit" in decoder.parameters and "node_limit" not in choice.fixed:
            decoder = decoder.replace(node_limit=NODE_LIMIT)
        if isinstance(decoder, BeliefPropagation) and "threshold" not in choice.fixed:
            decoder = decoder.replace(threshold=self.threshold)
        if decoder.uses_priors and not choice.soft and noise is not None:
            decoder = decoder.replace(noise=noise)
        return decoder, choice.soft

    def _clear_surely(
        self, undecided: Undecided, pooling: Pooling, readings: Readings, surprise: Surprise
    ) -> None:
        undecided.priors = np.full(len(undecided.chunk), surprise.prevalence)
        with undecided.chunk.meter.time("decoding"):
            posteriors = BeliefPropagation().decode(readings, pooling, undecided.priors).scores[0]
        # With so many bad images posteriors may be sure and wrong: a clear image is in a clean pool as well.
        doubtful = (posteriors >= DOUBTFUL) | possibly_bad(readings, pooling)[0]
        undecided.pool_scores = posteriors
        undecided.decide(undecided.open & ~doubtful, posteriors, False, "pools")
        undecided.follow_stand_ins()
        undecided.note = surprise.note(int(undecided.open.sum()))


def _stopped(name: str, decoder: Decoder) -> str:
    """What a record says where a decoder did not finish."""
    limit = decoder.parameters.get("node_limit")
    if limit is None:
        return f"{name} stopped before its answer had settled"
    return f"{name} stopped at its limit of {limit:,} nodes; a better answer may exist"
