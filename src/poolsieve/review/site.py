"""What every page of the review shares: the store, how pictures are found, how a page is rendered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from poolsieve.pages import environment
from poolsieve.review.plan_offers import Offers
from poolsieve.statistics import mid_p
from poolsieve.store import Session, Store, Task

COOKIE = "poolsieve_session"


class PlanComparison(Protocol):
    """What compares plans for policies, if a service does; see `poolsieve.serving.planning_ahead`."""

    def has(self, policy: str) -> bool:
        """Whether there is anything to plan from."""

    def offers(self, policy: str, prevalence: float, *, start: bool = False) -> Offers | None:
        """Plans for a prevalence; None while they are not there."""

    def being_compared(self, policy: str) -> bool:
        """Whether plans of a policy are on their way."""


@dataclass(frozen=True)
class Site:
    """One review page.

    Attributes:
        store: What it shows.
        picture: The JPEG of a task's image; None if it is gone.
        live: What the running service knows of its queue, by name; None without a service.
        plans: Compares plans; None without a service.
        entrance: The secret of the link that lets its holder in without a password; None for signing in.
        decided: Called after decisions have changed.
        secure: Whether cookies are for https only.
    """

    store: Store
    picture: Callable[[Task], bytes | None]
    live: Callable[[], Mapping[str, Any]] | None
    plans: PlanComparison | None
    entrance: str | None
    decided: Callable[[], object]
    secure: bool


def site_of(request: Request) -> Site:
    """The site that a request is for."""
    found: Site = request.app.state.site
    return found


Here = Annotated[Site, Depends(site_of)]


def page(
    request: Request, template: str, session: Session | None, status: int = 200, **values: Any
) -> HTMLResponse:
    """A page of the site, for somebody who has signed in or nobody."""
    site = site_of(request)
    counts = {} if session is None else site.store.tasks.counts(user=session.user)
    shared = {
        "root": request.scope.get("root_path", ""),
        "user": None if session is None else session.user,
        "csrf": "" if session is None else session.csrf,
        "open_tasks": sum(counts.values()),
        "now": site.store.database.now(),
        "version": assets_version(),
        "alone": site.entrance is not None,
    }
    text = _templates().get_template(template).render(**shared, **values)
    return HTMLResponse(text, status_code=status)


def moved(request: Request, place: str) -> RedirectResponse:
    """To another page of the site, after a form was sent."""
    return RedirectResponse(request.scope.get("root_path", "") + place, status_code=303)


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Keep something in the browser, out of reach of scripts; by https only if it came so."""
    # "lax", as the first page is reached by a link in a terminal or a message.
    secure = site_of(request).secure or request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=seconds, httponly=True, samesite="lax", secure=secure, path="/")


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Style, scripts and the note on their licence: content and type by name."""
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
    found = {}
    for file in resources.files("poolsieve.review").joinpath("static").iterdir():
        ending = "." + file.name.rpartition(".")[2]
        if ending in kinds:
            found[file.name] = file.read_bytes(), kinds[ending]
    style = resources.files("poolsieve.pages").joinpath("style.css").read_bytes()
    found["style.css"] = style + found["review.css"][0], "text/css"
    return found


@cache
def assets_version() -> str:
    """Changes when any of them does, so that browsers may keep them."""
    return hashlib.sha256(b"".join(content for _, (content, _) in sorted(assets().items()))).hexdigest()[:12]


@cache
def _templates() -> Any:
    made = environment("review/templates")
    made.filters |= {"age": age, "clock": clock, "share": share}
    return made


def prepare() -> None:
    """Load what the first visitor would wait for: templates, and what intervals are computed with."""
    for name in _templates().list_templates():
        _templates().get_template(name)
    mid_p(1, 2)


def age(seconds: float) -> str:
    """A span of time in words."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def clock(seconds: float) -> str:
    """A point in time, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def share(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.1f}%"
