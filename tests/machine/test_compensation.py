"""Undoing effects: planned before, in the reverse order, each with its own key, and a person where it fails (C4.5)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from runtime.actions.compensation import compensate_operation
from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.steps import force_step, kill_step, rerun_step, skip_step
from runtime.kernel.errors import BadInput, Conflict, InvalidWorkflow, MoveRefused, NotFound, PermissionDenied, Stale
from runtime.kernel.ids import uuid7
from runtime.models import Compensation, Operation
from runtime.queries.invariants import breaches_of
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.maintenance import lost, timers
from tests.support.actors import member
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("B9.2", "C4.5"), pytest.mark.django_db(transaction=True)]

UNDO = {"tool": "test.undo@1"}
VERIFIED = {**UNDO, "verify": {"tool": "core.echo@1", "criterion": "output.undone == true"}}


@pytest.fixture
def saga(engine: Engine) -> Engine:
    """An engine whose tenant has a tool with an effect and one that undoes it."""
    for name in ("effect", "undo"):
        contract = {**python_tool("effect", writes=True), "name": f"test.{name}"}
        register_tool(actor=engine.actor, contract=contract)
    return engine


def act(node: str, *after: Any, compensation: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a node with an effect that can be undone."""
    return tool(node, *after, tool="test.effect@1", compensation=UNDO if compensation is None else compensation, **more)


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    return workflow(*nodes, defaults={"on_failure": "compensate"})


def apply(engine: Engine, node: str) -> uuid.UUID:
    """Let a node's effect succeed; return its operation."""
    [claimed] = [one for one in engine.claim() if one.node.id == node]
    operation = send(engine, claimed, f"{node}:{claimed.run_id}")
    engine.report(claimed, "succeeded", operation_status="succeeded")
    return operation


def undo(engine: Engine, node: str, outcome: str = "succeeded", told: str | None = "succeeded", **more: Any) -> None:
    """Carry out the compensation of ``node`` as a worker does."""
    [claimed] = [one for one in engine.claim() if one.node.id == f"undo:{node}"]
    assert claimed.undo is not None
    send(engine, claimed, claimed.undo.business_key)
    engine.report(claimed, outcome, operation_status=told, **more)


def status(engine: Engine, operation: uuid.UUID) -> str:
    with tenant_tx(engine.tenant.id):
        return str(Operation.objects.get(id=operation).status)


def sound(engine: Engine, run: uuid.UUID) -> None:
    engine.check(run)
    assert breaches_of(engine.tenant.id) == []


def test_what_was_done_is_undone_last_first_when_a_later_step_fails(saga):
    run = saga.submit(chain(act("book"), act("pay", "book"), tool("mail", "pay")))
    book, pay = apply(saga, "book"), apply(saga, "pay")
    saga.finish("mail", "failed")
    assert saga.run(run).status == "compensating"
    assert (status(saga, book), status(saga, pay)) == ("succeeded", "compensating")
    undo(saga, "pay")
    assert (status(saga, book), status(saga, pay)) == ("compensating", "compensated")
    undo(saga, "book")
    assert (status(saga, book), status(saga, pay)) == ("compensated", "compensated")
    row = saga.run(run)
    assert (row.status, row.n_compensating, row.n_open_operations) == ("failed", 0, 0)
    with tenant_tx(saga.tenant.id):
        orders = list(Compensation.objects.filter(run_id=run).order_by("requested_at"))
    assert [(one.business_key, one.requested_by) for one in orders] == [
        (f"undo:pay:{run}", "engine"),
        (f"undo:book:{run}", "engine"),
    ]
    sound(saga, run)


def test_a_cancelled_run_is_cancelled_once_its_effects_are_undone(saga):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    pay = apply(saga, "pay")
    assert cancel_run(actor=saga.actor, run_id=run, reason="wrong order")["status"] == "compensating"
    assert saga.statuses(run) == {"pay": "succeeded", "mail": "skipped(cancelled)", "undo:pay": "queued"}
    undo(saga, "pay")
    row = saga.run(run)
    assert (row.status, row.reason, status(saga, pay)) == ("cancelled", "wrong order", "compensated")
    with tenant_tx(saga.tenant.id):
        assert bytes(Operation.objects.get(id=pay).response) == b"{}", "what it answered is still known"
    sound(saga, run)


def test_an_effect_that_comes_after_the_cancel_is_undone_too(saga):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    [claimed] = saga.claim()
    pay = send(saga, claimed, f"pay:{run}")
    assert cancel_run(actor=saga.actor, run_id=run, reason="")["status"] == "cancelling"
    saga.report(claimed, "succeeded", operation_status="succeeded")
    assert saga.run(run).status == "compensating"
    undo(saga, "pay")
    assert (saga.run(run).status, status(saga, pay)) == ("cancelled", "compensated")
    sound(saga, run)


