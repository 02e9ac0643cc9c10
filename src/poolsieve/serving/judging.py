"""From images of requests and jobs to verdicts in the store: few threads, whatever the number of clients.

Readers decode images ahead; one thread judges chunks, as the queue deals them; one records them. Whoever
waits is told when his images are recorded, so that an answer is never lost by a kill.
"""

from __future__ import annotations

import io
import logging
import queue
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from PIL import Image

from poolsieve.images.views import ViewRequest
from poolsieve.moderation import PreparedImage, Verdict
from poolsieve.planning.plans import Plan
from poolsieve.serving.batching import Batcher, Dispatch, Refusal, Waiting
from poolsieve.serving.limits import Limits
from poolsieve.serving.metrics import Metrics
from poolsieve.serving.policies import JudgedChunk, Policy
from poolsieve.store import ChunkRecord, Store, VerdictRecord
from poolsieve.store.deliveries import NewDelivery

_LOG = logging.getLogger(__name__)
LATE = "its deadline passed before it was judged"
_SETTINGS_SECONDS = 2.0
"""How often plans, thresholds and retention are read from the store."""
_RECORDS_AHEAD = 4
_MEMORY = 0.95
_OUTLIER = 10.0
"""Reading an image counts as no more than so many times the usual."""


@dataclass(frozen=True)
class PolicyOutcome:
    """What became of an image under one policy.

    Attributes:
        status: "flagged", "clear", "error" or "not_image".
        score: Higher is worse.
        decided_by: The stage that decided it.
        reason: Why there is no verdict.
        verdict_id: Its name in the store.
        retry: Whether there is none for want of time or by our fault, so that another try may help.
    """

    status: str
    score: float | None = None
    decided_by: str | None = None
    reason: str | None = None
    verdict_id: str | None = None
    retry: bool = False


class Owner(Protocol):
    """Who waits for an image: a request or a job."""

    @property
    def ended(self) -> bool:
        """Whether nobody waits any more."""

    def finish(self, image: Pending, policy: str, outcome: PolicyOutcome) -> None:
        """Called when a verdict is recorded, or there is none to be had; from any thread."""


@dataclass(eq=False)
class Pending:
    """One image on its way.

    Attributes:
        owner: Who waits for it.
        name: What the sender calls it.
        policies: What it is judged by.
        key_id: Who sent it.
        job_id: The job that it belongs to.
        position: Its number there, or in its request.
        data: Its bytes until they are decoded; longer if originals are kept.
        prepared: As the networks take it, by policy.
        outcomes: What is known, by policy.
    """

    owner: Owner
    name: str
    policies: tuple[str, ...]
    key_id: str
    job_id: str | None = None
    position: int | None = None
    data: bytes | None = None
    prepared: dict[str, PreparedImage] = field(default_factory=dict)
    outcomes: dict[str, PolicyOutcome] = field(default_factory=dict)


@dataclass(frozen=True)
class _Recording:
    policy: Policy
    dispatch: Dispatch[Pending]
    judged: JudgedChunk
    seconds: float


DeliveriesMade = Callable[[ChunkRecord, list[tuple[str, VerdictRecord]], list[str]], Iterable[NewDelivery]]


