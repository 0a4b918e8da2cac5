"""What an event tells: of which run, step and attempt, when, under what, and by which digests (B2.1, B2.2, C1.3)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.actions.steps import skip_step
from runtime.kernel.canonical import digest
from runtime.queries.runs import read_events
from runtime.worker.maintenance.timers import fire_timers
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("B2.1", "B2.2", "C1.3")


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database, since the duty of timers looks at every tenant."""
    return Engine(tenant)


def told(engine: Engine, run_id: Any) -> list[dict[str, Any]]:
    return read_events(actor=engine.actor, run_id=run_id)["events"]


def test_each_event_says_of_what_it_tells_and_under_what(engine, clock):
    """A step that is tried twice, one that a person skips: numbers without gaps, versions that only grow."""
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.act(skip_step, run_id, "b", reason="not today")
    engine.finish("a", "retry")
    clock.advance(3600)
    fire_timers()
    engine.finish("a", value={"n": 1})
    events, run, step = told(engine, run_id), engine.run(run_id), engine.step(run_id, "a")
    assert run.status == "completed"
    assert [one["seq"] for one in events] == list(range(1, run.seq + 1))
    assert {(one["schema_version"], one["manifest_id"]) for one in events} == {(1, run.manifest_id)}
    times = [one["occurred_at"] for one in events]
    assert times == sorted(times)
    started = [one for one in events if one["type"] == "STEP_STARTED"]
    assert [(one["step_id"], one["node"], one["execution_version"], one["attempt"]) for one in started] == [
        (step.id, "a", 1, 1),
        (step.id, "a", 1, 2),
    ]
    assert started[0]["owner_epoch"] < started[1]["owner_epoch"]
    (done,) = [one for one in events if one["type"] == "STEP_SUCCEEDED"]
    assert (done["from_status"], done["to_status"], done["actor"]) == ("running", "succeeded", "engine")
    assert (done["input_sha256"], done["output_sha256"]) == (digest(b"{}").hex(), digest(b'{"n":1}').hex())
    (skipped,) = [one for one in events if one["type"] == "STEP_SKIPPED"]
    assert (skipped["cause"], skipped["actor"], skipped["reason"]) == ("user", engine.actor.label, "not today")
    of_the_step = [one["version"] for one in events if one["step_id"] == step.id and one["to_status"]]
    assert of_the_step == sorted(set(of_the_step))
    engine.check(run_id)


def test_a_report_that_comes_twice_or_too_late_moves_nothing_and_is_told(engine, clock):
    """The first attempt's answer once more, and again after the second attempt has ended."""
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    [first] = engine.claim()
    engine.report(first, "retry")
    engine.report(first, "succeeded", {"n": 1})
    assert engine.statuses(run_id)["a"] == "waiting(retry_scheduled)"
    clock.advance(3600)
    fire_timers()
    [second] = engine.claim()
    engine.report(second, "succeeded", {"n": 2})
    engine.report(first, "failed")
    assert engine.statuses(run_id) == {"a": "succeeded", "b": "queued"}
    stale = [one["payload"] for one in told(engine, run_id) if one["type"] == "STALE_SUBMIT"]
    assert [(one["node"], one["attempt"], one["outcome"]) for one in stale] == [
        ("a", 1, "succeeded"),
        ("a", 1, "failed"),
    ]
    assert {one["submitted_epoch"] for one in stale} == {first.owner_epoch}
    engine.check(run_id)
