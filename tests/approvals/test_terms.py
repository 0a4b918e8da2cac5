"""On which terms a call that asks for itself is decided: never on milder ones than its workflow or a rule asks for."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from approvals.actions.groups import put_group
from approvals.actions.propose import propose_edit
from approvals.errors import OwnRequest
from runtime.actions.reruns import new_run
from runtime.actions.tenants import add_member
from tests.support.actors import member
from tests.support.office import Office

pytestmark = [pytest.mark.req("C5.3", "C5.6", "B6.4"), pytest.mark.django_db(transaction=True)]

TECH: dict[str, Any] = {"id": "tech", "kind": "approval", "title": "Tech", "role": "approver"}
LEGAL: dict[str, Any] = {
    "id": "legal", "kind": "approval", "title": "Legal", "role": "group:legal", "quorum": 2, "separation": "two_people",
    "after": ["tech"],
}  # fmt: skip
# What is paid is known after people were asked: the payment asks for itself.
QUOTE: dict[str, Any] = {"id": "quote", "kind": "tool", "tool": "core.echo@1", "input": {"price": "9"}}
PAY: dict[str, Any] = {
    "id": "pay", "kind": "tool", "tool": "office.pay@1", "after": ["quote"], "business_key": "'pay:' + input.to",
    "input": {"to": {"$": "input.to"}, "price": {"$": "nodes.quote.output.price"}},
}  # fmt: skip
RULE: dict[str, Any] = {"name": "pay", "when": "tool.name == 'office.pay'", "decide": "approval"}
TELL = {"name": "tell", "when": "tool.name == 'office.tell'", "decide": "allow"}


def workflow(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"format": "quarterdeck/1", "name": name, "nodes": list(nodes)}


def lawyers(office: Office) -> list[Any]:
    two = [member(office.tenant, "approver") for _ in range(2)]
    put_group(actor=office.admin, name="legal", members=[one.name for one in two])
    return two


def test_a_call_behind_two_approvals_asks_on_the_terms_of_both(office):
    two = lawyers(office)
    run_id = office.submit(workflow("both", TECH, LEGAL, {**QUOTE, "after": ["legal"]}, PAY), {"to": "Ada"})
    office.work()
    office.decide(office.pending(run_id))
    office.work()
    for one in two:
        office.decide(office.pending(run_id), actor=one)
    office.work()
    request = office.pending(run_id)
    terms = (request["kind"], request["role"], request["quorum"], request["separation"])
    # Nobody is both an approver and in the group by the name of a role: an admin stands for either.
    assert terms == ("call", "admin", 2, "two_people")
    office.decide(request, actor=office.admin)
    office.work()
    assert office.sends(run_id) == {}
    office.decide(request, actor=member(office.tenant, "admin"))
    office.work()
    assert (office.run(run_id).status, office.sends(run_id)) == ("completed", {"pay:Ada": 1})
    office.check(run_id)


def test_an_approval_of_a_branch_that_was_not_taken_lends_no_terms(office):
    lawyers(office)
    branches = workflow(
        "branches",
        {"id": "size", "kind": "switch", "cases": [{"when": "input.large", "to": ["legal"]}], "default": ["tech"]},
        TECH,
        {**LEGAL, "after": []},
        {**QUOTE, "join": {"mode": "any"}, "after": ["tech", "legal"]},
        PAY,
    )
    asked = {}
    for large in (False, True):
        run_id = office.submit(branches, {"to": f"Bo-{large}", "large": large})
        office.work()
        request = office.pending(run_id)
        for _ in range(request["quorum"]):
            decider = member(office.tenant, "admin")
            office.decide(request, actor=decider)
        office.work()
        call = office.pending(run_id)
        asked[large] = (call["kind"], call["role"], call["quorum"])
    assert asked == {False: ("call", "approver", 1), True: ("call", "group:legal", 2)}


def test_a_rule_never_loosens_an_approval_that_leaves_everything_to_its_defaults(office):
    office.activate([TELL, {**RULE, "separation": "none", "expires_s": 31_000_000, "on_timeout": "keep"}])
    ask = {"id": "ask", "kind": "approval", "title": "Pay"}
    run_id = office.submit(workflow("bare", ask, {**PAY, "after": ["ask"], "input": {}}), {"to": "Cy"})
    office.work()
    request = office.pending(run_id)
    assert (request["separation"], request["on_timeout"]) == ("requester", "reject")
    assert request["deadline"] - request["created_at"] == timedelta(days=3)


def test_a_rules_own_terms_hold_where_nobody_else_said_anything(office):
    office.activate([TELL, {**RULE, "expires_s": 864_000, "on_timeout": "keep"}])
    run_id = office.submit(workflow("plain", {**PAY, "after": [], "input": {}}), {"to": "Di"})
    office.work()
    request = office.pending(run_id)
    assert (request["kind"], request["on_timeout"]) == ("call", "keep")
    assert request["deadline"] - request["created_at"] == timedelta(days=10)


def test_a_grant_older_than_a_new_rule_lets_start_is_asked_anew(office, clock):
    run_id = office.ask({"to": "Ed"})
    office.decide(office.pending(run_id))
    clock.advance(timedelta(seconds=700))
    office.activate([TELL, {**RULE, "start_within_s": 600}])
    office.work()
    assert office.sends(run_id) == {}
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id)["pay:Ed"] == 1


@pytest.fixture
def again(office) -> uuid.UUID:
    """A task that was rejected, and that an admin had run again."""
    run_id = office.ask({"to": "Fay"})
    office.decide(office.pending(run_id), "reject", comment="not this one")
    office.work()
    answer = new_run(actor=office.admin, task_id=office.run(run_id).task_id, reason="once more")
    office.work()
    return uuid.UUID(answer["run_id"])


def test_whoever_has_a_task_run_again_asks_for_it_and_does_not_decide_it(office, again):
    request = office.pending(again)
    assert (request["requested_by"], request["may_decide"]) == (office.admin.label, False)
    with pytest.raises(OwnRequest):
        office.decide(request, actor=office.admin)
    words = {"version": 1, "payload_hash": request["payload_hash"], "comment": "less"}
    with pytest.raises(OwnRequest):
        propose_edit(actor=office.admin, request_id=request["id"], arguments={"to": "Fay", "rate": "1"}, **words)
    assert office.decide(request)["state"] == "approved"
    office.work()
    assert office.sends(again)["pay:Fay"] == 1


def test_who_had_it_run_again_and_may_not_any_more_has_it_sent_no_more(office, again):
    office.decide(office.pending(again))
    other = member(office.tenant, "admin")
    add_member(actor=other, username=office.admin.name, role="viewer")
    office.work()
    assert office.sends(again) == {}
    assert office.statuses(again)["pay"] == "hold(recovery)"
