"""Decoding strangers' images in processes of their own, within limits of time and memory.

A file that takes too long, or crashes its decoder, costs that process and becomes an unreadable image;
another process takes its place. Processes start when they are first needed, one for each image that is
decoded at the same time, and end when they have had nothing to do for a while, or with this process, however
it ends.
"""

from __future__ import annotations

import atexit
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader, RawIOBase
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from poolsieve.images.budget import Budget
from poolsieve.images.decoding_worker import PIPE_BYTES, read_message, write_message
from poolsieve.images.reading import MAX_FRAMES, MAX_PIXELS, UnreadableImage
from poolsieve.view_settings import ResizeMode

TIME_LIMIT = 5.0
"""Seconds of processor time that a file may take to be decoded."""
MEMORY_LIMIT = 700_000_000
"""Bytes that all images that are decoded at the same time may take; what takes more alone is refused."""
FILE_LIMIT = 128_000_000
"""Bytes of files that all readers of this process may hold before they are decoded."""
MOST_PROCESSES = 8
"""The most images that are decoded at the same time, however many threads ask."""
IDLE_SECONDS = 10.0
"""A process that has nothing to do for so long is ended."""
_MEMORY = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    # So that glibc uses memory again: fresh pages took a third of the time of a WebP of two megapixels.
    "MALLOC_MMAP_THRESHOLD_": "32000000",
    "MALLOC_TRIM_THRESHOLD_": "48000000",
}
"""Of the environment of the processes."""
_TIME_TO_END = 0.5
_NOT_STARTED = "the process that decodes images could not be started"
# The parent's search path, as it may have been changed, and nothing before it: the current folder may hold
# what strangers sent.
_START = "import sys; sys.path[:] = {path!r}; from poolsieve.images.decoding_worker import main; main()"