def test_a_run_whose_deadline_passes_undoes_its_effects_too(saga, clock):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")), deadline=clock.now() + timedelta(seconds=60))
    pay = apply(saga, "pay")
    clock.advance(61)
    timers.enforce_deadlines()
    assert saga.run(run).status == "compensating"
    undo(saga, "pay")
    row = saga.run(run)
    assert (row.status, row.reason, status(saga, pay)) == ("failed", "deadline", "compensated")
    sound(saga, run)


def test_only_what_lies_before_the_failure_under_this_policy_is_undone(saga):
    run = saga.submit(
        workflow(
            act("a"),
            act("other"),
            tool("b", {"node": "a"}),
            tool("c", {"node": "b", "on_failure": "compensate"}),
            tool("d", "other"),
        )
    )
    for claimed in saga.claim():
        send(saga, claimed, f"{claimed.node.id}:{run}")
        saga.report(claimed, "succeeded", operation_status="succeeded")
    saga.finish("d")
    saga.finish("b", "failed")
    assert saga.run(run).status == "compensating"
    undo(saga, "a")
    assert saga.run(run).status == "failed"
    assert "undo:other" not in saga.statuses(run)
    sound(saga, run)


def test_a_compensation_that_is_refused_needs_a_person_and_stops_the_rest(saga):
    run = saga.submit(chain(act("book"), act("pay", "book"), tool("mail", "pay")))
    book, pay = apply(saga, "book"), apply(saga, "pay")
    saga.finish("mail", "failed")
    error = {"class": "business", "message": "paid out already"}
    undo(saga, "pay", "failed", "refused", error=error)
    row = saga.run(run)
    assert row.status == "needs_attention"
    assert set(row.attention) == {"owner", "evidence", "due"}
    assert "paid out already" in row.attention["evidence"]
    assert (status(saga, book), status(saga, pay)) == ("succeeded", "compensation_failed")
    sound(saga, run)
    # A person orders it again: under a key of its own, since the ledger answers for the refused one.
    answer = compensate_operation(actor=saga.actor, operation_id=pay, reason="the bank agreed")
    assert (answer["status"], answer["run_status"]) == ("compensating", "compensating")
    assert saga.step(run, "undo:pay").execution_version == 2
    undo(saga, "pay")
    assert status(saga, pay) == "compensated"
    assert saga.run(run).status == "needs_attention", "the person says when it is over"
    sound(saga, run)


def test_it_is_undone_when_the_business_fact_says_so(saga):
    run = saga.submit(chain(act("pay", compensation=VERIFIED), tool("mail", "pay")))
    pay = apply(saga, "pay")
    saga.finish("mail", "failed")
    undo(saga, "pay")
    assert status(saga, pay) == "compensating", "an answer that says done proves nothing"
    assert saga.statuses(run)["undo-check:pay"] == "queued"
    saga.finish("undo-check:pay", value={"undone": True})
    assert (status(saga, pay), saga.run(run).status) == ("compensated", "failed")
    sound(saga, run)


def test_a_fact_that_does_not_show_is_a_persons_business(saga):
    run = saga.submit(chain(act("pay", compensation=VERIFIED), tool("mail", "pay")))
    pay = apply(saga, "pay")
    saga.finish("mail", "failed")
    undo(saga, "pay")
    saga.finish("undo-check:pay", "failed")
    assert (status(saga, pay), saga.run(run).status) == ("compensation_failed", "needs_attention")
    sound(saga, run)


def test_where_nothing_undoes_it_the_declared_person_has_it(saga):
    by_hand = {"owner": "finance", "consequence": "The customer keeps the money.", "within_s": 3600}
    run = saga.submit(chain(act("pay", compensation=by_hand), tool("mail", "pay")))
    pay = apply(saga, "pay")
    saga.finish("mail", "failed")
    row = saga.run(run)
    assert (row.status, row.attention["owner"]) == ("needs_attention", "finance")
    assert "keeps the money" in row.attention["evidence"]
    assert status(saga, pay) == "compensation_failed"
    sound(saga, run)


def test_a_compensation_that_nobody_knows_of_stays_under_its_key(saga):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    pay = apply(saga, "pay")
    saga.finish("mail", "failed")
    undo(saga, "pay", "unknown", "unknown")
    assert (status(saga, pay), saga.run(run).status) == ("compensating", "needs_attention")
    sound(saga, run)
    saga.act(kill_step, run, "undo:pay")
    assert status(saga, pay) == "compensation_failed"
    compensate_operation(actor=saga.actor, operation_id=pay, reason="ask again")
    with tenant_tx(saga.tenant.id):
        keys = set(Compensation.objects.filter(run_id=run).values_list("business_key", flat=True))
    assert keys == {f"undo:pay:{run}"}, "what may have been applied is not sent under another key"
    sound(saga, run)


def test_a_lost_worker_does_not_lose_the_compensation(saga):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    pay = apply(saga, "pay")
    cancel_run(actor=saga.actor, run_id=run, reason="")
    assert len(saga.claim()) == 1
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [saga.session_id]))
    lost.return_orphans()
    assert saga.statuses(run)["undo:pay"] == "queued", "a cancel does not keep it from being undone"
    saga.renew()
    undo(saga, "pay")
    assert (saga.run(run).status, status(saga, pay)) == ("cancelled", "compensated")
    sound(saga, run)


