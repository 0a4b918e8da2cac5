"""A human edit is a new proposal with a validation and an approval of its own, and exactly it is sent (C5.4)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from approvals.actions.propose import propose_edit
from approvals.diff import changes
from approvals.errors import AlreadyClosed, NotUsable, OtherVersion, OwnRequest
from approvals.queries import get_request
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import BadInput, PermissionDenied
from runtime.models import Operation
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, perform
from runtime.worker.gates import serial_of
from runtime.worker.intents import intend
from tests.support.actors import member
from tests.support.office import asking, writing

pytestmark = [pytest.mark.req("C5.4", "C5.6", "C3.2"), pytest.mark.django_db(transaction=True)]


def edit(office, request, arguments, actor=None, **more):
    words = {"version": request["version"], "payload_hash": request["payload_hash"], "comment": "less", **more}
    return propose_edit(actor=actor or office.approver, request_id=request["id"], arguments=arguments, **words)


def sent(office, run_id) -> dict[str, object]:
    with tenant_tx(office.tenant.id):
        rows = Operation.objects.filter(run_id=run_id, business_key__startswith="pay:")
        return {one.business_key: orjson.loads(bytes(one.payload)) for one in rows}


def test_exactly_the_edit_is_sent_once_it_is_approved(office):
    run_id = office.ask({"to": "Ada"})
    first = office.pending(run_id)
    answer = edit(office, first, {"to": "Ada", "rate": "1.10"})
    assert (answer["version"], answer["state"], answer["supersedes"]) == (2, "pending", str(first["id"]))
    assert answer["payload_hash"] != first["payload_hash"]
    old = get_request(actor=office.admin, request_id=first["id"])
    assert (old["state"], str(old["superseded_by"])) == ("superseded", answer["approval_id"])
    with pytest.raises(AlreadyClosed):
        office.decide(first)
    second = office.pending(run_id)
    assert (second["editor"], second["shown"]["edited_by"]) == (office.approver.label, office.approver.label)
    assert second["deadline"] == first["deadline"]
    assert second["changes"] == [
        {
            "path": "/calls/0/arguments/rate",
            "op": "changed",
            "before": "2.50",
            "after": "1.10",
            "type_before": "string",
            "type_after": "string",
        }
    ]
    office.work()
    assert office.sends(run_id) == {}
    office.decide(second)
    office.work()
    assert sent(office, run_id) == {"pay:Ada": {"to": "Ada", "rate": "1.10"}}
    assert office.run(run_id).status == "completed"
    assert office.states(run_id) == ["superseded", "consumed"]
    entry = list_audit(actor=office.admin, verb="approval.propose").items[0]
    assert (entry["result"], entry["details"]["action_hash_before"]) == ("human_edited", first["action_hash"])
    office.check(run_id)


def test_an_edit_of_an_edit_still_finds_the_call(office):
    run_id = office.ask({"to": "Bo"})
    edit(office, office.pending(run_id), {"to": "Bo", "rate": "2"})
    edit(office, office.pending(run_id), {"to": "Bo", "rate": "3"})
    third = office.pending(run_id)
    assert [one["version"] for one in third["proposals"]] == [1, 2, 3]
    office.decide(third)
    office.work()
    assert sent(office, run_id) == {"pay:Bo": {"to": "Bo", "rate": "3"}}


def test_it_is_checked_against_the_tools_schema(office):
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "rate": {"type": "string"}, "n": {"type": "integer", "maximum": 9}},
        "additionalProperties": False,
    }
    register_tool(actor=office.actor, contract=writing("office.pay", 7, input_schema=schema))
    document = asking("strict")
    document["nodes"][2]["tool"] = "office.pay@7"
    run_id = office.submit(document, {"to": "Cy"})
    office.work()
    request = office.pending(run_id)
    for arguments in ({"to": 1}, {"to": "Cy", "n": 10}, {"other": 1}, {"to": "Cy", "n": 2**60}, [], "free text"):
        with pytest.raises(BadInput):
            edit(office, request, arguments)
    assert office.states(run_id) == ["pending"]


def test_what_is_stale_foreign_or_no_change_is_refused(office):
    request = office.pending(office.ask({"to": "Di"}))
    with pytest.raises(NotUsable):
        edit(office, request, {"rate": "2.50", "to": "Di"})
    with pytest.raises(OtherVersion):
        edit(office, request, {"to": "Di"}, version=3)
    with pytest.raises(OtherVersion):
        edit(office, request, {"to": "Di"}, payload_hash="00" * 32)
    with pytest.raises(PermissionDenied):
        edit(office, request, {"to": "Di"}, actor=office.oncall)
    with pytest.raises(BadInput):
        edit(office, request, {"to": "Di"}, comment=" ")
    with pytest.raises(BadInput) as refused:
        edit(office, request, {"to": "Di"}, node="tell")
    assert refused.value.where == "/node"
    question = office.pending(office.ask(name="question", gates=[]))
    with pytest.raises(NotUsable):
        edit(office, question, {"to": "Di"})


def test_where_two_people_are_needed_the_editor_is_not_one_of_them(office):
    run_id = office.ask({"to": "Ed"}, name="two", separation="two_people")
    edit(office, office.pending(run_id), {"to": "Ed", "rate": "1"})
    request = office.pending(run_id)
    with pytest.raises(OwnRequest):
        office.decide(request)
    assert office.decide(request, actor=member(office.tenant, "approver"))["state"] == "approved"


def test_voices_for_the_old_proposal_do_not_count_for_the_new_one(office):
    run_id = office.ask({"to": "Fe"}, name="pair", quorum=2)
    first = office.pending(run_id)
    office.decide(first)
    other = member(office.tenant, "approver")
    edit(office, first, {"to": "Fe", "rate": "1"}, actor=other)
    assert office.decide(office.pending(run_id), actor=other)["state"] == "pending"
    assert office.decide(office.pending(run_id))["state"] == "approved"


def test_a_lapsed_grant_asks_again_with_its_edit(office, clock):
    run_id = office.ask({"to": "Gus"}, name="quick", start_within_s=60)
    edit(office, office.pending(run_id), {"to": "Gus", "rate": "1"})
    office.decide(office.pending(run_id))
    clock.advance(61)
    office.work()
    again = office.pending(run_id)
    assert (again["kind"], again["version"], again["editor"]) == ("call", 1, office.approver.label)
    assert again["shown"]["calls"][0]["arguments"] == {"to": "Gus", "rate": "1"}
    # Beside it stands what the workflow itself would send: the edit is told again, not only its editor.
    told = [(one["path"], one["before"], one["after"]) for one in again["changes"]]
    assert told == [("/calls/0/arguments/rate", "2.50", "1")]
    edit(office, again, {"to": "Gus", "rate": "2"})
    told = [(one["path"], one["before"], one["after"]) for one in office.pending(run_id)["changes"]]
    assert told == [("/calls/0/arguments/rate", "1", "2")]
    office.decide(office.pending(run_id))
    office.work()
    assert sent(office, run_id) == {"pay:Gus": {"to": "Gus", "rate": "2"}}
    assert office.states(run_id) == ["superseded", "lapsed", "superseded", "consumed"]
    office.check(run_id)


def test_an_edited_grant_is_for_the_call_it_was_made_from(office):
    """Skipping the approval and coming another way does not change what was approved for what."""
    run_id = office.ask({"to": "Gil"})
    edit(office, office.pending(run_id), {"to": "Gil", "rate": "9"})
    request = office.pending(run_id)
    (action,) = request["actions"]
    assert (action["edited"], action["arguments_hash"]) == (
        True,
        digest(canonical_bytes({"to": "Gil", "rate": "9"})).hex(),
    )


@pytest.mark.req("C2.7")
def test_an_edited_call_writes_the_state_that_it_names_now(office):
    """The state that one call at a time writes is that of the arguments sent, not of those the workflow prepared."""
    schema = {"type": "object", "required": ["account"], "properties": {"account": {"type": "string"}}}
    contract = writing("office.pay", 8, serial="account:{account}", input_schema=schema)
    register_tool(actor=office.actor, contract=contract)
    document = asking("serial")
    document["nodes"][2].update(tool="office.pay@8")
    document["nodes"][2]["input"]["account"] = {"$": "input.account"}

    def granted(to: str, account: str, instead: str | None = None) -> Any:
        run_id = office.submit(document, {"to": to, "account": account})
        office.work()
        if instead is not None:
            edit(office, office.pending(run_id), {"to": to, "rate": "2.50", "account": instead})
        office.decide(office.pending(run_id))
        return run_id

    edited = granted("Ada", "A", instead="B")
    (claimed,) = office.claim()
    while not isinstance(begun := office._begin(claimed), Prepared):
        complete(office.tenant.id, [begun])
        (claimed,) = office.claim()
    (under_way,), held = intend(office.tenant.id, [begun])
    assert (under_way.arguments["account"], held) == ("B", [])
    assert office.step(edited, "pay").serial == serial_of(office.tenant.id, 'account:"B"')
    same = granted("Bo", "B")
    office.work()
    assert (office.sends(same), office.statuses(same)["pay"]) == ({}, "queued")
    assert office.states(same) == ["approved"], "who waits for a state keeps the grant"
    other = granted("Cy", "A")
    office.work()
    assert office.sends(other)["pay:Cy"] == 1
    complete(office.tenant.id, [perform(under_way, lambda: True)])
    assert office.states(edited) == ["superseded", "consumed"]


@pytest.mark.parametrize(
    ("input", "target", "arguments", "where"),
    [
        ({"to": {"$": "input.to"}}, None, {"to": "Bo"}, "/arguments/to"),
        ({"to": {"$": "string(input.to)"}, "x": 1}, None, {"x": 1}, "/arguments/to"),
        ({"who": {"$": "input"}}, None, {"who": {"to": "Bo", "n": "1"}}, "/arguments/who/to"),
        ({"n": {"$": "input.n"}}, {"id": {"$": "'order ' + input.n"}}, {"n": "2"}, "/arguments/n"),
    ],
    ids=["key", "converted", "inside", "target"],
)
def test_what_key_and_target_are_made_of_is_not_edited(office, input, target, arguments, where):
    document = asking("bound", **({} if target is None else {"target": target}))
    document["nodes"][2]["input"] = input
    run_id = office.submit(document, {"to": "Ada", "n": "1"})
    office.work()
    with pytest.raises(BadInput, match="stays as it is") as refused:
        edit(office, office.pending(run_id), arguments)
    assert refused.value.where == where
    assert office.states(run_id) == ["pending"]


def test_a_text_that_names_whom_the_key_names_is_reworded(office):
    document = asking("letter")
    document["nodes"][2]["input"] = {"who": {"$": "input"}, "text": {"$": "'Dear ' + input.to"}}
    run_id = office.submit(document, {"to": "Ada", "n": "1"})
    office.work()
    edit(office, office.pending(run_id), {"who": {"to": "Ada", "n": "2"}, "text": "Hello Ada"})
    assert office.states(run_id) == ["superseded", "pending"]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"n": 1}, {"n": 1.5}, [("/n", "changed", "integer", "number")]),
        ({"n": 1}, {"n": "1"}, [("/n", "changed", "integer", "string")]),
        ({"n": 0}, {"n": False}, [("/n", "changed", "integer", "boolean")]),
        ({"n": 2**53 - 1}, {"n": 2**53 - 2}, [("/n", "changed", "integer", "integer")]),
        ({"a": "\u00e9"}, {"a": "e\u0301"}, [("/a", "changed", "string", "string")]),
        ({"a/b": {"~": [1, 2]}}, {"a/b": {"~": [1]}}, [("/a~1b/~0/1", "removed", "integer", None)]),
        ({}, {"x": None}, [("/x", "added", None, "null")]),
        ({"x": {"y": 1}}, {"x": {"y": 1}}, []),
    ],
    ids=["number", "text", "false", "big", "forms", "path", "null", "same"],
)
def test_a_difference_keeps_its_types(before, after, found):
    told = [(c["path"], c["op"], c.get("type_before"), c.get("type_after")) for c in changes(before, after)[0]]
    assert told == found


def test_a_difference_says_that_it_was_cut():
    value = {str(i): i for i in range(501)}
    found, cut = changes({}, value)
    assert (len(found), cut) == (500, True)
    assert changes({}, {str(i): i for i in range(500)})[1] is False
