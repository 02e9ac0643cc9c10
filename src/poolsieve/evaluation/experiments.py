"""The paper's smaller experiments: two bad objects in one image, and wall-clock times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.results import TwoObjects
from poolsieve.schemes import LikelihoodModel, Scheme
from poolsieve.schemes.runner import Networks
from poolsieve.statistics import proportion

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.engine import Engine

_POOLS_AT_ONCE = 64


def read_names(path: Path) -> frozenset[str]:
    """File names, one a line; lines that begin with # say something of the list.

    Raises:
        ValueError: There are none.
    """
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    names = frozenset(line for line in lines if line and not line.startswith("#"))
    if not names:
        raise ValueError(f"{path}: names no image; write one file name a line")
    return names


def read_two_objects(
    networks: Networks,
    likelihoods: LikelihoodModel,
    labels: NDArray[np.int64],
    double: NDArray[np.bool_],
    pool_size: int,
    pools: int,
    rng: np.random.Generator,
    *,
    gated: bool,
) -> TwoObjects:
    """Read pools with one bad image each: one that shows two objects, or one that shows one.

    Args:
        networks: Answer by numbers of images.
        likelihoods: What their outputs are worth.
        labels: 1 for bad images.  # (images,)
        double: Which of the bad ones show two objects.  # (images,)
        pool_size: Images in a pool.
        pools: Pools of each kind; they share the ordinary images.
        rng: Draws the images.
        gated: Whether merging is gated.
    """
    numbers, ordinary = np.arange(len(labels)), np.flatnonzero(labels == 0)
    mates = np.stack(
        [rng.choice(ordinary, pool_size - 1, replace=len(ordinary) < pool_size - 1) for _ in range(pools)]
    )
    readings = []
    for chosen in (double, (labels == 1) & ~double):
        members = np.column_stack([rng.choice(np.flatnonzero(chosen), pools), mates])
        read = [
            networks.pooled(
                numbers,  # type: ignore[arg-type]
                numbers if gated else None,  # type: ignore[arg-type]
                members[start : start + _POOLS_AT_ONCE],
                pool_size,
            ).logits.argmax(axis=1)
            for start in range(0, pools, _POOLS_AT_ONCE)
        ]
        counted = np.bincount(np.concatenate(read), minlength=pool_size + 1)
        readings.append(tuple(counted.tolist()))
    scores = likelihoods.image_scores(networks.individual(np.flatnonzero(double)).logits)  # type: ignore[arg-type]
    flagged = scores > 0.5
    return TwoObjects(
        pool_size, int(double.sum()), readings[0], readings[1], proportion(flagged.sum(), len(flagged))
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