class GuardedDecoder:
    """Decodes images in other processes; may be shared by threads.

    Args:
        processes: The most that run at the same time.
        time_limit: Seconds of processor time for a file.
        memory_limit: Bytes that all images together may take.

    Attributes:
        file_bytes: Bytes of files that may be held to be decoded; who loads one takes its share first.
    """

    def __init__(
        self,
        *,
        processes: int = MOST_PROCESSES,
        time_limit: float = TIME_LIMIT,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self._time_limit, self._memory = time_limit, Budget(memory_limit)
        self.file_bytes = Budget(FILE_LIMIT)
        self._slots = threading.Semaphore(processes)
        self._lock = threading.Lock()
        self._idle: list[_DecodingProcess] = []
        self._busy: set[_DecodingProcess] = set()
        self._timer: threading.Timer | None = None

    def decode(
        self,
        data: bytes,
        path: str | os.PathLike[str] = "<bytes>",
        *,
        at_least: int,
        resize_mode: ResizeMode | None = None,
        frames: int = 1,
        shrink: int = 1,
        max_pixels: int = MAX_PIXELS,
    ) -> list[NDArray[np.uint8]]:
        """Decode as `decode_frames` does, which tells of the other arguments, to frames (height, width, 3).

        With `resize_mode`, every frame becomes a square of size `at_least`, as by `plain_view`, with `shrink`
        the small view that is so many times smaller, where the image has one; see `small_views`.

        Raises:
            UnreadableImage: If the bytes are no image, a damaged, truncated or oversized one, take too long
                or too much memory, or end the decoder.
        """
        if not 1 <= frames <= MAX_FRAMES:
            raise ValueError(f"frames is {frames}; give a number from 1 to {MAX_FRAMES}")
        request = {
            "at_least": at_least,
            "resize_mode": resize_mode,
            "frames": frames,
            "shrink": shrink,
            "max_pixels": max_pixels,
            "seconds": self._time_limit,
            "memory": self._memory.total,
        }
        with self._slots:
            process = self._take()
            try:
                answer = process.ask(request, data, self._memory)
            except BaseException:
                self._drop(process)
                raise
            if answer.last:
                self._drop(process)
            else:
                self._put_back(process)
        if answer.reason is not None:
            raise UnreadableImage(path, answer.reason)
        return answer.images

    def close(self) -> None:
        """End all processes that have nothing to do."""
        self._end_idle(0.0)

    def process_ids(self) -> list[int]:
        """Those that are alive."""
        with self._lock:
            return [process.pid for process in (*self._idle, *self._busy)]

    def forget(self) -> None:
        """In a forked process: let go of the pipes, which belong to the process that was forked."""
        for process in (*self._idle, *self._busy):
            process.let_go()

    def _take(self) -> _DecodingProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        process = process or _DecodingProcess()
        with self._lock:
            self._busy.add(process)
        return process

    def _put_back(self, process: _DecodingProcess) -> None:
        process.idle_since = time.monotonic()
        with self._lock:
            self._busy.discard(process)
            self._idle.append(process)
            if self._timer is None:
                self._start_timer()

    def _drop(self, process: _DecodingProcess) -> None:
        process.end()
        with self._lock:
            self._busy.discard(process)

    def _start_timer(self) -> None:
        self._timer = threading.Timer(IDLE_SECONDS, self._end_idle, (IDLE_SECONDS / 2,))
        self._timer.daemon = True
        self._timer.start()

    def _end_idle(self, seconds: float) -> None:
        """End processes that were idle for so long, and look again later if there are others."""
        now = time.monotonic()
        with self._lock:
            old = [process for process in self._idle if now - process.idle_since >= seconds]
            self._idle = [process for process in self._idle if process not in old]
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._idle or self._busy:
                self._start_timer()
        for process in old:
            process.end()


class _Answer:
    """What a process said of an image."""

    def __init__(self, header: dict[str, Any], body: bytes) -> None:
        self.reason: str | None = header.get("reason")
        self.last: bool = header["last"]
        self.images: list[NDArray[np.uint8]] = []
        start = 0
        for width, height in header.get("sizes", ()):
            pixels = np.frombuffer(body, np.uint8, 3 * width * height, start)
            self.images.append(pixels.reshape(height, width, 3))
            start += pixels.size


class _DecodingProcess:
    """One process, and the pipes to it."""

    def __init__(self) -> None:
        command = [multiprocessing.spawn.get_executable(), "-P", "-c", _START.format(path=sys.path)]
        try:
            # Not multiprocessing: its processes run the main module again, or inherit locks of other threads.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_MEMORY},
                bufsize=0,
                process_group=0 if os.name == "posix" else None,  # Ctrl-C is not for them
            )
        except OSError as error:
            raise RuntimeError(f"{_NOT_STARTED}: {command[0]!r}: {error}") from None
        self.pid = self._process.pid
        self.idle_since = time.monotonic()
        self._requests = cast(RawIOBase, self._process.stdin)
        answers = cast(RawIOBase, self._process.stdout)
        self._answers = BufferedReader(answers, PIPE_BYTES)
        _enlarge_pipes(self._requests, answers)
        try:
            self._receive(0)
        except EOFError:
            self.end()
            raise RuntimeError(
                f"{_NOT_STARTED}: {command!r} ended with status {self._process.returncode}"
            ) from None

    def ask(self, request: dict[str, Any], data: bytes, memory: Budget) -> _Answer:
        """What becomes of an image, also if it ends the process."""
        frame = request["max_pixels"] if request["resize_mode"] is None else request["at_least"] ** 2
        with ExitStack() as held, _time_limit(self._process, request["seconds"]) as exceeded:
            try:
                write_message(self._requests, request, data)
                header, body = self._receive(3 * request["frames"] * frame)
                if "memory" in header:
                    held.enter_context(memory.hold(header["memory"]))
                    write_message(self._requests, {"seconds": request["seconds"]})
                    header, body = self._receive(3 * request["frames"] * frame)
                return _Answer(header, body)
            except (EOFError, OSError, ValueError, LookupError, TypeError):  # gone, or taken over
                self.end()
                status = self._process.returncode
                late = exceeded.is_set() or -status in (_signal("SIGPROF"), _signal("SIGALRM"))
                reason = (
                    f"decoding it took more than {request['seconds']:g} seconds"
                    if late
                    else f"the decoder died of it ({_name_of(status)})"
                )
                return _Answer({"reason": reason, "last": True}, b"")

    def end(self) -> None:
        """End the process and wait for that."""
        self.let_go()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_TIME_TO_END)
            return
        self._process.kill()
        self._process.wait()

    def let_go(self) -> None:
        """Close the pipes, at whose end the process ends."""
        self._requests.close()
        self._answers.close()

    def _receive(self, most: int) -> tuple[dict[str, Any], bytes]:
        return read_message(self._answers, most)


@contextmanager
def _time_limit(process: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    """Kill a process that takes too long where the system does not do so by itself; gives whether it was."""
    exceeded = threading.Event()

    def kill() -> None:
        exceeded.set()
        process.kill()

    if hasattr(signal, "setitimer"):
        yield exceeded
        return
    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield exceeded
    finally:
        timer.cancel()


def _signal(name: str) -> int:
    return int(getattr(signal, name, 0)) or -1


def _name_of(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"status {status}"


def _enlarge_pipes(*pipes: RawIOBase) -> None:
    """So that an image passes at once; where that is not possible it passes in parts."""
    if sys.platform == "linux":
        import fcntl

        for pipe in pipes:
            with suppress(OSError):
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


_shared = GuardedDecoder()


def shared_decoder() -> GuardedDecoder:
    """The one that all readers of this process share, so that its limits hold for them together."""
    return _shared


def _forget_after_fork() -> None:
    global _shared
    _shared.forget()
    _shared = GuardedDecoder()


atexit.register(lambda: _shared.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
