"""Monte Carlo comparison of methods over prevalences, on readings drawn from a noise model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import CountNoise
from poolsieve.designs import Pooling
from poolsieve.evaluation.detection_measures import Detection, detection_counts, detection_from_counts
from poolsieve.evaluation.methods import Method, noise_for

PAPER_PREVALENCES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1)
BLOCK_CHUNKS = 1000
"""Chunks that exist at a time."""


@dataclass(frozen=True)
class SimulationRow:
    """One method at one prevalence.

    Attributes:
        prevalence: Share of bad images.
        method: Name of the method.
        design: Shape of the design of its first round.
        noise: Name of the noise.
        parameters: The method's parameters, tuned if tuning was asked for.
        chunks: Chunks simulated.
        detection: Sensitivity and specificity with 95% intervals.
        tests_per_image: Pools and individual tests for each image.
        chunks_per_second: Speed of deciding, without drawing the readings.
        solved: Share of chunks whose decoder finished; see `Decoding.solved`.
    """

    prevalence: float
    method: str
    design: str
    noise: str
    parameters: dict[str, object]
    chunks: int
    detection: Detection
    tests_per_image: float
    chunks_per_second: float
    solved: float

    @property
    def parameters_text(self) -> str:
        """Parameters in one line."""
        return ", ".join(f"{name}={value}" for name, value in self.parameters.items())

    def as_record(self) -> dict[str, object]:
        """Flat form for tables and files."""
        return {
            "prevalence": self.prevalence,
            "method": self.method,
            "design": self.design,
            "noise": self.noise,
            "parameters": self.parameters_text,
            "chunks": self.chunks,
            "bad_images": self.detection.sensitivity.total,
            **self.detection.sensitivity.columns("sensitivity"),
            **self.detection.specificity.columns("specificity"),
            "tests_per_image": self.tests_per_image,
            "chunks_per_second": self.chunks_per_second,
            "solved": self.solved,
        }


def simulate(
    methods: Sequence[Method],
    noises: Mapping[str, CountNoise],
    *,
    prevalences: Sequence[float] = PAPER_PREVALENCES,
    chunks: int = 1000,
    tuning_chunks: int = 1000,
    correlation: float = 0.0,
    seed: int = 0,
) -> Iterator[SimulationRow]:
    """Compare methods on simulated chunks; yields each row as soon as it is known.

    At each prevalence, methods with the same pools see the same bad images and the same readings.
    Parameters are tuned on other chunks of the same prevalence, as in the paper.

    Args:
        methods: What to compare.
        noises: How readings err, by name, for the largest pool of all methods.
        prevalences: Shares of bad images.
        chunks: Chunks to measure on.
        tuning_chunks: Chunks to tune on; 0 keeps the parameters as given.
        correlation: Of errors across the pools of one image; see `CountNoise.sample`.
        seed: Makes the run repeatable.
    """
    if not methods or not noises or not prevalences:
        raise ValueError("a simulation needs at least one method, one noise and one prevalence")
    for name, number, least in (("chunks", chunks, 1), ("tuning_chunks", tuning_chunks, 0)):
        if number < least:
            raise ValueError(f"{name}={number}, but it must be at least {least}")
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation={correlation:g}, but it must lie between 0 and 1")
    for prevalence in prevalences:
        if not 0 <= prevalence <= 1:
            raise ValueError(f"prevalence {prevalence:g} does not lie between 0 and 1")
    simulation = _Simulation(chunks, tuning_chunks, correlation, seed, _design_labels(methods))
    for label, noise in noises.items():
        for number, prevalence in enumerate(prevalences):
            for method in methods:
                fitting = noise_for(noise, method.pooling.pool_size)
                yield simulation.measure(method.informed(fitting), label, fitting, prevalence, number)


@dataclass(frozen=True)
class _Simulation:
    """What is the same for every row of a simulation."""

    chunks: int
    tuning_chunks: int
    correlation: float
    seed: int
    design_labels: dict[Pooling, str]

    def measure(
        self, method: Method, label: str, noise: CountNoise, prevalence: float, number: int
    ) -> SimulationRow:
        pooling = method.pooling
        seeds = np.random.SeedSequence([self.seed, number]).spawn(3)
        tuning, measuring, second_round = (np.random.default_rng(child) for child in seeds)
        if self.tuning_chunks:
            bad = draw_bad_images(tuning, self.tuning_chunks, pooling.images, prevalence)
            if bad.any() and not bad.all():
                readings = noise.sample(bad, pooling, tuning, correlation=self.correlation)
                method = method.tuned(readings, bad, prevalence)
        counted: list[tuple[NDArray[np.int64], ...]] = []
        tests, solved, seconds = 0, 0.0, 0.0
        for start in range(0, self.chunks, BLOCK_CHUNKS):
            size = min(BLOCK_CHUNKS, self.chunks - start)
            bad = draw_bad_images(measuring, size, pooling.images, prevalence)
            readings = noise.sample(bad, pooling, measuring, correlation=self.correlation)
            began = time.perf_counter()
            outcome = method.decide(readings, bad, prevalence, second_round)
            seconds += time.perf_counter() - began
            counted.append(detection_counts(outcome.flags, bad))
            tests += outcome.tests
            solved += outcome.solved * size
        return SimulationRow(
            prevalence=prevalence,
            method=method.name,
            design=self.design_labels[pooling],
            noise=label,
            parameters=method.parameters,
            chunks=self.chunks,
            detection=detection_from_counts(*map(np.concatenate, zip(*counted, strict=True))),
            tests_per_image=tests / (self.chunks * pooling.images),
            chunks_per_second=self.chunks / seconds,
            solved=solved / self.chunks,
        )


def _design_labels(methods: Sequence[Method]) -> dict[Pooling, str]:
    """A name for each design: its shape, and the start of its fingerprint where shapes are the same."""
    designs = list(dict.fromkeys(method.pooling for method in methods))
    shapes = {design: f"{design.pool_count}×{design.images}" for design in designs}
    return {
        design: shape if list(shapes.values()).count(shape) == 1 else f"{shape} {design.fingerprint[:6]}"
        for design, shape in shapes.items()
    }


def draw_bad_images(
    generator: np.random.Generator, chunks: int, images: int, prevalence: float
) -> NDArray[np.bool_]:
    """Which images are bad: pN of all N in random places, as in the paper's mixtures.  # (chunks, n)."""
    total = chunks * images
    bad = np.zeros(total, dtype=bool)
    expected = prevalence * total
    number = math.floor(expected) + int(generator.random() < expected - math.floor(expected))
    bad[generator.choice(total, number, replace=False)] = True
    return bad.reshape(chunks, images)
