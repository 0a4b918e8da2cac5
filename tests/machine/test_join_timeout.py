"""A join with a time limit: what is late counts as failed by its edge, goes on, and is used by nobody (B3.1)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.actions.steps import force_step, hold_step, release_step, rerun_step, skip_step, unskip_step
from runtime.worker.maintenance.timers import fire_timers
from tests.support.specs import tool, workflow

# Alone in a database: these duties look at every tenant.
pytestmark = [pytest.mark.req("B3.1"), pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fresh_db")]
OPTIONAL = {"node": "b", "optional": True}


def joined(join: dict, *after, name: str = "w", **more):
    return workflow(tool("a"), tool("b"), tool("j", *after, join={"timeout_s": 60, **join}), name=name, **more)


def test_a_late_optional_branch_no_longer_holds_up_the_required_one(engine, clock):
    run = engine.submit(joined({}, "a", OPTIONAL))
    late = {one.node.id: one for one in engine.claim()}["b"]
    assert engine.step(run, "j").not_before is None, "its time begins with the first input that ended"
    engine.finish("a")
    assert engine.step(run, "j").not_before == engine.step(run, "a").finished_at + timedelta(seconds=60)
    clock.advance(59)
    assert fire_timers() == 0
    clock.advance(2)
    assert fire_timers() == 1
    assert engine.statuses(run) == {"a": "succeeded", "b": "running", "j": "queued"}
    told = next(event for event in engine.events(run) if event.type == "JOIN_TIMED_OUT")
    assert told.payload["missing"] == ["b"]
    engine.check(run)
    engine.finish("j")
    assert engine.run(run).status == "running"
    engine.report(late, "succeeded")
    assert "LATE_RESULT" in engine.types(run, "b")
    assert engine.run(run).status == "completed"
    engine.check(run)


@pytest.mark.parametrize(
    ("join", "status"),
    [
        ({}, "skipped(upstream_failed)"),
        ({"policy": "at_least", "n": 1}, "queued"),
        ({"policy": "at_least", "n": 2}, "skipped(upstream_failed)"),
        ({"policy": "all_done"}, "queued"),
    ],
    ids=["all", "one", "two", "done"],
)
def test_the_policy_decides_over_what_is_there(engine, clock, join, status):
    run = engine.submit(joined(join, "a", "b"))
    engine.finish("a")
    clock.advance(61)
    fire_timers()
    assert engine.statuses(run)["j"] == status
    engine.finish("b")
    engine.check(run)


def test_a_join_whose_inputs_all_end_in_time_has_no_timer_left(engine, clock):
    run = engine.submit(joined({}, "a", "b"))
    engine.finish("a")
    engine.finish("b")
    assert engine.statuses(run)["j"] == "queued"
    clock.advance(120)
    assert fire_timers() == 0
    engine.finish("j")
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_a_hold_keeps_the_joins_time_and_a_release_its_inputs(engine, clock):
    run = engine.submit(joined({}, "a", OPTIONAL))
    engine.finish("a")
    engine.act(hold_step, run, "j")
    clock.advance(61)
    assert fire_timers() == 0
    engine.act(release_step, run, "j")
    assert engine.statuses(run)["j"] == "waiting"
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_an_approval_behind_a_late_branch_is_not_counted_twice(engine, clock):
    """It holds when its time is over; what the late branch brings then changes nothing."""
    ask = {"id": "j", "kind": "approval", "title": "Go?", "after": ["a", OPTIONAL], "join": {"timeout_s": 60}}
    run = engine.submit(workflow(tool("a"), tool("b"), ask))
    engine.finish("a")
    clock.advance(61)
    fire_timers()
    assert engine.statuses(run)["j"] == "hold(approval)"
    engine.finish("b")
    assert engine.step(run, "j").deps_left == 0
    engine.check(run)


def test_a_join_that_is_run_again_has_its_time_again(engine, clock):
    """Its late branch hangs for ever; the time begins at the rerun, since an input has ended already."""
    run = engine.submit(joined({}, "a", OPTIONAL))
    engine.finish("a")
    clock.advance(61)
    fire_timers()
    engine.finish("j", "failed")
    engine.act(rerun_step, run, "j")
    assert engine.statuses(run) == {"a": "succeeded", "b": "running", "j": "waiting"}
    clock.advance(61)
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_a_join_behind_what_is_run_again_has_its_time_from_its_other_input(engine, clock):
    run = engine.submit(joined({"policy": "all_done"}, "a", "b"))
    engine.finish("b")
    engine.finish("a")
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run) == {"a": "queued", "b": "succeeded", "j": "waiting"}
    clock.advance(61)
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_a_join_that_was_held_when_its_first_input_ended_has_its_time_from_the_release(engine, clock):
    run = engine.submit(joined({}, "a", OPTIONAL))
    engine.act(hold_step, run, "j")
    engine.finish("a")
    clock.advance(61)
    assert fire_timers() == 0
    engine.act(release_step, run, "j")
    assert engine.statuses(run)["j"] == "waiting"
    clock.advance(61)
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_a_join_that_revives_has_its_time(engine, clock):
    """Its time was over and it was skipped; the input that had failed is forced, the other still hangs."""
    run = engine.submit(joined({}, "a", OPTIONAL))
    engine.finish("a", "failed")
    clock.advance(61)
    fire_timers()
    assert engine.statuses(run)["j"] == "skipped(upstream_failed)"
    engine.act(force_step, run, "a")
    assert engine.statuses(run)["j"] == "waiting"
    clock.advance(61)
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_a_skip_that_is_taken_back_takes_the_joins_time_with_it(engine, clock):
    run = engine.submit(joined({"policy": "all_done"}, "a", "b"))
    engine.act(skip_step, run, "a")
    assert engine.step(run, "j").not_before is not None
    engine.act(unskip_step, run, "a")
    engine.check(run)
    clock.advance(61)
    assert fire_timers() == 0, "no input has ended"
    engine.finish("a")
    clock.advance(61)
    assert fire_timers() == 1
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)
