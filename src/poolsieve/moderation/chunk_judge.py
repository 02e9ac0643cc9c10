"""Judging one chunk of images: what is seen of it, what is decided, and the records of that."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from poolsieve.images.reading import MAX_FRAMES
from poolsieve.images.sources import Item, Loaded
from poolsieve.images.views import ViewRequest, read_views
from poolsieve.moderation.chunk_pixels import ChunkPixels, LostImages, PreparedImage
from poolsieve.moderation.verdicts import PoolReading, Verdict
from poolsieve.schemes import Chunk, CostMeter, Decision, LikelihoodModel, Scheme, Test

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.schemes.runner import Networks

DIGITS = 6
"""Decimals of numbers in records; more would tell engines apart and mean nothing."""

_FRAMES_AT_ONCE = 100


class ChunkJudge:
    """Prepares images one by one, and judges them a chunk at a time. It keeps nothing of them.

    Args:
        bundle: What was trained.
        networks: An engine that runs it.
        seed: Seed of the order in which chunks are dealt into pools.
        frames: Frames that are looked at of an animation.
        small_views: Whether a stage may look at small views of images.
        threads: Threads that read images again which a stage needs to see larger.

    Attributes:
        view: What images are brought to.
    """

    def __init__(
        self,
        bundle: Bundle,
        networks: Networks,
        seed: int,
        frames: int = 1,
        *,
        small_views: bool = True,
        threads: int = 1,
    ) -> None:
        if not 1 <= frames <= MAX_FRAMES:
            raise ValueError(f"frames={frames}, but it must lie between 1 and {MAX_FRAMES}")
        self._bundle, self._networks, self._seed = bundle, networks, seed
        config = bundle.config
        shrink = config.small_shrink if small_views else 1
        self.view = ViewRequest(config.input_size, config.resize_mode, frames, shrink)
        self._threads = threads
        self._likelihoods = LikelihoodModel(bundle.calibration)

    def prepare(self, item: Item, data: Loaded, *, small: bool = False) -> PreparedImage:
        """Read one image. Any number of threads may.

        Args:
            item: The image.
            data: What it holds, if it was loaded already.
            small: Whether the first stage needs no more than a small view; what it is given then does not
                depend on this.
        """
        return PreparedImage.of(item.name, read_views(item, data, self.view, small=small))

    def judge(
        self, images: Sequence[PreparedImage], number: int, first: int, scheme: Scheme, meter: CostMeter
    ) -> tuple[tuple[Verdict, ...], Decision | None]:
        """Verdicts on a chunk, and the decision that they come from; None if no image could be read.

        Args:
            images: The chunk.
            number: Its number.
            first: Position of its first image.
            scheme: Decides.
            meter: Counts what is run.
        """
        with ThreadPoolExecutor(self._threads, thread_name_prefix="reading-again") as readers:
            return self._judge(list(images), number, first, scheme, meter, readers)

    def _judge(
        self,
        images: list[PreparedImage],
        number: int,
        first: int,
        scheme: Scheme,
        meter: CostMeter,
        readers: ThreadPoolExecutor,
    ) -> tuple[tuple[Verdict, ...], Decision | None]:
        places = np.array([k for k, image in enumerate(images) if image.pixels is not None], dtype=np.intp)
        verdicts = [self._error(image, first + k, number, scheme) for k, image in enumerate(images)]
        if not len(places):
            return tuple(verdicts), None
        chunk = Chunk(
            self._networks,
            self._likelihoods,
            meter,
            ChunkPixels([images[place] for place in places], self.view.size, readers),
            places,
            len(images),
            gated=self._bundle.config.merge == "gated",
            small_front=self._bundle.config.shrink > 1,
        )
        try:
            decision = scheme.decide(chunk, np.random.Generator(np.random.PCG64([self._seed, number])))
        except LostImages as lost:  # the others are decided as if these had never been readable
            meter.images -= len(chunk)
            for k, image in lost.images.items():
                images[places[k]] = image
            return self._judge(images, number, first, scheme, meter, readers)
        readings = _pool_readings(decision, first + places)
        for k, place in enumerate(places):
            verdicts[place] = Verdict(
                path=images[place].name,
                sha256=images[place].sha256,
                status="flagged" if decision.flags[k] else "clear",
                score=_rounded(decision.scores, k),
                decided_by=str(decision.decided_by[k]),
                reason=None,
                position=int(first + place),
                chunk=number,
                prior=_rounded(decision.priors, k),
                pool_score=_rounded(decision.pool_scores, k) if readings[k] else None,
                pools=readings[k],
                note=_note(decision, k, first + places),
                bundle=self._bundle.hash,
                scheme=str(scheme),
                seed=self._seed,
            )
        self._look_at_later_frames(images, verdicts, scheme, meter)
        return tuple(verdicts), decision

    def _look_at_later_frames(
        self, images: Sequence[PreparedImage], verdicts: list[Verdict], scheme: Scheme, meter: CostMeter
    ) -> None:
        """Flag what is clear by its first frame if another frame is flagged by a test of its own."""
        later = [
            (place, number, pixels)
            for place, image in enumerate(images)
            if verdicts[place].status == "clear"
            for number, pixels in enumerate(image.later, 2)
        ]
        for start in range(0, len(later), _FRAMES_AT_ONCE):
            some = later[start : start + _FRAMES_AT_ONCE]
            frames = np.stack([pixels for _, _, pixels in some])
            chunk = Chunk(
                *(self._networks, self._likelihoods, meter, frames, np.arange(len(some)), len(some)),
                gated=False,
            )
            alone = Scheme((Test(threshold=scheme.threshold),))
            decision = alone.decide(chunk, np.random.default_rng(0))
            for k, (place, number, _) in enumerate(some):
                score = _rounded(decision.scores, k)
                before = verdicts[place]
                worse = before.status == "clear" or (score or 0.0) > (before.score or 0.0)
                if decision.flags[k] and worse:
                    shown = f"flagged by frame {number} of {len(images[place].later) + 1} that were looked at"
                    verdicts[place] = replace(
                        before, status="flagged", score=score, decided_by="individual", note=shown
                    )

    def _error(self, image: PreparedImage, position: int, number: int, scheme: Scheme) -> Verdict:
        return Verdict(
            path=image.name,
            sha256=image.sha256,
            status="not_image" if image.not_image else "error",
            score=None,
            decided_by=None,
            reason=image.reason,
            position=position,
            chunk=number,
            prior=None,
            pool_score=None,
            pools=(),
            note=None,
            bundle=self._bundle.hash,
            scheme=str(scheme),
            seed=self._seed,
        )


def _pool_readings(decision: Decision, positions: NDArray[np.intp]) -> list[tuple[PoolReading, ...]]:
    """The pools of each readable image, whose positions in the source are given."""
    pooling, readings = decision.pooling, decision.readings
    if pooling is None or readings is None or readings.log_likelihoods is None:
        return [()] * len(positions)
    pools = []
    for q, size in enumerate(pooling.pool_sizes):
        probabilities = softmax(readings.log_likelihoods[0, q, : size + 1].astype(np.float64))
        pools.append(
            PoolReading(
                number=q,
                members=tuple(int(positions[j]) for j in pooling.pools[q, :size]),
                count=int(readings.counts[0, q]),
                probabilities=tuple(round(float(value), DIGITS) for value in probabilities),
            )
        )
    return [tuple(pools[q] for q in of_image if q >= 0) for of_image in pooling.pools_of]


def _note(decision: Decision, k: int, positions: NDArray[np.intp]) -> str | None:
    if decision.judged_with is None or decision.judged_with[k] == k:
        return decision.note
    other = positions[decision.judged_with[k]]
    return f"looks like the image at position {other}, and was judged with it"


def _rounded(values: NDArray[np.float64] | None, k: int) -> float | None:
    return None if values is None else round(float(values[k]), DIGITS)
