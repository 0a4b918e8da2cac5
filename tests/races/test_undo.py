"""Cancel, late answers, lost owners and compensations at once, each in every order: one visible end (C8.2)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest

from runtime.actions.compensation import compensate_operation
from runtime.actions.rerun import rerun_step
from runtime.actions.runs import cancel_run
from runtime.kernel.errors import AlreadySucceeded, Conflict, OperationOpen
from runtime.models import Compensation, Operation
from runtime.queries.invariants import breaches_of
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance import lost, timers
from tests.machine.test_compensation import act, chain, saga  # noqa: F401
from tests.races.test_pairs import BOTH, OFTEN, in_order
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.2", "C5.5"), pytest.mark.django_db(transaction=True)]
ROUNDS = [pytest.param(3, id="short"), pytest.param(60, id="long", marks=pytest.mark.proof)]


def flying(engine: Engine, *more: dict[str, Any]) -> tuple[uuid.UUID, Any, uuid.UUID]:
    """A run whose step ``pay`` has its effect on the way."""
    run = engine.submit(chain(act("pay"), *(more or (tool("mail", "pay"),))))
    [claimed] = [one for one in engine.claim() if one.run_id == run]
    return run, claimed, send(engine, claimed, f"pay:{run}")


def status(engine: Engine, operation: uuid.UUID) -> str:
    with tenant_tx(engine.tenant.id):
        return str(Operation.objects.get(id=operation).status)


def sound(engine: Engine, run: uuid.UUID) -> None:
    engine.check(run)
    assert breaches_of(engine.tenant.id) == []


@BOTH
@pytest.mark.usefixtures("saga")
def test_a_success_against_a_cancel(fresh_db, engine, first):
    """Whoever comes first, the effect is kept, nothing follows from it, and it is undone as the workflow says."""
    run, claimed, pay = flying(engine)
    in_order(
        fresh_db,
        run,
        first,
        lambda: engine.report(claimed, "succeeded", operation_status="succeeded"),
        lambda: cancel_run(actor=engine.actor, run_id=run, reason="stop"),
    )
    assert (engine.run(run).status, status(engine, pay)) == ("compensating", "compensating")
    assert engine.statuses(run)["mail"] == "skipped(cancelled)"
    sound(engine, run)


@BOTH
def test_the_last_success_against_a_cancel(fresh_db, engine, first):
    run = engine.submit(workflow(tool("a")))
    [claimed] = engine.claim()
    send(engine, claimed, f"a:{run}")
    _, answer = in_order(
        fresh_db,
        run,
        first,
        lambda: engine.report(claimed, "succeeded", operation_status="succeeded"),
        lambda: cancel_run(actor=engine.actor, run_id=run, reason="stop"),
    )
    if first == 0:
        assert isinstance(answer, AlreadySucceeded)
        assert engine.run(run).status == "completed"
    else:
        assert answer["status"] == "cancelling"
        assert engine.run(run).status == "cancelled"
    assert engine.statuses(run) == {"a": "succeeded"}
    sound(engine, run)


@BOTH
def test_a_retry_against_a_cancel(fresh_db, engine, first):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    [claimed] = engine.claim()
    send(engine, claimed, f"a:{run}")
    in_order(
        fresh_db,
        run,
        first,
        lambda: engine.report(claimed, "retry", operation_status="absent"),
        lambda: cancel_run(actor=engine.actor, run_id=run, reason="stop"),
    )
    assert engine.run(run).status == "cancelled"
    assert engine.claim() == []
    sound(engine, run)


@BOTH
@OFTEN
def test_a_late_success_against_the_force_of_a_cancel(fresh_db, engine, clock, first, rounds):
    for _ in range(rounds):
        run = engine.submit(workflow(tool("a")))
        [claimed] = engine.claim()
        operation = send(engine, claimed, f"a:{run}")
        cancel_run(actor=engine.actor, run_id=run, reason="stop")
        clock.advance(16)
        late = partial(engine.report, claimed, "succeeded", operation_status="succeeded")
        in_order(fresh_db, run, first, late, timers.enforce_cancels)
        assert status(engine, operation) == "succeeded", "what happened outside is known either way"
        assert engine.run(run).status == ("cancelled" if first == 0 else "needs_attention")
        assert engine.types(run).count("STALE_SUBMIT") == first
        engine.check(run)
    sound(engine, run)


@BOTH
@OFTEN
@pytest.mark.usefixtures("saga")
def test_a_stale_worker_against_the_one_that_undoes_after_it(fresh_db, engine, first, rounds):
    """A compensation whose worker is lost and still answers: its step is another one's by then, or it came in time."""
    for _ in range(rounds):
        run, claimed, pay = flying(engine)
        engine.report(claimed, "succeeded", operation_status="succeeded")
        cancel_run(actor=engine.actor, run_id=run, reason="stop")
        [undo] = engine.claim()
        with plain_tx() as tx:
            tx.send("end_sessions", ("lease_lost", [engine.session_id]))
        in_order(fresh_db, run, first, partial(engine.report, undo, "succeeded"), lost.return_orphans)
        engine.renew()
        assert engine.types(run).count("STALE_SUBMIT") == first
        if first == 1:
            assert engine.statuses(run)["undo:pay"] == "queued"
            assert status(engine, pay) == "compensating"
            [again] = engine.claim()
            assert again.owner_epoch > undo.owner_epoch
            engine.report(again, "succeeded")
        assert (engine.run(run).status, status(engine, pay)) == ("cancelled", "compensated")
        engine.check(run)
    sound(engine, run)


