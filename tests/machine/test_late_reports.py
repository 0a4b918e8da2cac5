"""What an owner that is no longer one reports of an effect, and what others wait for meanwhile."""

from __future__ import annotations

import pytest

from runtime.graph.plans import plan_of
from runtime.machine.frame import Frame
from runtime.machine.operations import OperationState, move_operation, write_operations
from runtime.models import Operation
from runtime.store.tx import tenant_tx
from runtime.worker.intents import _seconds_to_wait
from runtime.worker.work import Claimed
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.9", "C3.3"), pytest.mark.django_db(transaction=True)]


def send_again(engine: Engine, claimed: Claimed, business_key: str) -> None:
    """Let a claimed step send an operation that was absent, as a worker's intent does."""
    with tenant_tx(engine.tenant.id) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(claimed.run_id)
        frame.load([(run.id, claimed.node.id)])
        step = run.steps[claimed.node.id]
        [row] = tx.rows("operations_by_key", (tx.tenant_id, [business_key]))
        operation = OperationState(*row)
        operation.run_id, operation.step_id, operation.attempt = run.id, step.id, step.attempt
        operation.owner_epoch = step.owner_epoch
        move_operation(run, step, operation, "sent", by="owner")
        write_operations(tx, [operation])
        frame.flush()
    claimed.operation_id, claimed.business_key = operation.id, business_key


def test_a_late_report_settles_no_send_of_another_step(engine):
    """Both steps are in their first attempt and epoch; only the step tells their sends apart."""
    first, second = (engine.submit(workflow(tool("a"))) for _ in range(2))
    claims = {one.run_id: one for one in engine.claim()}
    assert claims[first].owner_epoch == claims[second].owner_epoch
    key = f"shared:{first}"
    send(engine, claims[first], key)
    engine.report(claims[first], "retry", operation_status="absent")
    send_again(engine, claims[second], key)
    engine.report(claims[first], "succeeded", operation_status="succeeded")
    with tenant_tx(engine.tenant.id):
        assert Operation.objects.get(business_key=key).status == "sent"
    assert [engine.run(run_id).n_open_operations for run_id in (first, second)] == [0, 1]
    assert engine.types(first)[-1] == "STALE_SUBMIT"
    engine.report(claims[second], "succeeded", operation_status="succeeded")
    assert engine.run(second).status == "completed"
    for run_id in (first, second):
        engine.check(run_id)


def test_whoever_waits_for_an_operation_never_runs_out_of_attempts():
    """The number of attempts is a small integer; a person's decision may take months."""
    waits = [_seconds_to_wait(attempt) for attempt in range(1, 32_767)]
    assert waits[0] == 2.0
    assert max(waits[:200]) == 60.0
    assert waits == sorted(waits)
    assert sum(waits) > 2 * 365 * 86_400
