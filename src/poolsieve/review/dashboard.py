"""The dashboard: how much is judged, at what cost, with which plan, and what waits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from poolsieve.review.access import Reviewer
from poolsieve.review.charts import line_chart
from poolsieve.review.decision_counts import chunk_series, plans_in_force
from poolsieve.review.site import Here, Site, page
from poolsieve.statistics import Estimate

routes = APIRouter()
_HOUR, _DAY = 3_600.0, 86_400.0
_RECENT = 300.0
_SERIES = 24


@routes.get("/dashboard")
def dashboard(request: Request, site: Here, session: Reviewer) -> Response:
    """The page; htmx asks for its numbers again every ten seconds."""
    template = "dashboard_numbers.html" if "hx-request" in request.headers else "dashboard.html"
    return page(request, template, session, **_numbers(site))


def _numbers(site: Site) -> dict[str, Any]:
    store = site.store
    now = store.database.now()
    day = chunk_series(store, now - _DAY, _DAY / _SERIES)
    total = {name: sum(row[name] for row in day) for name in (day[0] if day else ())}
    recent = chunk_series(store, now - _RECENT, _RECENT * 2)
    images = total.get("images", 0)
    cost = total["cost"] / total["costed"] if total.get("costed") else None
    # What testing every image would have taken more, were time in proportion to multiply-adds.
    saved = total["seconds"] * (1 / cost - 1) / _HOUR if cost else None
    points = [
        ((row["bucket"] + 0.5) / _SERIES, Estimate(*[row["images"] / (_DAY / _SERIES)] * 3)) for row in day
    ]
    return {
        "rate": sum(row["images"] for row in recent) / _RECENT,
        "images": images,
        "flagged": total["flagged"] / images if images else None,
        "errors": total.get("errors", 0),
        "cost": cost,
        "saved": saved,
        "fill": total["filled"] / total["capacity"] if total.get("capacity") else None,
        "live": {} if site.live is None else dict(site.live()),
        "tasks": store.tasks.counts(),
        "deliveries": store.deliveries.counts(),
        "plans": plans_in_force(store),
        "jobs": store.jobs.newest(10),
        "chart": line_chart("Images a second, over the last day", points, ("24 hours ago", "now"), ".3g"),
    }
