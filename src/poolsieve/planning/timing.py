"""What the parts of a bundle cost on this machine, in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from poolsieve.bundles import MultiplyAdds
from poolsieve.engines.engine import Engine

IMAGES = 16
ROUNDS = 3


def measured_price(engine: Engine) -> MultiplyAdds:
    """Nanoseconds for one image or pool in each part of the networks, in place of multiply-adds.

    The back is timed as it is in individual tests, or else in pools of one; merging a pool comes on top and
    is little beside it. Each part runs a few times after a first run that does not count, and the fastest
    time is taken.

    Args:
        engine: Ready to run the bundle.
    """
    config = engine.bundle.config
    size, joined = config.input_size, config.joined
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, 3), dtype=np.uint8)
    features = engine.front(pixels).features

    def nanoseconds(part: Callable[[], object]) -> int:
        part()
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter_ns()
            part()
            times.append(time.perf_counter_ns() - begin)
        return max(1, min(times) // IMAGES)

    gate = engine.head(features).gate if config.merge == "gated" else None
    alone = np.arange(IMAGES)[:, None]

    def back() -> object:
        return engine.pooled(features, gate, alone, max(config.pool_sizes))

    glanced_at = features if joined else pixels
    return MultiplyAdds(
        front=nanoseconds(lambda: engine.front(pixels)),
        back=nanoseconds(back if joined else lambda: engine.individual(features)),
        final=0,
        gate=nanoseconds(lambda: engine.head(features)),
        glance=0 if config.glance is None else nanoseconds(lambda: engine.glance(glanced_at)),
        individual=nanoseconds(lambda: engine.individual(pixels)) if joined else 0,
        pooled=nanoseconds(back) if config.merge == "tree" else 0,  # its empty places cost as much as others
    )
