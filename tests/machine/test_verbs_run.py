"""Verbs on a run: cancel, pause, resume, and the deadline (C5.5, invariants 4 to 7)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from runtime.actions.ending import end_for_deadline
from runtime.actions.runs import cancel_run, pause_run, resume_run
from runtime.actions.steps import hold_step, kill_step, rerun_step, skip_step
from runtime.kernel.errors import AlreadySucceeded, Conflict, FinishedRun, NotFound, PermissionDenied, Stale
from runtime.kernel.ids import uuid7
from runtime.models import Attempt, AuditEntry, Operation
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance import lost, timers
from tests.support.actors import member, outsider, the_engine
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.patience import patient
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C5.5"), pytest.mark.django_db(transaction=True)]

DIAMOND = workflow(tool("a"), tool("b", "a"), tool("c", "a"), tool("d", "b", "c"))


def cancel(engine: Engine, run_id: uuid.UUID, **more: Any) -> dict[str, Any]:
    return cancel_run(**{"actor": engine.actor, "run_id": run_id, "reason": "no longer wanted", **more})


def test_cancel_ends_what_is_open_and_names_who_and_why(engine):
    run = engine.submit(DIAMOND)
    engine.finish("a")
    engine.claim(1)
    answer = cancel(engine, run)
    assert answer["status"] == "cancelled"
    assert engine.statuses(run) == {
        "a": "succeeded",
        "b": "killed(cancelled)",
        "c": "skipped(cancelled)",
        "d": "skipped(cancelled)",
    }
    row = engine.run(run)
    assert (row.status, row.reason, row.cancel_requested) == ("cancelled", "no longer wanted", True)
    event = next(event for event in engine.events(run) if event.type == "CANCEL_REQUESTED")
    assert (event.actor, event.reason) == ("service:test", "no longer wanted")
    with tenant_tx(engine.tenant.id):
        entry = AuditEntry.objects.get(run_id=run, verb="run.cancel")
        attempt = Attempt.objects.get(run_id=run, step_id=engine.step(run, "b").id)
    assert (entry.actor, entry.reason, entry.result) == ("service:test", "no longer wanted", "done")
    assert (attempt.outcome, attempt.finished_at is not None) == ("killed", True)
    engine.check(run)


def test_a_killed_step_is_fenced_and_its_late_result_changes_nothing(engine, test_database):
    run = engine.submit(DIAMOND)
    [claimed] = engine.claim()
    with test_database.connect("qd_worker") as ear:
        ear.execute("LISTEN qd_control")
        cancel(engine, run)
        heard = [notice.payload for notice in ear.notifies(timeout=patient(5), stop_after=1)]
    step = engine.step(run, "a")
    assert step.owner_epoch == claimed.owner_epoch + 1
    assert heard == [f"kill:{step.id}:{step.owner_epoch}"]
    engine.report(claimed, "succeeded")
    assert engine.step(run, "a").status == "killed"
    assert engine.types(run)[-1] == "STALE_SUBMIT"
    engine.check(run)


def test_cancel_again_is_answered_with_what_is_there(engine):
    run = engine.submit(DIAMOND)
    first = cancel(engine, run)
    events = engine.types(run)
    assert cancel(engine, run, expected_version=1) == first
    assert engine.types(run) == events


def test_cancelling_what_just_ended_tells_how(engine):
    run = engine.submit(workflow(tool("a")))
    engine.finish("a")
    with pytest.raises(FinishedRun, match="already completed") as refusal:
        cancel(engine, run)
    assert refusal.value.extra["current_status"] == "completed"
    assert engine.run(run).cancel_requested is False


def in_flight(engine: Engine) -> tuple[uuid.UUID, Any, uuid.UUID]:
    """A run whose step ``a`` has a writing call on its way; returns run, claim and operation."""
    run = engine.submit(DIAMOND)
    [claimed] = engine.claim()
    return run, claimed, send(engine, claimed, f"order:{run}")


def operation_of(engine: Engine, operation: uuid.UUID) -> Operation:
    with tenant_tx(engine.tenant.id):
        return Operation.objects.get(id=operation)


def test_cancel_asks_a_call_with_an_effect_to_end_and_waits_for_its_answer(engine, test_database):
    run, claimed, _ = in_flight(engine)
    with test_database.connect("qd_worker") as ear:
        ear.execute("LISTEN qd_control")
        assert cancel(engine, run)["status"] == "cancelling"
        heard = [notice.payload for notice in ear.notifies(timeout=patient(5), stop_after=1)]
    step = engine.step(run, "a")
    assert heard == [f"kill:{step.id}:{claimed.owner_epoch}"]
    assert engine.statuses(run) == {
        "a": "running",
        "b": "skipped(cancelled)",
        "c": "skipped(cancelled)",
        "d": "skipped(cancelled)",
    }
    assert engine.types(run, "a")[-1] == "STEP_CANCEL_REQUESTED"
    engine.check(run)


@pytest.mark.parametrize("told", ["absent", "refused"])
def test_a_call_that_ended_without_effect_lets_the_run_be_cancelled(engine, told):
    run, claimed, operation = in_flight(engine)
    cancel(engine, run)
    engine.report(claimed, "killed", operation_status=told)
    row = engine.run(run)
    assert (row.status, row.reason, row.attention) == ("cancelled", "no longer wanted", None)
    assert engine.statuses(run)["a"] == "killed(cancelled)"
    assert operation_of(engine, operation).status == told
    engine.check(run)


def test_an_effect_that_happened_all_the_same_is_kept_and_the_run_is_cancelled(engine):
    run, claimed, operation = in_flight(engine)
    cancel(engine, run)
    engine.report(claimed, "succeeded", operation_status="succeeded", external_ref="ext-1")
    row = operation_of(engine, operation)
    assert (row.status, row.external_ref) == ("succeeded", "ext-1")
    assert engine.run(run).status == "cancelled"
    assert engine.statuses(run)["a"] == "succeeded"
    engine.check(run)


@pytest.mark.parametrize("outcome", ["retry", "yielded", "given_back"])
def test_nothing_of_a_cancelled_run_is_tried_again(engine, outcome):
    run, claimed, _ = in_flight(engine)
    cancel(engine, run)
    engine.report(claimed, outcome, operation_status="absent")
    assert engine.statuses(run)["a"] == "killed(cancelled)"
    assert engine.run(run).status == "cancelled"
    assert engine.claim() == []
    engine.check(run)


def test_a_call_of_which_nobody_knows_is_verified_by_a_person(engine):
    run, claimed, operation = in_flight(engine)
    cancel(engine, run)
    engine.report(claimed, "unknown", operation_status="unknown")
    row = engine.run(run)
    assert row.status == "needs_attention"
    assert set(row.attention) == {"owner", "evidence", "due"}
    assert engine.statuses(run)["a"] == "killed(cancelled)"
    assert operation_of(engine, operation).status == "unknown"
    engine.check(run)


def test_a_lost_worker_of_a_cancelled_run_is_not_replaced(engine):
    run, _, operation = in_flight(engine)
    cancel(engine, run)
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    lost.return_orphans()
    assert engine.statuses(run)["a"] == "killed(cancelled)"
    assert operation_of(engine, operation).status == "unknown"
    assert engine.run(run).status == "needs_attention"
    engine.check(run)


@pytest.mark.usefixtures("fresh_db")
def test_after_its_time_a_call_is_ended_by_force(engine, clock):
    run, claimed, operation = in_flight(engine)
    cancel(engine, run)
    clock.advance(14)
    assert timers.enforce_cancels() == 0, "it has its time"
    clock.advance(2)
    assert timers.enforce_cancels() == 1
    step = engine.step(run, "a")
    assert (step.status, step.cause, step.owner_epoch) == ("killed", "cancelled", claimed.owner_epoch + 1)
    row = engine.run(run)
    assert row.status == "needs_attention"
    assert operation_of(engine, operation).business_key in row.attention["evidence"]
    assert timers.enforce_cancels() == 0, "once"
    # The late answer settles the operation and moves nothing else.
    engine.report(claimed, "succeeded", operation_status="succeeded", external_ref="ext-1")
    assert operation_of(engine, operation).status == "succeeded"
    assert engine.step(run, "a").status == "killed"
    assert engine.run(run).status == "needs_attention"
    engine.check(run)


def test_cancelling_what_has_just_succeeded_says_so(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    shown = engine.step(run, "a")
    engine.finish("a")
    with pytest.raises(AlreadySucceeded) as refusal:
        kill_step(actor=engine.actor, step_id=shown.id, expected_version=shown.version, reason="stop")
    assert refusal.value.extra["current_status"] == "succeeded"
    engine.finish("b")
    with pytest.raises(AlreadySucceeded):
        cancel(engine, run)
    assert engine.run(run).cancel_requested is False


def test_cancel_kills_an_unknown_step_and_leaves_its_operation_open(engine):
    run = engine.submit(DIAMOND)
    [claimed] = engine.claim()
    operation = send(engine, claimed, "order:1")
    engine.report(claimed, "unknown", operation_status="unknown")
    assert engine.statuses(run)["a"] == "unknown(receipt_unknown)"
    cancel(engine, run)
    assert engine.statuses(run)["a"] == "killed(cancelled)"
    with tenant_tx(engine.tenant.id):
        assert Operation.objects.get(id=operation).status == "unknown"
    assert engine.run(run).status == "needs_attention"
    engine.check(run)


@pytest.mark.parametrize("status", ["accepted", "paused", "waiting_tool", "waiting_external"])
def test_cancel_from_every_open_state(engine, clock, status):
    later = clock.now() + timedelta(hours=1) if status == "accepted" else None
    run = engine.submit(workflow(tool("a"), tool("b", "a")), scheduled_at=later)
    if status == "paused":
        pause_run(actor=engine.actor, run_id=run, reason="")
    elif status == "waiting_tool":
        engine.finish("a", "retry")
    elif status == "waiting_external":
        engine.finish("a")
        engine.claim()
        engine.act(hold_step, run, "b")
        engine.finish("b", "retry")
    assert engine.run(run).status == status
    assert cancel(engine, run)["status"] == "cancelled"
    engine.check(run)


def test_pause_parks_what_is_queued_and_resume_brings_it_back(engine, test_database):
    run = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a")))
    [first] = engine.claim(1)
    pause_run(actor=engine.actor, run_id=run, reason="wait")
    assert engine.run(run).status == "paused"
    assert engine.claim() == []
    # What runs goes on to its end; what becomes ready is parked.
    engine.report(first, "succeeded")
    ready = {n for n in ("b", "c") if engine.step(run, n).status == "queued"}
    assert ready == {"b", "c"}
    assert not any(engine.step(run, n).claimable for n in ready)
    assert engine.claim() == []
    engine.check(run)
    with test_database.connect("qd_worker") as ear:
        ear.execute("LISTEN qd_work")
        resume_run(actor=engine.actor, run_id=run, reason="go on")
        assert [notice.channel for notice in ear.notifies(timeout=patient(5), stop_after=1)] == ["qd_work"]
    assert {one.node.id for one in engine.claim()} == {"b", "c"}
    engine.check(run)


def test_resume_leaves_what_an_operator_holds(engine):
    run = engine.submit(workflow(tool("a"), tool("b")))
    engine.act(hold_step, run, "a")
    pause_run(actor=engine.actor, run_id=run, reason="")
    resume_run(actor=engine.actor, run_id=run, reason="")
    assert [one.node.id for one in engine.claim()] == ["b"]
    engine.check(run)


def test_pause_and_resume_twice_are_answered(engine):
    run = engine.submit(DIAMOND)
    for verb in (pause_run, pause_run, resume_run, resume_run):
        verb(actor=engine.actor, run_id=run, reason="")
    assert [t for t in engine.types(run) if t.endswith("_REQUESTED")] == ["PAUSE_REQUESTED", "RESUME_REQUESTED"]
    engine.check(run)


def test_neither_pause_nor_resume_in_a_run_that_is_cancelled_or_ended(engine):
    run = engine.submit(DIAMOND)
    [claimed] = engine.claim()
    send(engine, claimed, "order:1")
    cancel(engine, run)
    for verb in (pause_run, resume_run):
        with pytest.raises(Conflict):
            verb(actor=engine.actor, run_id=run, reason="")
    done = engine.submit(workflow(tool("a")))
    engine.finish("a")
    for verb in (pause_run, resume_run):
        with pytest.raises(FinishedRun):
            verb(actor=engine.actor, run_id=done, reason="")


@pytest.mark.parametrize("verb", [cancel_run, pause_run, resume_run])
def test_a_verb_on_a_run_is_refused_to_whom_it_is_not_for(engine, other_tenant, verb):
    run = engine.submit(DIAMOND)
    before = engine.types(run)
    with pytest.raises(PermissionDenied):
        verb(actor=outsider(engine.tenant), run_id=run, reason="")
    with pytest.raises(PermissionDenied):
        verb(actor=member(engine.tenant, "viewer"), run_id=run, reason="")
    with pytest.raises(NotFound):
        verb(actor=member(other_tenant, "admin"), run_id=run, reason="")
    with pytest.raises(NotFound):
        verb(actor=engine.actor, run_id=uuid7(), reason="")
    assert engine.types(run) == before


@pytest.mark.parametrize("verb", [cancel_run, pause_run])
def test_a_stale_version_changes_nothing(engine, verb):
    run = engine.submit(DIAMOND)
    before = engine.types(run)
    with pytest.raises(Stale) as refusal:
        verb(actor=engine.actor, run_id=run, reason="", expected_version=99)
    assert refusal.value.extra == {"current_status": "queued", "current_version": 2}
    assert engine.types(run) == before


def expire(engine: Engine, clock: Any, run_id: uuid.UUID) -> dict[str, Any]:
    clock.advance(timedelta(hours=2))
    return end_for_deadline(actor=the_engine(engine.tenant), run_id=run_id)


def test_the_deadline_fails_a_run_whose_effects_are_settled(engine, clock):
    run = engine.submit(DIAMOND, deadline=clock.now() + timedelta(hours=1))
    engine.finish("a")
    engine.claim(1)
    assert end_for_deadline(actor=the_engine(engine.tenant), run_id=run)["status"] == "running"
    assert expire(engine, clock, run)["status"] == "failed"
    assert engine.run(run).reason == "deadline"
    assert engine.statuses(run) == {
        "a": "succeeded",
        "b": "killed(deadline)",
        "c": "skipped(deadline)",
        "d": "skipped(deadline)",
    }
    assert end_for_deadline(actor=the_engine(engine.tenant), run_id=run)["status"] == "failed"
    engine.check(run)


def test_the_deadline_before_the_start(engine, clock):
    now = clock.now()
    run = engine.submit(DIAMOND, scheduled_at=now + timedelta(hours=1), deadline=now + timedelta(minutes=30))
    assert engine.run(run).status == "accepted"
    assert expire(engine, clock, run)["status"] == "failed"
    assert engine.run(run).started_at is None
    engine.check(run)


def test_the_deadline_leaves_what_is_unknown_to_a_person(engine, clock):
    run = engine.submit(workflow(tool("a"), tool("b")), deadline=clock.now() + timedelta(hours=1))
    claimed = {one.node.id: one for one in engine.claim()}
    send(engine, claimed["a"], "order:1", recovery="query")
    engine.report(claimed["a"], "unknown", operation_status="unknown")
    assert expire(engine, clock, run)["status"] == "needs_attention"
    row = engine.run(run)
    assert row.attention["owner"]
    assert row.attention["due"]
    assert engine.statuses(run) == {"a": "unknown(receipt_unknown)", "b": "killed(deadline)"}
    engine.check(run)


def test_nothing_starts_after_the_deadline(engine, clock):
    run = engine.submit(workflow(tool("a"), tool("b", "a")), deadline=clock.now() + timedelta(hours=1))
    engine.finish("a", "failed")
    again = engine.submit(workflow(tool("a"), tool("b")), deadline=clock.now() + timedelta(hours=1))
    engine.finish("a", "failed")
    clock.advance(timedelta(hours=2))
    assert engine.claim() == []
    with pytest.raises(Conflict, match="deadline"):
        engine.act(rerun_step, again, "a")
    with pytest.raises(Conflict, match="deadline"):
        engine.act(rerun_step, run, "a")


def test_a_step_verb_waits_for_nobody_for_ever(engine, test_database):
    """A lock that is not given up becomes a clear refusal that may be tried again, not an endless wait."""
    from runtime.kernel.errors import Unavailable

    run = engine.submit(DIAMOND)
    with test_database.connect() as other:
        other.autocommit = False
        other.execute("SELECT set_config('qd.tenant', %s, true)", [str(engine.tenant.id)])
        other.execute("SELECT 1 FROM qd_run WHERE id = %s FOR UPDATE", [run])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runtime.actions.base.LOCK_TIMEOUT_MS", 30)
            with pytest.raises(Unavailable) as refusal:
                engine.act(skip_step, run, "a")
    assert refusal.value.retryable
    engine.act(kill_step, run, "a")
