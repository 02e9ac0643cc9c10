"""What Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from poolsieve.serving.batching import Dispatch
    from poolsieve.serving.policies import JudgedChunk, Policy

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_FILL = tuple(step / 10 for step in range(1, 11))


class _Measured(Collector):
    """Values that are asked for when somebody looks."""

    def __init__(self, name: str, words: str, label: str, read: Callable[[], dict[str, float]]) -> None:
        self._name, self._words, self._label, self._read = name, words, label, read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._words, labels=[self._label])
        for label, value in self._read().items():
            family.add_metric([label], value)
        yield family

    def describe(self) -> Iterator[Any]:
        return iter(())


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "poolsieve_requests", "Requests by route and status.", ["route", "status"], **made
        )
        self.latency = Histogram(
            "poolsieve_request_seconds",
            "Seconds from a request's head to its answer.",
            ["route"],
            buckets=_SECONDS,
            **made,
        )
        self.refused = Counter(
            "poolsieve_refused", "Requests that were refused, by reason.", ["reason"], **made
        )
        self.late = Counter("poolsieve_late", "Images without a verdict at their deadline.", **made)
        self.verdicts = Counter(
            "poolsieve_verdicts", "Verdicts by policy and status.", ["policy", "status"], **made
        )
        self.decided = Counter(
            "poolsieve_decided", "Verdicts by policy and the stage that decided.", ["policy", "stage"], **made
        )
        self.chunks = Counter(
            "poolsieve_chunks", "Chunks by policy and reason of dispatch.", ["policy", "reason"], **made
        )
        self.fill = Histogram(
            "poolsieve_chunk_fill",
            "Images of a chunk as a share of a full one.",
            ["policy"],
            buckets=_FILL,
            **made,
        )
        self.seconds = Counter("poolsieve_seconds", "Seconds of work by part.", ["part"], **made)
        self.images = Counter(
            "poolsieve_images_judged", "Images that went through networks.", ["policy"], **made
        )
        self.tests = Counter(
            "poolsieve_individual_tests", "Cost of what was judged, in individual tests.", ["policy"], **made
        )
        self.cost = Gauge(
            "poolsieve_cost_share", "Cost as a share of individual testing, so far.", ["policy"], **made
        )
        self.prevalence = Gauge(
            "poolsieve_prevalence_estimate", "Share of bad images, estimated.", ["policy", "bound"], **made
        )
        self.plan = Info("poolsieve_plan", "The scheme in force.", ["policy"], **made)
        self.deliveries = Counter("poolsieve_deliveries", "Webhook deliveries by result.", ["result"], **made)

    def watch_queue(self, read: Callable[[], dict[str, float]]) -> None:
        """Ask for the sizes of the queue whenever somebody looks."""
        self.registry.register(
            _Measured("poolsieve_queue_images", "Images in the service, by place.", "place", read)
        )

    def watch_connections(self, read: Callable[[], dict[str, float]]) -> None:
        """Ask for the numbers of connections whenever somebody looks."""
        self.registry.register(_Measured("poolsieve_connections", "Connections by state.", "state", read))

    def show_plan(self, policy: Policy) -> None:
        """Tell what decides at present."""
        self.plan.labels(policy=policy.name).info({"scheme": str(policy.scheme)})

    def count_chunk(self, policy: Policy, dispatch: Dispatch[Any], judged: JudgedChunk) -> None:
        """Count a chunk that is recorded."""
        name = policy.name
        self.chunks.labels(policy=name, reason=dispatch.reason).inc()
        self.fill.labels(policy=name).observe(len(dispatch.images) / policy.line.full)
        for verdict in judged.verdicts:
            self.verdicts.labels(policy=name, status=verdict.status).inc()
            if verdict.decided_by is not None:
                self.decided.labels(policy=name, stage=verdict.decided_by).inc()
        for part, spent in judged.seconds.items():
            self.seconds.labels(part=part).inc(max(spent, 0.0))
        read = sum(verdict.decided_by is not None for verdict in judged.verdicts)
        self.images.labels(policy=name).inc(read)
        self.tests.labels(policy=name).inc(judged.cost * read)
        self.cost.labels(policy=name).set(policy.run.totals.meter.share)
        estimate = policy.run.totals.estimated_prevalence()
        if estimate is not None:
            for bound in ("value", "low", "high"):
                self.prevalence.labels(policy=name, bound=bound).set(getattr(estimate, bound))
        self.show_plan(policy)

    def text(self) -> bytes:
        """In the format of Prometheus."""
        return generate_latest(self.registry)