def test_a_retry_of_a_compensation_waits_for_its_time_whatever_the_run_is(saga, clock):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    apply(saga, "pay")
    cancel_run(actor=saga.actor, run_id=run, reason="")
    undo(saga, "pay", "retry", "absent")
    assert saga.run(run).status == "compensating"
    clock.advance(61)
    timers.fire_timers()
    assert saga.statuses(run)["undo:pay"] == "queued"
    sound(saga, run)


def test_an_effect_of_an_ended_run_is_undone_and_the_run_keeps_its_status(saga):
    run = saga.submit(workflow(act("pay")))
    pay = apply(saga, "pay")
    assert saga.run(run).status == "completed"
    answer = compensate_operation(actor=saga.actor, operation_id=pay, reason="paid twice")
    assert (answer["status"], answer["run_status"]) == ("compensating", "completed")
    sound(saga, run)
    undo(saga, "pay")
    row = saga.run(run)
    assert (row.status, row.n_open, row.n_open_operations, status(saga, pay)) == ("completed", 0, 0, "compensated")
    assert compensate_operation(actor=saga.actor, operation_id=pay, reason="again")["status"] == "compensated"
    sound(saga, run)


def test_one_order_is_carried_out_once(saga):
    run = saga.submit(workflow(act("pay")))
    pay = apply(saga, "pay")
    for _ in range(2):
        assert compensate_operation(actor=saga.actor, operation_id=pay, reason="x")["status"] == "compensating"
    with tenant_tx(saga.tenant.id):
        assert Compensation.objects.filter(operation_id=pay).count() == 1
    sound(saga, run)


def test_an_order_is_refused_that_may_not_be(saga):
    run = saga.submit(workflow(act("pay"), tool("plain"), tool("mail", "pay")))
    first = {one.node.id: one for one in saga.claim()}
    open_one = send(saga, first["pay"], "pay:1")
    order = {"actor": saga.actor, "operation_id": open_one, "reason": "x"}
    with pytest.raises(MoveRefused, match="sent is not undone"):
        compensate_operation(**order)
    saga.report(first["pay"], "succeeded", operation_status="succeeded")
    with pytest.raises(Conflict, match="goes on with its work"):
        compensate_operation(**order)
    plain = send(saga, first["plain"], "plain:1")
    saga.report(first["plain"], "succeeded", operation_status="succeeded")
    saga.finish("mail")
    before = saga.types(run)
    with pytest.raises(Conflict, match="Nothing is declared"):
        compensate_operation(**{**order, "operation_id": plain})
    with pytest.raises(BadInput):
        compensate_operation(**{**order, "reason": " "})
    with pytest.raises(Stale):
        compensate_operation(**order, expected_version=1)
    with pytest.raises(PermissionDenied):
        compensate_operation(**{**order, "actor": member(saga.tenant, "viewer")})
    with pytest.raises(NotFound):
        compensate_operation(**{**order, "operation_id": uuid7()})
    assert saga.types(run) == before


@pytest.mark.parametrize("verb", [rerun_step, skip_step, force_step])
def test_the_steps_that_undo_are_no_operators_playthings(saga, verb):
    run = saga.submit(chain(act("pay"), tool("mail", "pay")))
    apply(saga, "pay")
    cancel_run(actor=saga.actor, run_id=run, reason="")
    with pytest.raises(MoveRefused, match="undoes an effect"):
        saga.act(verb, run, "undo:pay")
    with pytest.raises(Conflict):
        pause_run(actor=saga.actor, run_id=run, reason="")
    sound(saga, run)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([tool("a", tool="test.effect@1"), tool("b", "a")], "nothing undoes `a`"),
        ([act("a", compensation={"tool": "core.echo@1"})], "`core.echo@1` reads"),
        ([act("a", compensation={"tool": "test.gone@1"})], "is not registered"),
        ([act("a", compensation={**UNDO, "verify": {"tool": "test.undo@1", "criterion": "true"}})], "writes"),
        ([act("a", compensation={"owner": "finance"})], "consequence"),
        ([act("a", compensation={})], "names no compensation"),
        ([tool("a", compensation=UNDO)], "no effect that could be undone"),
        ([tool("undo:a")], "belong to the steps that undo"),
        ([act("a", compensation={**UNDO, "input": {"x": {"$": "nodes.b.output.x"}}}), tool("b", "a")], "surely end"),
        ([tool("a"), tool("x"), tool("b", {"node": "a", "on_failure": "fallback"}, "x")], "stands in for"),
    ],
)
def test_a_compensation_that_cannot_work_is_refused_before_anything_runs(saga, nodes, says):
    with pytest.raises(InvalidWorkflow) as refusal:
        saga.submit(chain(*nodes))
    assert any(says in one["detail"] for one in refusal.value.extra["problems"]), refusal.value.extra["problems"]
