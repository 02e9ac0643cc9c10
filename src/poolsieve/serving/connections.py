"""Connections of strangers: slow, silent and too many ones are dropped in time.

uvicorn waits for a request's head and body as long as it takes. Here every connection knows since when it has
been receiving, and one task looks at all of them ten times a second, so that a slow client costs neither a
timer nor a thread. What trickles is read only as often as that, however many small packets it comes in.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from poolsieve.serving.limits import Limits

SWEEP_SECONDS = 0.1
_YOUNG_SECONDS = 1.0
"""Requests that take longer to come are read in turns, and are dropped first where there are too many."""
_LINGER_SECONDS = 2.0
"""How long what is left of a body is read and thrown away after the answer, so that the client can see it."""
_COMING = (h11.IDLE, h11.SEND_BODY)
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: 41\r\n\r\n"
    b'{"detail":"too many connections; retry."}'
)
"""Said before anything is read: where thousands come, those who are turned away must cost next to nothing."""


class Door:
    """All connections of a server, and which of them are to be dropped.

    Attributes:
        connections: Those that are open.
        turned_away: Those that have been told that there is no room, and have not left yet.
        dropped: How many were dropped so far.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.connections: set[GuardedProtocol] = set()
        self.turned_away: set[GuardedProtocol] = set()
        self.dropped = 0

    @property
    def full(self) -> bool:
        """Whether there is no room for another connection."""
        return len(self.connections) >= self._limits.connections

    def sweep(self, now: float) -> None:
        """Drop connections that are too slow or too many, and let the others be read again."""
        unread = []
        for connection in list(self.turned_away):
            if connection.told_for(now) > _LINGER_SECONDS:
                connection.transport.abort()
        for connection in list(self.connections):
            if connection.overdue(now, self._limits):
                self._drop(connection)
                continue
            connection.read_again()
            if connection.begun is not None and now - connection.begun > _YOUNG_SECONDS:
                unread.append(connection)
        surplus = len(unread) - self._limits.unread_requests
        if surplus > 0:
            for connection in sorted(unread, key=lambda one: one.rate(now))[:surplus]:
                self._drop(connection)

    def _drop(self, connection: GuardedProtocol) -> None:
        self.dropped += 1
        connection.transport.abort()


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 with a memory of when a request began to come.

    Attributes:
        door: Watches it.
        begun: When the first byte of a request came that is not there as a whole yet; else None.
    """

    door: Door

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.begun: float | None = None
        self._received = 0
        self._quiet_since = self.loop.time()
        self._answered_at: float | None = None
        self._leaving_since: float | None = None
        self._held = False
        self._turned_away = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take part, or be told that there is no room."""
        if self.door.full:
            self._turned_away, self.transport = True, transport
            self.door.turned_away.add(self)
            transport.write(_NO_ROOM)
            if transport.can_write_eof():
                transport.write_eof()  # and what comes is thrown away: a reset might overtake the answer
            return
        super().connection_made(transport)
        self.door.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        if self._turned_away:
            self.door.turned_away.discard(self)
            return
        self.door.connections.discard(self)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Nothing more comes."""
        if not self._turned_away:
            super().eof_received()

    def told_for(self, now: float) -> float:
        """Seconds since it was told that there is no room."""
        return now - self._quiet_since

    def data_received(self, data: bytes) -> None:
        """Count, then parse."""
        if self._turned_away:
            return
        now = self.loop.time()
        if self.begun is None:
            self.begun, self._received = now, 0
        self._received += len(data)
        super().data_received(data)
        if self.conn.their_state not in _COMING:
            self.begun, self._quiet_since = None, now
        elif now - self.begun > _YOUNG_SECONDS and not self.transport.is_closing():
            self.transport.pause_reading()
            self._held = True

    def handle_events(self) -> None:
        """Parse; a server that is leaving answers, and closes the connection with that."""
        super().handle_events()
        if self._leaving_since is not None and self.cycle is not None:
            self.cycle.keep_alive = False

    def read_again(self) -> None:
        """End the pause after a small part of a slow request."""
        if self._held:
            self._held = False
            if not self.flow.read_paused and not self.transport.is_closing():
                self.transport.resume_reading()

    def rate(self, now: float) -> float:
        """Bytes in a second of the request that is coming."""
        return self._received / max(now - (self.begun or now), 1e-3)

    def overdue(self, now: float, limits: Limits) -> bool:
        """Whether it has had its time."""
        answered = self.cycle is None or self.cycle.response_complete
        if self._leaving_since is not None and self.begun is None and answered:
            return now - self._leaving_since > _YOUNG_SECONDS
        if self.begun is None:
            # Between requests uvicorn has a limit of its own.
            return self.cycle is None and now - self._quiet_since > limits.receive_seconds
        if self.cycle is not None and answered and self.conn.their_state is h11.SEND_BODY:
            self._answered_at = self._answered_at or now
            return now - self._answered_at > _LINGER_SECONDS
        self._answered_at = None
        allowed = limits.receive_seconds + self._received / limits.receive_rate
        return now - self.begun > min(allowed, limits.longest_receive)

    def shutdown(self) -> None:
        """Close, unless a request is coming or might be on its way."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and (self.begun is not None or self.cycle is None):
            self._leaving_since = self.loop.time()
        else:
            super().shutdown()


class Server(uvicorn.Server):
    """uvicorn with the door watched, that answers whoever has come before it ends, and ends well."""

    def __init__(self, config: uvicorn.Config, door: Door, on_leaving: Any = None) -> None:
        super().__init__(config)
        self._door, self._on_leaving = door, on_leaving
        self._sweeper: asyncio.Task[None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        """Start to listen and to watch."""
        await super().startup(sockets)
        self._sweeper = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._door.sweep(loop.time())

    async def shutdown(self, sockets: Any = None) -> None:
        """Take whoever stands in line already, answer all, and end."""
        if self._on_leaving is not None:
            self._on_leaving()
        await asyncio.sleep(3 * SWEEP_SECONDS)  # those whom the system has accepted, and we have not yet
        try:
            await super().shutdown(sockets)
        finally:
            if self._sweeper is not None:
                self._sweeper.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave on a signal, and with status 0: uvicorn would raise it again."""
        with contextlib.ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # not on the main thread
                    stack.callback(signal.signal, number, signal.signal(number, self.handle_exit))
            yield


def guarded_protocol(door: Door) -> type[GuardedProtocol]:
    """The class of a server's connections."""
    return type("DoorProtocol", (GuardedProtocol,), {"door": door})
