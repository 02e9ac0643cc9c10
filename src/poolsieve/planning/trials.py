"""Trying ways to decide on recorded images, with their thresholds left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit, logit

from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.recordings import PoolRecording, Recordings

MOST_MATES = 5
"""Images with so many bad pool-mates or more are taken together."""
_FEWEST = 25
"""Recorded images of a kind below which the next kind stands in for it."""


@dataclass(frozen=True)
class Trial:
    """One way to decide, tried on recorded images; a bound on `values` is left to choose.

    An image may have been tried many times, or never if it is tested at once. Recorded chunks hold more bad
    images than real ones, so tries are weighted: by how many bad images the image shared its pools with, and
    how often that happens at the prevalence.

    Attributes:
        scheme: Name of the scheme.
        parameters: Its parameters, except those that the bound and the individual threshold give.
        bound_name: The parameter that the bound is.
        images: Which image each try is of.  # (tries,)
        values: Log-odds of being bad; images from the bound on are tested individually.  # (tries,)
        groups: Bad pool-mates, at most `MOST_MATES`.  # (tries,)
        shares: How often images of each tier have so many at the prevalence, sum 1.  # (tiers, groups)
        at_once: Images that are tested before any pool.  # (images,)
        cleared: Images that are cleared before any pool.  # (images,)
        pools: What each image takes part in pools for, as a share of a pool; 0 where it is tested or cleared
            at once.  # (images,)
        head: Whether the cheap head is run.
        glance: Whether a glance comes first, so that only tested images have a front.
        tests: Whether the individual network decides; else images from the bound on are flagged.
        bounds: The bounds to choose from, ascending.
        complexity: For ties; the simpler the lower.
    """

    scheme: str
    parameters: dict[str, Any]
    bound_name: str | None
    images: NDArray[np.intp]
    values: NDArray[np.float64]
    groups: NDArray[np.intp]
    shares: NDArray[np.float64]
    at_once: NDArray[np.bool_]
    cleared: NDArray[np.bool_]
    pools: NDArray[np.float64]
    head: bool
    tests: bool
    bounds: NDArray[np.float64]
    complexity: int = field(default=0)
    glance: bool = False
    tiers: NDArray[np.intp] | None = None

    def weights(self, bad: NDArray[np.bool_], among: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Weight of each try, so that those of bad and those of clear images sum to the pooled share of each.

        Args:
            bad: The truth.  # (images,)
            among: Images that count.  # (images,)
        """
        weights = np.zeros(len(self.images))
        tiers = np.zeros(len(bad), dtype=np.intp) if self.tiers is None else self.tiers
        for kind in (bad & among, ~bad & among):
            for tier, shares in enumerate(self.shares):
                inside = kind & (tiers == tier)
                mine = inside[self.images]
                pooled = (inside & ~self.at_once & ~self.cleared).sum() / max(kind.sum(), 1)
                kinds = self._merged_groups(mine)
                for group in np.unique(kinds):
                    here = mine & (kinds[self.groups] == group)
                    share = shares[kinds == group].sum()
                    weights[here] = pooled * share / max(here.sum(), 1)  # no try where no image was pooled
        return weights

    def _merged_groups(self, mine: NDArray[np.bool_]) -> NDArray[np.intp]:
        """For each group itself, or the one below it that stands in for it as it has too few tries."""
        groups = self.shares.shape[1]
        numbers = np.bincount(self.groups[mine], minlength=groups)
        kinds = np.arange(groups)
        enough = np.flatnonzero(numbers >= min(_FEWEST, numbers.max()))
        for group in range(groups):
            below = enough[enough <= group]
            kinds[group] = below[-1] if len(below) else enough[0]
        return kinds


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
            # A single pool cannot tell its images apart: pools that decide alone need at least two.
            for classes in range(2, min(recording.classes, recording.pool_size - 1) + 1):
                yield oneshot_trial(recordings, recording, prevalence, classes)
        for classes in range(1, min(recording.classes, recording.pool_size - 1) + 1):
            yield adaptive_trial(recordings, recording, prevalence, classes)
    for small, large in _pairs(recordings.pools, pool_sizes):
        for classes in range(1, min(small.classes, large.classes, small.pool_size - 1) + 1):
            yield two_sizes_trial(recordings, small, large, prevalence, classes)


