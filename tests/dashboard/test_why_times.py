"""Why, where time decided: a join whose limit was over, a worker whose lease was, an execution that was replaced."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.steps import rerun_step
from runtime.store.tx import plain_tx
from runtime.worker.maintenance import lost
from runtime.worker.maintenance.timers import fire_timers
from tests.dashboard.test_why import HELD, LATE, READY, answers
from tests.support.engine import Engine
from tests.support.pages import Reader
from tests.support.specs import tool, workflow

# Alone in a database: these duties look at every tenant.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fresh_db")]
LIMITED = workflow(tool("a"), tool("b"), tool("j", "a", {"node": "b", "optional": True}, join={"timeout_s": 90}))


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    return Engine(tenant)


@pytest.mark.req("B11.1", "B3.1")
def test_a_join_that_its_time_limit_began_is_no_fault(engine, clock, tenant):
    run = engine.submit(LIMITED)
    engine.finish("a")
    reader = Reader(tenant, "oncall")
    page = reader.get(f"/runs/{run}/why/?node=j")
    assert answers(page)[READY] == ("wait", "It waits for b (running).")
    assert "it is decided without them." in page
    assert answers(page)["Was it queued?"][1] == "Not yet: its inputs are not there."
    clock.advance(91)
    assert fire_timers() == 1
    page = reader.get(f"/runs/{run}/why/?node=j")
    verdict, text = answers(page)[READY]
    assert verdict == "yes"
    assert text.startswith("Its time to wait (1:30) was over at")
    assert text.endswith("it was decided without b.")
    assert "although" not in page
    (seq,) = [one.seq for one in engine.events(run) if one.type == "JOIN_TIMED_OUT"]
    assert f"seq={seq}" in page


@pytest.mark.req("B11.1", "B3.1")
def test_a_join_that_its_time_limit_skipped_waits_for_nothing(engine, clock, tenant):
    run = engine.submit(workflow(tool("a"), tool("b"), tool("j", "a", "b", join={"timeout_s": 90})))
    engine.finish("a")
    clock.advance(91)
    fire_timers()
    found = answers(Reader(tenant, "oncall").get(f"/runs/{run}/why/?node=j"))
    assert found[READY][0] == "yes"
    assert "decided without b" in found[READY][1]


@pytest.mark.req("B11.1")
def test_a_lost_worker_is_told_with_the_event(engine, tenant):
    run = engine.submit(workflow(tool("a")))
    engine.claim()
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    lost.return_orphans()
    page = Reader(tenant, "oncall").get(f"/runs/{run}/why/?node=a")
    verdict, text = answers(page)[LATE]
    assert (verdict, "lease ran out at" in text) == ("doubt", True)
    (seq,) = [one.seq for one in engine.events(run) if one.cause == "lease_lost"]
    assert f"seq={seq}" in page


@pytest.mark.req("B11.1", "C2.7")
def test_a_step_in_its_preferred_pool_says_until_when(engine, tenant):
    near = uuid.uuid4()
    with plain_tx() as tx:
        tx.send("insert_session", (near, "test", 1, "", '["near"]', 8, "test", 1e9))
    run = engine.submit(workflow(tool("a", prefer={"pool": "near", "for_s": 60})))
    reader = Reader(tenant, "oncall")
    page = reader.get(f"/runs/{run}/why/?node=a")
    assert "It prefers the pool near until" in page
    assert answers(page)["Was it queued?"][1].endswith("in pool near.")
    assert "Preferred pool until" in reader.get(f"/runs/{run}/?step=a")
    (claimed,) = engine.claimer.claim(tenant.id, "near", 1)
    engine.report(claimed, "succeeded")
    assert "Preferred pool until" not in reader.get(f"/runs/{run}/?step=a")


@pytest.mark.req("B11.1")
def test_what_has_ended_is_held_by_nobody(engine, tenant):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), {"id": "w", "kind": "wait", "seconds": 9_999}))
    engine.finish("a")
    reader = Reader(tenant, "oncall")
    for asked in (pause_run, cancel_run):
        asked(actor=engine.actor, run_id=run, reason="maintenance")
        assert answers(reader.get(f"/runs/{run}/why/?node=a"))[HELD] == ("none", "No.")


@pytest.mark.req("B11.1", "B5.3")
def test_the_attempts_are_those_of_the_execution_that_is_shown(engine, tenant):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), {"id": "w", "kind": "wait", "seconds": 9_999}))
    engine.finish("a")
    reader, claimed = Reader(tenant, "oncall"), "Did a worker claim it?"
    assert answers(reader.get(f"/runs/{run}/why/?node=a"))[claimed][0] == "yes"
    pause_run(actor=engine.actor, run_id=run, reason="maintenance")
    rerun_step(actor=engine.actor, step_id=engine.step(run, "a").id, expected_version=None, reason="again")
    verdict, text = answers(reader.get(f"/runs/{run}/why/?node=a"))[claimed]
    assert verdict == "wait"
    assert text.startswith("Not yet")
