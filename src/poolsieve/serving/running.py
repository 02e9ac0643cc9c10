"""Starting a service on an address, and ending it well."""

from __future__ import annotations

import ctypes
import gc
import logging
import math
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn

from poolsieve.serving.app import create_app
from poolsieve.serving.connections import Server, guarded_protocol
from poolsieve.serving.service import Service

_SWITCH_SECONDS = 0.001
"""How long a thread may compute while another waits: the loop that answers must not wait for the judge."""
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
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


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
    if on_ready is not None:
        startup = server.startup

        async def started(sockets: Any = None) -> None:
            await startup(sockets)
            on_ready()

        server.startup = started  # type: ignore[method-assign]
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is loaded stays: going through it all takes a tenth of a second of somebody's answer
    server.run(sockets=[listening])
