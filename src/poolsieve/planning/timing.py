"""What the parts of a bundle cost on this machine, in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from poolsieve.bundles import MultiplyAdds
from poolsieve.engines.base import Engine

IMAGES = 16
ROUNDS = 3


def measured_price(engine: Engine) -> MultiplyAdds:
    """Nanoseconds for one image or pool in each part of the networks, in place of multiply-adds.

    The back is timed as it is in individual tests; merging a pool comes on top and is little beside it. Each
    part runs a few times after a first run that does not count, and the fastest time is taken.

    Args:
        engine: Ready to run the bundle.
    """
    size = engine.bundle.config.input_size
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

    return MultiplyAdds(
        front=nanoseconds(lambda: engine.front(pixels)),
        back=nanoseconds(lambda: engine.individual(features)),
        final=0,
        gate=nanoseconds(lambda: engine.head(features)),
        glance=0 if engine.bundle.config.glance is None else nanoseconds(lambda: engine.glance(pixels)),
    )
