"""Jobs and verdicts over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from poolsieve.serving.answers import DecisionBody, JobAnswer, VerdictAnswer
from poolsieve.serving.bodies import Upload, body_parts, parse_multipart, parse_object, read_body
from poolsieve.serving.errors import Refused
from poolsieve.serving.manifests import (
    ARCHIVE_TYPES,
    TABLE_TYPES,
    JobSource,
    archive_ending,
    archive_source,
    paths_source,
    table_source,
)
from poolsieve.serving.moderate_routes import refusals
from poolsieve.serving.outgoing import NotAllowedError
from poolsieve.serving.requests import read_policies
from poolsieve.serving.service import Service
from poolsieve.store import Job, JobConflictError, StoredVerdict

_IDENTITY = re.compile(r"[0-9a-f]{32}")
_MAX_IDEMPOTENCY_KEY = 255
_MAX_PAGE = 1000
_MAX_COMMENT = 4000
_FILE = {"type": "string", "format": "binary"}
_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "paths": {"type": "array", "items": {"type": "string"}},
                    "policies": {"type": "array", "items": {"type": "string"}},
                    "webhook": {"type": "string"},
                },
                "required": ["paths"],
            }
        },
        "text/csv": {"schema": {"type": "string"}},
        "application/x-ndjson": {"schema": {"type": "string"}},
        "application/zip": {"schema": _FILE},
        "application/x-tar": {"schema": _FILE},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"manifest": _FILE, "archive": _FILE, "policies": {"type": "string"}},
            }
        },
    },
}
Result = TypeVar("Result")


def job_router(service: Service) -> APIRouter:
    """Routes of a service."""
    router = APIRouter()

    async def ask(question: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(service.asking, question)

    async def parse(work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(service.parsing, work)

    async def find_job(job_id: str, key_id: str) -> Job:
        identity = _identity(job_id)
        job = await ask(lambda: service.store.jobs.get(identity, key_id=key_id))
        if job is None:
            raise Refused(404, "not_found", "there is no such job of this key")
        return job

    async def find_verdict(verdict_id: str, key_id: str) -> StoredVerdict:
        identity = _identity(verdict_id)
        verdict = await ask(lambda: service.store.verdicts.get(identity, key_id=key_id))
        if verdict is None:
            raise Refused(404, "not_found", "there is no such verdict of this key")
        return verdict

    @router.post(
        "/v1/jobs",
        status_code=202,
        tags=["jobs"],
        summary="Judge the images of a manifest or an archive",
        responses=refusals(400, 401, 403, 409, 413, 422, 503),
        openapi_extra={"requestBody": _BODY},
    )
    async def create_job(
        request: Request,
        policies: str | None = Query(None, description="Names of policies, with commas; all by default."),
        webhook: str | None = Query(None, description="Told when the job is finished."),
        idempotency_key: str | None = Header(None, max_length=_MAX_IDEMPOTENCY_KEY),
    ) -> JobAnswer:
        key = await service.access.key(request, "jobs")
        if service.draining:
            raise Refused(503, "draining", "this process is about to end; try again", retry_after=5)
        wanted = _Wanted(service, policies, webhook)
        source, digest = await wanted.read(request, parse)
        try:
            wanted.check()
            told = {
                "archive": None if source.archive is None else str(source.archive),
                "webhook": wanted.webhook,
            }
            body_hash = hashlib.sha256(
                json.dumps([digest, sorted(wanted.policies), wanted.webhook]).encode()
            ).hexdigest()
            job, new = await ask(
                lambda: service.store.jobs.create(
                    key_id=key.id,
                    body_hash=body_hash,
                    policies=wanted.policies,
                    items=source.items,
                    source=told,
                    idempotency_key=idempotency_key,
                )
            )
        except JobConflictError as error:
            _remove(source.archive)
            raise Refused(409, "conflict", str(error)) from None
        except BaseException:
            _remove(source.archive)
            raise
        if new:
            service.jobs.wake()
        else:
            _remove(source.archive)
        return JobAnswer.of(job)

    @router.get(
        "/v1/jobs/{job_id}", tags=["jobs"], summary="Progress", responses=refusals(401, 403, 404, 422)
    )
    async def get_job(request: Request, job_id: str) -> JobAnswer:
        key = await service.access.key(request, "jobs")
        return JobAnswer.of(await find_job(job_id, key.id))

    @router.get(
        "/v1/jobs/{job_id}/verdicts",
        tags=["jobs"],
        summary="Pages of verdicts as JSONL",
        response_class=Response,
        responses={200: {"content": {"application/x-ndjson": {}}}, **refusals(401, 403, 404, 422)},
    )
    async def get_job_verdicts(
        request: Request,
        job_id: str,
        after: int = Query(-1, ge=-1, le=2**31 - 1, description="Position after which the page begins."),
        limit: int = Query(_MAX_PAGE, ge=1, le=_MAX_PAGE, description="Images of a page."),
    ) -> Response:
        key = await service.access.key(request, "jobs")
        job = await find_job(job_id, key.id)
        page = await ask(lambda: service.store.verdicts.of_job(job.id, after=after, limit=limit))
        lines = [VerdictAnswer.of(verdict).model_dump_json() + "\n" for verdict in page]
        last = page[-1].position if page else None
        headers = {} if last is None else {"X-Next-After": str(last)}
        return Response("".join(lines), media_type="application/x-ndjson", headers=headers)

    @router.delete(
        "/v1/jobs/{job_id}", tags=["jobs"], summary="Cancel", responses=refusals(401, 403, 404, 422)
    )
    async def cancel_job(request: Request, job_id: str) -> JobAnswer:
        key = await service.access.key(request, "jobs")
        found = await find_job(job_id, key.id)
        await ask(lambda: service.store.jobs.cancel(f"key {key.id}", found.id))
        job = await find_job(job_id, key.id)
        archive = (job.source or {}).get("archive")
        _remove(None if archive is None else Path(archive))
        return JobAnswer.of(job)

    @router.get(
        "/v1/verdicts/{verdict_id}",
        tags=["verdicts"],
        summary="A verdict and its grounds",
        responses=refusals(401, 403, 404, 422),
    )
    async def get_verdict(request: Request, verdict_id: str) -> VerdictAnswer:
        key = await service.access.key(request, "verdicts")
        return VerdictAnswer.of(await find_verdict(verdict_id, key.id))

    @router.post(
        "/v1/verdicts/{verdict_id}/decision",
        tags=["verdicts"],
        summary="A person's decision from another tool",
        responses=refusals(401, 403, 404, 413, 422),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": DecisionBody.model_json_schema()}},
            }
        },
    )
    async def decide(request: Request, verdict_id: str) -> VerdictAnswer:
        key = await service.access.key(request, "decisions")
        made = _decision(await read_body(request, 65_536, service.unread))
        verdict = await find_verdict(verdict_id, key.id)
        actor = f"key {key.id}"
        await ask(lambda: service.store.verdicts.decide(actor, verdict.id, made.decision, made.comment))
        return VerdictAnswer.of(verdict)

    return router


def _decision(body: bytes) -> DecisionBody:
    try:
        made = DecisionBody.model_validate(parse_object(body))
    except ValueError:
        raise Refused(422, "bad_request", 'send {"decision": "approve" or "reject", "comment": …}') from None
    if made.comment is not None and len(made.comment) > _MAX_COMMENT:
        raise Refused(422, "bad_request", f"a comment has at most {_MAX_COMMENT} characters")
    return made


def _identity(text: str) -> str:
    """A name as the store makes them; anything else is nothing that there is."""
    if not _IDENTITY.fullmatch(text):
        raise Refused(404, "not_found", "there is nothing of that name")
    return text


def _remove(archive: Path | None) -> None:
    if archive is not None:
        with suppress(OSError):
            archive.unlink()


class _Wanted:
    """What a request for a job asks for, from its URL and its body."""

    def __init__(self, service: Service, policies: str | None, webhook: str | None) -> None:
        self._service = service
        self.policies, self.webhook = read_policies(service, policies), webhook

    def check(self) -> None:
        """Raise Refused if the webhook is not allowed."""
        if self.webhook is not None:
            try:
                self._service.webhooks.check(self.webhook)
            except NotAllowedError as error:
                raise Refused(422, "webhook", f"the webhook is not allowed: {error}") from None

    async def read(self, request: Request, parse: Any) -> tuple[JobSource, str]:
        """The images, and a hash of what names them."""
        service = self._service
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ARCHIVE_TYPES:
            return await self._read_archive(request, parse)
        body = await read_body(request, service.limits.body_bytes, service.unread)
        digest = hashlib.sha256(body).hexdigest()
        if kind == "application/json":
            values = parse_object(body)
            self._take(values)
            paths = values.get("paths")
            if not isinstance(paths, list) or not paths:
                raise Refused(422, "bad_request", '"paths" is a list of files; or send a table or an archive')
            return await parse(lambda: self._of_paths(paths)), digest
        if kind in TABLE_TYPES:
            form = "csv" if kind == "text/csv" else "jsonl"
            return await parse(lambda: self._of_table(body, form)), digest
        if kind == "multipart/form-data":
            made = parse_multipart(body, request.headers.get("content-type", ""), most_files=1)
            self._take(dict(made.fields))
            if len(made.uploads) != 1:
                raise Refused(422, "bad_request", "send one file: a manifest (.csv, .jsonl) or an archive")
            return await parse(lambda: self._of_upload(made.uploads[0])), digest
        raise Refused(
            422, "bad_request", f"send {', '.join((*TABLE_TYPES, *ARCHIVE_TYPES[:2]))}, JSON or a form"
        )

    def _take(self, fields: dict[str, Any]) -> None:
        if "policies" in fields:
            self.policies = read_policies(self._service, fields["policies"])
        webhook = fields.get("webhook", self.webhook)
        if webhook is not None and not isinstance(webhook, str):
            raise Refused(422, "bad_request", '"webhook" is a URL')
        self.webhook = webhook

    def _of_paths(self, paths: list[Any]) -> JobSource:
        return paths_source(paths, self._service.prefixes, self._service.limits.job_images)

    def _of_table(self, body: bytes, form: str) -> JobSource:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(422, "bad_request", "the table is not in UTF-8") from None
        source = table_source(text, form, self._service.prefixes, self._service.limits.job_images)
        if not source.items:
            raise Refused(422, "bad_request", "the table names no files")
        return source

    def _of_upload(self, upload: Upload) -> JobSource:
        name, data = upload.name.lower(), upload.data or b""
        if name.endswith((".csv", ".jsonl", ".ndjson")):
            return self._of_table(data, "csv" if name.endswith(".csv") else "jsonl")
        place = self._place(data[:4])
        place.write_bytes(data)
        return self._of_archive(place)

    def _of_archive(self, place: Path) -> JobSource:
        try:
            source = archive_source(place, self._service.limits.job_images)
            if not source.items:
                raise Refused(422, "bad_request", "the archive is empty")
        except BaseException:
            _remove(place)
            raise
        return source

    def _place(self, start: bytes) -> Path:
        folder = (self._service.options.data / "uploads").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (secrets.token_hex(16) + archive_ending(start))

    async def _read_archive(self, request: Request, parse: Any) -> tuple[JobSource, str]:
        """Straight to disk, as it may be larger than memory should hold."""
        service, digest = self._service, hashlib.sha256()
        loop = asyncio.get_running_loop()
        place: Path | None = None
        stream = None
        try:
            async for part in body_parts(request, service.limits.archive_bytes):
                if place is None or stream is None:
                    place = self._place(part)
                    stream = place.open("wb")
                digest.update(part)
                await loop.run_in_executor(service.parsing, stream.write, part)
        except BaseException:
            if stream is not None:
                stream.close()
            _remove(place)
            raise
        if stream is None or place is None:
            raise Refused(422, "bad_request", "the archive is empty")
        stream.close()
        found = place
        return await parse(lambda: self._of_archive(found)), digest.hexdigest()
