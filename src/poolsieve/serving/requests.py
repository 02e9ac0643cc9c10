"""The images of one request on their way to an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request

from poolsieve.serving.bodies import Form, Upload, parse_images, read_body
from poolsieve.serving.errors import Refused
from poolsieve.serving.judging import LATE, Pending, PolicyOutcome
from poolsieve.serving.outgoing import NotAllowedError
from poolsieve.store import Key

if TYPE_CHECKING:
    from poolsieve.serving.service import Service

_SMALL_BODY = 65_536
"""Smaller ones are taken apart at once."""


class Gathering:
    """Waits for the verdicts on a request's images."""

    def __init__(self, left: int) -> None:
        self.ended = False
        self._left, self._lock = left, threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    def finish(self, image: Pending, policy: str, outcome: PolicyOutcome) -> None:
        """Note one verdict; the last one wakes the request."""
        with self._lock:
            if self.ended or policy in image.outcomes:
                return
            image.outcomes[policy] = outcome
            self._left -= 1
            if self._left == 0:
                self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for all verdicts, but no longer than that."""
        await asyncio.wait([self._done], timeout=max(0.0, seconds))
        with self._lock:
            self.ended = True


def read_deadline(service: Service, given: object, begin: float) -> float:
    """When the answer is due.

    Raises:
        Refused: What is given is no number of milliseconds, or out of bounds.
    """
    limits = service.limits
    if given is None:
        return begin + limits.deadline
    try:
        seconds = float(str(given)) / 1000
    except ValueError:
        seconds = float("nan")
    if not limits.least_deadline <= seconds <= limits.most_deadline:
        low, high = 1000 * limits.least_deadline, 1000 * limits.most_deadline
        raise Refused(
            422, "bad_request", f"deadline_ms lies between {low:g} and {high:g}, not {str(given)[:40]!r}"
        )
    return begin + seconds


def read_policies(service: Service, given: object) -> tuple[str, ...]:
    """The policies that a request names: a list, or a text with commas.

    Raises:
        Refused: There is no such policy.
    """
    if given is None or given == "":
        return service.chosen_policies(None)
    named = given.split(",") if isinstance(given, str) else given
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise Refused(422, "bad_request", '"policies" is a list of names')
    return service.chosen_policies([name.strip() for name in named])


class Admission:
    """Room that is held for one request, from the door to its answer.

    Args:
        service: The service.
        key: Whose request it is.
    """

    def __init__(self, service: Service, key: Key) -> None:
        self._service, self._key, self._images, self._coming = service, key, 0, False

    def open(self, deadline: float) -> None:
        """Hold room for one image before the body is read, which may come slowly.

        Raises:
            Refused: There is none, the deadline cannot be met, or the quota is used up.
        """
        self._hold(1, deadline, coming=True)

    def take(self, images: int, deadline: float) -> None:
        """The body is there: hold room for so many images in its place.

        Raises:
            Refused: As above.
        """
        self._release()
        self._hold(images, deadline, coming=False)

    def _hold(self, images: int, deadline: float, *, coming: bool) -> None:
        service = self._service
        if service.quotas.left(self._key) < images:
            service.metrics.refused.labels(reason="quota").inc()
            service.quotas.take(self._key, images)  # says how long to wait
        refused = service.judge.refusal(self._key.id, images, deadline, coming=coming)
        if refused is not None:
            service.metrics.refused.labels(reason=refused.reason).inc()
            words = (
                "no more images can be taken now"
                if refused.reason == "full"
                else "the deadline cannot be met now; allow more deadline_ms, or try again later"
            )
            raise Refused(503, refused.reason, words, retry_after=refused.retry_after)
        self._images, self._coming = images, coming

    def _release(self) -> None:
        if self._images:
            self._service.judge.release(self._key.id, self._images, coming=self._coming)
            self._images = 0

    def __enter__(self) -> Admission:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()


def refusal_at_the_door(service: Service, request: Request) -> Refused | None:
    """What a request for verdicts will be told if there is no room for it, by its head alone.

    A crowd of those who find no room must cost little, or those who found it would wait for them.
    """
    key = service.access.remembered(request, "moderate")
    if key is None:
        return None
    try:
        deadline = read_deadline(service, request.query_params.get("deadline_ms"), time.monotonic())
        with Admission(service, key) as admission:
            admission.open(deadline)
    except Refused as refused:
        return refused
    return None


async def read_form(service: Service, request: Request) -> Form:
    """The images and fields of a request.

    Raises:
        Refused: The body is too large, or holds something else.
    """
    body = await read_body(request, service.limits.body_bytes, service.unread)
    kind = request.headers.get("content-type", "")
    name = request.query_params.get("name")
    if len(body) <= _SMALL_BODY:
        return parse_images(body, kind, service.limits, name=name)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        service.parsing, lambda: parse_images(body, kind, service.limits, name=name)
    )


async def fetch_urls(
    service: Service, uploads: Sequence[Upload], deadline: float
) -> list[Upload | PolicyOutcome]:
    """Images that are at URLs, fetched; those that cannot be are errors.

    Raises:
        Refused: URLs are not fetched here.
    """
    if all(upload.url is None for upload in uploads):
        return list(uploads)
    if not service.options.fetch_urls:
        raise Refused(422, "urls_disabled", "images at URLs are not fetched here; send their bytes")
    loop = asyncio.get_running_loop()

    def fetch(upload: Upload) -> Upload | PolicyOutcome:
        if upload.url is None:
            return upload
        try:
            seconds = deadline - time.monotonic()
            reply = service.outgoing.request(
                "GET", upload.url, most=service.limits.image_bytes, seconds=max(seconds, 0.001)
            )
        except NotAllowedError as error:
            return PolicyOutcome("error", reason=f"the URL is not fetched: {error}")
        except (OSError, ValueError) as error:
            return PolicyOutcome("error", reason=f"the URL could not be fetched: {error}")
        if reply.status != 200:
            return PolicyOutcome("error", reason=f"the URL answers with status {reply.status}")
        return Upload(upload.name, reply.body)

    fetched = [loop.run_in_executor(service.fetching, fetch, upload) for upload in uploads]
    # A name may take longer to be resolved than anybody can wait.
    _, late = await asyncio.wait(fetched, timeout=max(0.0, deadline - time.monotonic()))
    for one in late:
        one.cancel()
    return [
        PolicyOutcome("error", reason=LATE, retry=True) if one in late else one.result() for one in fetched
    ]


async def judge_uploads(
    service: Service, key: Key, uploads: Sequence[Upload], policies: tuple[str, ...], deadline: float
) -> list[Pending]:
    """Images with their outcomes; what has none at the deadline is an error.

    Raises:
        Refused: Nothing was judged in time, or by our fault.
    """
    contents = await fetch_urls(service, uploads, deadline)
    gathering = Gathering(len(uploads) * len(policies))
    images = [
        Pending(gathering, upload.name, policies, key.id, position=number)
        for number, upload in enumerate(uploads)
    ]
    for image, content in zip(images, contents, strict=True):
        if isinstance(content, PolicyOutcome):
            for policy in policies:
                gathering.finish(image, policy, content)
        else:
            image.data = content.data
    service.judge.submit([image for image in images if image.data is not None], deadline)
    try:
        await gathering.wait(deadline - time.monotonic())
    finally:
        gathering.ended = True
        late = [image for image in images if len(image.outcomes) < len(policies)]
        if late:
            service.judge.forget(gathering)
    for image in late:
        for policy in policies:
            image.outcomes.setdefault(policy, PolicyOutcome("error", reason=LATE, retry=True))
    outcomes = [outcome for image in images for outcome in image.outcomes.values()]
    service.metrics.late.inc(sum(outcome.reason == LATE for outcome in outcomes))
    if all(outcome.retry for outcome in outcomes):
        reason = outcomes[0].reason or ""
        code = "deadline" if reason == LATE else "unavailable"
        service.metrics.refused.labels(reason=code).inc()
        raise Refused(503, code, reason, retry_after=1)
    return images
