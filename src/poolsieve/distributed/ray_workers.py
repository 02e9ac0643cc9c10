"""Workers that are actors of a Ray cluster, or of a Ray that is started on this machine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from poolsieve.distributed.local_workers import words_of
from poolsieve.distributed.opening import Opening
from poolsieve.distributed.segment_judging import SegmentJudge
from poolsieve.distributed.worker_pool import AT_ONCE, Done, Event, PartTask, WorkerPool, WorkersFailedError

_STORE_BYTES = 100_000_000
"""Memory of the object store of a Ray that is started here; only numbers and counts go through it."""


@dataclass(frozen=True)
class RayResources:
    """What the actors get.

    Attributes:
        address: Of a cluster that runs; None for the one in RAY_ADDRESS, or one that is started here.
        cpus: Processors of an actor, which may be a fraction.
        gpus: GPUs of an actor, likewise.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0


@dataclass(frozen=True, eq=False)
class RayWorker:
    """An actor, and the segments that it was given, by the reference to what it will say."""

    actor: Any
    calls: dict[Any, int] = field(default_factory=dict)


class RayPool(WorkerPool[RayWorker]):
    """Actors of Ray, one engine each. One processor of the cluster is kept free: Ray needs it itself.

    Args:
        opening: Makes their moderators.
        run: The run's folder, which all machines must reach under this name.
        size: Number of actors; None for as many as there is room for.
        threads: Threads that the engine of each computes on; None for as many as it has processors.
        resources: What each gets.

    Raises:
        ImportError: Ray is not installed.
        ValueError: The cluster has no room for so many.
        WorkersFailedError: There is no cluster, and none can be started.
    """

    def __init__(
        self, opening: Opening, run: str, size: int | None, threads: int | None, resources: RayResources
    ) -> None:
        self._ray, self._began = connect(resources, {"object_store_memory": _STORE_BYTES})
        super().__init__(check_room(self._ray.cluster_resources(), size, resources))
        self._actor = self._ray.remote(SegmentJudge).options(
            num_cpus=resources.cpus, num_gpus=resources.gpus, max_restarts=0, max_concurrency=AT_ONCE
        )
        self._given = (opening, run, threads or max(1, round(resources.cpus)))

    def _start(self) -> RayWorker:
        return RayWorker(self._actor.remote(*self._given))

    def _send(self, worker: RayWorker, task: PartTask) -> None:
        worker.calls[worker.actor.judge.remote(task.segment, task.plan)] = task.segment

    def _events(self, workers: Iterable[RayWorker], timeout: float) -> list[Event[RayWorker]]:
        by_call = {call: worker for worker in workers for call in worker.calls}
        if not by_call:
            time.sleep(timeout)
            return []
        self._ray.wait(list(by_call), num_returns=1, timeout=timeout)
        ready, _ = self._ray.wait(list(by_call), num_returns=len(by_call), timeout=0)
        done: list[Event[RayWorker]] = []
        ended: dict[RayWorker, Event[RayWorker]] = {}  # a worker ends once, however many calls it had
        for call in ready:
            worker = by_call[call]
            try:
                state = self._ray.get(call)
            except self._ray.exceptions.RayActorError as error:
                failed = getattr(error, "actor_init_failed", False)
                ended[worker] = Event(worker, failure=str(error) if failed else None)
            except self._ray.exceptions.RayTaskError as error:
                ended[worker] = Event(worker, failure=words_of(error.cause))
            else:
                done.append(Event(worker, Done(worker.calls.pop(call), state)))
        return [*done, *ended.values()]  # what a worker did before it died is not done again

    def _stop(self, worker: RayWorker) -> None:
        self._ray.kill(worker.actor)

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        super().close()
        if self._began:
            self._ray.shutdown()


def connect(resources: RayResources, own: Mapping[str, Any]) -> tuple[Any, bool]:
    """Ray, connected to a cluster, and whether that was done here.

    Args:
        resources: Name the cluster.
        own: Options of one that is started on this machine.

    Raises:
        ImportError: Ray is not installed.
        WorkersFailedError: There is no cluster, and none can be started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ImportError("--on ray needs Ray: pip install 'poolsieve[ray]'") from None
    if ray.is_initialized():
        return ray, False
    address = resources.address or os.environ.get("RAY_ADDRESS")
    options = {} if address else {"include_dashboard": False, **own}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # of its own kinds, or of none if it was too slow
        what = f"be reached at {address}" if address else "be started on this machine"
        raise WorkersFailedError(f"Ray cannot {what}: {error}") from error
    return ray, True


def check_room(there: dict[str, float], wanted: int | None, resources: RayResources) -> int:
    """How many actors there will be.

    Raises:
        ValueError: The cluster has no room for so many.
    """
    processors, gpus = there.get("CPU", 0.0), there.get("GPU", 0.0)
    most = int((processors - 1) / resources.cpus) if resources.cpus else 1 << 20
    if resources.gpus:
        most = min(most, int(gpus / resources.gpus))
    if most < 1 or (wanted or 1) > most:
        raise ValueError(
            f"{wanted or 1} workers of {resources.cpus:g} processors and {resources.gpus:g} GPUs do not fit: "
            f"the cluster has {processors:g} and {gpus:g}, and one processor must stay free for Ray. Give "
            "fewer --workers, or fewer --cpus-per-worker (fractions are fine)"
        )
    return wanted or most
