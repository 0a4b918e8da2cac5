"""Timers, planned starts and deadlines under real workers, by the database's clock (C5)."""

from __future__ import annotations

import statistics
from datetime import datetime, timedelta

import pytest

from tests.support.nodes import sleeping
from tests.support.specs import tool
from tests.support.workers import Desk, Stack, told


@pytest.mark.slow
@pytest.mark.req("C5.2")
def test_a_wait_node_waits_by_the_databases_clock(fresh_db, desk, clock):
    flow = desk.workflow(
        tool("a"), {"id": "pause", "kind": "wait", "seconds": 86400, "after": ["a"]}, tool("b", "pause")
    )
    # A lease of two days: time travel must not look like a dead heartbeat to the workers.
    with Stack(fresh_db, workers=1, lease_seconds=2 * 86400) as stack:
        stack.wait_ready()
        run_id = desk.submit(flow)
        assert desk.wait(run_id, "waiting_tool").status == "waiting_tool"
        assert told(desk, run_id)["pause"] == "waiting(timer)"
        clock.advance(10)
        assert desk.run(run_id).status == "waiting_tool"
        due = desk.step(run_id, "pause").not_before
        clock.set(due - timedelta(seconds=0.5))
        assert desk.wait(run_id).status == "completed"
        assert desk.step(run_id, "b").started_at >= due


@pytest.mark.req("C5.2")
def test_wait_until_reads_its_time_from_an_expression(stack, desk, clock):
    flow = desk.workflow({"id": "pause", "kind": "wait", "until": "input.at"}, tool("b", "pause"))
    at = clock.now() + timedelta(seconds=1)
    run_id = desk.submit(flow, {"at": at.isoformat()})
    assert desk.wait(run_id).status == "completed"
    assert desk.step(run_id, "b").started_at >= at
    assert desk.wait(desk.submit(flow, {"at": "2001-01-01T00:00:00Z"})).status == "completed"
    run_id = desk.submit(flow, {"at": "soon"})
    assert desk.wait(run_id).status == "failed"
    assert desk.step(run_id, "pause").error["class"] == "validation"


@pytest.mark.req("C5.2")
def test_a_task_planned_for_later_starts_then(stack, desk, clock):
    at = clock.now() + timedelta(seconds=1.2)
    run_id = desk.submit(desk.workflow(tool("a")), scheduled_at=at)
    assert desk.run(run_id).status == "accepted"
    assert desk.wait(run_id).status == "completed"
    assert desk.step(run_id, "a").started_at >= at


@pytest.mark.req("C5.2")
def test_a_timer_is_fired_to_the_moment(fresh_db, tenant):
    """Not at the next poll: the scheduler sleeps until the next timer.

    Five timers are spread over one poll of four seconds: half of them would wait longer than a second for it.
    """
    desk = Desk(tenant)
    pauses = {"p0": 2.0, "p1": 2.8, "p2": 3.6, "p3": 4.4, "p4": 5.2}
    waits = [{"id": name, "kind": "wait", "seconds": seconds} for name, seconds in pauses.items()]
    flow = desk.workflow(*waits, *(tool(f"after-{name}", name) for name in pauses))
    with Stack(fresh_db, workers=1, poll_seconds=4) as stack:
        stack.wait_ready()
        run_id = desk.submit(flow)
        assert desk.wait(run_id).status == "completed"
    due = {e.node: datetime.fromisoformat(e.payload["not_before"]) for e in desk.events(run_id, "TIMER_SET")}
    late = [(desk.step(run_id, f"after-{name}").started_at - due[name]).total_seconds() for name in pauses]
    assert min(late) >= 0
    assert statistics.median(late) < 1, late


@pytest.mark.req("C5.5")
def test_a_deadline_ends_the_run_and_what_it_runs(stack, desk, clock):
    flow = desk.workflow(sleeping("a", 60), tool("b", "a"))
    run_id = desk.submit(flow, deadline=clock.now() + timedelta(seconds=1.5))
    run = desk.wait(run_id)
    assert (run.status, run.reason) == ("failed", "deadline")
    assert told(desk, run_id)["b"] == "skipped(deadline)"
    assert desk.step(run_id, "a").status in ("killed", "failed")
