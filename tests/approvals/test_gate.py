"""A gated call starts with a grant for exactly itself, or not at all (invariant 6)."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth import get_user_model

from approvals.queries import get_request
from runtime.actions.runs import cancel_run
from runtime.actions.steps import force_step, release_step, rerun_step, skip_step
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.actions.tenants import add_member, end_membership
from runtime.actions.workflows import register_workflow
from runtime.models import Membership
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.actors import member
from tests.support.duties import close_idle
from tests.support.office import asking, writing

pytestmark = [pytest.mark.req("A7.1", "C5.3", "C5.6"), pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("verb", [skip_step, force_step])
def test_walking_around_an_approval_grants_nothing(office, verb):
    run_id = office.ask({"to": "Cy"})
    office.act(verb, run_id, "ask", reason="I am in a hurry")
    office.work()
    assert office.statuses(run_id)["pay"] == "hold(approval)"
    assert office.sends(run_id) == {}
    asked, again = office.requests(run_id)
    assert (asked["state"], again["state"], again["kind"], again["node"]) == ("cancelled", "pending", "call", "pay")
    request = office.pending(run_id)
    call = {"node": "pay", "tool": "office.pay@1", "business_key": "pay:Cy", "arguments": {"to": "Cy", "rate": "2.50"}}
    (shown,) = request["shown"]["calls"]
    assert {name: shown[name] for name in call} == call
    assert (request["role"], request["deadline"] is not None) == ("approver", True)
    office.decide(request)
    office.work()
    assert office.sends(run_id) == {"pay:Cy": 1, **_told(office, run_id)}
    assert office.states(run_id) == ["cancelled", "consumed"]
    assert office.run(run_id).status == "completed"
    office.check(run_id)


def _told(office, run_id) -> dict[str, int]:
    return {key: sends for key, sends in office.sends(run_id).items() if key.startswith("task:")}


def test_a_branch_without_approval_needs_none(office):
    document = asking("by-amount")
    document["nodes"].insert(
        1,
        {
            "id": "route",
            "kind": "switch",
            "after": ["load"],
            "cases": [{"when": "input.amount > 100", "to": ["ask"]}],
            "default": ["pay"],
        },
    )
    ask, pay = document["nodes"][2], document["nodes"][3]
    ask["after"], pay["after"], pay["join"] = ["route"], ["route", "ask"], {"mode": "any"}
    small = office.submit(document, {"to": "Di", "amount": 100})
    office.work()
    assert office.run(small).status == "completed"
    assert office.requests(small) == []
    assert office.statuses(small)["ask"] == "skipped(branch)"
    large = office.submit(document, {"to": "Ed", "amount": 101})
    office.work()
    assert office.run(large).status == "waiting_approval"
    office.decide(office.pending(large))
    office.work()
    assert office.run(large).status == "completed"


def test_a_grant_is_for_one_call_and_lasts_once(office):
    run_id = office.ask({"to": "Fe"})
    office.decide(office.pending(run_id))
    office.work()
    request = get_request(actor=office.admin, request_id=office.requests(run_id)[0]["id"])
    (action,) = request["actions"]
    assert action["consumed_at"] is not None
    with_operation = office.events(run_id, "pay")
    sent = next(e for e in with_operation if e.type == "OPERATION_SENT")
    assert str(action["operation_id"]) == sent.payload["operation_id"]


def test_what_follows_a_gated_write_asks_no_more(office):
    run_id = office.ask()
    office.decide(office.pending(run_id))
    office.work()
    assert office.statuses(run_id)["tell"] == "succeeded"
    assert office.states(run_id) == ["consumed"]


def test_gates_may_name_what_needs_a_grant(office):
    run_id = office.ask({"to": "Gil"}, name="named", gates=["pay", "tell"])
    request = office.pending(run_id)
    # What tell says follows from what pay answers: nobody can be shown that yet, so it asks for itself.
    assert [call["node"] for call in request["shown"]["calls"]] == ["pay"]
    office.decide(request)
    office.work()
    later = office.pending(run_id)
    assert (later["kind"], later["node"], later["shown"]["calls"][0]["arguments"]) == ("call", "tell", {"text": "Gil"})
    office.decide(later)
    office.work()
    assert office.run(run_id).status == "completed"
    assert office.states(run_id) == ["consumed", "consumed"]


def test_an_approval_that_gates_nothing_is_a_question(office):
    run_id = office.ask(name="question", gates=[])
    request = office.pending(run_id)
    assert request["shown"]["calls"] == []
    assert office.decide(request)["state"] == "approved"
    office.work()
    assert (office.run(run_id).status, office.states(run_id)) == ("completed", ["approved"])
    assert close_idle() == 0


@pytest.mark.req("B6.4")
def test_two_approvals_in_a_row_are_both_needed(office):
    document = asking("two")
    second = {**document["nodes"][1], "id": "ask2", "after": ["ask"], "role": "admin", "title": "Really"}
    document["nodes"].insert(2, second)
    document["nodes"][3]["after"] = ["ask2"]
    run_id = office.submit(document, {"to": "Hal"})
    office.work()
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id) == {}
    office.act(skip_step, run_id, "ask2")
    office.work()
    # One of two granted is not enough.
    assert office.statuses(run_id)["pay"] == "hold(approval)"
    office.decide(office.pending(run_id), actor=office.admin)
    office.work()
    assert office.run(run_id).status == "completed"
    assert office.sends(run_id)["pay:Hal"] == 1


def test_a_grant_does_not_outlive_its_time(office, clock):
    run_id = office.ask({"to": "Ida"}, name="quick", start_within_s=60)
    office.decide(office.pending(run_id))
    clock.advance(61)
    office.work()
    assert office.sends(run_id) == {}
    assert office.states(run_id) == ["lapsed", "pending"]
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id)["pay:Ida"] == 1


@pytest.mark.req("A10.1")
def test_a_grant_does_not_outlive_the_approvers_right(office):
    run_id = office.ask({"to": "Jo"})
    office.decide(office.pending(run_id))
    add_member(actor=office.admin, username=office.approver.name, role="viewer")
    office.work()
    assert office.sends(run_id) == {}
    assert office.states(run_id) == ["revoked", "pending"]
    office.decide(office.pending(run_id), actor=office.admin)
    office.work()
    assert office.sends(run_id)["pay:Jo"] == 1


def _asked_by(office, role="integrator"):
    """Return (a member who submitted a payment, its run) once the payment waits for people."""
    asker = member(office.tenant, role)
    register_workflow(actor=office.actor, raw=json.dumps(asking("of-somebody")))
    request = SubmitRequest(workflow="of-somebody", input={"to": f"by-{asker.name}"})
    run_id = submit_task(actor=asker, request=request).run_id
    office.work()
    return asker, run_id


def _leaves(office, asker):
    with tenant_tx(office.tenant.id):
        membership = Membership.objects.get(user_id=asker.user_id, ended_at=None)
    end_membership(actor=office.admin, membership_id=membership.id)


def _loses_the_verb(office, asker):
    add_member(actor=office.admin, username=asker.name, role="viewer")


def _closes_the_account(office, asker):
    get_user_model().objects.filter(username=asker.name).update(is_active=False)


@pytest.mark.req("A10.1")
@pytest.mark.parametrize("loses", [_leaves, _loses_the_verb, _closes_the_account])
def test_a_grant_does_not_outlive_the_requesters_right(office, loses):
    asker, run_id = _asked_by(office)
    office.decide(office.pending(run_id))
    loses(office, asker)
    office.work()
    assert office.sends(run_id) == {}
    assert (office.states(run_id), office.statuses(run_id)["pay"]) == (["revoked"], "hold(recovery)")
    held = office.events(run_id, "pay")[-1]
    assert held.reason == f"{asker.label} asked for it and may not any more."
    assert office.run(run_id).attention["owner"] == "oncall"
    office.check(run_id)
    # Back in the tenant, and released by a person: people are asked anew, and then it goes out once.
    get_user_model().objects.filter(username=asker.name).update(is_active=True)
    add_member(actor=office.admin, username=asker.name, role="integrator")
    office.act(release_step, run_id, "pay")
    office.work()
    assert office.sends(run_id) == {}
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id)[f"pay:by-{asker.name}"] == 1
    office.check(run_id)


@pytest.mark.req("A10.1")
def test_a_rule_that_asks_for_people_asks_nobody_on_behalf_of_who_left(office):
    office.activate([{"name": "people", "when": "true", "decide": "approval"}])
    asker, run_id = _asked_by(office)
    office.decide(office.pending(run_id))
    _leaves(office, asker)
    office.work()
    assert (office.states(run_id), office.statuses(run_id)["pay"]) == (["revoked"], "hold(recovery)")
    assert office.sends(run_id) == {}
    office.check(run_id)


def test_a_requester_with_the_right_keeps_their_grant(office):
    asker, run_id = _asked_by(office)
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id)[f"pay:by-{asker.name}"] == 1
    assert office.states(run_id) == ["consumed"]


def test_a_cancelled_run_voids_its_grants(office):
    run_id = office.ask()
    office.decide(office.pending(run_id))
    cancel_run(actor=office.oncall, run_id=run_id, reason="stop")
    office.work()
    assert office.states(run_id) == ["voided"]
    assert office.sends(run_id) == {}


def test_an_unused_grant_is_void_when_the_run_ends(office):
    run_id = office.ask()
    office.decide(office.pending(run_id))
    office.claim()
    office.finish("ask", value={"approved": True})
    office.act(skip_step, run_id, "pay")
    office.act(skip_step, run_id, "tell")
    assert (office.run(run_id).status, office.states(run_id)) == ("completed", ["voided"])


def test_a_rerun_of_the_approval_asks_anew_and_an_old_grant_counts_no_more(office):
    run_id = office.ask({"to": "Kim"})
    office.decide(office.pending(run_id))
    office.finish("ask", value={"approved": True})
    office.act(rerun_step, run_id, "ask")
    office.work()
    assert office.run(run_id).status == "waiting_approval"
    office.act(skip_step, run_id, "ask")
    office.work()
    # The first grant was for a question that is superseded.
    assert office.sends(run_id) == {}
    assert office.statuses(run_id)["pay"] == "hold(approval)"


def test_a_rerun_of_what_was_sent_sends_nothing_and_asks_nobody(office):
    run_id = office.ask({"to": "Lu"}, name="again")
    office.decide(office.pending(run_id))
    office.finish("ask", value={"approved": True})
    (pay,) = office.claim()
    office.call([pay])
    office.act(rerun_step, run_id, "pay")
    office.work()
    assert (office.run(run_id).status, office.sends(run_id)["pay:Lu"]) == ("completed", 1)
    assert office.states(run_id) == ["consumed"]


def test_another_contract_or_other_arguments_are_another_action(office):
    first, second = office.pending(office.ask({"to": "Max"})), office.pending(office.ask({"to": "Max"}))
    assert first["action_hash"] == second["action_hash"]
    other = office.pending(office.ask({"to": "May"}))
    assert other["action_hash"] != first["action_hash"]
    register_tool(actor=office.actor, contract=writing("office.pay", 2))
    document = asking("newer")
    document["nodes"][2]["tool"] = "office.pay@2"
    run_id = office.submit(document, {"to": "Max"})
    office.work()
    assert office.pending(run_id)["action_hash"] != first["action_hash"]


def test_deadline_and_role_are_in_no_digest(office):
    first = office.pending(office.ask({"to": "Nia"}))
    second = office.pending(office.ask({"to": "Nia"}, name="slow", expires_s=9999, role="finance"))
    assert (first["action_hash"], first["payload_hash"]) == (second["action_hash"], second["payload_hash"])


def test_a_target_and_its_version_are_bound(office):
    target = {"id": {"$": "input.to"}, "version": {"$": "nodes.load.output.rate"}}
    request = office.pending(office.ask({"to": "Oz"}, name="targeted", target=target))
    assert request["shown"]["target"] == {"id": "Oz", "version": "2.50"}
    assert (request["target"], request["target_version"]) == ("Oz", "2.50")
