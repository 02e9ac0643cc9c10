"""Memory that is shared by all who read: whoever wants more than is left waits for the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Budget:
    """So many bytes in all that may be in use at once; first come, first served.

    Who asks for more than there are gets all, alone.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._left = total
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        """Wait until the amount is free, and hold it meanwhile."""
        amount, turn = min(amount, self.total), object()
        with self._changed:
            self._waiting.append(turn)
            try:
                # In turn, as many small ones would keep a large one waiting for ever.
                self._changed.wait_for(lambda: self._waiting[0] is turn and self._left >= amount)
                self._left -= amount
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()
