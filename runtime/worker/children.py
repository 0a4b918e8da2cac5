"""One supervised process: its own session, death with its parent, restart with backoff, no leftovers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# Waits before the next start, by the number of quick deaths in a row; a minute of life forgives them.
BACKOFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
FORGIVEN_AFTER_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends (Linux; elsewhere nothing)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Child:
    """A command that is kept running. ``env`` is added to our own environment; ``fds`` stay open in it."""

    name: str
    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    fds: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    next_start: float = 0.0
    quick_deaths: int = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def start(self) -> None:
        """Start the process in a session of its own, so that a Ctrl-C reaches us alone and its group is one kill.

        Only a process with one thread may start children: the parent whose death they die of is the thread.
        """
        self.process = subprocess.Popen(
            self.command,
            cwd=self.cwd,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self.fds,
            preexec_fn=die_with_parent,
        )
        self.started_at = time.monotonic()

    def reap(self) -> int | None:
        """Return the exit status of a process that has ended, once; what it left in its group is killed."""
        if self.process is None or (status := self.process.poll()) is None:
            return None
        kill_group(self.process.pid)
        lived = time.monotonic() - self.started_at
        self.quick_deaths = 0 if lived > FORGIVEN_AFTER_SECONDS else self.quick_deaths + 1
        wait = BACKOFF_SECONDS[min(max(self.quick_deaths - 1, 0), len(BACKOFF_SECONDS) - 1)]
        self.next_start = time.monotonic() + wait
        self.process = None
        return status

    def stop(self, seconds: float) -> None:
        """Ask with SIGTERM, wait up to ``seconds``, then kill the whole group."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the whole group now."""
        if self.process is not None:
            kill_group(self.process.pid)
            self.process.wait()
            self.process = None


def kill_group(group: int) -> None:
    """Kill every process of the group, without mercy; an empty group is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def birth(pid: int) -> float | None:
    """Return when the process was created (seconds), which tells it from a later one with its id; None: it is gone."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def kill_leftover(pid: int, born: float) -> bool:
    """Kill the group of a child that an earlier supervisor left behind; tell whether there was one."""
    found = birth(pid)
    if found is None or abs(found - born) > 0.5:
        return False
    kill_group(pid)
    return True
