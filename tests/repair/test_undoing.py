"""Cases about effects that are being undone: settled like any other, in ended runs too (B9.2, C4.5, C8.4)."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.compensation import compensate_operation
from runtime.models import Operation
from runtime.queries.invariants import breaches_of
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.desk import Desk
from tests.support.operations import send
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("C8.4", "C4.5", "B9.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def desk(desk: Desk) -> Desk:
    for name in ("effect", "undo"):
        register_tool(actor=desk.actor, contract={**python_tool("effect", writes=True), "name": f"test.{name}"})
    return desk


def statuses(desk: Desk, run_id: uuid.UUID) -> dict[str, str]:
    """Return the status of each operation of the run by the beginning of its key."""
    with tenant_tx(desk.tenant.id):
        return {o.business_key.rpartition(":")[0]: o.status for o in Operation.objects.filter(run_id=run_id)}


def apply(desk: Desk, run_id: uuid.UUID) -> uuid.UUID:
    [claimed] = desk.claim()
    pay = send(desk, claimed, f"{claimed.node.id}:{run_id}")
    desk.report(claimed, "succeeded", operation_status="succeeded")
    return pay


def lose_undoing(desk: Desk) -> None:
    [claimed] = desk.claim()
    assert claimed.undo is not None
    send(desk, claimed, claimed.undo.business_key)
    desk.report(claimed, "unknown", operation_status="unknown")


def paid(name: str, **more: object) -> dict[str, object]:
    return workflow(tool("pay", tool="test.effect@1", compensation={"tool": "test.undo@1"}), name=name, **more)


def test_a_doubt_about_the_undoing_of_an_ended_runs_effect_is_settled(desk):
    run_id = desk.submit(paid("ended"))
    pay = apply(desk, run_id)
    assert desk.run(run_id).status == "completed"
    compensate_operation(actor=desk.actor, operation_id=pay, reason="paid twice")
    lose_undoing(desk)
    case = desk.saw(desk.taken(run_id), "done")
    desk.finish_case(case, "record_success")
    assert statuses(desk, run_id) == {"pay": "compensated", "undo:pay": "succeeded"}
    row = desk.run(run_id)
    assert (row.status, row.n_unknown, row.n_compensating, row.n_open_operations) == ("completed", 0, 0, 0)
    assert breaches_of(desk.tenant.id) == []


def test_the_rest_is_undone_when_a_person_has_settled_the_doubt(desk):
    nodes = [
        tool("book", tool="test.effect@1", compensation={"tool": "test.undo@1"}),
        tool("pay", "book", tool="test.effect@1", compensation={"tool": "test.undo@1"}),
        tool("mail", "pay"),
    ]
    run_id = desk.submit(workflow(*nodes, name="both", defaults={"on_failure": "compensate"}))
    apply(desk, run_id)
    apply(desk, run_id)
    desk.finish("mail", "failed")
    lose_undoing(desk)
    desk.finish_case(desk.saw(desk.taken(run_id), "done"), "record_success")
    [claimed] = desk.claim()
    assert claimed.node.id == "undo:book"
    send(desk, claimed, claimed.undo.business_key)
    desk.report(claimed, "succeeded", operation_status="succeeded")
    assert desk.run(run_id).status == "failed"
    assert breaches_of(desk.tenant.id) == []
