"""Who may do what: sessions by cookie, roles, and a token on everything that changes something."""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request

from poolsieve.review.site import COOKIE, Here, site_of
from poolsieve.store import Session

FORM_COOKIE = "poolsieve_form"
"""Carries the token of forms that are sent before there is a session."""
_SAFE = ("GET", "HEAD", "OPTIONS")


class SignInNeeded(Exception):  # noqa: N818 - a way on, not a fault
    """Nobody has signed in."""


def current_session(request: Request, site: Here) -> Session:
    """The session of a request.

    Raises:
        SignInNeeded: There is none.
    """
    session = site.store.users.session(request.cookies.get(COOKIE, ""))
    if session is None:
        raise SignInNeeded
    return session


Reviewer = Annotated[Session, Depends(current_session)]


def _lead(session: Reviewer) -> Session:
    return _with_role(session, "lead")


def _admin(session: Reviewer) -> Session:
    return _with_role(session, "admin")


def _with_role(session: Session, role: str) -> Session:
    if not session.user.may(role):
        raise HTTPException(403, f"this page is for the role {role}; yours is {session.user.role}")
    return session


Lead = Annotated[Session, Depends(_lead)]
Admin = Annotated[Session, Depends(_admin)]


async def check_form(request: Request) -> None:
    """Refuse what would change something and does not carry the token of its session, on every route.

    Raises:
        HTTPException: 403, for a request that another site may have made.
    """
    if request.method in _SAFE:
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "this form comes from another site")
    given = request.headers.get("x-csrf-token")
    if given is None:
        given = str((await request.form()).get("csrf", ""))
    session = site_of(request).store.users.session(request.cookies.get(COOKIE, ""))
    # Forms to sign in or join are sent before there is a session, or in spite of one.
    expected = [request.cookies.get(FORM_COOKIE, ""), "" if session is None else session.csrf]
    if not any(token and hmac.compare_digest(given.encode(), token.encode()) for token in expected):
        raise HTTPException(403, "this form is too old, or comes from another site; go back and load it anew")
