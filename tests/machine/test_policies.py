"""What a bad end means for what comes after it: review, fallback (B9.1)."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.steps import release_step, resolve_hold, skip_step
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B9.1", "A9.4"), pytest.mark.django_db(transaction=True)]


def reviewed(engine: Engine, outcome: str = "failed") -> uuid.UUID:
    run = engine.submit(workflow(tool("a"), tool("b", {"node": "a", "on_failure": "manual_review"}), tool("c", "b")))
    engine.finish("a", outcome)
    return run


def test_a_person_looks_before_anything_follows_from_a_failure(engine):
    run = reviewed(engine)
    assert engine.statuses(run) == {"a": "failed", "b": "hold(review)", "c": "waiting"}
    assert engine.run(run).status == "waiting_external"
    assert engine.claim() == []
    engine.check(run)
    engine.act(release_step, run, "b")
    engine.finish("b")
    engine.finish("c")
    assert engine.run(run).status == "partially_completed"
    engine.check(run)


def test_nobody_is_asked_where_nothing_failed(engine):
    run = reviewed(engine, "succeeded")
    assert engine.statuses(run)["b"] == "queued"
    engine.check(run)


@pytest.mark.parametrize(
    ("how", "ends", "status"),
    [("skip", "skipped(user)", "queued"), ("reject", "skipped(rejected)", "skipped(upstream_failed)")],
)
def test_a_review_may_end_otherwise(engine, how, ends, status):
    run = reviewed(engine)
    step = engine.step(run, "b")
    if how == "skip":
        skip_step(actor=engine.actor, step_id=step.id, expected_version=step.version, reason="not needed")
    else:
        resolve_hold(actor=engine.actor, step_id=step.id, granted=False, reason="no")
    assert engine.statuses(run)["b"] == ends
    assert engine.statuses(run)["c"] == status
    engine.check(run)


@pytest.mark.parametrize(("outcome", "spare"), [("failed", "queued"), ("succeeded", "skipped(branch)")])
def test_a_fallback_starts_only_where_something_failed(engine, outcome, spare):
    run = engine.submit(
        workflow(
            tool("a"),
            tool("spare", {"node": "a", "on_failure": "fallback"}),
            tool("end", "a", "spare", join={"mode": "any"}),
        )
    )
    engine.finish("a", outcome)
    assert engine.statuses(run)["spare"] == spare
    if spare == "queued":
        engine.finish("spare")
    engine.finish("end")
    assert engine.run(run).status == ("partially_completed" if outcome == "failed" else "completed")
    engine.check(run)
