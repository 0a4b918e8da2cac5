"""A queue between the processes of a cluster that no kill can block.

``multiprocessing.Queue`` hands its reading end around under a lock; an idle worker waits with that lock in its hands,
and killed there it leaves all others deaf. Here the kernel hands out whole messages: there is nothing to hold.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
from multiprocessing import RawValue
from typing import Any

_LARGEST = 262_144


class Packets:
    """What django-q2 asks of a queue. Messages are small; a full ``lossy`` queue forgets them instead of waiting."""

    def __init__(self, *, lossy: bool = False) -> None:
        self._lossy = lossy
        self._receiving, self._sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def put(self, item: Any) -> None:
        """Send one message. "STOP" is never forgotten."""
        data = pickle.dumps(item)
        if not self._lossy or item == "STOP":
            self._sending.send(data)
            return
        with contextlib.suppress(OSError):
            self._sending.send(data, socket.MSG_DONTWAIT)

    def get(self) -> Any:
        """Wait for one message."""
        return pickle.loads(self._receiving.recv(_LARGEST))

    def empty(self) -> bool:
        """Return whether nothing waits right now."""
        return not select.select([self._receiving], [], [], 0)[0]

    def qsize(self) -> int:
        """Return 0 or 1: the kernel does not count."""
        return 0 if self.empty() else 1

    def close(self) -> None:
        """Nothing: the ends close with the processes that have them, and what was sent is still read."""

    def join_thread(self) -> None:
        """Nothing: what was put is sent."""


class Timer:
    """How a worker shows its state to the cluster's guard, without the lock that a killed one would keep."""

    def __init__(self) -> None:
        self._value = RawValue("f", -1)

    @property
    def value(self) -> float:
        return float(self._value.value)

    @value.setter
    def value(self, value: float) -> None:
        self._value.value = value

    def get_lock(self) -> contextlib.AbstractContextManager[None]:
        """Return what stands where a lock is expected; a number is written whole."""
        return contextlib.nullcontext()
