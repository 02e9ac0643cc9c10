"""A bundle's networks on the actors of a Ray cluster, for the long calls of recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.bundles import load_bundle
from poolsieve.distributed.ray_workers import RayResources, check_room, connect
from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput, open_engine

_BATCH = 8
"""Rows are cut at multiples of this, which are between batches of every engine: outputs are those of one."""
_RETRIES = 3

Output = TypeVar("Output")


class _EngineActor:
    """Runs the networks of a bundle on a machine of the cluster."""

    def __init__(self, bundle: str, engine: str, threads: int) -> None:
        self._engine = open_engine(load_bundle(bundle), engine, threads=threads)

    def run(self, network: str, rows: Any) -> Any:
        return getattr(self._engine, network)(rows)

    def pooled(self, pools: Any, features: Any, gate: Any, pool_size: int) -> NetworkOutput:
        return self._engine.pooled(features, gate, pools, pool_size)


class RayNetworks:
    """Answers as an engine does; the rows of every call are cut among actors. A dead actor is replaced.

    Args:
        bundle: The bundle, which all machines must reach under this name.
        engine: What runs the networks.
        size: Number of actors; None for as many as there is room for.
        threads: Threads that the engine of each computes on; None for as many as it has processors.
        resources: What each gets.

    Raises:
        ImportError, ValueError, WorkersFailedError: As with `RayPool`.
    """

    def __init__(
        self, bundle: str, engine: str, size: int | None, threads: int | None, resources: RayResources
    ) -> None:
        self._ray, self._began = connect(resources, {})
        count = check_room(self._ray.cluster_resources(), size, resources)
        actor = self._ray.remote(_EngineActor).options(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_restarts=_RETRIES,
            max_task_retries=_RETRIES,
        )
        threads = threads or max(1, round(resources.cpus))
        self._actors = [actor.remote(bundle, engine, threads) for _ in range(count)]
        self._sent: dict[int, tuple[Any, Any]] = {}

    def front(self, images: NDArray[np.uint8]) -> FrontFeatures:
        """Front features of images."""
        return _joined(self._spread(images, "front"))

    def glance(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Logits of images at a glance."""
        return np.concatenate(self._spread(images, "glance"))

    def head(self, features: NDArray[np.float32]) -> HeadOutput:
        """Gate and head logits of images."""
        return _joined(self._spread(features, "head"))

    def individual(self, features: NDArray[np.float32]) -> NetworkOutput:
        """Logits (clear, bad) of images."""
        return _joined(self._spread(features, "individual"))

    def pooled(
        self,
        features: NDArray[np.float32],
        gate: NDArray[np.float32] | None,
        pools: ArrayLike,
        pool_size: int,
    ) -> NetworkOutput:
        """Logits of the counts of pools; features go to each machine once, however many calls they are in."""
        shared = (self._once(features), self._once(gate), pool_size)
        calls = [actor.pooled.remote(some, *shared) for actor, some in self._cut(np.asarray(pools))]
        return _joined(self._ray.get(calls))

    def _once(self, array: Any) -> Any:
        if id(array) not in self._sent:
            self._sent[id(array)] = array, self._ray.put(array)  # kept, so that no other gets its number
        return self._sent[id(array)][1]

    def _spread(self, rows: Any, network: str) -> Any:
        return self._ray.get([actor.run.remote(network, some) for actor, some in self._cut(rows)])

    def _cut(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Actors, and the rows that each takes."""
        step = max(1, -(-len(rows) // (len(self._actors) * _BATCH))) * _BATCH
        for actor, begin in zip(self._actors, range(0, max(len(rows), 1), step), strict=False):
            yield actor, rows[begin : begin + step]

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._began:
            self._ray.shutdown()


def _joined(parts: Sequence[Output]) -> Output:
    """Outputs of one network on consecutive rows as one."""
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(parts[0])}  # type: ignore[arg-type]
    return type(parts[0])(**{k: None if v[0] is None else np.concatenate(v) for k, v in columns.items()})
