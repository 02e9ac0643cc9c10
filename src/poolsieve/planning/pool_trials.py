"""Ways to decide by pools, tried on recorded pools."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit, logit

from poolsieve.decoders import BeliefPropagation, Readings, parse_decoder
from poolsieve.planning.trial import Trial, bounds_for
from poolsieve.recordings import PoolRecording, Recordings

MOST_MATES = 5
"""Images with so many bad pool-mates or more are taken together."""
DECODERS = ("ncomp", "classo", "bp")
"""Decoders of one-shot pools that are tried, the simplest first; COMP is NCOMP at its largest t.

MIP reads what CLasso reads and takes fifty times as long where many are bad, as in recorded chunks.
"""


def dorfman_trial(recordings: Recordings, recording: PoolRecording, prevalence: float) -> Trial:
    """Disjoint pools, and every image of a positive one tested."""
    layout = recording.layout.first(1)
    positive = (recording.counts[:, 0] > 0).astype(np.float64)  # (chunks, pools)
    values = np.zeros(recording.images.shape)
    values[:, layout.pooling.pools.ravel()] = np.repeat(positive, recording.pool_size, axis=1)
    return _pool_trial(
        recordings, recording, prevalence, 1, "dorfman", None, values, np.array([0.5]), complexity=2
    )


def oneshot_trial(
    recordings: Recordings, recording: PoolRecording, prevalence: float, classes: int, decoder: str
) -> Trial:
    """Pools alone decide, by one of `DECODERS`."""
    if decoder == "bp":
        values = _posteriors(recording, classes, np.full(recording.images.shape, logit(prevalence)))
        bounds = bounds_for(values[~recordings.bad[recording.images]], least=1e-4)
    else:
        counts = Readings(recording.counts[:, :classes].reshape(len(recording.counts), -1).astype(np.int64))
        pooling = recording.layout.first(classes).pooling
        scores = parse_decoder(decoder).decoder.decode(counts, pooling, prevalence).scores
        if decoder == "ncomp":
            values = np.rint(scores * classes).astype(np.float64)  # positive pools of each image
            bounds = np.arange(classes, dtype=np.float64) + 0.5
        else:
            values = scores.astype(np.float64).round(5)  # what is equal but for rounding stays together
            bounds = bounds_for(values[~recordings.bad[recording.images]], least=1e-4)
            bounds = np.unique(np.clip(bounds, 1e-3, 1.0).round(5))
    return _pool_trial(
        recordings,
        recording,
        prevalence,
        classes,
        "oneshot",
        "t" if decoder == "ncomp" else "threshold",
        values,
        bounds,
        tests=False,
        complexity=3 + DECODERS.index(decoder),
        decoder=decoder,
    )


def adaptive_trial(
    recordings: Recordings, recording: PoolRecording, prevalence: float, classes: int
) -> Trial:
    """Head, pools, and a test of its own for whoever is left."""
    priors = np.full(recording.images.shape, logit(prevalence))
    if recordings.heads is not None:
        priors = priors + recordings.heads[recording.images]
    values = _posteriors(recording, classes, priors)
    clear = values[~recordings.bad[recording.images]]
    return _pool_trial(
        recordings,
        recording,
        prevalence,
        classes,
        "adaptive",
        "retest_above",
        values,
        bounds_for(clear),
        complexity=3 + len(DECODERS) + int(np.isfinite(recording.band).sum()),
    )


def two_sizes_trial(
    recordings: Recordings, small: PoolRecording, large: PoolRecording, prevalence: float, classes: int
) -> Trial:
    """As `adaptive_trial`, but what looks clear to the head shares larger pools among itself.

    Tries of such images are those of the recording of larger pools in which others took part as well: where
    all look clear, there are fewer bad pool-mates, which the weights account for.
    """
    assert recordings.heads is not None
    floor, cut = small.band
    tiers = (recordings.heads < floor).astype(np.intp)
    parts = [adaptive_trial(recordings, recording, prevalence, classes) for recording in (small, large)]
    kept = [tiers[part.images] == tier for tier, part in enumerate(parts)]
    images, values, groups = (
        np.concatenate([getattr(part, name)[keep] for part, keep in zip(parts, kept, strict=True)])
        for name in ("images", "values", "groups")
    )
    bad, at_once = recordings.bad, recordings.heads >= cut
    shares = []
    for tier, recording in enumerate((small, large)):
        inside = (tiers == tier) & ~at_once
        left_bad, left_clear = prevalence * inside[bad].mean(), (1 - prevalence) * inside[~bad].mean()
        shares.append(_mate_shares(classes * (recording.pool_size - 1), left_bad / (left_bad + left_clear)))
    taking_part = np.where(tiers == 1, classes / large.pool_size, classes / small.pool_size)
    return Trial(
        "adaptive",
        {
            **{"prevalence": prevalence, "pool_size": small.pool_size, "pools_per_image": classes},
            "test_above": float(expit(cut + logit(prevalence))),
            "large_below": float(expit(floor + logit(prevalence))),
            "large_pool_size": large.pool_size,
        },
        "retest_above",
        images,
        values,
        groups,
        np.stack(shares),
        at_once,
        np.zeros(len(bad), dtype=bool),
        pools=np.where(at_once, 0.0, taking_part),
        head=True,
        tests=True,
        bounds=bounds_for(values[~bad[images]]),
        complexity=6 + len(DECODERS),
        tiers=tiers,
    )


def _posteriors(
    recording: PoolRecording, classes: int, prior_log_odds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log-odds of every place by belief propagation over the first classes.  # (chunks, n)."""
    table = recording.likelihoods[:, :classes].astype(np.float64)
    readings = Readings.soft(table.reshape(len(table), -1, table.shape[-1]))
    pooling = recording.layout.first(classes).pooling
    posteriors = BeliefPropagation().decode(readings, pooling, expit(prior_log_odds)).scores
    result: NDArray[np.float64] = logit(np.clip(posteriors, 1e-15, 1 - 1e-15))
    return result


