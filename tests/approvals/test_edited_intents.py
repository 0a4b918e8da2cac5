"""An edited call whose intent is tried again is still the approved one: nobody is asked twice (C5.4, C3.3)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from approvals.actions.propose import propose_edit
from runtime.worker.complete import complete
from runtime.worker.drain import Drain
from runtime.worker.execute import Prepared, perform
from runtime.worker.session import Session
from tests.support import db as support
from tests.support.wire import through_a_wire

pytestmark = [pytest.mark.faults, pytest.mark.req("C5.4", "C3.3"), pytest.mark.django_db(transaction=True)]

EDIT = {"to": "Ada", "rate": "1.10"}


def approve(office, run_id: uuid.UUID, edit: Any = None) -> None:
    """Approve a run's payment, edited when that is asked for."""
    request = office.pending(run_id)
    if edit is not None:
        words = {"version": request["version"], "payload_hash": request["payload_hash"], "comment": "less"}
        propose_edit(actor=office.approver, request_id=request["id"], arguments=edit, **words)
    office.decide(office.pending(run_id))


def calls_of(office) -> dict[uuid.UUID, Prepared]:
    """Claim and answer what is no call until every run has come to one; return run → call."""
    calls: dict[uuid.UUID, Prepared] = {}
    while claimed := office.claim():
        begun = [office._begin(item) for item in claimed]
        calls.update({one.claimed.run_id: one for one in begun if isinstance(one, Prepared)})
        complete(office.tenant.id, [one for one in begun if not isinstance(one, Prepared)])
    return calls


def goes_through(office, run_id: uuid.UUID, call: Prepared) -> None:
    assert call.arguments == EDIT
    complete(office.tenant.id, [perform(call, lambda: True)])
    office.work()
    assert office.run(run_id).status == "completed"
    assert office.sends(run_id)["pay:Ada"] == 1
    assert office.states(run_id) == ["superseded", "consumed"], "nobody was asked a second time"
    office.check(run_id)


@pytest.mark.parametrize("what", ["answer", "request"])
def test_the_connection_is_cut_at_the_commit_of_an_edited_intent(fresh_db, office, what):
    """Committed unseen or rolled back: the worker cannot tell, and the call goes out once, as it was edited."""
    run_id = office.ask({"to": "Ada"})
    approve(office, run_id, EDIT)
    call = calls_of(office)[run_id]
    with support.switched("default", role="worker"), through_a_wire(fresh_db) as wire:
        drain = Drain(Session())
        wire.cut(1, what)
        calls = drain._intend(office.tenant.id, [call])
        drain.session.end()
    assert wire.cuts == 1
    assert (calls, drain.reports) == ([call], [])
    goes_through(office, run_id, call)


def test_an_edited_intent_in_a_batch_that_is_cut_in_halves(fresh_db, office):
    good, bad = office.ask({"to": "Ada"}), office.ask({"to": "Bo"})
    approve(office, good, EDIT)
    approve(office, bad)
    calls = calls_of(office)
    calls[bad].arguments_bytes = None
    with support.switched("default", role="worker"):
        drain = Drain(Session())
        going = drain._intend(office.tenant.id, [calls[good], calls[bad]])
        drain.session.end()
    assert going == [calls[good]]
    (refused,) = drain.reports
    assert (refused.claimed.run_id, refused.error["code"]) == (bad, "intent_refused")
    goes_through(office, good, calls[good])
