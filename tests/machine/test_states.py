"""A state has one writer at a time: it stays taken for as long as it is not known what the last one wrote (C2.7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from runtime.actions.acting import Act
from runtime.actions.base import frame
from runtime.actions.repairing import effect_absent, lock_operation
from runtime.actions.runs import cancel_run
from runtime.actions.steps import force_step, kill_step, rerun_step
from runtime.tools.registry import register_tool
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared
from runtime.worker.gates import serial_of
from runtime.worker.intents import intend
from runtime.worker.maintenance.gates import Turnstile
from runtime.worker.work import Report
from tests.support import invariants
from tests.support.office import Office, writing
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C2.7", "C3.4"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),  # the turnstile looks at every tenant
]

PROPERTIES = {"type": "object", "properties": {"account": {"type": "string"}}}
PAY = workflow(
    tool("pay", tool="bank.pay@1", business_key="'pay:' + input.key", input={"account": {"$": "input.account"}})
)


@pytest.fixture
def bank(tenant) -> Iterator[Office]:
    """A tenant with a tool that writes an account, one call at a time."""
    office = Office(tenant)
    contract = writing("bank.pay", serial="account:{account}", input_schema=PROPERTIES)
    register_tool(actor=office.actor, contract=contract)
    yield office
    assert not invariants.problems(office.tenant.id, at_rest=False)


def pay(bank: Office, key: str) -> uuid.UUID:
    return bank.submit(PAY, {"key": key, "account": "A"})


def begin(bank: Office, run_id: uuid.UUID) -> tuple[list[Prepared], list[Report]]:
    """Claim the payment of a run and commit its intent, as a worker does."""
    (claimed,) = [one for one in bank.claim() if one.run_id == run_id]
    begun = bank._begin(claimed)
    assert isinstance(begun, Prepared)
    return intend(bank.tenant.id, [begun])


def nothing_was_sent(bank: Office, run_id: uuid.UUID, operation_id: uuid.UUID) -> None:
    """Settle an operation as a person does who looked: it is absent."""
    with frame(bank.actor) as unit:
        act = Act(unit, unit.run(run_id), bank.actor, "looked")
        operation = lock_operation(act, operation_id)
        assert operation is not None
        effect_absent(act, operation, why="there is no such payment")
        act.close()
        act.record("repair.resolve", "operation", operation_id)


@pytest.mark.parametrize("end", ["killed while it runs", "killed in doubt", "forced in doubt", "cancelled in doubt"])
def test_whoever_is_ended_keeps_the_state_until_it_is_known_what_it_wrote(bank, end):
    first = pay(bank, "one")
    (sent,), _held = begin(bank, first)
    if "doubt" in end:
        error = {"class": "network", "message": "the answer was lost"}
        complete(bank.tenant.id, [Report(sent.claimed, "unknown", error=error, operation_status="unknown")])
    if "cancelled" in end:
        cancel_run(actor=bank.actor, run_id=first, reason="enough")
    else:
        bank.act(force_step if "forced" in end else kill_step, first, "pay")
    assert bank.step(first, "pay").status == ("mark_successed" if "forced" in end else "killed")

    second = pay(bank, "two")
    going, held = begin(bank, second)
    assert going == []
    assert [one.waits_for for one in held] == [serial_of(bank.tenant.id, 'account:"A"')]
    complete(bank.tenant.id, held)
    assert Turnstile().run_once() == 0, "it is still not known what the first one wrote"
    bank.check(second)

    nothing_was_sent(bank, first, sent.claimed.operation_id)
    assert Turnstile().run_once() == 1
    (going,), held = begin(bank, second)
    assert held == []
    assert bank.step(first, "pay").serial is None, "who takes the state over clears the name"
    bank.report(going.claimed, "succeeded", operation_status="succeeded")
    bank.check(first)
    bank.check(second)


def test_a_late_answer_of_the_ended_one_frees_it(bank):
    first = pay(bank, "one")
    (sent,), _held = begin(bank, first)
    bank.act(kill_step, first, "pay")
    second = pay(bank, "two")
    complete(bank.tenant.id, begin(bank, second)[1])
    error = {"class": "business", "message": "no"}
    complete(bank.tenant.id, [Report(sent.claimed, "failed", error=error, operation_status="refused")])
    assert Turnstile().run_once() == 1
    (going,), _held = begin(bank, second)
    assert going.claimed.run_id == second


def test_a_rerun_of_the_ended_one_takes_the_state_anew(bank):
    run_id = pay(bank, "one")
    (sent,), _held = begin(bank, run_id)
    bank.act(kill_step, run_id, "pay")
    nothing_was_sent(bank, run_id, sent.claimed.operation_id)
    bank.act(rerun_step, run_id, "pay")
    assert bank.step(run_id, "pay", 1).serial is None
