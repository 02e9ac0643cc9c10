"""Threads may share an engine: its graphs and the memory of its outputs are used by one at a time."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from poolsieve.engines.buffers import Buffers
from poolsieve.engines.engine import Engine

THREADS = 8


class Inside:
    """Notices whether two threads are in it at once."""

    def __init__(self):
        self.free, self.together = threading.Lock(), False

    def __enter__(self):
        self.entered = self.free.acquire(blocking=False)
        self.together |= not self.entered
        threading.Event().wait(0.001)  # others may come now

    def __exit__(self, *_):
        if self.free.locked():
            self.free.release()


class WatchedBuffers(Buffers):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def empty(self, shape, dtype):
        with self.inside:
            return super().empty(shape, dtype)


class WatchedEngine(Engine):
    """Gives the sum of each image in all its outputs."""

    name = "watched"

    def __init__(self, bundle):
        super().__init__(bundle)
        self.compiling, self.running, self.giving = Inside(), Inside(), Inside()
        self._buffers = WatchedBuffers(self.giving)
        self.compiled = []

    def _compile(self, file):
        with self.compiling:
            self.compiled.append(file)

        def run(batches, outputs):
            with self.running:
                for rows, batch in batches:
                    for output in outputs:
                        output[rows] = batch.sum(axis=(1, 2, 3)).reshape(-1, *[1] * (output.ndim - 1))

        return run


def test_graphs_and_memory_are_used_by_one_thread_at_a_time(made):
    bundle = made("tiny-gated").bundle
    engine, size = WatchedEngine(bundle), bundle.config.input_size
    rows = (1 << 20) // (
        4 * math.prod(bundle.config.feature_shape)
    ) + 1  # enough for memory that is used again

    def wrong(thread):
        images = np.zeros((rows, size, size, 3), dtype=np.uint8)
        images[:, 0, 0, 0] = thread
        return [k for k in range(5) if (engine.front(images).features != thread).any()]

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(wrong, range(THREADS))) == [[]] * THREADS
    assert not engine.running.together
    assert not engine.giving.together
    assert not engine.compiling.together
    assert len(engine.compiled) == 1
