"""The review page as an application: its parts, the headers of every answer, and what errors look like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException as AnyHTTPException

from poolsieve.review import (
    audit_page,
    dashboard,
    how_well_page,
    pictures,
    queue,
    settings_page,
    signing_in,
)
from poolsieve.review.access import SignInNeeded, check_form
from poolsieve.review.site import COOKIE, PlanComparison, Site, assets, moved, page, prepare, site_of
from poolsieve.store import LeaseLostError, Store, Task

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without any, browsers do not tell where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PARTS = (queue, pictures, audit_page, how_well_page, dashboard, settings_page, signing_in)
_WEEK = 604_800


def review_app(
    store: Store,
    *,
    picture: Callable[[Task], bytes | None] | None = None,
    live: Callable[[], Mapping[str, Any]] | None = None,
    plans: PlanComparison | None = None,
    entrance: str | None = None,
    decided: Callable[[], object] = lambda: None,
    secure: bool = False,
) -> FastAPI:
    """The whole review page, to be run alone or mounted by the service, say at /review.

    Args:
        store: What it shows and where decisions go.
        picture: The JPEG of a task's image; by default the thumbnail in the store.
        live: What the running service knows at this moment, for the dashboard: names and values.
        plans: Compares plans that its policies could follow.
        entrance: The secret of a link, `/enter/SECRET`, that lets its holder in without a password.
        decided: Called after decisions have changed.
        secure: Cookies are sent by https only, as they are anyway once the page is reached by https.
    """
    app = FastAPI(dependencies=[Depends(check_form)], openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = Site(store, picture or _stored(store), live, plans, entrance, decided, secure)
    prepare()
    for part in PARTS:
        app.include_router(part.routes)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in assets():
            raise HTTPException(404, "there is no such file")
        content, kind = assets()[name]
        return Response(content, media_type=kind, headers={"Cache-Control": f"public, max-age={_WEEK}"})

    @app.middleware("http")
    async def add_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    @app.exception_handler(SignInNeeded)
    def sign_in(request: Request, _: Exception) -> Response:
        if request.method == "GET" and "hx-request" not in request.headers:
            return moved(request, "/sign-in")
        return page(request, "error.html", None, 401, message="your session has ended; sign in again")

    @app.exception_handler(AnyHTTPException)
    def refuse(request: Request, error: AnyHTTPException) -> Response:
        return _problem(request, error.status_code, str(error.detail))

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> Response:
        named = ", ".join(str(one["loc"][-1]) for one in error.errors())
        return _problem(request, 422, f"this is not what the page asked for: {named}")

    @app.exception_handler(LeaseLostError)
    def lost(request: Request, error: LeaseLostError) -> Response:
        return _problem(request, 409, str(error))

    @app.exception_handler(ValueError)
    def mistaken(request: Request, error: ValueError) -> Response:
        return _problem(request, 400, str(error))

    return app


def _problem(request: Request, status: int, message: str) -> Response:
    session = site_of(request).store.users.session(request.cookies.get(COOKIE, ""))
    return page(request, "error.html", session, status, message=message)


def _stored(store: Store) -> Callable[[Task], bytes | None]:
    return lambda task: None if task.sha256 is None else store.images.thumbnail(task.sha256)
