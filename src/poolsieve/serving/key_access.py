"""Who may do what, and how much of it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor

from starlette.requests import Request

from poolsieve.serving.errors import Refused
from poolsieve.store import Key, Store

_REMEMBERED_SECONDS = 1.0
"""A key that was found is taken for valid so long; within this time a revoked key stops working."""
_MOST_REMEMBERED = 1000
_MAX_HEADER = 300
# Clients of Rekognition sign their requests; the public part of what they sign with is our key.
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 +Credential=([^/ ,]+)/")


class Access:
    """Checks API keys.

    Args:
        store: Knows them.
        executor: For questions to the store.
    """

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store, self._executor = store, executor
        self._found: dict[bytes, tuple[float, Key]] = {}

    async def key(self, request: Request, scope: str) -> Key:
        """The key of a request.

        Raises:
            Refused: There is none, it is not valid, or not for this.
        """
        text = presented_key(request)
        digest = _digest(text)
        key = self._remembered(digest)
        if key is None:
            loop = asyncio.get_running_loop()
            key = await loop.run_in_executor(self._executor, self._store.keys.find, text)
            if key is None:
                self._found.pop(digest, None)
                raise Refused(401, "unauthorized", "the API key is not valid, has ended or was revoked")
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[digest] = (time.monotonic() + _REMEMBERED_SECONDS, key)
        if not key.valid(time.time()):
            raise Refused(401, "unauthorized", "the API key is not valid, has ended or was revoked")
        if scope not in key.scopes:
            raise Refused(
                403, "forbidden", f"the API key is not for {scope!r}; it has: {', '.join(sorted(key.scopes))}"
            )
        return key

    def remembered(self, request: Request, scope: str) -> Key | None:
        """The key of a request, if it was valid for this a moment ago; nobody is asked or awaited."""
        try:
            key = self._remembered(_digest(presented_key(request)))
        except Refused:
            return None
        return key if key is not None and key.valid(time.time()) and scope in key.scopes else None

    def _remembered(self, digest: bytes) -> Key | None:
        until, key = self._found.get(digest, (0.0, None))
        return key if until >= time.monotonic() else None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def presented_key(request: Request) -> str:
    """The text of the key that a request presents.

    Raises:
        Refused: It presents none.
    """
    header = request.headers.get("authorization", "")
    kind, _, text = header.partition(" ")
    signed = _SIGNED.match(header) if kind == "AWS4-HMAC-SHA256" else None
    if signed:
        text = signed[1]
    elif kind.lower() != "bearer":
        text = ""
    text = text.strip()
    if not text or len(text) > _MAX_HEADER:
        raise Refused(401, "unauthorized", "send your API key as: Authorization: Bearer KEY")
    return text


class Quotas:
    """Images a minute of each key, as buckets that fill evenly.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # what was left, and when

    def left(self, key: Key) -> float:
        """Images that a key may send now."""
        if key.quota is None:
            return float("inf")
        left, since = self._buckets.get(key.id, (float(key.quota), self._clock()))
        return min(float(key.quota), left + (self._clock() - since) * key.quota / 60)

    def take(self, key: Key, images: int) -> None:
        """Count images of a key.

        Raises:
            Refused: They are more than it has left.
        """
        if key.quota is None:
            return
        left = self.left(key)
        if images > left:
            wait = int((min(images, key.quota) - left) * 60 / key.quota) + 1
            raise Refused(
                *(429, "quota", f"the key may send {key.quota} images a minute, and {int(left)} are left"),
                retry_after=wait,
            )
        if len(self._buckets) > 100_000:
            self._buckets.clear()
        self._buckets[key.id] = (left - images, self._clock())