def _pool_trial(
    recordings: Recordings,
    recording: PoolRecording,
    prevalence: float,
    classes: int,
    scheme: str,
    bound_name: str | None,
    values: NDArray[np.float64],
    bounds: NDArray[np.float64],
    *,
    tests: bool = True,
    complexity: int,
    decoder: str | None = None,
) -> Trial:
    at_once, cleared = np.zeros((2, len(recordings.bad)), dtype=bool)
    parameters: dict[str, Any] = {"prevalence": prevalence, "pool_size": recording.pool_size}
    if scheme != "dorfman":
        parameters["pools_per_image"] = classes
    if scheme == "adaptive" and not recording.everyone:
        assert recordings.heads is not None
        floor, cut = recording.band
        at_once, cleared = recordings.heads >= cut, recordings.heads < floor
        parameters["test_above"] = float(expit(cut + logit(prevalence)))
        if np.isfinite(floor):
            parameters["clear_below"] = float(expit(floor + logit(prevalence)))
    bad, pooled = recordings.bad, ~at_once & ~cleared
    mates = _bad_mates(bad[recording.images], recording, classes)
    left_bad, left_clear = pooled[bad].mean(), pooled[~bad].mean()
    among_pooled = prevalence * left_bad / (prevalence * left_bad + (1 - prevalence) * left_clear)
    return Trial(
        scheme,
        parameters,
        bound_name,
        recording.images.ravel().astype(np.intp),
        values.ravel(),
        mates.ravel(),
        _mate_shares(classes * (recording.pool_size - 1), float(among_pooled))[None],
        at_once,
        cleared,
        pools=np.where(pooled, classes / recording.pool_size, 0.0),
        head=True,
        tests=tests,
        bounds=bounds,
        complexity=complexity,
        decoder=decoder,
    )


def _bad_mates(bad: NDArray[np.bool_], recording: PoolRecording, classes: int) -> NDArray[np.intp]:
    """How many bad images each image shares its pools with, at most `MOST_MATES`.  # (chunks, n)."""
    pooling = recording.layout.first(classes).pooling
    counts = pooling.counts(bad)  # (chunks, m)
    mates = counts[:, pooling.pools_of].sum(axis=2) - classes * bad
    return np.minimum(mates, MOST_MATES)


def _mate_shares(mates: int, prevalence: float) -> NDArray[np.float64]:
    """P(so many of the mates are bad), the last entry for all from there on.  # (MOST_MATES + 1,)."""
    number = np.arange(MOST_MATES)
    exact = comb(mates, number) * prevalence**number * (1 - prevalence) ** (mates - number)
    return np.append(exact, max(1 - exact.sum(), 0.0))