def individual_trial(recordings: Recordings) -> Trial:
    """Every image tested."""
    return _image_trial(
        recordings, "individual", {}, None, np.zeros(len(recordings.bad)), np.zeros(1), head=False
    )


def cascade_trial(recordings: Recordings, prevalence: float) -> Trial:
    """The head clears images, the individual network decides about the rest."""
    assert recordings.heads is not None
    values = recordings.heads + logit(prevalence)
    return _image_trial(
        recordings,
        "cascade",
        {"prevalence": prevalence},
        "clear_below",
        values,
        _bounds(values[~recordings.bad]),
        head=True,
    )


def glance_trial(recordings: Recordings, prevalence: float) -> Trial:
    """A glance clears images, the whole network decides about the rest."""
    assert recordings.glances is not None
    values = recordings.glances + logit(prevalence)
    parameters = {"prevalence": prevalence}
    bounds = _bounds(values[~recordings.bad])
    trial = _image_trial(recordings, "glance", parameters, "clear_below", values, bounds, head=False)
    return replace(trial, glance=True)


def _image_trial(
    recordings: Recordings,
    scheme: str,
    parameters: dict[str, Any],
    bound_name: str | None,
    values: NDArray[np.float64],
    bounds: NDArray[np.float64],
    *,
    head: bool,
) -> Trial:
    number = len(recordings.bad)
    return Trial(
        scheme,
        parameters,
        bound_name,
        np.arange(number),
        values.astype(np.float64),
        np.zeros(number, dtype=np.intp),
        np.ones((1, 1)),
        np.zeros(number, dtype=bool),
        np.zeros(number, dtype=bool),
        pools=np.zeros(number),
        head=head,
        tests=True,
        bounds=bounds,
        complexity=0 if scheme == "individual" else 1,
    )


def dorfman_trial(recordings: Recordings, recording: PoolRecording, prevalence: float) -> Trial:
    """Disjoint pools, and every image of a positive one tested."""
    layout = recording.layout.first(1)
    positive = (recording.counts[:, 0] > 0).astype(np.float64)  # (chunks, pools)
    values = np.zeros(recording.images.shape)
    values[:, layout.pooling.pools.ravel()] = np.repeat(positive, recording.pool_size, axis=1)
    return _pool_trial(
        recordings, recording, prevalence, 1, "dorfman", None, values, np.array([0.5]), complexity=2
    )


def oneshot_trial(recordings: Recordings, recording: PoolRecording, prevalence: float, classes: int) -> Trial:
    """Pools alone decide, by their posteriors."""
    priors = np.full(recording.images.shape, logit(prevalence))
    values = _posteriors(recording, classes, priors)
    clear = values[~recordings.bad[recording.images]]
    return _pool_trial(
        recordings,
        recording,
        prevalence,
        classes,
        "oneshot",
        "threshold",
        values,
        _bounds(clear, least=1e-4),
        tests=False,
        complexity=3,
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
        _bounds(clear),
        complexity=4 + int(np.isfinite(recording.band).sum()),
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
        bounds=_bounds(values[~bad[images]]),
        complexity=7,
        tiers=tiers,
    )


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
) -> Trial:
    at_once, cleared = np.zeros((2, len(recordings.bad)), dtype=bool)
    parameters: dict[str, Any] = {"prevalence": prevalence, "pool_size": recording.pool_size}
    if scheme != "dorfman":
        parameters["pools_per_image"] = classes
    if scheme == "oneshot":
        parameters["decoder"] = "bp"
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


def _bounds(clear: NDArray[np.float64], least: float = 0.002) -> NDArray[np.float64]:
    """Bounds that leave from most to `least` of the clear images above them, or none."""
    return np.unique(np.append(np.quantile(clear, 1 - np.geomspace(0.9, least, 80)), clear.max() + 1e-3))
