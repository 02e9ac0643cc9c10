"""The web application: routes, health, metrics, and what every request goes through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from poolsieve._version import __version__
from poolsieve.serving.errors import Refused, answer_refusal
from poolsieve.serving.job_routes import job_router
from poolsieve.serving.metrics import CONTENT_TYPE
from poolsieve.serving.moderate_routes import MODERATE, moderate_router, refusals
from poolsieve.serving.requests import refusal_at_the_door
from poolsieve.serving.service import Service

_DESCRIPTION = "Image moderation by pooled tests, cheap first looks and plans."


def create_app(service: Service, *, mounts: Mapping[str, Any] | None = None) -> FastAPI:
    """The application of a service.

    Args:
        service: Answers; it is started and stopped with the application.
        mounts: Further applications by their path, such as the pages for reviewers.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, service.start)
        yield
        await loop.run_in_executor(None, service.stop)

    app = FastAPIOffline(  # /docs with nothing from other servers
        title="poolsieve", version=__version__, description=_DESCRIPTION, lifespan=lifespan, redoc_url=None
    )
    app.add_exception_handler(Refused, answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_no_route)
    app.include_router(moderate_router(service))
    app.include_router(job_router(service))
    app.include_router(_health_router(service))
    for path, mounted in (mounts or {}).items():
        app.mount(path, mounted)
    app.add_middleware(_MeasuredRequests, service=service)
    return app


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return await answer_refusal(request, Refused(422, "bad_request", f"{place}: {first['msg']}"))


async def _answer_no_route(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    words = f"{request.method} {request.url.path}: {error.detail}; /docs lists what there is"
    answer = Refused(error.status_code, code, words).response()
    answer.headers.update(error.headers or {})  # such as Allow
    return answer


def _health_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", summary="Whether requests can be answered", responses=refusals(503))
    async def readyz() -> dict[str, Any]:
        if service.draining or not service.ready:
            raise Refused(503, "draining", "this process is starting or about to end", retry_after=5)
        if service.judge.failure is not None:
            raise Refused(503, "unavailable", "the last chunk could not be judged", retry_after=5)
        try:
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.run_in_executor(service.asking, service.store.settings.all), 5.0)
        except Exception:
            raise Refused(503, "unavailable", "the database does not answer", retry_after=5) from None
        return {"status": "ready", "policies": list(service.policies)}

    @router.get("/metrics", summary="For Prometheus", response_class=Response, responses=refusals(401, 403))
    async def metrics(request: Request) -> Response:
        await service.access.key(request, "metrics")
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return router


class _MeasuredRequests:
    """Counts requests and their time, and refuses at once; plain ASGI, as every request comes through it."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service, self._metrics = app, service, service.metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.monotonic(), 500

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        refused = None
        if scope["method"] == "POST" and scope["path"] == MODERATE:
            refused = refusal_at_the_door(self._service, Request(scope))
        try:
            await (self._app if refused is None else refused.response())(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", "other" if refused is None else MODERATE)
            self._metrics.requests.labels(route=route, status=str(status)).inc()
            self._metrics.latency.labels(route=route).observe(time.monotonic() - begin)
