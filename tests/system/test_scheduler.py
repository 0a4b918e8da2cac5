"""The scheduler's turns: what is slow or broken keeps no other duty waiting (C5.2)."""

from __future__ import annotations

import threading
import time

import pytest

from runtime.queries.health import readiness
from runtime.store.tx import plain_tx
from runtime.worker import scheduler
from runtime.worker.scheduler import Duty

pytestmark = pytest.mark.req("C5.2")


def test_a_duty_that_waits_for_others_and_one_that_fails_delay_nobody():
    stop, released = threading.Event(), threading.Event()
    turns: list[float] = []

    def broken() -> int:
        raise LookupError("a row nobody expected")

    def timely() -> int:
        turns.append(time.monotonic())
        if len(turns) == 20:
            stop.set()
        return 0

    slow = Duty("slow", lambda: released.wait(30), 0.01, apart=True)
    begun = time.monotonic()
    scheduler.run(stop, only=[slow, Duty("broken", broken, 0.01), Duty("timely", timely, 0.01)])
    released.set()
    assert len(turns) == 20
    assert time.monotonic() - begun < 5


def test_what_leaves_the_system_runs_apart():
    by_name = {duty.name: duty for duty in scheduler.duties()}
    assert by_name["outbox"].apart
    assert not any(by_name[name].apart for name in ("timers", "deadlines", "expired_sessions", "orphans"))


def test_a_duty_that_fails_at_each_turn_is_not_ready(fresh_db):
    """Its connection bears its name, which whoever asks `/readyz` reads; it is taken off when the duty heals."""
    with plain_tx():
        pass  # this thread's own connection plays the scheduler's
    rename = scheduler._tell

    def broken() -> int:
        raise LookupError("a row nobody expected")

    duty = Duty("timers", broken, 0.0)
    for _ in range(2):
        scheduler._turn(duty)
        assert rename(None, [duty]) is None
    scheduler._turn(duty)
    told = rename(None, [duty])
    assert told == "timers"
    check = readiness()["scheduler"]
    assert (check["ok"], check["detail"]) == (False, "duties fail at each turn: timers")
    duty.run_once = lambda: 0
    scheduler._turn(duty)
    assert rename(told, [duty]) is None
    assert readiness()["scheduler"]["ok"]