@pytest.mark.usefixtures("saga")
@pytest.mark.parametrize("rounds", ROUNDS)
def test_many_orders_to_undo_make_one(fresh_db, engine, rounds):
    for _ in range(rounds):
        run = engine.submit(workflow(act("pay")))
        [claimed] = engine.claim()
        pay = send(engine, claimed, f"pay:{run}")
        engine.report(claimed, "succeeded", operation_status="succeeded")
        order = [lambda: compensate_operation(actor=engine.actor, operation_id=pay, reason="x")] * 4  # noqa: B023
        assert {answer["status"] for answer in together(*order)} == {"compensating"}
        with tenant_tx(engine.tenant.id):
            assert Compensation.objects.filter(operation_id=pay).count() == 1
        assert len(engine.claim()) == 1
        engine.check(run)


@BOTH
@pytest.mark.usefixtures("saga")
def test_a_rerun_against_an_answer_nobody_knows(fresh_db, engine, first):
    """A step whose effect is unknown is not run again; nor is one whose effect is being undone."""
    run = engine.submit(workflow(act("pay"), tool("other")))
    claimed = {one.node.id: one for one in engine.claim()}
    send(engine, claimed["pay"], f"pay:{run}")
    step = engine.step(run, "pay")
    _, answer = in_order(
        fresh_db,
        run,
        first,
        lambda: engine.report(claimed["pay"], "unknown", operation_status="unknown"),
        lambda: rerun_step(actor=engine.actor, step_id=step.id, expected_version=None, reason="again"),
    )
    assert isinstance(answer, (Conflict, OperationOpen))
    assert engine.step(run, "pay").execution_version == 1
    sound(engine, run)


@pytest.mark.usefixtures("saga")
@pytest.mark.parametrize("rounds", ROUNDS)
def test_cancel_success_and_loss_at_once_leave_one_end(fresh_db, engine, rounds):
    """All three from one barrier, many times: the run ends or is in a person's hands, and the ledger agrees."""
    for _ in range(rounds):
        run, claimed, pay = flying(engine)
        with plain_tx() as tx:
            tx.send("end_sessions", ("lease_lost", [engine.session_id]))
        together(
            lambda: engine.report(claimed, "succeeded", operation_status="succeeded"),  # noqa: B023
            lambda: cancel_run(actor=engine.actor, run_id=run, reason="stop"),  # noqa: B023
            lost.return_orphans,
        )
        engine.renew()
        assert engine.run(run).status in ("compensating", "needs_attention")
        assert status(engine, pay) in ("compensating", "unknown", "succeeded")
        assert engine.statuses(run)["mail"] == "skipped(cancelled)"
        sound(engine, run)
