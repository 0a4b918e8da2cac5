"""A step that asks for an input: a form, an answer that fits it, and never an approval (A7.1, C5.4)."""

from __future__ import annotations

import uuid
from typing import Any

import orjson
import pytest

from approvals.actions.answer import answer_input
from approvals.errors import AlreadyClosed, NotUsable, TooLate
from approvals.queries import get_request, list_requests
from runtime.actions.runs import cancel_run
from runtime.graph.validate import check_workflow
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied
from runtime.models import Checkpoint
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.duties import expire_requests

pytestmark = [pytest.mark.req("A7.1", "A7.3", "C5.4"), pytest.mark.django_db(transaction=True)]

FORM = {
    "type": "object",
    "required": ["seat"],
    "additionalProperties": False,
    "properties": {
        "seat": {"type": "string", "pattern": "^[1-9][0-9]?[A-F]$"},
        "bags": {"type": "integer", "maximum": 5},
    },
}


def asks(office, **more: Any) -> uuid.UUID:
    document = {
        "format": "quarterdeck/1",
        "name": "seats",
        "nodes": [
            {"id": "which", "kind": "input", "title": "Which seat?", "role": "oncall", "expires_s": 600, "form": FORM,
             "payload": {"flight": {"$": "input.flight"}}, **more},
            {"id": "book", "kind": "tool", "tool": "core.echo@1", "after": ["which"],
             "input": {"seat": {"$": "nodes.which.output.seat"}}},
        ],
    }  # fmt: skip
    run_id = office.submit(document, {"flight": "QD 7"})
    office.work()
    return run_id


def step_id(office, run_id) -> uuid.UUID:
    return office.step(run_id, "which").id


def test_the_answer_is_the_steps_output(office):
    run_id = asks(office)
    assert office.statuses(run_id)["which"] == "hold(input)"
    request = office.pending(run_id)
    assert (request["kind"], request["shown"]["form"], request["shown"]["calls"]) == ("input", FORM, [])
    assert [row["id"] for row in list_requests(actor=office.oncall, mine=True).items] == [request["id"]]
    answer = answer_input(actor=office.oncall, step_id=step_id(office, run_id), value={"seat": "12A", "bags": 1})
    assert (answer["state"], answer["step_status"]) == ("approved", "queued")
    again = answer_input(actor=office.oncall, step_id=step_id(office, run_id), value={"bags": 1, "seat": "12A"})
    assert again["replayed"]
    office.work()
    assert office.run(run_id).status == "completed"
    whole = get_request(actor=office.admin, request_id=request["id"])
    assert whole["answer"] == {"seat": "12A", "bags": 1}
    with tenant_tx(office.tenant.id):
        stored = Checkpoint.objects.get(run_id=run_id, node="which")
    assert orjson.loads(bytes(stored.output)) == {"seat": "12A", "bags": 1}
    entry = list_audit(actor=office.admin, verb="approval.answer").items[0]
    assert (entry["result"], "12A" in str(entry)) == ("answered", False)
    office.check(run_id)


@pytest.mark.parametrize("value", ["12A", "yes, I approve", {}, {"seat": "99Z"}, {"seat": "1A", "bags": 9}, None, [1]])
def test_what_does_not_fit_is_no_answer(office, value):
    run_id = asks(office)
    with pytest.raises(BadInput) as refused:
        answer_input(actor=office.oncall, step_id=step_id(office, run_id), value=value)
    assert refused.value.where.startswith("/value")
    assert office.states(run_id) == ["pending"]


def test_an_input_is_never_approved_and_an_approval_never_answered(office):
    run_id = asks(office)
    request = office.pending(run_id)
    with pytest.raises(NotUsable):
        office.decide(request, actor=office.admin)
    asked = office.ask()
    with pytest.raises(NotFound):
        answer_input(actor=office.admin, step_id=office.step(asked, "ask").id, value={"seat": "1A"})
    assert office.sends(asked) == {}
    assert office.decide(request, "reject", actor=office.admin, comment="not needed")["step_status"] == "skipped"


@pytest.mark.usefixtures("fresh_db")
def test_who_answers_and_until_when(office, clock):
    run_id = asks(office)
    for actor in (office.approver, member(office.tenant, "viewer"), office.integrator):
        with pytest.raises(PermissionDenied):
            answer_input(actor=actor, step_id=step_id(office, run_id), value={"seat": "1A"})
    clock.advance(601)
    with pytest.raises(TooLate):
        answer_input(actor=office.oncall, step_id=step_id(office, run_id), value={"seat": "1A"})
    expire_requests()
    assert office.states(run_id) == ["rejected"]


def test_a_cancelled_run_asks_no_more(office):
    run_id = asks(office)
    cancel_run(actor=office.oncall, run_id=run_id, reason="no")
    assert office.states(run_id) == ["cancelled"]
    with pytest.raises(AlreadyClosed):
        answer_input(actor=office.oncall, step_id=step_id(office, run_id), value={"seat": "1A"})


def test_over_http(office):
    run_id = asks(office)
    oncall, path = caller(office.tenant, "oncall"), f"steps/{step_id(office, run_id)}/input/"
    wrong = problem(oncall.post(path, {"value": {"seat": "0"}}), 400, "schema_mismatch")
    assert wrong["where"] == "/value/seat"
    problem(oncall.post(path, {"value": {"seat": "1A"}, "version": 7}), 409, "stale")
    problem(caller(office.tenant, "integrator").post(path, {"value": {"seat": "1A"}}), 403)
    problem(oncall.post(f"steps/{uuid.uuid4()}/input/", {"value": 1}), 404)
    assert oncall.post(path, {"value": {"seat": "1A"}}).json()["state"] == "approved"


def test_what_could_not_be_shown_is_not_answered(office):
    run_id = asks(office, payload={"seats": {"$": "input.flight.seats"}})
    request = office.pending(run_id)
    assert request["problem"]
    oncall, path = caller(office.tenant, "oncall"), f"steps/{step_id(office, run_id)}/input/"
    told = problem(oncall.post(path, {"value": {"seat": "1A"}}), 409, "approval_unreadable")
    assert "input.flight" in told["detail"]
    assert office.states(run_id) == ["pending"]
    assert office.decide(request, "reject", actor=office.admin, comment="mend it")["step_status"] == "skipped"


def test_a_form_that_is_no_schema_is_refused_at_registration():
    node = {"id": "a", "kind": "input", "title": "?", "form": {"type": "thing"}}
    document = {"format": "quarterdeck/1", "name": "x", "nodes": [node]}
    with pytest.raises(BadInput) as refused:
        check_workflow(document)
    assert refused.value.where.startswith("/nodes/0/form")
