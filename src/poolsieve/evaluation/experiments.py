"""The paper's smaller experiments: two bad objects in one image, and wall-clock times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.evaluation.results import TwoObjects
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import Squaring, plain_view
from poolsieve.schemes import Evidence, Scheme
from poolsieve.statistics import proportion

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.base import Engine

_POOLS_AT_ONCE = 8


def side_by_side(left: Path, right: Path, size: int, squaring: Squaring) -> NDArray[np.uint8]:
    """Two images in one, each squeezed to half the width.  # (size, size, 3)."""
    both = Image.new("RGB", (size, size))
    for place, file in ((0, left), (size // 2, right)):
        view = Image.fromarray(plain_view(read_image(file, at_least=size), size, squaring))
        both.paste(view.resize((size // 2, size), Image.Resampling.BILINEAR), (place, 0))
    return np.asarray(both)


def read_two_objects(
    engine: Engine,
    evidence: Evidence,
    bad: Sequence[Path],
    ordinary: Sequence[Path],
    pool_size: int,
    pools: int,
    rng: np.random.Generator,
) -> TwoObjects:
    """Read pools with one bad image each, once with two objects in it and once with one.

    Args:
        engine: Runs the bundle.
        evidence: What its outputs are worth.
        bad: Files with one object.
        ordinary: Files with none.
        pool_size: Images in a pool.
        pools: Pools of each kind.
        rng: Draws the images.
    """
    config = engine.bundle.config
    size, squaring = config.input_size, config.squaring
    pairs = np.stack([rng.choice(len(bad), 2, replace=len(bad) < 2) for _ in range(pools)])
    mates = np.stack(
        [
            rng.choice(len(ordinary), pool_size - 1, replace=len(ordinary) < pool_size - 1)
            for _ in range(pools)
        ]
    )
    readings = {"double": np.zeros(pool_size + 1, int), "single": np.zeros(pool_size + 1, int)}
    scores = []
    for start in range(0, pools, _POOLS_AT_ONCE):
        block = slice(start, start + _POOLS_AT_ONCE)
        twos = [side_by_side(bad[a], bad[b], size, squaring) for a, b in pairs[block]]
        ones = [plain_view(read_image(bad[a], at_least=size), size, squaring) for a, _ in pairs[block]]
        others = [
            plain_view(read_image(ordinary[int(k)], at_least=size), size, squaring)
            for k in mates[block].ravel()
        ]
        features = engine.front(np.stack([*twos, *ones, *others])).features
        gate = engine.head(features).gate if config.merge == "gated" else None
        number = len(twos)
        places = 2 * number + np.arange(len(others)).reshape(number, pool_size - 1)
        for kind, first in (("double", 0), ("single", number)):
            members = np.column_stack([first + np.arange(number), places])
            logits = engine.pooled(features, gate, members, pool_size).logits
            np.add.at(readings[kind], logits.argmax(axis=1), 1)
        scores.append(evidence.image_scores(engine.individual(features[:number]).logits))
    flagged = np.concatenate(scores) > 0.5
    return TwoObjects(
        pool_size,
        tuple(readings["double"].tolist()),
        tuple(readings["single"].tolist()),
        proportion(flagged.sum(), len(flagged)),
    )


def time_scheme(
    bundle: Bundle, engine: Engine, scheme: Scheme, files: Sequence[Path], seed: int
) -> tuple[float, float]:
    """Seconds from files to verdicts, by the clock and of all threads."""
    from poolsieve.moderation import Moderator

    moderator = Moderator(bundle, engine, scheme, seed=seed)
    begin, begin_threads = time.perf_counter(), time.process_time()
    for _ in moderator.moderate([str(file) for file in files]):
        pass
    return time.perf_counter() - begin, time.process_time() - begin_threads
