"""How well are we doing: precision, sensitivity, drift, the plan's promise, and what to change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import Response

from poolsieve.review.access import Lead, Reviewer
from poolsieve.review.charts import line_chart
from poolsieve.review.decision_counts import (
    chunk_series,
    decided_images,
    decision_series,
    outcomes,
    policies,
    prevalence,
)
from poolsieve.review.plan_offers import plan_changes, suggested_plan
from poolsieve.review.policy_quality import against, precision, sensitivity
from poolsieve.review.site import Here, Site, moved, page
from poolsieve.review.thresholds import changes, suggested
from poolsieve.statistics import proportion
from poolsieve.store import Session

routes = APIRouter()
PolicyName = Annotated[str, Form(max_length=256)]
_DAY = 86_400.0
_SERIES = 30
_USUAL_THRESHOLD = 0.5
_CAUTIOUS = 0.1
"""Prevalence that plans are compared for while nobody knows it."""


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
    # The same numbers give the same interval whenever the page is loaded.
    found = sensitivity(seen.flagged, seen.decided, seen.bad, seen.clear, np.random.default_rng(0))
    promise = settings["promises"].get(policy, {})
    kept = against(promise.get("sensitivity"), found)
    present = float(settings["thresholds"].get(policy, promise.get("threshold", _USUAL_THRESHOLD)))
    flagged, clear = decided_images(store, policy, since, seen)
    options = changes(flagged, clear, present)
    step = days * _DAY / _SERIES
    series = chunk_series(store, since, step, policy)
    flags = [
        ((row["bucket"] + 0.5) / _SERIES, proportion(row["flagged"], row["images"]))
        for row in series
        if row["images"]
    ]
    agreement = [
        ((row["bucket"] + 0.5) / _SERIES, proportion(row["bad"], row["decided"]))
        for row in decision_series(store, policy, since, step)
    ]
    ends = f"{days} days ago", "now"
    images = sum(row["images"] for row in series)
    return {
        "seen": seen,
        "sampled": sum(one.decided for one in seen.clear),
        "missed": sum(one.bad for one in seen.clear),
        "missed_before": int((clear.bad & np.isnan(clear.scores)).sum()),
        "precision": precision(seen.decided, seen.bad),
        "sensitivity": found,
        "promise": promise,
        "kept": kept,
        "present": present,
        "options": options,
        "suggested": suggested(
            options, present, int(flagged.bad.sum()), found.value, promise.get("sensitivity")
        ),
        "applied": policy in settings["thresholds"],
        "plans": _plans(site, policy, prevalence(seen, images), promise, kept),
        "plan_applied": policy in settings["plans"],
        "flag_chart": line_chart("Share of images flagged, over time", flags, ends),
        "agreement_chart": line_chart("Share of flags that people rejected, over time", agreement, ends),
    }


def _plans(
    site: Site, policy: str, people_say: float, promise: Mapping[str, Any], kept: str
) -> dict[str, Any] | None:
    """What other plans would change; None where nothing can plan."""
    if site.plans is None or not site.plans.has(policy):
        return None
    share = promise.get("prevalence", _CAUTIOUS) if math.isnan(people_say) else people_say
    told: dict[str, Any] = {"prevalence": share, "by_people": not math.isnan(people_say)}
    offers = site.plans.offers(policy, share)
    if offers is None:
        return told | {"options": [], "on_their_way": site.plans.being_compared(policy)}
    options = plan_changes(offers, share)
    best = None
    if "cost" in promise:
        best = suggested_plan(options, promise["sensitivity"], promise["cost"], kept)
    return told | {"offers": offers, "options": options, "suggested": best}


@routes.post("/how-well/threshold")
def apply(
    request: Request,
    site: Here,
    session: Lead,
    policy: PolicyName,
    threshold: Annotated[str, Form(max_length=32)] = "",
) -> Response:
    """Apply a threshold, from the next verdict on; an empty one gives the plan its own back."""
    _check_policy(site, policy)
    number = float(threshold) if threshold else None
    if number is not None and not 0 < number < 1:
        raise ValueError(f"threshold {threshold}: a number above 0 and below 1")
    _apply(site, session, policy, thresholds=number)
    return _back(request, policy)


@routes.post("/how-well/plans")
def compare_plans(
    request: Request, site: Here, session: Lead, policy: PolicyName, prevalence: Annotated[float, Form()]
) -> Response:
    """Have plans compared, which takes some seconds."""
    _check_policy(site, policy)
    if site.plans is None or not site.plans.has(policy):
        raise HTTPException(404, f"there is nothing to plan {policy!r} from")
    site.plans.offers(policy, prevalence, start=True)
    return _back(request, policy)


@routes.post("/how-well/plan")
def apply_plan(
    request: Request,
    site: Here,
    session: Lead,
    policy: PolicyName,
    prevalence: Annotated[float, Form()],
    key: Annotated[str, Form(max_length=32)] = "",
) -> Response:
    """Apply a plan with its threshold, from the next verdict on; no key gives the service's own back."""
    _check_policy(site, policy)
    value = None
    if key:
        offers = None if site.plans is None else site.plans.offers(policy, prevalence)
        plan = None if offers is None else offers.find(key)
        if offers is None or plan is None:
            raise HTTPException(409, "this plan is not among those compared last; compare them anew")
        value = {"bundle": offers.bundle, "plan": plan.to_json()}
    _apply(site, session, policy, plans=value, thresholds=None)
    return _back(request, policy)


def _check_policy(site: Site, policy: str) -> None:
    if policy not in policies(site.store):
        raise HTTPException(404, f"there is no policy {policy!r}")


def _apply(site: Site, session: Session, policy: str, **values: Any) -> None:
    """Set a policy's values in settings that hold one for each policy; None takes it away."""
    known = site.store.settings.all()
    changed = {name: {**known[name], policy: value} for name, value in values.items()}
    for name, value in values.items():
        if value is None:
            del changed[name][policy]
    site.store.settings.set(session.user.name, changed)


def _back(request: Request, policy: str) -> Response:
    return moved(request, f"/how-well?policy={quote(policy)}")
