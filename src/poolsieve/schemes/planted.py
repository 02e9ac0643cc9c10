"""Networks that see the truth: an image is bad if its first pixel is bright.

They stand in for a bundle and its engine where it must be known exactly what is right and what it costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.bundles.config import FORMAT_VERSION, BundleConfig, GlanceRecord, MultiplyAdds
from poolsieve.calibration import Calibration, CountingCalibration, OutputScaling, RocCurve
from poolsieve.engines.engine import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.network_forms import Merge
from poolsieve.schemes.runner import Features

SIDE = 8
"""Height and width of images."""
COST = MultiplyAdds(front=220, back=770, final=10, gate=10, glance=200)
JOINED_COST = MultiplyAdds(front=55, back=190, final=10, gate=3, glance=200, individual=1000)
"""Where the individual network looks at images itself."""
ROC = RocCurve((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), 1.0)


def planted_pixels(bad: ArrayLike, serial: ArrayLike | None = None) -> NDArray[np.uint8]:
    """Images with planted truth.  # (n,) -> (n, S, S, 3).

    Args:
        bad: Which of them are bad.  # (n,)
        serial: Their second channel, to tell them apart; by default they are counted.  # (n,)
    """
    flags = np.asarray(bad, dtype=bool)
    pixels = np.zeros((len(flags), SIDE, SIDE, 3), dtype=np.uint8)
    pixels[..., 0] = np.where(flags, 255, 0)[:, None, None]
    pixels[..., 1] = (np.arange(len(flags)) if serial is None else np.asarray(serial))[:, None, None] % 256
    return pixels


def flat_scaling(outputs: int) -> OutputScaling:
    """Takes logits as they are."""
    return OutputScaling(1.0, (0.0,) * outputs, (1 / outputs,) * outputs)


def planted_calibration(pool_sizes: Sequence[int], *, head: bool = True) -> Calibration:
    """Of networks that are right.

    Args:
        pool_sizes: Sizes that there are counting networks for.
        head: Whether head and glance are calibrated.
    """
    counting = {
        size: CountingCalibration(flat_scaling(size + 1), tuple(map(tuple, np.eye(size + 1, dtype=int))))
        for size in pool_sizes
    }
    looks = flat_scaling(2) if head else None
    return Calibration(flat_scaling(2), ROC, looks, ROC, counting, looks, ROC)


def planted_config(pool_sizes: Sequence[int], merge: Merge) -> BundleConfig:
    """What a bundle of these networks would say of itself."""
    return BundleConfig(
        format_version=FORMAT_VERSION,
        task="planted",
        kind="classification",
        backbone="planted",
        cut="front",
        merge=merge,
        input_size=SIDE,
        resize_mode="stretch",
        mean=(0.0, 0.0, 0.0),
        scale=(1.0, 1.0, 1.0),
        feature_shape=(3, 1, 1),
        feature_width=3,
        gate_width=1,
        pool_sizes=tuple(pool_sizes),
        precision="fp32",
        cost=COST,
        training_prior={size: (1 / (size + 1),) * (size + 1) for size in pool_sizes},
        files={},
        versions={},
        glance=GlanceRecord(shrink=2, stop=None),
        counting="separate",
        tallies=0,
        training_shapes=None,
    )


class PlantedNetworks:
    """Perfect networks with adjustable confidence; they count what they are asked for.

    Args:
        confidence: Logit of the individual network's answer.
        count_confidence: Logit of the right count over all others.
        head_confidence: Logit of the head's answer, and the glance's.
        doubts: Head and glance cannot tell of every so many-th image (by its second channel); 0 for none.

    Attributes:
        rows: Images or pools that each network was asked about, by its name.
    """

    name = "planted"

    def __init__(
        self,
        *,
        confidence: float = 10.0,
        count_confidence: float = 12.0,
        head_confidence: float = 4.0,
        doubts: int = 0,
    ) -> None:
        self.confidence, self.count_confidence = confidence, count_confidence
        self.head_confidence, self.doubts = head_confidence, doubts
        self.rows: Counter[str] = Counter(glance=0, front=0, head=0, individual=0, pooled=0)

    def looks_bad(self, images: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """What all but the individual network take for bad; here that is the truth.  # (N,)."""
        return is_bad(images)

    def _first_looks(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        told = images[:, 0, 0, 1] % self.doubts > 0 if self.doubts else np.ones(len(images), dtype=bool)
        return np.where(told, self.head_confidence * (2.0 * self.looks_bad(images) - 1), 0).astype(np.float32)

    def glance(self, images: NDArray[np.uint8] | Features) -> NDArray[np.float32]:
        """Logits of images at a glance, by their pixels or front features."""
        self.rows["glance"] += len(images)
        if images.dtype == np.uint8:
            return self._first_looks(cast(NDArray[np.uint8], images))
        return cast(Features, images)[:, 2, 0, 0].copy()

    def front(self, images: NDArray[np.uint8]) -> FrontFeatures:
        """Whether images are bad, whether they look so, and what the head says."""
        assert images.dtype == np.uint8 and images.shape[1:] == (SIDE, SIDE, 3), "the front takes images"
        self.rows["front"] += len(images)
        seen = is_bad(images), self.looks_bad(images), self._first_looks(images)
        return FrontFeatures(np.stack(seen, axis=1, dtype=np.float32)[:, :, None, None])

    def head(self, features: Features) -> HeadOutput:
        """Gates that are open, and logits of images."""
        self.rows["head"] += len(features)
        return HeadOutput(np.ones((len(features), 1, 1, 1), dtype=np.float32), features[:, 2, 0, 0].copy())

    def individual(self, features: Features | NDArray[np.uint8]) -> NetworkOutput:
        """Logits (clear, bad) of images, by their front features or pixels."""
        self.rows["individual"] += len(features)
        looked_at = features.dtype == np.uint8
        bad = is_bad(cast(NDArray[np.uint8], features)) if looked_at else features[:, 0, 0, 0]
        signed = self.confidence * (2.0 * bad - 1) / 2
        vectors = np.zeros((len(features), 3), dtype=np.float32)
        return NetworkOutput(np.stack([-signed, signed], axis=1).astype(np.float32), vectors)

    def pooled(
        self, features: Features, gate: Features | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """Logits of the counts of pools."""
        self.rows["pooled"] += len(pools)
        assert pools.max() < len(features), "pools name images that there are features of"
        seen = np.append(features[:, 1, 0, 0], 0)  # −1 finds the zero
        counts = seen[pools].sum(axis=1).astype(int)
        logits = (self.count_confidence * np.eye(pool_size + 1)[counts]).astype(np.float32)
        return NetworkOutput(logits, np.zeros((len(pools), 1), dtype=np.float32))


def is_bad(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """The truth.  # (N, S, S, 3) -> (N,)."""
    return images[:, 0, 0, 0] > 127
