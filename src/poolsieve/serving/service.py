"""Everything that one process of the service holds together."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from poolsieve.serving.bodies import UnreadBytes
from poolsieve.serving.connections import Door
from poolsieve.serving.errors import Refused
from poolsieve.serving.job_runner import JobRunner
from poolsieve.serving.judging import Judge
from poolsieve.serving.key_access import Access, Quotas
from poolsieve.serving.limits import Limits
from poolsieve.serving.metrics import Metrics
from poolsieve.serving.outgoing import Outgoing
from poolsieve.serving.places import Prefixes
from poolsieve.serving.planning_ahead import PlansAhead
from poolsieve.serving.policies import Policy
from poolsieve.serving.webhooks import Webhooks
from poolsieve.store import Store

_LOG = logging.getLogger(__name__)
_PURGE_SECONDS = 600.0
"""How often pictures that have expired are removed."""


@dataclass(frozen=True)
class Options:
    """What an operator decides.

    Attributes:
        data: Folder for uploads of jobs and the secret of webhooks.
        prefixes: Folders, on disk or `s3://bucket/folder`, that manifests may name files in; none: manifests
            are refused.
        webhook: URL that is told of flags and finished jobs.
        webhook_hosts: Hosts that jobs may name for their own webhook, as HOST or HOST:PORT.
        fetch_urls: Whether images at URLs are fetched.
        url_hosts: If given, only from these hosts.
        private_hosts: Hosts that may have private addresses, such as one's own network's.
        job_slots: Jobs that are worked on at the same time.
        seed: For tests: decides about pools and chunks; None draws secret ones.
    """

    data: Path = Path("poolsieve-data")
    prefixes: Sequence[str | Path] = ()
    webhook: str | None = None
    webhook_hosts: Sequence[str] = ()
    fetch_urls: bool = False
    url_hosts: Sequence[str] = ()
    private_hosts: Sequence[str] = ()
    job_slots: int = 2
    seed: int | None = None
    limits: Limits = field(default_factory=Limits)


class Service:
    """One process of the service.

    Args:
        policies: By name.
        store: Where all is kept.
        options: What the operator decides.
        holder: Name of this process as a holder of jobs; one that starts in its place goes on with them.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        store: Store,
        options: Options | None = None,
        *,
        holder: str = "local",
    ) -> None:
        self.options = options or Options()
        self.limits, self.store, self.policies = self.options.limits, store, dict(policies)
        self.metrics, self.door = Metrics(), Door(self.limits)
        self.prefixes = Prefixes(self.options.prefixes)
        self.outgoing = Outgoing(self.options.url_hosts, self.options.private_hosts)
        self.webhooks = Webhooks(
            store,
            self.metrics,
            secret=webhook_secret(self.options.data),
            url=self.options.webhook,
            hosts=self.options.webhook_hosts,
            private_hosts=self.options.private_hosts,
        )
        self.judge = Judge(
            *(self.policies, store, self.limits, self.metrics),
            deliveries_made=self.webhooks.deliveries_made,
            seed=self.options.seed,
        )
        self.plans = PlansAhead(self.policies)
        self.jobs = JobRunner(self.judge, store, self.options, self.prefixes, holder=holder)
        self.asking = ThreadPoolExecutor(4, thread_name_prefix="asking")  # questions to the store
        self.parsing = ThreadPoolExecutor(2, thread_name_prefix="parsing")
        self.fetching = ThreadPoolExecutor(8, thread_name_prefix="fetching")
        self.access, self.quotas = Access(store, self.asking), Quotas()
        self.unread = UnreadBytes(self.limits.unread_bytes)
        self.ready = self.draining = False
        self._stopped = threading.Event()
        self._purging = threading.Thread(target=self._purge, name="purging", daemon=True)
        self.metrics.watch_connections(
            lambda: {"open": len(self.door.connections), "dropped": self.door.dropped}
        )

    def start(self) -> None:
        """Warm up and start all threads."""
        self.judge.start()
        for policy in self.policies.values():
            self.metrics.show_plan(policy)
        self.jobs.start()
        self.webhooks.start()
        self._purging.start()
        self.ready = True

    def leave(self) -> None:
        """Say that this process is about to end, and let nothing wait for company."""
        self.draining = True
        self.jobs.stop()
        self.judge.drain()

    def stop(self) -> None:
        """End all threads; what was taken is judged and recorded."""
        self.leave()
        self.jobs.join()
        self.judge.stop()
        self.webhooks.stop()
        self.plans.stop()
        self._stopped.set()
        self._purging.join()
        for executor in (self.asking, self.parsing, self.fetching):
            executor.shutdown()
        self.ready = False

    def live(self) -> dict[str, int]:
        """What the dashboard tells of this moment."""
        sizes = self.judge.queue_sizes()
        late = self.metrics.registry.get_sample_value("poolsieve_late_total")
        told = {
            "images in the service": sizes["held"],
            "of them being read": sizes["reading"],
            "waiting for a chunk": sizes["waiting"],
            "of jobs, waiting for room": sizes["bulk"],
            "past their deadline since the start": late or 0.0,
        }
        return {name: int(value) for name, value in told.items()}

    def _purge(self) -> None:
        while True:
            try:
                self.store.images.purge()
            except Exception:
                _LOG.exception("expired pictures could not be removed; they are the next time")
            if self._stopped.wait(_PURGE_SECONDS):
                return

    def chosen_policies(self, named: Sequence[str] | None) -> tuple[str, ...]:
        """The policies that a request names; all if it names none.

        Raises:
            Refused: There is no such policy.
        """
        if not named:
            return tuple(self.policies)
        for name in named:
            if name not in self.policies:
                raise Refused(
                    422, "bad_request", f"no policy {name[:80]!r}; there are: {', '.join(self.policies)}"
                )
        return tuple(dict.fromkeys(named))


def webhook_secret(data: Path) -> bytes:
    """The secret that deliveries are signed with, made when it is first needed."""
    place = data / "webhook-secret"
    if not place.exists():
        data.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text(secrets.token_urlsafe(32), encoding="ascii")
    return place.read_bytes().strip()
