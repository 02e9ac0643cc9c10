"""Chosen pool-mates in small: bursts and many bad images in a chunk, by the shipped bundle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from drawn_firearms.photographs import load_photographs, photograph_view
from drawn_firearms.scenes import SCENES, render
from pool_mates import Bench, Numbers, later_frame, schemes_by_name

from fault_campaigns.campaign import Broken, Findings, rng_of
from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine

SCHEMES = ("oneshot mip", "oneshot bp", "dorfman", "adaptive", "individual")
MATES = ("frames of its burst", "other firearms", "ordinary images")
CHUNK, FRAMES, SIDE = 100, 20, 256
LEAST = 0.5
"""Share that a scheme must find of what individual testing finds; chosen pool-mates once left .05 to .33."""


class PoolMates:
    """Drawn firearms that the individual network flags, each in a chunk of its own among chosen others.

    A case is one scheme and one kind of company. It survives if at least half of the firearms are found:
    among so few, one or two are missed by chance. `pool_mates.py` measures how many are.

    Args:
        seed: Of all pictures and draws.
        bundle: Not used: a network that knows nothing could not tell.
        targets: The most firearms to be found.
    """

    name = "pool-mates"
    together = 1

    def __init__(self, seed: int, bundle: Path, targets: int = len(SCENES)) -> None:
        self._seed = seed
        self._bundle = load_bundle("firearms")
        self._bench = Bench(self._bundle, open_engine(self._bundle), alike=True)
        rng = rng_of(seed, self.name, 0)
        photographs = load_photographs()
        self._drawn = [render(scene, SIDE, photographs, rng) for scene in SCENES]
        self._numbers = self._bench.record(self._drawn)
        self._targets = np.flatnonzero(self._bench.scores(self._numbers) > 0.5)[:targets]
        shown = [list(photographs.values())[k % len(photographs)] for k in range(CHUNK)]
        views = [photograph_view(photograph, SIDE, rng) for photograph in shown]
        self._ordinary = self._bench.record(views, clean=True)

    def run(self, numbers: range) -> Findings:
        """Run the cases with these numbers."""
        findings = Findings(len(numbers))
        for number in numbers:
            name = SCHEMES[number % len(SCHEMES)]
            mates = MATES[number // len(SCHEMES) % len(MATES)]
            scheme = schemes_by_name(self._bundle, [name])[name]
            rng = rng_of(self._seed, self.name, number)
            chunks = [self._chunk(int(target), mates, rng) for target in self._targets]
            result = self._bench.judge(scheme, chunks)
            findings.noted["firearms sought"] += result.sought
            findings.noted["firearms found"] += result.found
            if result.found < LEAST * result.sought:
                shares = f"{result.found} found of {result.sought} that individual tests find"
                findings.broken.append(Broken(number, f"{name} among {mates}: {shares}"))
        return findings

    @cache  # noqa: B019 - there is one of these
    def _frames(self, pictures: tuple[int, ...]) -> Numbers:
        """Frames of drawn firearms in turn."""
        rng = rng_of(self._seed, self.name, 1 + sum(pictures))
        shown = [self._drawn[pictures[k % len(pictures)]] for k in range(FRAMES)]
        return self._bench.record([later_frame(picture, rng) for picture in shown])

    def _chunk(self, target: int, mates: str, rng: np.random.Generator) -> Numbers:
        chosen = self._numbers[:0]
        if mates != "ordinary images":
            others = tuple(k for k in range(len(self._drawn)) if k != target)
            chosen = self._frames((target,) if mates == "frames of its burst" else others)
        ordinary = rng.permutation(self._ordinary)
        return np.concatenate([self._numbers[[target]], chosen, ordinary[: CHUNK - 1 - len(chosen)]])
