"""How well are we doing: precision, sensitivity, drift, the plan's promise, and a threshold to consider."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import Response

from poolsieve.review.access import Lead, Reviewer
from poolsieve.review.charts import line_chart
from poolsieve.review.decision_counts import chunk_series, decided_scores, decision_series, outcomes, policies
from poolsieve.review.policy_quality import against, precision, sensitivity
from poolsieve.review.site import Here, Site, moved, page
from poolsieve.review.thresholds import changes, suggested
from poolsieve.statistics import proportion

routes = APIRouter()
_DAY = 86_400.0
_SERIES = 30
_USUAL_THRESHOLD = 0.5


@routes.get("/how-well")
def how_well(
    request: Request,
    site: Here,
    session: Reviewer,
    policy: Annotated[str, Query(max_length=256)] = "",
    days: Annotated[int, Query(ge=1, le=3650)] = 30,
) -> Response:
    """The page, for one policy."""
    known = policies(site.store)
    chosen = policy if policy in known else (known[0] if known else "")
    found = _measured(site, chosen, days) if chosen else None
    return page(request, "how_well.html", session, policies=known, policy=chosen, days=days, found=found)


def _measured(site: Site, policy: str, days: int) -> dict[str, Any]:
    store = site.store
    settings = store.settings.all()
    now = store.database.now()
    since = now - days * _DAY
    seen = outcomes(store, policy, since)
    exact = precision(seen.decided, seen.bad)
    # The same numbers give the same interval whenever the page is loaded.
    found = sensitivity(seen.flagged, seen.decided, seen.bad, seen.clear, np.random.default_rng(0))
    promise = settings["promises"].get(policy, {})
    present = float(settings["thresholds"].get(policy, promise.get("threshold", _USUAL_THRESHOLD)))
    scores, bad = decided_scores(store, policy, since)
    options = changes(scores, bad, present)
    step = days * _DAY / _SERIES
    flags = [
        ((row["bucket"] + 0.5) / _SERIES, proportion(row["flagged"], row["images"]))
        for row in chunk_series(store, since, step, policy)
        if row["images"]
    ]
    agreement = [
        ((row["bucket"] + 0.5) / _SERIES, proportion(row["bad"], row["decided"]))
        for row in decision_series(store, policy, since, step)
    ]
    ends = f"{days} days ago", "now"
    return {
        "seen": seen,
        "sampled": sum(one.decided for one in seen.clear),
        "missed": sum(one.bad for one in seen.clear),
        "precision": exact,
        "sensitivity": found,
        "promise": promise,
        "kept": against(promise.get("sensitivity"), found),
        "present": present,
        "options": options,
        "suggested": suggested(options, int(bad.sum())),
        "applied": policy in settings["thresholds"],
        "flag_chart": line_chart("Share of images flagged, over time", flags, ends),
        "agreement_chart": line_chart("Share of flags that people rejected, over time", agreement, ends),
    }


@routes.post("/how-well/threshold")
def apply(
    request: Request,
    site: Here,
    session: Lead,
    policy: Annotated[str, Form(max_length=256)],
    threshold: Annotated[str, Form(max_length=32)] = "",
) -> Response:
    """Apply a threshold, from the next verdict on; an empty one gives the plan its own back."""
    if policy not in policies(site.store):
        raise HTTPException(404, f"there is no policy {policy!r}")
    values = dict(site.store.settings.get("thresholds"))
    if threshold:
        number = float(threshold)
        if not 0 < number < 1:
            raise ValueError(f"threshold {threshold}: a number above 0 and below 1")
        values[policy] = number
    else:
        values.pop(policy, None)
    site.store.settings.set(session.user.name, {"thresholds": values})
    return moved(request, "/how-well")
