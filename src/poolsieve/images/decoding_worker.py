"""A process that decodes images and does nothing else, within limits of time and memory.

It is started by `guarded_decoding`, which sends the bytes of one image at a time through a pipe and gets
pixels back, or the reason why there are none. A decoder that crashes, hangs or takes too much memory ends
this process and no other. It ends when the pipe does, so it never outlives whoever started it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import warnings
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from poolsieve.images.heif import heif_format, register_heif
from poolsieve.images.reading import UnreadableImage, decoded, decoder_errors, memory_needed, open_image
from poolsieve.images.small_views import small_scale, squared

try:
    import resource
except ImportError:  # not on Windows, where memory is not limited
    resource = None  # type: ignore[assignment]

LENGTHS = struct.Struct("<IQ")
"""Before every message: bytes of its JSON header, and of the body behind it."""
PIPE_BYTES = 1 << 20
"""What pipes and the buffers behind them hold."""
UNASKED_MEMORY = 32_000_000
"""Bytes that an image may take without asking."""
MOST_GROWTH = 64_000_000
"""Bytes by which a process may grow from image to image; freed memory is not always given back."""
_MOST_HEADER = 1 << 20
_OPENING_COPIES = 3
_SMALL_FILE = 1_000_000
_MARGIN = 1.1
_REAL_TIME = 4
"""Seconds on the wall for each second of processor time: other processes want theirs too."""
_STATM = Path("/proc/self/statm")


def write_message(stream: RawIOBase, header: dict[str, Any], *body: bytes) -> None:
    """Send a message through a pipe; a small one at once, so that the other side wakes up once."""
    text = json.dumps(header).encode()
    parts = (LENGTHS.pack(len(text), sum(len(part) for part in body)), text, *body)
    small = sum(len(part) for part in parts) <= PIPE_BYTES
    for part in (b"".join(parts),) if small else parts:
        rest = memoryview(part)
        while rest:
            rest = rest[stream.write(rest) or 0 :]


def read_message(stream: BinaryIO, most: float = math.inf) -> tuple[dict[str, Any], bytes]:
    """The header and the body, of at most so many bytes, of a message; EOFError if that is not what comes."""

    def read(length: int) -> bytes:
        data = stream.read(length)
        if len(data) < length:
            raise EOFError
        return data

    header, body = LENGTHS.unpack(read(LENGTHS.size))
    if header > _MOST_HEADER or body > most:
        raise EOFError
    return json.loads(read(header)), read(body)


class _Worker:
    def __init__(self, requests: BinaryIO, answers: RawIOBase) -> None:
        self._requests, self._answers = requests, answers
        self._asked = False
        Image.preinit()
        self._first_size, self._limit = _address_space(), 0

    def serve(self) -> None:
        """Decode what is sent, until nothing more comes."""
        write_message(self._answers, {"ready": True})
        last = False
        while not last:
            request, data = read_message(self._requests)
            self._asked, images = False, []
            try:
                with decoder_errors("image", request["max_pixels"]):
                    images = self._decode(request, data)
                answer: dict[str, Any] = {"sizes": [image.size for image in images]}
            except UnreadableImage as error:
                answer = {"reason": error.reason}
            except MemoryError:  # not even enough was left to say so
                answer = {"reason": "decoding it takes more memory than there is for an image"}
            _limit_time(0)
            if "reason" in answer:
                self._lift_memory_limit()
            # A new process is cheaper than keeping a large one; others cannot have grown.
            last = self._asked and _address_space() > self._first_size + MOST_GROWTH
            answer["last"] = last
            write_message(self._answers, answer, *(image.tobytes() for image in images))

    def _decode(self, request: dict[str, Any], data: bytes) -> list[Image.Image]:
        at_least, resize_mode, shrink = request["at_least"], request["resize_mode"], request["shrink"]
        most, frames = request["memory"], request["frames"]
        if heif_format(data) is not None:
            self._load_heif()
        opening = UNASKED_MEMORY + _OPENING_COPIES * max(len(data), _SMALL_FILE)
        self._limit_memory(opening + UNASKED_MEMORY)
        _limit_time(request["seconds"])
        image = None
        try:
            image = open_image(data, "image", request["max_pixels"])
        except (UnreadableImage, Image.UnidentifiedImageError, Image.DecompressionBombError):
            raise
        except Exception:
            pass  # some decoders make room for all pixels when they are opened
        if image is None:  # only now, as an exception holds what was read before it
            self._ask_for_memory(most, opening + most)
            image = _open_again(data, request)
        with image:
            needed = memory_needed(image, at_least)
            if needed > most:
                raise UnreadableImage(
                    "image",
                    f"{image.width} x {image.height} pixels as {image.format} take {needed:,} bytes to "
                    f"decode, more than the limit of {most:,}",
                )
            # What is refused is refused at every size; what is asked for is what this one takes.
            if resize_mode is not None:
                needed = memory_needed(image, at_least, small_scale(image, at_least, resize_mode, shrink))
            if needed > UNASKED_MEMORY and not self._asked:
                self._ask_for_memory(needed, opening + int(_MARGIN * needed))
            if resize_mode is None:
                return list(decoded(image, at_least, frames))
            return list(squared(image, at_least, resize_mode, frames, shrink))

    def _load_heif(self) -> None:
        """Its libraries are large, and no part of what an image takes."""
        before = _address_space()
        with suppress(ImportError):
            register_heif()
        self._first_size += _address_space() - before

    def _ask_for_memory(self, amount: int, limit: int) -> None:
        write_message(self._answers, {"memory": amount})
        _set_timer("ITIMER_REAL", 0)  # others may be served first
        _set_timer("ITIMER_REAL", _REAL_TIME * read_message(self._requests)[0]["seconds"])
        self._asked = True
        self._limit_memory(limit)

    def _lift_memory_limit(self) -> None:
        """So that what is said of an image does not fail for want of memory."""
        if resource is not None and self._limit:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            self._limit = 0

    def _limit_memory(self, more: int) -> None:
        """Let the address space grow by no more than so many bytes since the start."""
        if resource is None or not self._first_size:
            return
        limit = self._first_size + MOST_GROWTH + more
        if limit != self._limit:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            self._limit = limit


def _open_again(data: bytes, request: dict[str, Any]) -> Image.Image:
    try:
        return open_image(data, "image", request["max_pixels"])
    except Exception as error:
        what = str(error) or type(error).__name__
        raise UnreadableImage(
            "image",
            f"damaged or truncated, or takes more than {request['memory']:,} bytes to decode ({what})",
        ) from None


def _limit_time(seconds: float) -> None:
    """The system ends this process after so many seconds of work from now; 0 for no limit.

    It also ends it after four times as long on the clock, in case that a decoder waits for ever.
    """
    _set_timer("ITIMER_PROF", seconds)
    _set_timer("ITIMER_REAL", _REAL_TIME * seconds)


def _set_timer(name: str, seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # not everywhere
        signal.setitimer(getattr(signal, name), seconds)


def _address_space() -> int:
    """Bytes; 0 where that cannot be known."""
    try:
        return int(_STATM.read_bytes().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def main() -> None:
    """Serve the process that started this one, by standard input and output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints shall not be taken for pixels
    with suppress(EOFError, BrokenPipeError):
        _Worker(os.fdopen(0, "rb", buffering=PIPE_BYTES), answers).serve()
