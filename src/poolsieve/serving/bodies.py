"""Bodies of requests: read within limits, and taken apart by work that is bounded by their size."""

from __future__ import annotations

import binascii
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from starlette.requests import ClientDisconnect, Request

from poolsieve.serving.errors import Refused
from poolsieve.serving.limits import MAX_IMAGES, Limits

_MAX_FIELDS = 16
_MAX_FIELD = 4096
_MAX_PART_HEAD = 8192
_MAX_NAME = 1024


@dataclass(frozen=True)
class Upload:
    """One image of a request.

    Attributes:
        name: What the sender calls it.
        data: Its bytes; None if it is at a URL.
        url: Where it is.
    """

    name: str
    data: bytes | None
    url: str | None = None


@dataclass(frozen=True)
class Form:
    """What a body holds.

    Attributes:
        uploads: Images, or other files.
        fields: Values by name.
    """

    uploads: tuple[Upload, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


class UnreadBytes:
    """Counts the bytes of bodies that are not there as a whole, for all requests of a process."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    def take(self, count: int) -> None:
        """Hold some more.

        Raises:
            Refused: There are too many.
        """
        if self._held + count > self._most:
            raise Refused(503, "full", "too many bodies are being read; try again", retry_after=1)
        self._held += count

    def give_back(self, count: int) -> None:
        """Hold some less."""
        self._held -= count


def check_length(request: Request, most: int) -> None:
    """Refuse a body that says itself that it is too large.

    Raises:
        Refused: It is, or its length is none.
    """
    claimed = request.headers.get("content-length")
    if claimed is None:
        return
    if not claimed.isascii() or not claimed.isdigit():
        raise Refused(400, "bad_request", f"Content-Length {claimed[:40]!r} is no number")
    if len(claimed) > 18 or int(claimed) > most:
        raise Refused(413, "too_large", f"a body of {claimed[:20]} bytes, and at most {most:,} are taken")


async def body_parts(request: Request, most: int) -> AsyncIterator[bytes]:
    """The parts of a body as they come.

    Raises:
        Refused: They are more than the most.
    """
    check_length(request, most)
    left = most
    try:
        async for part in request.stream():
            left -= len(part)
            if left < 0:
                raise Refused(413, "too_large", f"the body has more than {most:,} bytes, which is the most")
            if part:
                yield part
    except ClientDisconnect:
        raise Refused(400, "incomplete", "the body ended too early") from None


async def read_body(request: Request, most: int, unread: UnreadBytes) -> bytes:
    """A whole body in memory.

    Raises:
        Refused: It is too large, or there are too many.
    """
    body, held = bytearray(), 0
    try:
        async for part in body_parts(request, most):
            unread.take(len(part))
            held += len(part)
            body += part
    finally:
        unread.give_back(held)
    return bytes(body)


def parse_images(body: bytes, content_type: str, limits: Limits, *, name: str | None = None) -> Form:
    """The images of a body and the fields beside them.

    Args:
        body: The whole body.
        content_type: Of the request: multipart/form-data, application/json, or anything else for the bytes
            of one image.
        limits: Of sizes.
        name: What the one image is called.

    Raises:
        Refused: It cannot be taken apart, or has no or too many images.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        form = parse_multipart(body, content_type)
    elif kind == "application/json":
        form = _parse_json(body)
    else:
        form = Form((Upload(name or "image", body),) if body else ())
    if not 1 <= len(form.uploads) <= MAX_IMAGES:
        raise Refused(
            *(
                422,
                "bad_request",
                f"{len(form.uploads)} images; send 1 to {MAX_IMAGES} in one request, or a job",
            )
        )
    for upload in form.uploads:
        if upload.data is not None and len(upload.data) > limits.image_bytes:
            raise Refused(413, "too_large", f"an image has more than {limits.image_bytes:,} bytes")
    return form


def parse_multipart(body: bytes, content_type: str, most_files: int = MAX_IMAGES) -> Form:
    """Files and fields of multipart/form-data; splitting is one pass, however many boundaries are in it.

    Raises:
        Refused: It is no such body, or has too many parts.
    """
    message = Message()
    message["content-type"] = content_type
    boundary = message.get_param("boundary")
    if not isinstance(boundary, str) or not 1 <= len(boundary) <= 200 or not boundary.isascii():
        raise Refused(422, "bad_request", "multipart/form-data needs a boundary")
    mark = b"\r\n--" + boundary.encode()
    most = most_files + _MAX_FIELDS
    pieces = (b"\r\n" + body).split(mark, most + 2)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        many = len(pieces) == most + 3
        words = (
            f"more than {most_files} images" if many else "the multipart body has no end; was it cut short?"
        )
        raise Refused(422, "bad_request", words)
    uploads: list[Upload] = []
    fields: dict[str, Any] = {}
    for piece in pieces[1:-1]:
        head, found, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not found or len(head) > _MAX_PART_HEAD:
            raise Refused(422, "bad_request", "a part of the multipart body has no head, or too long a one")
        field_name, filename = _disposition(head)
        if filename is not None or field_name in ("image", "images", "file", "archive", "manifest"):
            uploads.append(Upload((filename or field_name)[:_MAX_NAME], content))
        elif len(content) > _MAX_FIELD or len(fields) >= _MAX_FIELDS:
            raise Refused(422, "bad_request", f"too many fields, or one with more than {_MAX_FIELD} bytes")
        else:
            fields[field_name] = content.decode("utf-8", "replace")
    return Form(tuple(uploads), fields)


def _disposition(head: bytes) -> tuple[str, str | None]:
    """Name and file name of a part."""
    for line in head.split(b"\r\n"):
        label, _, value = line.partition(b":")
        if label.strip().lower() == b"content-disposition":
            message = Message()
            message["content-disposition"] = value.decode("utf-8", "replace").strip().replace("\n", " ")
            name = message.get_param("name", "", "content-disposition")
            filename = message.get_filename()
            return str(name), None if filename is None else str(filename)
    return "", None


def _parse_json(body: bytes) -> Form:
    values = parse_object(body)
    images = values.pop("images", None)
    if images is None and "image" in values:
        images = [values.pop("image")]
    if not isinstance(images, list) or len(images) > MAX_IMAGES:
        raise Refused(
            422, "bad_request", f'"images" is a list of 1 to {MAX_IMAGES} images, each base64 or an object'
        )
    return Form(tuple(_upload(one, number) for number, one in enumerate(images)), values)


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        Refused: It is something else.
    """
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(422, "bad_request", "the body is no JSON") from None
    if not isinstance(values, dict):
        raise Refused(422, "bad_request", "the body is JSON, but no object")
    return values


def _upload(image: object, number: int) -> Upload:
    name, content, url = f"image-{number}", image, None
    if isinstance(image, dict):
        name, content, url = image.get("name", name), image.get("data"), image.get("url")
    if not isinstance(name, str) or (content is None) == (url is None):
        raise Refused(
            422, "bad_request", f'image {number} needs "data" (base64) or "url", and "name" is a text'
        )
    if url is not None:
        if not isinstance(url, str):
            raise Refused(422, "bad_request", f'"url" of image {number} is no text')
        return Upload(name[:_MAX_NAME], None, url)
    return Upload(name[:_MAX_NAME], decode_base64(content, f"image {number}"))


def decode_base64(content: object, what: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        Refused: It is none.
    """
    if not isinstance(content, str) or not content.isascii():
        raise Refused(422, "bad_request", f"{what} is no base64")
    try:
        return binascii.a2b_base64(content, strict_mode=False)
    except binascii.Error as error:
        raise Refused(422, "bad_request", f"{what} is no base64: {error}") from None
