"""What the verbs on a step lead to: skips, holds, approvals, kills and forced successes (A5.1, A9.4, A2.6)."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from runtime.actions.runs import cancel_run, pause_run, resume_run
from runtime.actions.steps import (
    force_step,
    hold_step,
    kill_step,
    release_step,
    resolve_hold,
    skip_step,
    unskip_step,
)
from runtime.kernel.errors import Conflict, MoveRefused, PermissionDenied
from runtime.models import Operation, Outcome
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.timers import fire_timers
from tests.support.actors import member
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A5.1", "A9.4"), pytest.mark.django_db(transaction=True)]

APPROVAL = {"id": "ask", "kind": "approval", "title": "May it?", "after": ["a"]}


# -- skip


def test_a_users_skip_satisfies_what_follows(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.act(skip_step, run, "a")
    assert engine.statuses(run) == {"a": "skipped(user)", "b": "queued"}
    engine.finish("b")
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_unskip_counts_anew_and_renews_what_had_moved_on(engine):
    run = engine.submit(workflow(tool("a"), tool("z"), tool("b", "a"), tool("c", "b", "z")))
    engine.act(skip_step, run, "a")
    engine.act(unskip_step, run, "a")
    assert engine.statuses(run) == {"a": "queued", "z": "queued", "b": "waiting", "c": "waiting"}
    assert (engine.step(run, "b").execution_version, engine.step(run, "c").execution_version) == (2, 1)
    engine.check(run)
    for node in ("a", "z", "b", "c"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_unskip_only_while_nothing_that_follows_has_started(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.act(skip_step, run, "a")
    engine.claim()
    with pytest.raises(Conflict, match="has started"):
        engine.act(unskip_step, run, "a")
    engine.check(run)


def test_only_a_users_skip_is_taken_back(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a")))
    engine.finish("a", "failed")
    assert engine.statuses(run)["b"] == "skipped(upstream_failed)"
    with pytest.raises(MoveRefused, match="upstream_failed"):
        engine.act(unskip_step, run, "b")


# -- hold and release


def test_a_held_queued_step_is_not_claimed_until_released(engine):
    run = engine.submit(workflow(tool("a"), tool("z")))
    engine.act(hold_step, run, "a")
    assert [one.node.id for one in engine.claim()] == ["z"]
    with pytest.raises(Conflict, match="held already"):
        engine.act(hold_step, run, "a")
    engine.act(release_step, run, "a")
    assert [one.node.id for one in engine.claim()] == ["a"]
    engine.check(run)


def test_a_running_step_holds_at_its_next_yield(engine):
    run = engine.submit(workflow(tool("a")))
    engine.claim()
    engine.act(hold_step, run, "a")
    assert engine.statuses(run)["a"] == "running"
    engine.finish("a", "retry")
    assert engine.statuses(run)["a"] == "hold(pause)"
    assert engine.run(run).status == "waiting_external"
    engine.act(release_step, run, "a")
    assert engine.statuses(run)["a"] == "queued"
    engine.check(run)


def test_a_hold_that_was_not_reached_is_taken_back(engine):
    run = engine.submit(workflow(tool("a")))
    engine.claim()
    engine.act(hold_step, run, "a")
    engine.act(release_step, run, "a")
    engine.finish("a", "retry")
    assert engine.statuses(run)["a"] == "waiting(retry_scheduled)"
    engine.check(run)


def test_a_held_timer_goes_on(engine, clock):
    run = engine.submit(workflow({"id": "a", "kind": "wait", "seconds": 60}))
    engine.act(hold_step, run, "a")
    clock.advance(30)
    engine.act(release_step, run, "a")
    assert engine.statuses(run)["a"] == "waiting(timer)"
    engine.act(hold_step, run, "a")
    clock.advance(60)
    fire_timers()
    assert engine.statuses(run)["a"] == "hold(pause)"
    engine.act(release_step, run, "a")
    assert engine.statuses(run)["a"] == "queued"
    engine.check(run)


def test_inputs_that_arrive_while_held_count_at_the_release(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), tool("z")))
    engine.act(hold_step, run, "b")
    engine.finish("a", "failed")
    assert engine.statuses(run)["b"] == "hold(pause)"
    engine.act(release_step, run, "b")
    assert engine.statuses(run)["b"] == "skipped(upstream_failed)"
    engine.check(run)


def test_a_release_in_a_paused_run_stays_parked(engine):
    run = engine.submit(workflow(tool("a")))
    engine.act(hold_step, run, "a")
    pause_run(actor=engine.actor, run_id=run, reason="")
    engine.act(release_step, run, "a")
    assert engine.claim() == []
    resume_run(actor=engine.actor, run_id=run, reason="")
    assert len(engine.claim()) == 1
    engine.check(run)


# -- approvals


@pytest.fixture
def asked(engine) -> uuid.UUID:
    run = engine.submit(workflow(tool("a"), APPROVAL, tool("b", "ask")))
    engine.finish("a")
    assert engine.statuses(run)["ask"] == "hold(approval)"
    assert engine.run(run).status == "waiting_approval"
    return run


@pytest.mark.req("A7.1")
def test_a_granted_step_is_queued_and_a_rejected_one_skipped(engine, asked):
    step = engine.step(asked, "ask")
    resolve_hold(actor=member(engine.tenant, "approver"), step_id=step.id, granted=True, reason="fine")
    assert engine.statuses(asked)["ask"] == "queued"
    engine.finish("ask")
    engine.finish("b")
    assert engine.run(asked).status == "completed"
    engine.check(asked)
    other = engine.submit(workflow(tool("a"), APPROVAL, tool("b", "ask")))
    engine.finish("a")
    resolve_hold(actor=engine.actor, step_id=engine.step(other, "ask").id, granted=False, reason="no")
    assert engine.statuses(other) == {"a": "succeeded", "ask": "skipped(rejected)", "b": "skipped(upstream_failed)"}
    assert engine.run(other).status == "failed"
    engine.check(other)


@pytest.mark.req("C5.6")
def test_an_approval_is_not_walked_around(engine, asked):
    with pytest.raises(MoveRefused, match="approval"):
        engine.act(release_step, asked, "ask")
    with pytest.raises(MoveRefused):
        engine.act(kill_step, asked, "ask")
    with pytest.raises(PermissionDenied):
        resolve_hold(
            actor=member(engine.tenant, "oncall"), step_id=engine.step(asked, "ask").id, granted=True, reason="me"
        )
    assert engine.statuses(asked)["ask"] == "hold(approval)"


def test_a_decision_twice_or_after_the_cancel_starts_nothing(engine, asked):
    step = engine.step(asked, "ask")
    cancel_run(actor=engine.actor, run_id=asked, reason="")
    with pytest.raises(Conflict):
        resolve_hold(actor=engine.actor, step_id=step.id, granted=True, reason="late")
    other = engine.submit(workflow(tool("z"), APPROVAL | {"after": []}))
    step = engine.step(other, "ask")
    resolve_hold(actor=engine.actor, step_id=step.id, granted=True, reason="fine")
    with pytest.raises(MoveRefused):
        resolve_hold(actor=engine.actor, step_id=step.id, granted=False, reason="again")


def test_an_operators_pause_is_not_decided(engine):
    run = engine.submit(workflow(tool("a"), tool("x", "a")))
    engine.act(hold_step, run, "x")
    with pytest.raises(MoveRefused):
        resolve_hold(actor=engine.actor, step_id=engine.step(run, "x").id, granted=True, reason="?")


# -- kill and force


def test_a_kill_goes_to_the_failure_policy(engine):
    run = engine.submit(
        workflow(tool("a"), tool("b", "a"), tool("c", {"node": "a", "on_failure": "continue_on_error"}))
    )
    [claimed] = engine.claim()
    engine.act(kill_step, run, "a")
    assert engine.statuses(run) == {"a": "killed", "b": "skipped(upstream_failed)", "c": "queued"}
    assert engine.step(run, "a").owner_epoch == claimed.owner_epoch + 1
    engine.report(claimed, "succeeded")
    assert engine.statuses(run)["a"] == "killed"
    assert "STALE_SUBMIT" in engine.types(run)
    engine.check(run)


def test_killing_a_step_with_an_effect_gives_the_run_an_owner(engine):
    run = engine.submit(workflow(tool("a"), tool("b")))
    claimed = {one.node.id: one for one in engine.claim()}
    operation = send(engine, claimed["a"], "order:9")
    engine.act(kill_step, run, "a")
    row = engine.run(run)
    assert row.status == "needs_attention"
    assert "order:9" in row.attention["evidence"]
    with tenant_tx(engine.tenant.id):
        assert Operation.objects.get(id=operation).status == "sent"
    engine.check(run)


@pytest.mark.req("A2.6")
def test_force_of_a_running_step_is_two_moves_under_a_new_epoch(engine):
    run = engine.submit(workflow(tool("x"), tool("y")))
    claimed = next(one for one in engine.claim() if one.node.id == "x")
    engine.act(force_step, run, "x")
    moves = [(e.from_status, e.to_status) for e in engine.events(run, "x")][-2:]
    assert moves == [("running", "killed"), ("killed", "mark_successed")]
    step = engine.step(run, "x")
    assert step.forced
    assert step.owner_epoch > claimed.owner_epoch
    engine.report(claimed, "failed")
    assert engine.step(run, "x").status == "mark_successed"
    engine.check(run)


@pytest.mark.req("A2.6")
def test_force_revives_what_was_skipped_for_the_failure(engine):
    run = engine.submit(
        workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("d", "c"), tool("z"), tool("e", "z", "c"))
    )
    engine.finish("a", "failed")
    assert engine.statuses(run)["d"] == "skipped(upstream_failed)"
    engine.act(force_step, run, "a", reason="done by hand")
    assert engine.statuses(run) == {
        "a": "mark_successed",
        "b": "queued",
        "c": "waiting",
        "d": "waiting",
        "z": "running",
        "e": "waiting",
    }
    engine.check(run)
    for node in ("b", "c", "d", "z", "e"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_a_forced_failure_still_fails_what_another_input_failed(engine):
    run = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a", "b"), tool("z")))
    engine.finish("a", "failed")
    engine.finish("b", "failed")
    engine.act(force_step, run, "a")
    assert engine.statuses(run)["c"] == "skipped(upstream_failed)"
    engine.act(force_step, run, "b")
    assert engine.statuses(run)["c"] == "queued"
    engine.check(run)


@pytest.mark.req("A2.6", "A2.5")
def test_force_completes_no_run_while_an_operation_is_open(engine):
    run = engine.submit(workflow(tool("a")))
    [claimed] = engine.claim()
    operation = send(engine, claimed, "order:5")
    engine.report(claimed, "unknown", operation_status="unknown")
    engine.act(force_step, run, "a")
    row = engine.run(run)
    assert (row.status, row.n_open_operations) == ("needs_attention", 1)
    with tenant_tx(engine.tenant.id):
        assert Operation.objects.get(id=operation).status == "unknown"
        assert not Outcome.objects.filter(run_id=run).exists()
    engine.check(run)


def test_force_in_a_finished_run_marks_the_step_and_nothing_else(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a", "failed")
    before = engine.run(run)
    engine.act(force_step, run, "a", reason="for the record")
    after = engine.run(run)
    assert (after.status, after.version, after.finished_at) == ("failed", before.version, before.finished_at)
    assert engine.statuses(run) == {"a": "mark_successed", "b": "skipped(upstream_failed)"}
    engine.check(run)


def test_an_or_join_fires_by_a_forced_input_and_ends_its_losers(engine, clock):
    run = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a", "b", join={"mode": "any"})))
    engine.finish("a", "retry", not_before=clock.now() + timedelta(hours=1))
    engine.act(force_step, run, "b")
    assert engine.statuses(run) == {"a": "skipped(or_lost)", "b": "mark_successed", "c": "queued"}
    engine.check(run)


def test_a_wait_that_is_no_longer_skipped_waits_anew(engine):
    """Found by the machine of random acts: the move and the timer are two changes of one row in one transaction."""
    run = engine.submit(workflow({"id": "w", "kind": "wait", "seconds": 60}, tool("b", "w")))
    engine.act(skip_step, run, "w")
    engine.act(unskip_step, run, "w")
    assert engine.statuses(run) == {"w": "waiting(timer)", "b": "waiting"}
    engine.check(run)
