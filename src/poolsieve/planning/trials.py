"""All ways to decide that are worth trying on recorded images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from poolsieve.planning.head_comparison import beats_head
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


def all_trials(
    recordings: Recordings, prevalence: float, pool_sizes: tuple[int, ...]
) -> tuple[list[Trial], list[str]]:
    """Every way to decide that is worth trying at a prevalence, the simplest first, and what is not.

    Pools that tell no more than the head alone are not tried: by luck they might look cheaper.
    """
    found = [individual_trial(recordings)]
    if recordings.heads is not None:
        found.append(cascade_trial(recordings, prevalence))
    if recordings.glances is not None:
        found.append(glance_trial(recordings, prevalence))
    useless: dict[int, bool] = {}
    for recording in recordings.pools:
        if recording.pool_size not in pool_sizes:
            continue
        ways = list(_pool_trials(recordings, recording, prevalence))
        found += ways
        useless[recording.pool_size] = useless.get(recording.pool_size, True) and not ways
    for small, large in _pairs(recordings.pools, pool_sizes):
        for classes in range(1, min(small.classes, large.classes, small.pool_size - 1) + 1):
            trial = two_sizes_trial(recordings, small, large, prevalence, classes)
            found += [trial] if beats_head(trial, recordings) else []
    rival = "chance" if recordings.heads is None else "the head alone"
    left_out = [
        f"pools of {size} were not tried: they tell bad images from clear ones no better than {rival}"
        for size, none in useless.items()
        if none
    ]
    return found, left_out


def _pool_trials(recordings: Recordings, recording: PoolRecording, prevalence: float) -> Iterator[Trial]:
    """All ways to decide by one recording of pools that tell more than the head."""
    most = min(recording.classes, recording.pool_size - 1)
    if recording.everyone:
        for classes in range(1, most + 1):
            soft = oneshot_trial(recordings, recording, prevalence, classes, "bp")
            if not beats_head(soft, recordings):
                continue
            if classes == 1:
                yield dorfman_trial(recordings, recording, prevalence)
            for decoder in DECODERS:
                if decoder == "bp":
                    yield soft
                else:
                    yield oneshot_trial(recordings, recording, prevalence, classes, decoder)
    for classes in range(1, most + 1):
        trial = adaptive_trial(recordings, recording, prevalence, classes)
        if beats_head(trial, recordings):
            yield trial


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
