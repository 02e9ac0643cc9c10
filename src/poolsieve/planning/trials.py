"""All ways to decide that are worth trying on recorded images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from poolsieve.planning.image_trials import cascade_trial, glance_trial, individual_trial
from poolsieve.planning.pool_trials import (
    DECODERS,
    adaptive_trial,
    dorfman_trial,
    oneshot_trial,
    two_sizes_trial,
)
from poolsieve.planning.trial import Trial
from poolsieve.recordings import PoolRecording, Recordings


def all_trials(recordings: Recordings, prevalence: float, pool_sizes: tuple[int, ...]) -> Iterator[Trial]:
    """Every way to decide that is worth trying at a prevalence, the simplest first."""
    yield individual_trial(recordings)
    if recordings.heads is not None:
        yield cascade_trial(recordings, prevalence)
    if recordings.glances is not None:
        yield glance_trial(recordings, prevalence)
    for recording in recordings.pools:
        if recording.pool_size not in pool_sizes:
            continue
        if recording.everyone:
            yield dorfman_trial(recordings, recording, prevalence)
            for classes in range(1, min(recording.classes, recording.pool_size - 1) + 1):
                for decoder in DECODERS:
                    yield oneshot_trial(recordings, recording, prevalence, classes, decoder)
        for classes in range(1, min(recording.classes, recording.pool_size - 1) + 1):
            yield adaptive_trial(recordings, recording, prevalence, classes)
    for small, large in _pairs(recordings.pools, pool_sizes):
        for classes in range(1, min(small.classes, large.classes, small.pool_size - 1) + 1):
            yield two_sizes_trial(recordings, small, large, prevalence, classes)


def _pairs(
    pools: tuple[PoolRecording, ...], pool_sizes: tuple[int, ...]
) -> Iterator[tuple[PoolRecording, PoolRecording]]:
    """Recordings of smaller pools without what looks clear, each with those of larger ones that have it."""
    for small in pools:
        if not np.isfinite(small.band).all() or small.pool_size not in pool_sizes:
            continue
        for large in pools:
            larger = large.pool_size > small.pool_size and large.pool_size in pool_sizes
            if larger and large.band == (-np.inf, small.band[1]):
                yield small, large
