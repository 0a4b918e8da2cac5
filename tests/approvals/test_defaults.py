"""What becomes of a writing call that nobody wrote a rule for: by the tenant's setting, and under a policy denied."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.actions.propose import propose_edit
from approvals.settings import ASK, DENY, KEY
from runtime.actions.settings import set_setting
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.models import Operation
from runtime.queries.settings import list_settings
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.approvals.test_policy import ALLOW_TELL, UNDOING, pay
from tests.support.api import caller
from tests.support.office import Office, asking, writing
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "A10.2"), pytest.mark.django_db(transaction=True)]


def say(office: Office, value: str | None) -> None:
    """Set the tenant's default, as whoever runs the installation does."""
    operator = Actor(kind="service", name="cli", tenant_id=office.tenant.id, verbs=frozenset({"tenant.set"}))
    set_setting(actor=operator, key=KEY, value=value)


def error(office: Office, run_id: Any, node: str = "pay") -> Any:
    return office.step(run_id, node).error


def test_a_new_tenant_writes_and_its_workflows_ask(office):
    run_id = pay(office, "5.00")
    assert (office.run(run_id).status, office.states(run_id)) == ("completed", [])
    (said,) = [one for one in list_settings(actor=office.admin) if one["key"] == KEY]
    assert (said["value"], said["set"]) == ("allow", False)
    with pytest.raises(BadInput):
        say(office, "sometimes")


def test_what_an_active_policy_does_not_name_is_denied_whatever_the_setting_says(office):
    office.activate([ALLOW_TELL])
    for value in ("allow", ASK, None):
        say(office, value)
        run_id = pay(office, "5.00", f"to-{value}")
        assert office.sends(run_id) == {}
        assert "No rule of policy 1 names this call." in error(office, run_id)["message"]


def test_people_are_asked_for_every_writing_call(office):
    say(office, ASK)
    run_id = pay(office, "5.00")
    request = office.pending(run_id)
    assert (request["kind"], request["role"], office.sends(run_id)) == ("call", "", {})
    office.decide(request)
    office.work()
    assert (office.run(run_id).status, office.sends(run_id)) == ("completed", {"pay:Ada": 1})


def test_an_approval_of_the_workflow_is_enough_for_its_own_call_alone(office):
    say(office, ASK)
    run_id = office.ask({"to": "Ada"})
    first = office.pending(run_id)
    assert (first["kind"], first["node"]) == ("node", "ask")
    office.decide(first)
    office.work()
    assert office.sends(run_id) == {"pay:Ada": 1}
    again = office.pending(run_id)
    assert (again["kind"], again["node"]) == ("call", "tell"), "what was not gated asks for itself"


def test_what_nobody_approved_is_denied(office):
    say(office, DENY)
    run_id = pay(office, "5.00")
    assert (office.run(run_id).status, office.sends(run_id)) == ("failed", {})
    assert "denies what no approval of the workflow lets through" in error(office, run_id)["message"]
    gated = office.submit({**asking("gated"), "nodes": asking("gated")["nodes"][:3]}, {"to": "Bo"})
    office.work()
    office.decide(office.pending(gated))
    office.work()
    assert (office.run(gated).status, office.sends(gated)) == ("completed", {"pay:Bo": 1})


@pytest.mark.parametrize("value", [ASK, DENY])
def test_what_undoes_an_effect_waits_for_a_person(office, value):
    """It cannot hold, so it fails to a person, as under a rule that asks for people."""
    register_tool(actor=office.actor, contract=writing("office.undo"))
    run_id = office.submit(UNDOING, {"to": "Ada"})
    pay_step, *_rest = office.claim()
    office.call([pay_step])
    say(office, value)
    (tell,) = office.claim()
    office.report(tell, "failed", error={"class": "business", "message": "no"})
    office.work()
    with tenant_tx(office.tenant.id):
        states = dict(Operation.objects.filter(run_id=run_id).values_list("business_key", "status"))
    assert states["pay:Ada"] != "compensated"


def test_a_program_may_ask_and_use_its_grant_where_all_else_is_denied(office):
    say(office, DENY)
    agent, approver = caller(office.tenant, "integrator"), caller(office.tenant, "approver")
    action = {"tool": "bank.wire@1", "arguments": {"to": "Ada"}}
    asked = agent.post("approvals/", {"action": action, "title": "Wire"}, Idempotency_Key="k-1").json()
    quoted = {"version": 1, "payload_hash": asked["payload_hash"]}
    approver.post(f"approvals/{asked['approval_id']}/decide/", {"decision": "approve", **quoted})
    body = {"action_hash": asked["action_hash"], "arguments": {"to": "Ada"}}
    assert agent.post(f"approvals/{asked['approval_id']}/consume/", body).status_code == 200


def test_an_edit_is_sent_under_the_default_too(office):
    say(office, ASK)
    run_id = pay(office, "5.00")
    request = office.pending(run_id)
    quoted = {"version": 1, "payload_hash": request["payload_hash"], "comment": "less"}
    arguments = {"to": "Ada", "amount": "1.00"}
    propose_edit(actor=office.approver, request_id=request["id"], arguments=arguments, **quoted)
    office.decide(office.pending(run_id))
    office.work()
    assert office.run(run_id).status == "completed"


def test_the_page_says_what_counts_without_a_policy(office, tenant):
    reader = Reader(tenant, "admin")
    assert "only workflows ask people" in reader.get("/policy/")
    say(office, DENY)
    page = reader.get("/policy/")
    assert "a writing call is denied" in page
    assert KEY in page
