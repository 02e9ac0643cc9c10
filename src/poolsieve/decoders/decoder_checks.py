"""A conformance suite that any decoder can run, in the manner of scikit-learn's estimator checks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poolsieve.decoders.decoder import Decoder, Decoding
from poolsieve.decoders.noise import NOMINAL_ACCURACY, LatentNoise
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling, balanced_design, random_design

PREVALENCE = 0.05


def check_decoder(decoder: Decoder) -> None:
    """Check that a decoder keeps the contract that the rest of poolsieve relies on.

    Checks shapes and types, that scores and flags agree, that every chunk is decoded as if it were alone,
    that nothing given is changed, designs with unequal pools and images, short chunks, chunks with no bad
    images, an empty batch, and that wrong input is refused with a ValueError.

    Raises:
        AssertionError: The contract is broken; the message says how.
    """
    design = balanced_design(24, pool_size=4, pools_per_image=3, seed=7)
    generator = np.random.default_rng(20)
    bad = generator.random((40, design.images)) < PREVALENCE
    noise = LatentNoise.from_accuracy(NOMINAL_ACCURACY, design.pool_size)
    soft = noise.sample(bad, design, generator)
    for readings in (soft, soft.hard()):
        _check_form(decoder, readings, design)
        _check_independence(decoder, readings, design)
        _check_purity(decoder, readings, design)
    irregular = random_design(24, pools=14, probability=0.15, seed=3)
    wider = LatentNoise.from_accuracy(NOMINAL_ACCURACY, irregular.pool_size)
    _check_form(decoder, wider.sample(bad, irregular, generator), irregular)
    _check_clean_chunks(decoder, design)
    _check_single_bad_image(decoder, design)
    _check_short_chunks(decoder, design, noise, generator)
    _check_refusals(decoder, design)


def _decode(decoder: Decoder, readings: Readings, design: Pooling) -> Decoding:
    return decoder.decode(readings, design, PREVALENCE)


def _check_form(decoder: Decoder, readings: Readings, design: Pooling) -> None:
    decoding = _decode(decoder, readings, design)
    shape = (readings.chunks, design.images)
    _require(decoding.scores.shape == shape and decoding.flags.shape == shape, f"outputs have shape {shape}")
    _require(decoding.scores.dtype == np.float64, "scores are float64")
    _require(decoding.flags.dtype == np.bool_, "flags are bool")
    _require(decoding.solved.shape == (readings.chunks,), "`solved` has one entry a chunk")
    _require(bool(np.isfinite(decoding.scores).all()), "scores are finite")
    lowest_flagged = np.where(decoding.flags, decoding.scores, np.inf).min(axis=1)
    highest_clear = np.where(decoding.flags, -np.inf, decoding.scores).max(axis=1)
    _require(bool((lowest_flagged >= highest_clear).all()), "no clear image scores higher than a flagged one")
    if decoder.thresholds_scores:
        threshold = decoder.parameters["threshold"]
        _require(
            bool((decoding.flags == (decoding.scores > threshold)).all()), "flags are scores > threshold"
        )
    empty = _decode(decoder, readings.block(0, 0), design)
    _require(empty.scores.shape == (0, design.images), "no chunks in, no chunks out")


def _check_independence(decoder: Decoder, readings: Readings, design: Pooling) -> None:
    together = _decode(decoder, readings, design)
    for chunk in range(0, readings.chunks, 7):
        alone = _decode(decoder, readings.block(chunk, chunk + 1), design)
        _require(
            np.array_equal(alone.scores[0], together.scores[chunk]), "a chunk alone scores as in a batch"
        )
        _require(
            np.array_equal(alone.flags[0], together.flags[chunk]), "a chunk alone is flagged as in a batch"
        )
    again = _decode(decoder, readings, design)
    _require(np.array_equal(again.scores, together.scores), "decoding twice gives the same scores")


def _check_purity(decoder: Decoder, readings: Readings, design: Pooling) -> None:
    counts = readings.counts.copy()
    table = np.copy(readings.log_likelihoods) if readings.log_likelihoods is not None else np.zeros(0)
    parameters = decoder.parameters
    _decode(decoder, readings, design)
    _require(np.array_equal(readings.counts, counts), "counts are not changed")
    if readings.log_likelihoods is not None:
        _require(np.array_equal(readings.log_likelihoods, table), "likelihoods are not changed")
    _require(decoder.parameters == parameters, "decoding leaves the parameters alone")


def _check_clean_chunks(decoder: Decoder, design: Pooling) -> None:
    clean = np.zeros((2, design.pool_count), dtype=np.int64)
    _require(not _decode(decoder, Readings(clean), design).flags.any(), "all pools at 0 flag no image")


def _check_single_bad_image(decoder: Decoder, design: Pooling) -> None:
    truth = np.eye(design.images, dtype=bool)
    flags = _decode(decoder, Readings(design.counts(truth)), design).flags
    _require(bool((flags & truth).any(axis=1).all()), "a single bad image is found from correct readings")


def _check_short_chunks(
    decoder: Decoder, design: Pooling, noise: LatentNoise, generator: np.random.Generator
) -> None:
    for images in (1, 2, 5, design.images - 1):
        short = design.restrict(images)
        bad = generator.random((6, images)) < 0.3
        decoding = _decode(decoder, noise.sample(bad, short, generator), short)
        _require(decoding.flags.shape == (6, images), f"a chunk of {images} images is decoded")


def _check_refusals(decoder: Decoder, design: Pooling) -> None:
    good = np.zeros((2, design.pool_count), dtype=np.int64)
    too_high = good.copy()
    too_high[1, 3] = design.pool_size + 1
    wrong_table = np.zeros((2, design.pool_count, design.pool_size))
    attempts: dict[str, Callable[[], object]] = {
        "readings of another design": lambda: decoder.decode(good[:, :-1], design, 0.1),
        "a count above the pool size": lambda: decoder.decode(too_high, design, 0.1),
        "a negative count": lambda: decoder.decode(-too_high, design, 0.1),
        "NaN as a count": lambda: decoder.decode(np.full(good.shape, np.nan), design, 0.1),
        "likelihoods for too few counts": lambda: decoder.decode(Readings(good, wrong_table), design, 0.1),
        "a prior above 1": lambda: decoder.decode(good, design, 1.5),
        "NaN as a prior": lambda: decoder.decode(good, design, np.nan),
        "priors for other images": lambda: decoder.decode(good, design, np.full(design.images + 1, 0.1)),
    }
    if decoder.uses_priors:
        attempts["missing priors"] = lambda: decoder.decode(good, design)
    for name, attempt in attempts.items():
        try:
            attempt()
        except ValueError:
            continue
        raise AssertionError(f"{name} must be refused with a ValueError")


def _require(holds: bool, fact: str) -> None:
    if not holds:
        raise AssertionError(f"contract broken: {fact}")
