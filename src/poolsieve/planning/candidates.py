"""All ways to decide that are worth considering, as they look on recorded images and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit, logit

from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.decoders import Readings
from poolsieve.planning.candidate import Candidate, bounds_for
from poolsieve.planning.head_comparison import beats_head
from poolsieve.schemes import Scheme, make_scheme
from poolsieve.schemes.cost_model import Price
from poolsieve.schemes.pool_stage import PoolStage

MOST_MATES = 5
"""Images with so many bad pool-mates or more are taken together."""
DECODERS = ("ncomp", "classo", "bp")
"""Decoders of one-shot pools that are considered, the simplest first; COMP is NCOMP at its largest t.

MIP reads what CLasso reads and takes fifty times as long where many are bad, as in recorded chunks.
"""


def all_candidates(
    recordings: Recordings, prevalence: float, pool_sizes: tuple[int, ...], price: Price, *, gated: bool
) -> tuple[list[Candidate], list[str]]:
    """Every way to decide that is worth considering at a prevalence, the simplest first, and what is not.

    Pools that tell no more than the head alone are no candidates: by luck they might look cheaper.
    """
    maker = _Maker(recordings, prevalence, pool_sizes, price, gated)
    found = [maker.individual()]
    for scheme, ratios in (("cascade", recordings.heads), ("glance", recordings.glances)):
        if ratios is not None:
            found.append(maker.look(scheme, ratios))
    useless: dict[int, bool] = {}
    for recording in recordings.pools:
        if recording.pool_size not in pool_sizes:
            continue
        ways = list(maker.pools(recording))
        found += ways
        useless[recording.pool_size] = useless.get(recording.pool_size, True) and not ways
    for small, large in _pairs(recordings.pools, pool_sizes):
        for classes in range(1, min(small.classes, large.classes, small.pool_size - 1) + 1):
            two_sizes = maker.two_sizes(small, large, classes)
            found += [two_sizes] if beats_head(two_sizes, recordings) else []
    rival = "chance" if recordings.heads is None else "the head alone"
    left_out = [
        f"pools of {size} were not tried: they tell bad images from clear ones no better than {rival}"
        for size, none in useless.items()
        if none
    ]
    return found, left_out


class _Maker:
    """Makes candidates from recordings at a prevalence."""

    def __init__(
        self,
        recordings: Recordings,
        prevalence: float,
        pool_sizes: tuple[int, ...],
        price: Price,
        gated: bool,
    ) -> None:
        self._recordings, self._prevalence, self._sizes = recordings, prevalence, pool_sizes
        self._price, self._gated = price, gated

    def individual(self) -> Candidate:
        """Every image tested."""
        return self._of_images("individual", {}, None, np.zeros(len(self._recordings.bad)), np.zeros(1))

    def look(self, scheme: str, ratios: NDArray[np.float32]) -> Candidate:
        """A cheap look clears images, the individual network decides about the rest."""
        values = ratios + logit(self._prevalence)
        bounds = bounds_for(values[~self._recordings.bad])
        return self._of_images(scheme, {"prevalence": self._prevalence}, "clear_below", values, bounds)

    def _of_images(
        self,
        scheme: str,
        parameters: dict[str, Any],
        bound_name: str | None,
        values: NDArray[np.floating],
        bounds: NDArray[np.float64],
    ) -> Candidate:
        number = len(self._recordings.bad)
        return Candidate(
            self._scheme(scheme, parameters),
            self._price,
            self._gated,
            parameters,
            bound_name,
            np.arange(number),
            values.astype(np.float64),
            np.zeros(number, dtype=np.intp),
            np.ones((1, 1)),
            np.zeros(number, dtype=bool),
            np.zeros(number, dtype=bool),
            pools=np.zeros(number),
            tests=True,
            bounds=bounds,
            complexity=0 if bound_name is None else 1,
        )

    def _scheme(self, name: str, parameters: dict[str, Any]) -> Scheme:
        headless = name == "adaptive" and self._recordings.heads is None
        return make_scheme(name, self._sizes, **parameters, use_head=False if headless else None)

    def pools(self, recording: PoolRecording) -> Iterator[Candidate]:
        """All ways to decide by one recording of pools that tell more than the head."""
        most = min(recording.classes, recording.pool_size - 1)
        for classes in range(1, most + 1) if recording.everyone else ():
            soft = self._oneshot(recording, classes, "bp")
            if not beats_head(soft, self._recordings):
                continue
            if classes == 1:
                yield self._pooled(recording, 1, "dorfman", None, bounds=np.array([0.5]), complexity=2)
            for decoder in DECODERS:
                if decoder == "classo" and recording.counts.max() <= 1:
                    continue  # the networks only tell whether a pool is clean
                yield soft if decoder == "bp" else self._oneshot(recording, classes, decoder)
        for classes in range(1, most + 1):
            adaptive = self._adaptive(recording, classes)
            if beats_head(adaptive, self._recordings):
                yield adaptive

    def _oneshot(self, recording: PoolRecording, classes: int, decoder: str) -> Candidate:
        """Pools alone decide, by one of `DECODERS`."""
        bound = "t" if decoder == "ncomp" else "threshold"
        complexity = 3 + DECODERS.index(decoder)
        return self._pooled(recording, classes, "oneshot", bound, decoder=decoder, complexity=complexity)

    def _adaptive(self, recording: PoolRecording, classes: int) -> Candidate:
        """Head, pools, and a test of its own for whoever is left."""
        complexity = 3 + len(DECODERS) + int(np.isfinite(recording.band).sum())
        return self._pooled(recording, classes, "adaptive", "retest_above", complexity=complexity)

    def _pooled(
        self,
        recording: PoolRecording,
        classes: int,
        scheme: str,
        bound_name: str | None,
        *,
        bounds: NDArray[np.float64] | None = None,
        complexity: int,
        decoder: str | None = None,
    ) -> Candidate:
        recordings, prevalence = self._recordings, self._prevalence
        bad = recordings.bad
        at_once, cleared = np.zeros((2, len(bad)), dtype=bool)
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
        text = (
            "ncomp:t=0" if decoder == "ncomp" else decoder
        )  # scores do not depend on t, whose bounds follow
        made = self._scheme(scheme, parameters | ({} if text is None else {"decoder": text}))
        values = self._values(made, recording, classes, use_head=scheme == "adaptive")
        if decoder == "ncomp":
            values = np.rint(values * classes)  # positive pools of each image
            bounds = np.arange(classes, dtype=np.float64) + 0.5
        elif decoder == "classo":
            values = values.round(5)  # what is equal but for rounding stays together
            bounds = bounds_for(values[~bad[recording.images]], least=1e-4)
            bounds = np.unique(np.clip(bounds, 1e-3, 1.0).round(5))
        elif bounds is None:  # posteriors
            values = logit(np.clip(values, 1e-15, 1 - 1e-15))
            least = {} if decoder is None else {"least": 1e-4}
            bounds = bounds_for(values[~bad[recording.images]], **least)
        pooled = ~at_once & ~cleared
        left_bad, left_clear = pooled[bad].mean(), pooled[~bad].mean()
        among_pooled = prevalence * left_bad / (prevalence * left_bad + (1 - prevalence) * left_clear)
        return Candidate(
            made,
            self._price,
            self._gated,
            parameters,
            bound_name,
            recording.images.ravel().astype(np.intp),
            values.ravel().astype(np.float64),
            _bad_mates(bad[recording.images], recording, classes).ravel(),
            _mate_shares(classes * (recording.pool_size - 1), float(among_pooled))[None],
            at_once,
            cleared,
            pools=np.where(pooled, classes / recording.pool_size, 0.0),
            tests=decoder is None,
            bounds=bounds,
            complexity=complexity,
            decoder=decoder,
        )

    def _values(
        self, scheme: Scheme, recording: PoolRecording, classes: int, *, use_head: bool
    ) -> NDArray[np.float64]:
        """What the stage with pools makes of recorded readings.  # (chunks, n)."""
        priors = np.full(recording.images.shape, logit(self._prevalence))
        if use_head and self._recordings.heads is not None:
            priors = priors + self._recordings.heads[recording.images]
        table = recording.likelihoods[:, :classes].astype(np.float64)
        counts = recording.counts[:, :classes].reshape(len(table), -1).astype(np.int64)
        readings = Readings(counts, table.reshape(len(table), -1, table.shape[-1]))
        stage = next(stage for stage in scheme.stages if isinstance(stage, PoolStage))
        return stage.values(readings, recording.layout.first(classes).pooling, expit(priors))

    def two_sizes(self, small: PoolRecording, large: PoolRecording, classes: int) -> Candidate:
        """Head and pools, where what looks clear to the head shares larger pools among itself.

        Samples of such images are those of the recording of larger pools in which others took part as well:
        where all look clear, there are fewer bad pool-mates, which the weights account for.
        """
        recordings, prevalence = self._recordings, self._prevalence
        assert recordings.heads is not None
        floor, cut = small.band
        tiers = (recordings.heads < floor).astype(np.intp)
        parts = [self._adaptive(recording, classes) for recording in (small, large)]
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
            mates = classes * (recording.pool_size - 1)
            shares.append(_mate_shares(mates, left_bad / (left_bad + left_clear)))
        taking_part = np.where(tiers == 1, classes / large.pool_size, classes / small.pool_size)
        parameters = {
            **{"prevalence": prevalence, "pool_size": small.pool_size, "pools_per_image": classes},
            "test_above": float(expit(cut + logit(prevalence))),
            "large_below": float(expit(floor + logit(prevalence))),
            "large_pool_size": large.pool_size,
        }
        return Candidate(
            self._scheme("adaptive", parameters),
            self._price,
            self._gated,
            parameters,
            "retest_above",
            images,
            values,
            groups,
            np.stack(shares),
            at_once,
            np.zeros(len(bad), dtype=bool),
            pools=np.where(at_once, 0.0, taking_part),
            tests=True,
            bounds=bounds_for(values[~bad[images]]),
            complexity=6 + len(DECODERS),
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
