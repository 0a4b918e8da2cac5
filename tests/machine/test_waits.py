"""What a step waited for is not forgotten when people act on it, and waiting uses up no retry."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.actions.hold import hold_step, release_step
from runtime.actions.skip import skip_step, unskip_step
from runtime.actions.stops import lift_stop, set_stop
from runtime.worker.maintenance.stops import Releaser
from runtime.worker.maintenance.timers import fire_timers
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.req("A5.1")
def test_a_skip_that_is_taken_back_keeps_the_planned_start(engine, clock):
    later = clock.now() + timedelta(hours=1)
    run = engine.submit(workflow(tool("a"), tool("b", "a")), scheduled_at=later)
    engine.act(skip_step, run, "a")
    engine.act(unskip_step, run, "a")
    assert engine.statuses(run) == {"a": "waiting(timer)", "b": "waiting"}
    assert engine.step(run, "a").not_before == later
    engine.check(run)
    clock.advance(3601)
    fire_timers()
    assert engine.statuses(run)["a"] == "queued"


@pytest.mark.req("A5.1")
def test_a_skip_that_is_taken_back_after_the_planned_start_is_queued(engine, clock):
    run = engine.submit(workflow(tool("a")), scheduled_at=clock.now() + timedelta(hours=1))
    engine.act(hold_step, run, "a")
    other = engine.submit(workflow(tool("a"), tool("b"), name="two"), scheduled_at=clock.now() + timedelta(hours=1))
    engine.act(skip_step, other, "a")
    clock.advance(3601)
    engine.act(unskip_step, other, "a")
    assert engine.statuses(other)["a"] == "queued"


@pytest.mark.req("A5.1", "C5.5")
def test_a_released_step_that_a_stop_held_back_asks_for_stops_again(engine, clock):
    """Its stop ended while it was held: nobody looked at it then, and it must not sit out the stop's floor."""
    run = engine.submit(workflow(tool("a")))
    [claimed] = engine.claim()
    later = clock.now() + timedelta(seconds=600)
    engine.report(claimed, "yielded", cause="stopped", not_before=later)
    assert engine.statuses(run)["a"] == "waiting(stopped)"
    engine.act(hold_step, run, "a")
    engine.act(release_step, run, "a")
    assert engine.statuses(run)["a"] == "queued"
    engine.check(run)


@pytest.mark.req("C5.5")
def test_what_no_stop_holds_back_any_more_goes_on_whatever_waits_in_front(fresh_db, engine, clock, monkeypatch):
    """More steps than one page are held back by a stop that still stands."""
    monkeypatch.setattr("runtime.worker.maintenance.stops._BATCH", 3)
    stays = set_stop(actor=engine.actor, scope="workflow", name="stays", reason="test")
    ends = set_stop(actor=engine.actor, scope="workflow", name="ends", reason="test")
    releaser = Releaser()
    many = engine.submit(workflow(*[tool(f"n{i}") for i in range(7)], name="stays"))
    few = engine.submit(workflow(tool("a"), name="ends"))
    for seconds, claimed in enumerate(sorted(engine.claim(), key=lambda one: one.run_id == few)):
        later = clock.now() + timedelta(seconds=300 + seconds)
        engine.report(claimed, "yielded", cause="stopped", not_before=later)
    lift_stop(actor=engine.actor, stop_id=ends["stop_id"])
    assert releaser.run_once() == 1
    assert engine.statuses(few) == {"a": "queued"}
    assert set(engine.statuses(many).values()) == {"waiting(stopped)"}
    lift_stop(actor=engine.actor, stop_id=stays["stop_id"])
    assert releaser.run_once() == 7


@pytest.mark.req("B4.1")
def test_only_a_failed_call_counts_against_the_retry_limit(engine, clock):
    run = engine.submit(workflow(tool("a")))
    for _ in range(4):
        [claimed] = engine.claim()
        assert claimed.tries == 1
        engine.report(claimed, "yielded", cause="yielded", not_before=clock.now())
        fire_timers()
    for tries in (1, 2, 3):
        [claimed] = engine.claim()
        assert claimed.tries == tries
        engine.report(claimed, "retry")
        clock.advance(61)
        fire_timers()
    assert engine.step(run, "a").attempt == 7
