"""The doorbell and the drains behind it: prompt, fair, never deaf while busy, quiet while stopping (engine.md 5, 8)."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from pathlib import Path

import psutil
import pytest

from tests.support.factories import make_tenant
from tests.support.nodes import sleeping
from tests.support.specs import tool
from tests.support.workers import Desk, Stack, until

pytestmark = pytest.mark.req("C2.9")


def pump_age(stack: Stack) -> float:
    """Return how long ago the pump last showed that it lives (seconds)."""
    beats = [path.stat().st_mtime for path in Path(stack.folder / "run").glob("pump-*")]
    return time.time() - max(beats)


def test_one_step_starts_at_once(stack, desk):
    flow = desk.workflow(tool("a"))
    waits = []
    for _ in range(40):
        run_id = desk.submit(flow)
        desk.wait(run_id)
        step = desk.step(run_id, "a")
        waits.append((step.started_at - step.queued_at).total_seconds())
    assert statistics.median(waits) < 0.4, f"rung, not found by the poll: {waits}"


def test_who_has_just_worked_hears_of_more_by_its_own_ear(fresh_db, tenant):
    desk = Desk(tenant)
    flow = desk.workflow(tool("a"))
    with Stack(fresh_db, workers=1, poll_seconds=60, lease_seconds=300) as stack:
        stack.wait_ready()
        desk.wait(desk.submit(flow))
        (pump,) = (int(path.name.removeprefix("pump-")) for path in Path(stack.folder / "run").glob("pump-*"))
        os.kill(pump, signal.SIGSTOP)  # no ring goes out any more
        try:
            for _ in range(3):
                assert desk.wait(desk.submit(flow)).status == "completed"
        finally:
            os.kill(pump, signal.SIGCONT)


@pytest.mark.proof
def test_the_pump_is_not_stopped_by_busy_workers(fresh_db, tenant):
    """Rings for workers that are busy would fill the queue, and a full queue looks like a deaf cluster."""
    desk = Desk(tenant)
    flow, long = desk.workflow(tool("a")), desk.workflow(sleeping("a", 18), name="long")
    with Stack(fresh_db, workers=2, slots=2) as stack:
        stack.wait_ready()
        longs = desk.bulk(long, [{}] * 4)
        until(lambda: all(desk.step(r, "a").status == "running" for r in longs), 10, "all slots are busy")
        ages, more = [], []
        while desk.run(longs[0]).status == "running":
            more.append(desk.submit(flow))
            ages.append(pump_age(stack))
            time.sleep(0.25)
        assert len(more) > 40
        assert max(ages) < 4, "the pump went round all the time"
        assert set(desk.wait_all([*longs, *more]).values()) == {"completed"}


@pytest.mark.slow
def test_a_long_backlog_of_one_tenant_keeps_nobody_waiting(stack, desk, tenant):
    other = Desk(make_tenant())
    slow = desk.workflow(sleeping("a", 0.4), name="slow")
    backlog = desk.bulk(slow, [{}] * 1500)
    until(lambda: desk.run(backlog[0]).status != "queued", 20, "the backlog is being worked on")
    flow = other.workflow(tool("a"), tool("b", "a"))
    small = []
    for _ in range(3):
        small.append(other.submit(flow))
        other.wait(small[-1])
    assert set(desk.wait_all(backlog, seconds=100).values()) == {"completed"}
    last = max(other.run(run_id).finished_at for run_id in small)
    assert last < min(desk.run(run_id).finished_at for run_id in backlog[-50:]), "long before the backlog was done"


@pytest.mark.proof
def test_a_stopping_worker_waits_without_burning_a_processor(fresh_db, tenant):
    desk = Desk(tenant)
    with Stack(fresh_db, workers=1) as stack:
        stack.wait_ready()
        run_id = desk.submit(desk.workflow(sleeping("a", 3), tool("b", "a")))
        step = desk.wait_step(run_id, "a", "running")
        worker = psutil.Process(stack.pid_of(step.worker_session_id))
        os.kill(stack.clusters[0].pid, signal.SIGTERM)
        before, used, begun = sum(worker.cpu_times()[:2]), 0.0, time.monotonic()
        while stack.clusters[0].process.poll() is None:
            with contextlib.suppress(psutil.Error):
                used = sum(worker.cpu_times()[:2]) - before
            time.sleep(0.05)
        assert time.monotonic() - begun > 1
        assert desk.step(run_id, "a").status == "succeeded"
        assert desk.step(run_id, "b").status == "queued"
        assert used < 0.7
