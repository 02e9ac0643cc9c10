"""Settings: one's own view, and for admins the organisation's, people and API keys."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from poolsieve.review.access import Admin, Reviewer
from poolsieve.review.site import Here, Site, moved, page
from poolsieve.store import ROLES, Session
from poolsieve.store.keys import SCOPES

routes = APIRouter()
Choice = Annotated[Literal["", "on", "off"], Form()]
Ticked = Annotated[bool, Form()]


@routes.get("/settings")
def show(request: Request, site: Here, session: Reviewer) -> Response:
    """The page; what only admins may change, only they see."""
    return _page(request, site, session)


def _page(request: Request, site: Site, session: Session, link: str = "", key_text: str = "") -> Response:
    admin = session.user.may("admin")
    return page(
        request,
        "settings.html",
        session,
        values=site.store.settings.all(),
        roles=ROLES,
        scopes=SCOPES,
        people=site.store.users.all() if admin else [],
        keys=site.store.keys.all() if admin else [],
        link=link,
        key_text=key_text,
    )


@routes.post("/settings/own")
def own(request: Request, site: Here, session: Reviewer, blur: Choice = "", grey: Choice = "") -> Response:
    """How one wants pictures to be shown; empty: as the organisation does."""
    chosen = {"blur": blur, "grey": grey}
    wellness = {name: value == "on" for name, value in chosen.items() if value}
    site.store.users.set_wellness(session.user, wellness)
    return moved(request, "/settings")


@routes.post("/settings/organisation")
def organisation(
    request: Request,
    site: Here,
    session: Admin,
    sampling_percent: Annotated[float, Form(ge=0, le=100)],
    thumbnail_days: Annotated[float, Form(gt=0, le=3650)],
    lease_minutes: Annotated[float, Form(ge=0.1, le=1440)],
    blur: Ticked = False,
    grey: Ticked = False,
    blind: Ticked = False,
    keep_originals: Ticked = False,
) -> Response:
    """Wellness, sampling and retention for everybody."""
    values = {"blur": blur, "grey": grey, "blind": blind, "keep_originals": keep_originals}
    numbers = {"sampling_rate": sampling_percent / 100, "thumbnail_days": thumbnail_days}
    site.store.settings.set(session.user.name, values | numbers | {"lease_seconds": 60 * lease_minutes})
    return moved(request, "/settings")


@routes.post("/settings/invite")
def invite(
    request: Request,
    site: Here,
    session: Admin,
    role: Annotated[Literal["reviewer", "lead", "admin"], Form()],
) -> Response:
    """A link by which one person makes an account; it is shown once."""
    token = site.store.users.invite(session.user.name, role)
    # `base_url` is the whole service's, which these pages may be only a part of.
    place = request.base_url.replace(path=f"{request.scope.get('root_path', '')}/join/{token}")
    return _page(request, site, session, link=str(place))


@routes.post("/settings/user/{number}")
def change_user(
    request: Request,
    site: Here,
    session: Admin,
    number: int,
    role: Annotated[Literal["reviewer", "lead", "admin"], Form()],
    closed: Ticked = False,
) -> Response:
    """Give somebody another role, or close their account."""
    site.store.users.change(session.user.name, number, role=role, disabled=closed)
    return moved(request, "/settings")


@routes.post("/settings/keys")
def create_key(
    request: Request,
    site: Here,
    session: Admin,
    name: Annotated[str, Form(min_length=1, max_length=100)],
    scopes: Annotated[list[str], Form()],
    quota: Annotated[str, Form(max_length=12)] = "",
    days: Annotated[str, Form(max_length=6)] = "",
) -> Response:
    """A new API key, whose text is shown once."""
    end = site.store.database.now() + 86_400 * float(days) if days else None
    _, text = site.store.keys.create(
        session.user.name, name, scopes=scopes, quota=int(quota) if quota else None, expires_at=end
    )
    return _page(request, site, session, key_text=text)


@routes.post("/settings/keys/{public}/revoke")
def revoke_key(request: Request, site: Here, session: Admin, public: str) -> Response:
    """End an API key at once."""
    site.store.keys.revoke(session.user.name, public)
    return moved(request, "/settings")
