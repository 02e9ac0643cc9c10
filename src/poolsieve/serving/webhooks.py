"""Webhooks: flags and finished jobs are told to a URL, signed, and again if it does not answer."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from poolsieve.serving.metrics import Metrics
from poolsieve.serving.outgoing import NotAllowedError, Outgoing
from poolsieve.store import ChunkRecord, Store, VerdictRecord
from poolsieve.store.deliveries import Delivery, NewDelivery

_LOG = logging.getLogger(__name__)
BACK_OFF = (5.0, 30.0, 120.0, 600.0, 3600.0)
"""Seconds before each try after the first one."""
SIGNATURE = "X-Poolsieve-Signature"
_CLAIM_SECONDS = 60.0
_AT_ONCE = 20


def sign(secret: bytes, body: bytes, timestamp: int) -> str:
    """The signature of a delivery: time, and HMAC-SHA256 over `TIME.BODY`."""
    digest = hmac.new(secret, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def verify(secret: bytes, body: bytes, header: str, *, now: float, within: float = 300.0) -> bool:
    """Whether a delivery is from whoever knows the secret, and fresh; for receivers."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    if not parts.get("t", "").isdigit() or abs(now - int(parts["t"])) > within:
        return False
    return hmac.compare_digest(sign(secret, body, int(parts["t"])).encode(), header.encode())


class Webhooks:
    """Makes and sends deliveries.

    Args:
        store: Keeps them until they have arrived.
        metrics: Counts them.
        secret: Signs them.
        url: Where all flags and finished jobs are told.
        hosts: Hosts that jobs may name, as HOST or HOST:PORT; that of `url` is allowed too.
        private_hosts: Hosts that may have private addresses.
        back_off: Seconds before each further try.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        secret: bytes,
        url: str | None = None,
        hosts: Sequence[str] = (),
        private_hosts: Sequence[str] = (),
        back_off: Sequence[float] = BACK_OFF,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._metrics, self._secret, self._url = store, metrics, secret, url
        own = [] if url is None else [urlsplit(url).netloc.rpartition("@")[2]]
        allowed = [*hosts, *own, *(host.partition(":")[0] for host in own)]
        self.outgoing = Outgoing(allowed or ["-"], private_hosts)  # without a list nobody is allowed
        if url is not None:
            self.outgoing.check(url)
        self._back_off, self._clock = tuple(back_off), clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="webhooks", daemon=True)

    def check(self, url: str) -> None:
        """Raise NotAllowedError if deliveries to a URL are not allowed."""
        self.outgoing.check(url)

    def start(self) -> None:
        """Start to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """Deliver no more; what is left is kept for the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def deliveries_made(
        self, chunk: ChunkRecord, verdicts: list[tuple[str, VerdictRecord]], finished: list[str]
    ) -> Iterable[NewDelivery]:
        """What is told of a chunk: its flags, and jobs that it has finished."""
        made = []
        if self._url is not None:
            for identity, verdict in verdicts:
                if verdict.status == "flagged":
                    told: dict[str, Any] = {
                        "verdict_id": identity,
                        "policy": chunk.policy,
                        "name": verdict.name,
                    }
                    told |= {"sha256": verdict.sha256, "score": verdict.score, "job_id": verdict.job_id}
                    made.append(
                        NewDelivery("verdict.flagged", self._url, {"event": "verdict.flagged", **told})
                    )
        for job_id in finished:
            job = self._store.jobs.get(job_id)
            own = (job.source or {}).get("webhook") if job is not None else None
            for url in dict.fromkeys(one for one in (self._url, own) if one):
                made.append(NewDelivery("job.finished", url, {"event": "job.finished", "job_id": job_id}))
        return made

    def _deliver(self) -> None:
        while not self._stopping.is_set():
            try:
                due = self._store.deliveries.claim(_AT_ONCE, _CLAIM_SECONDS)
                for delivery in due:
                    if self._stopping.is_set():
                        return
                    self.send(delivery)
            except Exception:
                _LOG.exception("deliveries could not be made")
                due = []
            if not due:
                self._stopping.wait(1.0)

    def send(self, delivery: Delivery) -> None:
        """Try a delivery, and note how it went."""
        body = json.dumps({"id": delivery.id, "created_at": delivery.created_at, **delivery.body}).encode()
        headers = {
            "Content-Type": "application/json",
            "X-Poolsieve-Event": delivery.event,
            SIGNATURE: sign(self._secret, body, int(self._clock())),
        }
        try:
            reply = self.outgoing.request("POST", delivery.url, body=body, headers=headers)
            problem = None if 200 <= reply.status < 300 else f"status {reply.status}"
        except NotAllowedError as error:  # it will not become allowed
            self._store.deliveries.failed(delivery.id, str(error))
            self._metrics.deliveries.labels(result="refused").inc()
            return
        except (OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        if problem is None:
            self._store.deliveries.delivered(delivery.id)
            self._metrics.deliveries.labels(result="delivered").inc()
        elif delivery.attempts > len(self._back_off):
            self._store.deliveries.failed(delivery.id, problem)
            self._metrics.deliveries.labels(result="failed").inc()
        else:
            wait = self._back_off[delivery.attempts - 1]
            self._store.deliveries.retry(delivery.id, problem, self._clock() + wait)
            self._metrics.deliveries.labels(result="retried").inc()
