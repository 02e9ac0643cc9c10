"""Signing in and out, and the links by which people make their accounts."""

from __future__ import annotations

import hmac
import secrets
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import Response

from poolsieve.review.access import FORM_COOKIE
from poolsieve.review.site import COOKIE, Here, moved, page, set_cookie

routes = APIRouter()
Text = Annotated[str, Form(max_length=2048)]
ALONE = "you"
"""Who reviews a folder on their own machine."""


@routes.get("/sign-in")
def ask(request: Request, site: Here) -> Response:
    """The form for name and password."""
    return _form(request, "sign_in.html")


@routes.post("/sign-in")
def sign_in(request: Request, site: Here, name: Text, password: Text) -> Response:
    """Begin a session."""
    try:
        token, _ = site.store.users.sign_in(name, password)
    except ValueError as error:
        return _form(request, "sign_in.html", 403, message=str(error))
    return _begun(request, token)


@routes.post("/sign-out")
def sign_out(request: Request, site: Here) -> Response:
    """End the session."""
    site.store.users.sign_out(request.cookies.get(COOKIE, ""))
    answer = moved(request, "/sign-in")
    answer.delete_cookie(COOKIE)
    return answer


@routes.get("/join/{token}")
def invited(request: Request, site: Here, token: str) -> Response:
    """The form for a new account."""
    role = site.store.users.invited_as(token)
    if role is None:
        raise HTTPException(404, "this link was used before or is too old; ask for a new one")
    return _form(request, "join.html", role=role, token=token)


@routes.post("/join/{token}")
def join(request: Request, site: Here, token: str, name: Text, password: Text) -> Response:
    """Make the account that a link invites to, and begin a session."""
    role = site.store.users.invited_as(token)
    try:
        site.store.users.join(token, name, password)
    except ValueError as error:
        return _form(request, "join.html", 400, role=role or "", token=token, message=str(error))
    return _begun(request, site.store.users.sign_in(name, password)[0])


@routes.get("/enter/{secret}")
def enter(request: Request, site: Here, secret: str) -> Response:
    """Let in who holds the link that the command printed."""
    if site.entrance is None or not hmac.compare_digest(secret.encode(), site.entrance.encode()):
        raise HTTPException(404, "there is no such page")
    password = secrets.token_urlsafe(32)
    known = [user for user in site.store.users.all() if user.name == ALONE]
    user = known[0] if known else site.store.users.add(ALONE, password, "admin")
    return _begun(request, site.store.users.open_session(user))


def _form(request: Request, template: str, status: int = 200, **values: str) -> Response:
    token = request.cookies.get(FORM_COOKIE) or secrets.token_urlsafe(32)
    answer = page(request, template, None, status, **{"form_token": token, "message": "", **values})
    set_cookie(request, answer, FORM_COOKIE, token)
    return answer


def _begun(request: Request, token: str) -> Response:
    answer = moved(request, "/")
    set_cookie(request, answer, COOKIE, token)
    answer.delete_cookie(FORM_COOKIE)
    return answer