class Judge:
    """Reads, judges and records images.

    Args:
        policies: By name.
        store: Where verdicts are kept.
        limits: Sizes of queues.
        metrics: Counts what is done.
        deliveries_made: What is to be delivered of a chunk that is recorded.
        seed: For tests: draws whose images share a chunk. None for a secret one.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        store: Store,
        limits: Limits,
        metrics: Metrics,
        *,
        deliveries_made: DeliveriesMade | None = None,
        seed: int | None = None,
    ) -> None:
        self.policies, self._store, self._metrics = dict(policies), store, metrics
        self._deliveries_made = deliveries_made
        lines = {name: policy.line for name, policy in self.policies.items()}
        room = limits.room or max(256, 4 * max(line.full for line in lines.values()))
        rng = random.Random(secrets.randbits(128) if seed is None else seed)
        self._batcher: Batcher[Pending] = Batcher(lines, room, rng)
        self._changed = threading.Condition()
        self._threads = max(1, limits.threads)
        self._readers = ThreadPoolExecutor(self._threads, thread_name_prefix="reading")
        self._read_seconds = 0.005
        self._stopping = False
        self._records: queue.Queue[_Recording | None] = queue.Queue(_RECORDS_AHEAD)
        self._settings_at = -1e9
        self._promised: dict[str, Any] = {}
        self.keep_originals = False
        self.failure: str | None = None
        self._judging = threading.Thread(target=self._judge_chunks, name="judging", daemon=True)
        self._recording = threading.Thread(target=self._record_chunks, name="recording", daemon=True)
        metrics.watch_queue(self.queue_sizes)

    def start(self) -> None:
        """Warm up, and start the threads."""
        self._read_settings()
        for policy in self.policies.values():
            policy.warm_up(time.monotonic)
        self._judging.start()
        self._recording.start()

    def stop(self) -> None:
        """Judge and record what is there, and end the threads."""
        self._readers.shutdown()
        with self._changed:
            self._batcher.draining = self._stopping = True
            self._changed.notify_all()
        if self._judging.is_alive():
            self._judging.join()
            self._records.put(None)
            self._recording.join()

    def drain(self) -> None:
        """From now on nothing waits for company."""
        with self._changed:
            self._batcher.draining = True
            self._changed.notify_all()

    def refusal(self, key_id: str, images: int, deadline: float, *, coming: bool = False) -> Refusal | None:
        """Why so many images of a request cannot be taken; None: they have room now."""
        now = time.monotonic()
        with self._changed:
            reading = (self._batcher.being_read + images) * self._read_seconds / self._threads
            refused = self._batcher.refusal(key_id, images, deadline, now, reading)
            if refused is None:
                self._batcher.admit(key_id, images, coming=coming)
        return refused

    def release(self, key_id: str, images: int, *, coming: bool = False) -> None:
        """Give room back that `refusal` has held."""
        with self._changed:
            self._batcher.release(key_id, images, coming=coming)

    def submit(self, images: Iterable[Pending], deadline: float) -> None:
        """Have images read and judged; their room is held already."""
        for image in images:
            with self._changed:
                self._batcher.being_read += 1
            self._readers.submit(self._read, image, deadline)

    def put_bulk(self, image: Pending) -> None:
        """An image of a job, which has been read, waits for room in chunks."""
        with self._changed:
            for policy in image.policies:
                self._batcher.put_bulk(policy, Waiting(image, image.key_id, float("inf"), time.monotonic()))
            self._changed.notify_all()

    def hurry(self, policies: Iterable[str]) -> None:
        """Images of jobs of these policies need not wait for more."""
        with self._changed:
            for policy in policies:
                self._batcher.lines[policy].hurry = True
            self._changed.notify_all()

    def forget(self, owner: Owner) -> None:
        """Judge no more of somebody's images than are being judged."""
        with self._changed:
            self._batcher.discard(lambda waiting: waiting.image.owner is owner)

    def prepare(self, image: Pending, data: bytes) -> None:
        """Read an image once for all policies that take it alike."""
        views: dict[ViewRequest, PreparedImage] = {}
        for name in image.policies:
            policy = self.policies[name]
            if policy.view not in views:
                views[policy.view] = policy.prepare(data, image.name)
            image.prepared[name] = views[policy.view]

    def _read(self, image: Pending, deadline: float) -> None:
        begin = time.monotonic()
        try:
            if image.owner.ended or image.data is None:
                return
            self.prepare(image, image.data)
            if not self.keep_originals:
                image.data = None
            with self._changed:
                for policy in image.policies:
                    self._batcher.put(policy, Waiting(image, image.key_id, deadline, begin))
                self._changed.notify_all()
        except Exception:
            _LOG.exception("an image could not be prepared")
            for policy in image.policies:
                image.owner.finish(
                    image, policy, PolicyOutcome("error", reason="it could not be prepared", retry=True)
                )
        finally:
            spent = time.monotonic() - begin
            with self._changed:
                self._batcher.being_read -= 1
                counted = min(spent, _OUTLIER * self._read_seconds)  # the first of a kind starts its decoder
                self._read_seconds = _MEMORY * self._read_seconds + (1 - _MEMORY) * counted
            self._metrics.seconds.labels(part="reading").inc(spent)

    def _judge_chunks(self) -> None:
        while (dispatch := self._next()) is not None:
            for waiting in dispatch.expired:
                late = PolicyOutcome("error", reason=LATE, retry=True)
                waiting.image.owner.finish(waiting.image, dispatch.policy, late)
            if dispatch.images:
                try:
                    self._judge(dispatch)
                except Exception as error:
                    _LOG.exception("a chunk could not be judged")
                    self.failure = f"{type(error).__name__}: {error}"
                    for waiting in dispatch.images:
                        failed = PolicyOutcome("error", reason="it could not be judged", retry=True)
                        waiting.image.owner.finish(waiting.image, dispatch.policy, failed)

    def _next(self) -> Dispatch[Pending] | None:
        """The next chunk; None once all is done and nothing more comes."""
        with self._changed:
            self._batcher.finish()
            while True:
                now = time.monotonic()
                dispatch = self._batcher.next_chunk(now)
                if dispatch is not None:
                    line = self._batcher.lines[dispatch.policy]
                    self._batcher.begin(dispatch, now)
                    line.hurry = line.hurry and line.bulk.size > 0
                    return dispatch
                if self._stopping:
                    return None
                self._changed.wait(min(max(self._batcher.look_again() - now, 0.0005), 0.5))

    def _judge(self, dispatch: Dispatch[Pending]) -> None:
        self._read_settings()
        policy = self.policies[dispatch.policy]
        begin = time.monotonic()
        judged = policy.judge([waiting.image.prepared[policy.name] for waiting in dispatch.images])
        seconds = time.monotonic() - begin
        policy.line.times.add(len(dispatch.images), seconds, time.monotonic())
        self.failure = None
        self._records.put(_Recording(policy, dispatch, judged, seconds))
        if any(waiting.image.job_id is not None for waiting in dispatch.images):
            self._records.join()  # after a kill no more than the present chunk of a job is judged again

    def _read_settings(self) -> None:
        """Plans and thresholds that were applied on the review page, and whether originals are kept."""
        now = time.monotonic()
        if now - self._settings_at < _SETTINGS_SECONDS:
            return
        self._settings_at = now
        try:
            values = self._store.settings.all()
        except Exception:
            _LOG.exception("settings could not be read; the last ones hold")
            return
        self.keep_originals = bool(values["keep_originals"])
        for name, policy in self.policies.items():
            self._apply(policy, values["plans"].get(name), values["thresholds"].get(name))
        self._tell_promises(values["promises"])

    def _apply(self, policy: Policy, applied: Mapping[str, Any] | None, threshold: float | None) -> None:
        """What a person applied on the review page; a plan of another bundle is left alone."""
        plan = None
        try:
            if applied is not None and applied["bundle"] == policy.bundle.hash:
                plan = Plan.from_json(applied["plan"])
            policy.apply(plan, threshold)
        except Exception:
            _LOG.exception("what was applied to %s cannot be followed; what was before holds", policy.name)

    def _tell_promises(self, known: Mapping[str, Any]) -> None:
        """Tell the review page what the plans in force promise, whenever another is."""
        promises = {name: policy.promise for name, policy in self.policies.items()}
        if promises == self._promised:  # other processes on the store may have others: no quarrel with them
            return
        try:
            self._store.settings.set("poolsieve", {"promises": {**known, **promises}})
        except Exception:
            _LOG.exception("what plans promise could not be told; they are told later")
            return
        self._promised = promises

    def _record_chunks(self) -> None:
        while (recording := self._records.get()) is not None:
            begin = time.monotonic()
            try:
                self._record(recording)
            except Exception:
                _LOG.exception("a chunk could not be recorded")
                for waiting in recording.dispatch.images:
                    failed = PolicyOutcome("error", reason="the verdict could not be stored", retry=True)
                    waiting.image.owner.finish(waiting.image, recording.policy.name, failed)
            self._records.task_done()
            self._metrics.seconds.labels(part="recording").inc(time.monotonic() - begin)

    def _record(self, recording: _Recording) -> None:
        policy, judged = recording.policy, recording.judged
        images = [waiting.image for waiting in recording.dispatch.images]
        pairs = list(zip(images, judged.verdicts, strict=True))
        record = ChunkRecord(
            policy=policy.name,
            bundle=policy.bundle.hash,
            scheme=str(judged.scheme),
            seed=judged.seed,
            verdicts=[_verdict_record(image, verdict, judged) for image, verdict in pairs],
            cost=judged.cost,
            seconds=recording.seconds,
            dispatched_by=recording.dispatch.reason,
            capacity=policy.line.full,
        )
        names = self._store.verdicts.record([record], deliveries_made=self._deliveries_made)[0]
        self._metrics.count_chunk(policy, recording.dispatch, judged)
        for (image, verdict), name in zip(pairs, names, strict=True):
            outcome = PolicyOutcome(verdict.status, verdict.score, verdict.decided_by, verdict.reason, name)
            image.owner.finish(image, policy.name, outcome)

    def queue_sizes(self) -> dict[str, float]:
        """Images in the service, by where they are."""
        with self._changed:
            lines = self._batcher.lines.values()
            waiting, bulk = sum(line.waiting.size for line in lines), sum(line.bulk.size for line in lines)
            return {
                "held": self._batcher.total,
                "reading": self._batcher.being_read,
                "waiting": waiting,
                "bulk": bulk,
            }


def _verdict_record(image: Pending, verdict: Verdict, judged: JudgedChunk) -> VerdictRecord:
    prepared = image.prepared[next(iter(image.prepared))]
    record = VerdictRecord.of(verdict, threshold=judged.scheme.threshold)
    note, data = record.grounds["note"], image.data
    if note and "position" in note:  # callers are not told who was judged with whom
        record.grounds["note"] = "judged with another image that looks like it"
    return replace(
        record,
        name=image.name,
        thumbnail=None if prepared.pixels is None else lambda: _jpeg(prepared),
        original=None if data is None else lambda: data,
        key_id=image.key_id,
        job_id=image.job_id,
        position=image.position if image.job_id is not None else None,
    )


def _jpeg(prepared: PreparedImage) -> bytes:
    """What the network saw, as a picture for people."""
    stream = io.BytesIO()
    pixels = prepared.seen(small=False).pixels
    pixels = prepared.pixels if pixels is None else pixels
    assert pixels is not None
    Image.fromarray(pixels).save(stream, "JPEG", quality=80)
    return stream.getvalue()
