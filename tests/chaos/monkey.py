"""What kills: a seeded plan of kill -9 (and of freezing) on every part of a running console."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any

import psutil

# How often each is struck, relative to the others.
WEIGHTS = {
    "worker": 5,  # one process that runs steps
    "cluster": 2,  # django-q2's parent with all its children
    "sentinel": 1,  # what guards the workers inside the cluster
    "scheduler": 2,
    "heartbeat": 2,
    "web": 2,
    "postgres": 2,
    "frozen": 2,  # a worker stands still past its lease, then goes on
}
SHORTEST, LONGEST = 1.0, 5.0
FROZEN_SECONDS = 9.0


class Monkey:
    """Strikes one part after the other; ``log`` tells what and when (seconds since the start)."""

    def __init__(self, console: Any, rng: random.Random) -> None:
        self.console, self.rng = console, rng
        self.begun = time.monotonic()
        self.log: list[dict[str, Any]] = []
        self._frozen: list[tuple[psutil.Process, float]] = []

    def strike(self) -> None:
        """Wait a moment, then kill one part; a victim that is not there is passed over."""
        wait, victim, pick = (
            self.rng.uniform(SHORTEST, LONGEST),
            self.rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0],
            self.rng.random(),
        )
        threading.Event().wait(wait)
        self._thaw()
        hit = self._hit(victim, pick)
        self.log.append({"at": round(time.monotonic() - self.begun, 2), "victim": victim, "pid": hit})

    def calm(self) -> None:
        """Let everything that is frozen go on."""
        for process, _until in self._frozen:
            with contextlib.suppress(psutil.Error):
                process.resume()
        self._frozen = []

    def counts(self) -> dict[str, int]:
        """Return how often each part was hit."""
        return dict(Counter(one["victim"] for one in self.log if one["pid"]))

    def _thaw(self) -> None:
        now = time.monotonic()
        for process, until in self._frozen:
            if until <= now:
                with contextlib.suppress(psutil.Error):
                    process.resume()
        self._frozen = [one for one in self._frozen if one[1] > now]

    def _hit(self, victim: str, pick: float) -> int | None:
        pid = self._pid(victim, pick)
        if pid is None:
            return None
        try:
            if victim == "frozen":
                process = psutil.Process(pid)
                process.suspend()
                self._frozen.append((process, time.monotonic() + FROZEN_SECONDS))
            else:
                os.kill(pid, signal.SIGKILL)
        except (psutil.Error, ProcessLookupError):
            return None
        return pid

    def _pid(self, victim: str, pick: float) -> int | None:
        if victim == "postgres":
            return self.console.postgres.pid()
        if victim in ("scheduler", "heartbeat", "web"):
            return self.console.child(victim)
        cluster = self.console.child("workers")
        if cluster is None or victim == "cluster":
            return cluster
        try:
            inside = psutil.Process(cluster).children(recursive=True)
            parents = {process.ppid() for process in inside}
            guards = [process.pid for process in inside if process.pid in parents]
            leaves = [process.pid for process in inside if process.pid not in parents]
        except psutil.Error:
            return None
        found = guards if victim == "sentinel" else leaves
        return sorted(found)[int(pick * len(found))] if found else None
