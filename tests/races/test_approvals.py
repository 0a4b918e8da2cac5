"""Timer against person, decision against cancel, two sends under one grant: one visible end each time (C8.2, C8.5)."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from approvals.duties import expire_requests
from approvals.models import Decision
from approvals.queries import get_request
from runtime.actions.runs import cancel_run
from runtime.kernel.errors import Conflict, QuarterdeckError
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance import each
from tests.support import invariants, race
from tests.support.office import Office

pytestmark = [pytest.mark.req("C8.2", "C8.5", "A7.3"), pytest.mark.django_db(transaction=True)]
ROUNDS = 25


@pytest.fixture
def office(fresh_db, tenant) -> Office:
    """An office alone in its database: the expiry duty looks at every tenant."""
    return Office(tenant)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at the same moment; return what each answered, or the refusal it raised."""
    return race.together(*(partial(_answer, call) for call in calls))


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except QuarterdeckError as problem:
        return problem


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(1000, marks=pytest.mark.proof)])
def test_timer_against_person(office, clock, as_role, rounds):
    """Around the deadline either the person decides or the time does, never both, and no approval is late."""
    random.seed(7)
    for _ in range(rounds):
        run_id = office.ask()
        request = office.pending(run_id)
        before = (request["deadline"] - clock.now()).total_seconds()
        clock.advance(before - random.uniform(-0.005, 0.02))
        with as_role("worker"):
            together(lambda request=request: office.decide(request), expire_requests)
            each.forget()  # a stalled machine: the one may have waited too long for the other
            expire_requests()
            clock.advance(0.1)
            expire_requests()
        after = get_request(actor=office.admin, request_id=request["id"])
        with tenant_tx(office.tenant.id):
            decided = Decision.objects.filter(request_id=request["id"]).count()
        if after["state"] == "approved":
            assert (decided, after["decided_at"] < after["deadline"]) == (1, True)
        else:
            assert (after["state"], after["outcome_reason"], decided) == ("rejected", "timeout", 0)
        office.work()  # later than the decision, by the clock that it was decided by
        clock.reset()
        if after["state"] == "rejected":
            assert office.sends(run_id) == {}
    invariants.check(office.tenant.id)


def test_decision_against_cancel(office):
    """A cancelled run sends nothing, whoever was first; an approval that came too late is told so."""
    for _ in range(ROUNDS):
        run_id = office.ask()
        request = office.pending(run_id)
        said, _cancelled = together(
            lambda request=request: office.decide(request),
            lambda run_id=run_id: cancel_run(actor=office.oncall, run_id=run_id, reason="no"),
        )
        office.work()
        state = office.states(run_id)[0]
        assert office.run(run_id).status == "cancelled"
        assert office.sends(run_id) == {}
        assert state == ("cancelled" if isinstance(said, Conflict) else "voided"), said
    invariants.check(office.tenant.id)


def test_three_people_decide_at_once(office):
    """Of an approval, a rejection and a repeat of the approval one outcome stays."""
    for _ in range(ROUNDS):
        request = office.pending(office.ask())
        answers = together(
            lambda request=request: office.decide(request),
            lambda request=request: office.decide(request),
            lambda request=request: office.decide(request, "reject", office.admin),
        )
        states = {answer["state"] for answer in answers if isinstance(answer, dict)}
        assert len(states) == 1
        with tenant_tx(office.tenant.id):
            assert Decision.objects.filter(request_id=request["id"]).count() == 1
    invariants.check(office.tenant.id, at_rest=False)
