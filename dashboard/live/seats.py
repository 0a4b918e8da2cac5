"""How many streams, waits and sockets are open in this process, and how many one person or token has of them (C6.2).

An open one costs a file descriptor, a task and a question to the ledger now and then, but no thread and no connection
to the database. Who comes when all seats are taken is refused before anything is read; a seat is given back when the
request or the socket is over, however that came about: by whoever serves it, not by what it serves.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError

RETRY_AFTER = 5.0
SEAT = "quarterdeck.seat"


class StreamsFull(QuarterdeckError):
    """As many streams, waits and sockets are open in this web process as it serves."""

    code, http_status, title, retryable = "streams_full", 503, "Too many are open here", True
    remediation = "Come back after `retry_after` seconds, or read `events/` and `approvals/{id}/` in the meantime."


class TooManyOpen(QuarterdeckError):
    """You have as many streams, waits and sockets open as one person or token may."""

    code, http_status, title, retryable = "too_many_streams", 429, "You have too many open", True
    remediation = "Close one that you no longer read; one stream is enough for a run."


class _Taken:
    """What is taken in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all = 0
        self.by: Counter[str] = Counter()


_taken = _Taken()


class Seat:
    """The place of one request or socket: taken, given a name, and left; after that it is never taken again.

    Its methods may be called by any thread.
    """

    def __init__(self) -> None:
        self._taken = self._left = False
        self._name: str | None = None

    def take(self) -> None:
        """Take it, before it is known who asks. Raises StreamsFull."""
        most = conf().live_most
        with _taken.lock:
            # Who has gone already keeps nothing: a thread may still be at work for a client that has hung up.
            if self._taken or self._left:
                return
            if _taken.all >= most:
                raise StreamsFull(f"{most} are open in this process.", retry_after=RETRY_AFTER)
            self._taken = True
            _taken.all += 1

    def give(self, actor: Actor) -> None:
        """Count it for a token, or for a signed-in person. Raises TooManyOpen."""
        most = conf().live_most_each
        name = f"token:{actor.token_id}" if actor.token_id is not None else f"user:{actor.user_id}"
        with _taken.lock:
            if not self._taken or self._left or self._name is not None:
                return
            if _taken.by[name] >= most:
                raise TooManyOpen(f"You have {most} open in this process.", retry_after=RETRY_AFTER)
            self._name = name
            _taken.by[name] += 1

    def leave(self) -> None:
        """Give it back for good; as often as one likes."""
        with _taken.lock:
            if self._taken and not self._left:
                _taken.all -= 1
                if self._name is not None:
                    _taken.by[self._name] -= 1
                    if not _taken.by[self._name]:
                        del _taken.by[self._name]
            self._left = True


def seat_in(scope: dict[str, Any] | None) -> Seat:
    """Return the seat of an ASGI scope, whose server leaves it; a fresh one where there is no such server."""
    seat = scope.get(SEAT) if scope is not None else None
    return seat if isinstance(seat, Seat) else Seat()


def open_now() -> tuple[int, dict[str, int]]:
    """Return how many are open in this process, and how many of them by whom."""
    with _taken.lock:
        return _taken.all, dict(_taken.by)
