"""Starting a service on an address, and ending it well."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn

from poolsieve.serving.connections import Server, guarded_protocol
from poolsieve.serving.service import Service
from poolsieve.serving.service_application import create_app

_SWITCH_SECONDS = 0.001
"""How long a thread may compute while another waits: the loop that answers must not wait for the judge."""
_BEHIND = 5
"""By how much nicer all threads are than the loop that answers: judging takes all that processors give, and
where more come than can be judged, the others want their refusal at once."""
_LOOK_FOR_THREADS = 1.0
_GIVE_BACK = 1.0
"""Seconds after which memory that was freed is given back: what a crowd took is held for no longer."""
_KEEP_ALIVE = 15
_SAME_MESSAGE = 10.0
"""Seconds after which the log says the same again."""
_M_ARENA_MAX = -8
"""The parameter's number in glibc's malloc.h."""
_ARENAS = 2


def keep_arenas_few() -> None:
    """Have all threads share few of glibc's heaps: what one has freed another can use, also after a crowd.

    It is for the start of a process, before its threads are there; elsewhere than on glibc nothing is done.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


async def give_memory_back() -> None:
    """Now and then give the system what glibc keeps of freed memory, also from the middle of its heaps."""
    trim = _of_glibc("malloc_trim")
    while trim is not None:
        await asyncio.sleep(_GIVE_BACK)
        await asyncio.to_thread(trim, 0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


class GivingWay:
    """Has all other threads and the child processes give way to the thread that calls; on Linux only."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def look(self) -> None:
        """Make those nicer that are new since the last look."""
        if sys.platform != "linux":
            return
        own, there = threading.get_native_id(), set[int]()
        for task in Path("/proc/self/task").iterdir():
            there.add(int(task.name))
            with contextlib.suppress(OSError):  # it has ended, or this kernel does not tell children
                there.update(map(int, (task / "children").read_text().split()))
        there.discard(own)
        nicer = min(19, os.getpriority(os.PRIO_PROCESS, own) + _BEHIND)
        for one in there - self._known:
            with contextlib.suppress(OSError):  # it has ended, or is nicer
                os.setpriority(os.PRIO_PROCESS, one, nicer)
        self._known = there

    async def go_on(self) -> None:
        """Look now and then: pools start threads when they need them."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_FOR_THREADS)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        OSError: The address is taken or none of ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another --port"
        ) from None
    return listening


class SeldomSame(logging.Filter):
    """Lets the same message through once in a while: thousands of refusals need no line each.

    Args:
        seconds: How seldom.
        now: The time.
    """

    def __init__(self, seconds: float = _SAME_MESSAGE, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._now, self._last = seconds, now, ("", -math.inf)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message is another one, or old enough to be said again."""
        said, at = self._last
        if record.msg == said and self._now() < at + self._seconds:
            return False
        self._last = str(record.msg), self._now()
        return True


def make_server(service: Service, *, mounts: Mapping[str, Any] | None = None, **settings: Any) -> Server:
    """A server for a service.

    Args:
        service: Answers.
        mounts: Further applications by their path.
        settings: uvicorn's.
    """
    app = create_app(service, mounts=mounts)
    config = uvicorn.Config(
        app,
        http=guarded_protocol(service.door),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        backlog=2048,
        **settings,
    )
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(one, SeldomSame) for one in logger.filters):
        logger.addFilter(SeldomSame())
    return Server(config, service.door, on_leaving=service.leave)


def serve(
    service: Service,
    listening: socket.socket,
    *,
    mounts: Mapping[str, Any] | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve until a signal says to end; all who have come are answered first."""
    server = make_server(service, mounts=mounts)
    startup, watching = server.startup, set[asyncio.Task[None]]()

    async def started(sockets: Any = None) -> None:
        await startup(sockets)
        for going_on in (GivingWay().go_on(), give_memory_back()):  # until the loop ends
            watching.add(asyncio.create_task(going_on))
        if on_ready is not None:
            on_ready()

    server.startup = started  # type: ignore[method-assign]
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is loaded stays: going through it all takes a tenth of a second of somebody's answer
    server.run(sockets=[listening])
