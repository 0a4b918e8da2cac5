"""What the pump and the workers of one cluster share, without a lock.

A worker may be killed at any instant. With a lock in its hands it would stop the pump and all other workers, so each
number here has one writer and nobody waits for anybody.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Protocol

from runtime.worker.session import process_start

_PLACES = 64
_LOST_SECONDS, _DEAF_SECONDS = 5.0, 15.0


class Stop(Protocol):
    """An event of a thread or of a process."""

    def is_set(self) -> bool: ...


class Flag:
    """A flag between processes. ``multiprocessing.Event`` takes a lock to be read."""

    def __init__(self) -> None:
        self._value = multiprocessing.RawValue("b", 0)

    def set(self) -> None:
        self._value.value = 1

    def is_set(self) -> bool:
        return bool(self._value.value)


class Bell:
    """Who was rung and who works. Made before the cluster forks; every forked child has a place of its own."""

    def __init__(self) -> None:
        self.forks = 0
        self._heard = multiprocessing.RawValue("Q", 0)
        self._rung = multiprocessing.RawValue("Q", 0)
        self._answers = multiprocessing.RawArray("Q", _PLACES)
        self._busy = multiprocessing.RawArray("i", _PLACES)
        self._born = multiprocessing.RawArray("Q", _PLACES)
        self._rung_at = self._heeded_at = 0.0
        self._heeded = 0

    def count_fork(self) -> None:
        """Give the child that is about to be forked its number."""
        self.forks += 1

    # -- the pump

    def hear(self) -> None:
        """Note that there may be new work; a worker that is just falling idle looks once more."""
        self._heard.value += 1

    def rings(self, workers: int) -> int:
        """Return how many rings to send now: one for each worker that is idle and has none on its way to it."""
        idle = workers - self._working()
        if idle <= 0:
            return 0
        now = time.monotonic()
        if self.unanswered and now - self._rung_at > _LOST_SECONDS:
            self._rung.value = sum(self._answers)  # a worker died with a ring in its hands
        count = max(0, idle - self.unanswered)
        if count:
            self._rung.value += count
            self._rung_at = now
        return count

    def is_deaf(self) -> bool:
        """Return whether nobody works and nobody has taken a ring for long: such a cluster is started anew."""
        now, answers = time.monotonic(), sum(self._answers)
        nobody = self.unanswered > 0 and not self._working()
        if not nobody or answers != self._heeded:
            self._heeded, self._heeded_at = answers, now
        return now - self._heeded_at > _DEAF_SECONDS

    def _working(self) -> int:
        """Return how many are at work; the number of one that was killed may belong to another process by now."""
        places = zip(self._busy, self._born, strict=True)
        return sum(1 for pid, born in places if pid and process_start(pid) == str(born))

    @property
    def unanswered(self) -> int:
        """The rings that nobody has taken yet."""
        return max(0, self._rung.value - sum(self._answers))

    # -- a worker

    def answer(self) -> None:
        """Take a ring."""
        self._answers[self.forks % _PLACES] += 1

    def begin(self) -> int:
        """Begin to work; returns what :meth:`rest` compares with."""
        place, pid = self.forks % _PLACES, os.getpid()
        self._born[place] = int(process_start(pid) or 0)
        self._busy[place] = pid
        return int(self._heard.value)

    def rest(self, heard: int) -> bool:
        """Stop working; False when something was heard since ``heard``: the pump took us for busy, so look again."""
        self._busy[self.forks % _PLACES] = 0
        return int(self._heard.value) == heard


bell = Bell()
closing = Flag()
