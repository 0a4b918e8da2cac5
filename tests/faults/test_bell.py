"""Whom the pump takes for busy: the processes that are at work, and nobody who only has the number of one (C2.9)."""

from __future__ import annotations

import os
import signal

import pytest

from runtime.worker.bell import Bell

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.9")]


def fork(bell: Bell) -> int:
    """Fork a worker that begins to work and then waits; returns its number once it works."""
    ready, told = os.pipe()
    bell.count_fork()
    if (pid := os.fork()) == 0:
        bell.begin()
        os.write(told, b"!")
        signal.alarm(60)  # whatever becomes of the test, it goes
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    os.close(ready)
    os.close(told)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_worker_at_work_is_not_rung_and_a_killed_one_is_replaced():
    bell = Bell()
    pid = fork(bell)
    assert (bell.rings(1), bell.rings(2)) == (0, 1)
    kill(pid)
    assert bell.rings(2) == 1


def test_who_got_the_number_of_a_killed_worker_is_not_busy():
    """Numbers come round soon where there are few of them; the other process may belong to anybody."""
    bell = Bell()
    kill(fork(bell))
    bell._busy[bell.forks] = 1  # as if the first process of the machine had begun after the worker's death
    assert bell.rings(1) == 1


def test_a_worker_that_is_dead_and_not_yet_buried_is_not_busy():
    bell = Bell()
    pid = fork(bell)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert bell.rings(1) == 1
    os.waitpid(pid, 0)
