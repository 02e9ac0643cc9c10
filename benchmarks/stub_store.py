"""A server with any number of small images behind S3's interface, made up as they are asked for."""

from __future__ import annotations

import asyncio
import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

BUCKET, FOLDER = "bucket", "up"
SOURCE = f"s3://{BUCKET}/{FOLDER}/"
PAGE = 1000
"""Keys of a page of S3."""
SIDE = 32
_KINDS = 97
_KEY = re.compile(rf"/{BUCKET}/{FOLDER}/(\d{{9}})\.png")
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@lru_cache(maxsize=_KINDS)
def _pixels(kind: int) -> bytes:
    stream = io.BytesIO()
    drawn = np.random.default_rng(kind).integers(0, 2 * kind + 50, (SIDE, SIDE, 3), dtype=np.uint8)
    Image.fromarray(drawn).save(stream, format="png")
    return stream.getvalue()


def image_bytes(number: int) -> bytes:
    """The object of a number: a small image, of which no two are the same file."""
    return _pixels(number % _KINDS) + number.to_bytes(8, "big")


def _etag(number: int) -> str:
    return f'"{number:032x}"'


class _Connection(asyncio.Protocol):
    """One connection, which is kept open for many requests."""

    def __init__(self, keys: int) -> None:
        self._keys, self._waiting = keys, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (end := self._waiting.find(b"\r\n\r\n")) >= 0:
            head, self._waiting = self._waiting[:end].decode("latin-1"), self._waiting[end + 4 :]
            self._transport.write(self._answer(head))

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, target, _ = request.split(" ")
        path = urlsplit(target)
        if method == "GET" and path.path.strip("/") == BUCKET:
            return _response("200 OK", self._page(parse_qs(path.query)), "Content-Type: application/xml\r\n")
        found = _KEY.fullmatch(path.path)
        if found is None or int(found[1]) >= self._keys:
            return _response("404 Not Found", b"")
        number = int(found[1])
        data = image_bytes(number)
        more = f"ETag: {_etag(number)}\r\nLast-Modified: {_DATE}\r\nAccept-Ranges: bytes\r\n"
        if method == "HEAD":
            return _response("200 OK", b"", more, len(data))
        wanted = next((line for line in lines if line.lower().startswith("range:")), None)
        if wanted is None:
            return _response("200 OK", data, more)
        first, _, last = wanted.partition("=")[2].partition("-")
        begin, end = int(first), min(int(last or len(data)), len(data) - 1)
        more += f"Content-Range: bytes {begin}-{end}/{len(data)}\r\n"
        return _response("206 Partial Content", data[begin : end + 1], more)

    def _page(self, asked: dict[str, list[str]]) -> bytes:
        first = int(asked.get("continuation-token", ["0"])[0])
        last = min(first + min(PAGE, int(asked.get("max-keys", [PAGE])[0])), self._keys)
        rows = "".join(
            f"<Contents><Key>{FOLDER}/{n:09d}.png</Key><Size>{len(image_bytes(n))}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{_etag(n).replace(chr(34), '&quot;')}</ETag></Contents>"
            for n in range(first, last)
        )
        more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < self._keys else ""
        truncated = str(last < self._keys).lower()
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{last - first}</KeyCount>"
            f"<IsTruncated>{truncated}</IsTruncated>{more}{rows}</ListBucketResult>"
        ).encode()


def _response(status: str, body: bytes, more: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode() + body


@contextmanager
def served_images(count: int) -> Iterator[dict[str, str]]:
    """The environment in which S3 is a server on this machine with so many images in `SOURCE`."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: _Connection(count), "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
