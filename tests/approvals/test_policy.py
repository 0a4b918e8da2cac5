"""Rules of a tenant for its writing calls: first match decides, nothing unforeseen happens, two people change them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import psycopg
import pytest

from approvals.actions.policies import propose_policy, try_policy
from approvals.actions.propose import propose_edit
from approvals.errors import NotUsable, OwnRequest
from approvals.queries import get_request, list_policies
from runtime.actions.steps import rerun_step
from runtime.kernel.errors import BadInput, PermissionDenied
from runtime.models import Operation
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.duties import expire_requests
from tests.support.office import writing
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "A10.2", "C7.5"), pytest.mark.django_db(transaction=True)]

PLAIN = {
    "format": "quarterdeck/1",
    "name": "plain",
    "nodes": [
        {"id": "pay", "kind": "tool", "tool": "office.pay@1", "business_key": "'pay:' + input.to",
         "input": {"to": {"$": "input.to"}, "amount": {"$": "input.amount"}}},
    ],
}  # fmt: skip
# What pay did is undone when tell ends badly.
UNDOING = {
    "format": "quarterdeck/1",
    "name": "undoing",
    "defaults": {"on_failure": "compensate"},
    "nodes": [
        {"id": "pay", "kind": "tool", "tool": "office.pay@1", "business_key": "'pay:' + input.to",
         "input": {"to": {"$": "input.to"}}, "compensation": {"tool": "office.undo@1"}},
        {"id": "tell", "kind": "tool", "tool": "office.tell@1", "after": ["pay"],
         "compensation": {"tool": "office.undo@1"}},
    ],
}  # fmt: skip
ALLOW_TELL = {"name": "tell", "when": "tool.name == 'office.tell'", "decide": "allow"}
SMALL = {"name": "small", "when": "tool.name == 'office.pay' && double(arguments.amount) <= 100.0", "decide": "allow"}
LARGE = {"name": "large", "when": "tool.name == 'office.pay'", "decide": "approval", "role": "approver", "quorum": 2}
RULES = [ALLOW_TELL, SMALL, LARGE]


def states(office) -> list[str]:
    return [row["state"] for row in list_policies(actor=office.admin)]


def pay(office, amount: str, to: str = "Ada"):
    run_id = office.submit(PLAIN, {"to": to, "amount": amount})
    office.work()
    return run_id


def test_the_first_rule_that_holds_decides(office):
    office.activate(RULES)
    small = pay(office, "100.00", "Ada")
    assert (office.run(small).status, office.sends(small)) == ("completed", {"pay:Ada": 1})
    large = pay(office, "100.01", "Bo")
    assert office.statuses(large)["pay"] == "hold(approval)"
    request = office.pending(large)
    assert (request["kind"], request["role"], request["quorum"]) == ("call", "approver", 2)
    assert request["shown"]["policy"] == {
        "version": 1,
        "rules": [{"node": "pay", "rule": "large", "decide": "approval"}],
    }
    office.decide(request)
    office.work()
    assert office.sends(large) == {}
    office.decide(request, actor=member(office.tenant, "approver"))
    office.work()
    assert (office.run(large).status, office.sends(large)) == ("completed", {"pay:Bo": 1})
    assert office.states(large) == ["consumed"]
    office.check(large)


def test_what_no_rule_names_or_can_judge_is_denied(office):
    office.activate([ALLOW_TELL])
    run_id = pay(office, "1")
    assert office.statuses(run_id)["pay"] == "failed"
    assert office.step(run_id, "pay").error["code"] == "denied"
    assert office.sends(run_id) == {}
    office.activate([{**SMALL, "when": "double(arguments.sum) <= 100.0"}])
    run_id = pay(office, "1")
    assert "cannot be evaluated" in office.step(run_id, "pay").error["message"]
    assert office.sends(run_id) == {}


def test_a_policy_adds_to_what_a_workflow_asks(office):
    office.activate([ALLOW_TELL, {"name": "pay", "when": "tool.name == 'office.pay'", "decide": "allow"}])
    run_id = office.ask({"to": "Cy"})
    assert office.pending(run_id)["quorum"] == 1
    office.decide(office.pending(run_id))
    office.work()
    assert office.run(run_id).status == "completed"
    office.activate([ALLOW_TELL, LARGE])
    run_id = office.ask({"to": "Di"})
    request = office.pending(run_id)
    assert (request["kind"], request["quorum"]) == ("node", 2)
    office.decide(request)
    office.decide(request, actor=member(office.tenant, "approver"))
    office.work()
    assert office.run(run_id).status == "completed"


def test_a_grant_given_under_milder_rules_is_not_enough(office):
    run_id = office.ask({"to": "Ed"})
    office.decide(office.pending(run_id))
    office.activate([ALLOW_TELL, LARGE])
    office.work()
    assert office.sends(run_id) == {}
    assert office.pending(run_id)["quorum"] == 2


@pytest.mark.req("C3.3")
def test_the_ledger_answers_for_what_was_sent_under_milder_rules(office):
    run_id = office.ask({"to": "Lu"}, name="milder")
    office.decide(office.pending(run_id))
    office.finish("ask", value={"approved": True})
    office.call(office.claim())
    office.activate([ALLOW_TELL])
    office.act(rerun_step, run_id, "pay")
    office.work()
    assert (office.run(run_id).status, office.sends(run_id)["pay:Lu"]) == ("completed", 1)
    assert office.states(run_id) == ["consumed"]


@pytest.mark.req("C4.5")
@pytest.mark.parametrize(
    ("rules", "effect", "status"),
    [
        (
            [{"name": "undo", "when": "undoes && risk != 'high'", "decide": "allow"}],
            "compensated",
            "failed",
        ),
        ([{"name": "undo", "when": "undoes", "decide": "approval"}], "compensation_failed", "needs_attention"),
        ([], "compensation_failed", "needs_attention"),
    ],
    ids=["named", "people", "unnamed"],
)
def test_undoing_is_judged_too_and_becomes_a_persons_where_it_is_not_allowed(office, rules, effect, status):
    register_tool(actor=office.actor, contract=writing("office.undo"))
    office.activate([*rules, {"name": "pay", "when": "tool.name == 'office.pay'", "decide": "allow"}])
    run_id = office.submit(UNDOING, {"to": "Ida"})
    office.work()
    assert office.statuses(run_id)["tell"] == "failed"
    with tenant_tx(office.tenant.id):
        assert Operation.objects.get(run_id=run_id, business_key="pay:Ida").status == effect
    assert office.run(run_id).status == status
    office.check(run_id)


@pytest.mark.req("C5.4")
def test_an_edit_is_judged_anew_by_what_it_would_send(office):
    middle = {**LARGE, "name": "middle", "when": "double(arguments.amount) <= 500.0", "quorum": 1}
    never = {"name": "never", "when": "double(arguments.amount) > 5000.0", "decide": "deny"}
    office.activate([ALLOW_TELL, SMALL, middle, never, LARGE])
    run_id = pay(office, "200.00", "Cy")
    request = office.pending(run_id)
    assert request["quorum"] == 1
    words = {"version": 1, "payload_hash": request["payload_hash"], "comment": "more", "actor": office.approver}
    with pytest.raises(NotUsable):
        propose_edit(request_id=request["id"], arguments={"to": "Cy", "amount": "9000"}, **words)
    propose_edit(request_id=request["id"], arguments={"to": "Cy", "amount": "900"}, **words)
    edited = office.pending(run_id)
    assert (edited["quorum"], edited["shown"]["policy"]["rules"][0]["rule"]) == (2, "large")
    for actor in (office.approver, member(office.tenant, "approver")):
        office.decide(edited, actor=actor)
    # Rules that would have let the original through do not bring it back.
    office.activate([ALLOW_TELL, {"name": "all", "when": "true", "decide": "allow"}])
    office.work()
    with tenant_tx(office.tenant.id):
        sent = Operation.objects.get(run_id=run_id)
    assert orjson.loads(bytes(sent.payload)) == {"to": "Cy", "amount": "900"}
    assert office.states(run_id) == ["superseded", "consumed"]


def test_nobody_activates_their_own_rules(office):
    proposed = propose_policy(actor=office.admin, rules=RULES, note="mine")
    request = get_request(actor=office.admin, request_id=proposed["approval_id"])
    assert (request["kind"], request["subject_kind"], request["risk"]) == ("subject", "policy", "high")
    assert request["shown"]["payload"]["rules"] == RULES
    with pytest.raises(OwnRequest):
        office.decide(request, actor=office.admin)
    with pytest.raises(PermissionDenied):
        office.decide(request)
    assert states(office) == ["proposed"]
    with pytest.raises(PermissionDenied):
        propose_policy(actor=office.approver, rules=RULES, note="x")
    other = member(office.tenant, "admin")
    office.decide(request, "reject", actor=other, comment="too mild")
    assert states(office) == ["rejected"]
    office.activate(RULES)
    office.activate([ALLOW_TELL])
    assert states(office) == ["active", "retired", "rejected"]
    results = [entry["result"] for entry in list_audit(actor=office.admin, verb="policy.propose").items]
    assert results == ["proposed"] * 3
    results = [entry["result"] for entry in list_audit(actor=office.admin, verb="policy.activate").items]
    assert results == ["active", "active", "rejected"]


def test_versions_proposed_and_activated_at_once_leave_one_active(office):
    def propose() -> dict[str, Any]:
        return propose_policy(actor=office.admin, rules=RULES, note="at once")

    proposed = together(propose, propose, propose)
    assert sorted(one["version"] for one in proposed) == [1, 2, 3]
    requests = [get_request(actor=office.admin, request_id=one["approval_id"]) for one in proposed]
    others = [member(office.tenant, "admin") for _ in requests]

    def decide(request: Any, actor: Any) -> Any:
        try:
            return office.decide(request, actor=actor)
        except NotUsable as problem:  # a later version was activated first
            return problem

    together(*(partial(decide, r, a) for r, a in zip(requests, others, strict=True)))
    last, *before = sorted(list_policies(actor=office.admin), key=lambda row: -row["version"])
    assert (last["version"], last["state"]) == (3, "active"), "it is overtaken by none"
    assert {row["state"] for row in before} <= {"retired", "proposed"}


@pytest.mark.req("A7.3")
def test_a_rule_says_on_which_terms_people_are_asked(office):
    terms = {"expires_s": 7 * 86_400, "start_within_s": 2 * 86_400, "on_timeout": "keep", "separation": "two_people"}
    office.activate([{**LARGE, **terms, "role": "finance"}])
    request = office.pending(pay(office, "1", "Gus"))
    assert (request["role"], request["quorum"], request["separation"]) == ("finance", 2, "two_people")
    assert (request["on_timeout"], request["deadline"] - request["created_at"]) == ("keep", timedelta(days=7))
    # A workflow that names another role: an admin, who has both, decides.
    run_id = office.ask({"to": "Hal"})
    office.decide(office.pending(run_id))
    office.decide(office.pending(run_id), actor=office.admin)
    office.work()
    assert (office.sends(run_id), office.pending(run_id)["role"]) == ({}, "admin")


@pytest.mark.usefixtures("fresh_db")
def test_time_rejects_a_proposal_and_the_database_activates_none(office, clock, as_role):
    proposed = propose_policy(actor=office.admin, rules=RULES, note="mine")

    def force() -> None:
        with tenant_tx(office.tenant.id) as tx:
            tx.send("policy_activate", (proposed["policy_id"],))

    with pytest.raises(psycopg.DatabaseError, match="nobody approved"):
        force()
    clock.advance(4 * 86_400)
    with as_role("worker"):
        expire_requests()
    assert states(office) == ["rejected"]


def test_rules_are_tried_on_the_past_and_write_nothing(office):
    run_id = office.ask({"to": "Fe"})
    office.decide(office.pending(run_id))
    tried = try_policy(actor=office.admin, rules=[{**LARGE, "when": "arguments.to == 'Fe'"}])
    assert (tried["calls"], tried["approval"], tried["items"][0]["rule"]) == (1, 1, "large")
    assert try_policy(actor=office.admin, rules=[ALLOW_TELL])["deny"] == 1
    assert states(office) == []


def test_comparing_an_amount_that_is_none_denies(office):
    office.activate([{"name": "small", "when": "amount <= 100.0", "decide": "allow"}])
    assert office.sends(pay(office, "99.5", "Ina")) == {"pay:Ina": 1}
    run_id = pay(office, "much", "Jon")
    assert "cannot be evaluated" in office.step(run_id, "pay").error["message"]


def test_a_dry_run_says_where_rules_differ_from_what_happened(office):
    sent = pay(office, "10", "Kai")
    rejected, approved = office.ask({"to": "Lea"}), office.ask({"to": "Mo"})
    office.decide(office.pending(rejected), "reject", comment="no")
    office.decide(office.pending(approved))
    office.work()
    assert office.run(approved).status == "completed"
    # Sent unasked: pay of the first run, tell of the last; asked about: two calls of pay.
    by_hand = {"name": "by hand", "when": "has(arguments.amount)", "decide": "approval"}
    tried = try_policy(actor=office.admin, rules=[by_hand, {**ALLOW_TELL, "when": "tool.name == 'office.pay'"}])
    counts = {name: tried[name] for name in ("calls", "allow", "approval", "deny", "unknown")}
    assert counts == {"calls": 4, "allow": 2, "approval": 1, "deny": 1, "unknown": 0}
    differs = {(one["kind"], one["tool"], one["differs"]) for one in tried["items"]}
    assert differs == {
        ("sent", "office.pay@1", "asks"),
        ("sent", "office.tell@1", "stops"),
        ("request", "office.pay@1", "lets_through"),
        ("request", "office.pay@1", "asks_no_more"),
    }
    assert (tried["asks"], tried["stops"], tried["lets_through"], tried["asks_no_more"]) == (1, 1, 1, 1)
    with tenant_tx(office.tenant.id):
        assert str(Operation.objects.get(run_id=sent).id) in {one["id"] for one in tried["items"]}
    proposed = propose_policy(actor=office.admin, rules=RULES, note="handbook")
    request = get_request(actor=office.admin, request_id=proposed["approval_id"])
    past = request["shown"]["payload"]["on_the_past"]
    assert (past["calls"], past["stops"]) == (4, proposed["tried"]["stops"])
    assert request["shown"]["payload"]["replaces"] is None


def test_an_approver_is_told_that_the_policy_denies(office):
    office.activate([ALLOW_TELL])
    run_id = office.ask({"to": "Nel"})
    (said,) = office.pending(run_id)["shown"]["policy"]["rules"]
    assert (said["decide"], said["rule"], said["reason"]) == ("deny", None, "No rule of policy 1 names this call.")
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id) == {}
    assert office.step(run_id, "pay").error["code"] == "denied"


@pytest.mark.req("C5.4", "C5.6")
def test_a_call_that_asks_again_shows_the_edit_that_was_approved(office):
    """Stricter rules make an approved edit ask anew: people see the edit, and exactly it is sent."""
    run_id = office.ask({"to": "Ola"}, name="edited")
    request = office.pending(run_id)
    words = {"version": 1, "payload_hash": request["payload_hash"], "comment": "less", "actor": office.approver}
    propose_edit(request_id=request["id"], arguments={"to": "Ola", "rate": "1.10"}, **words)
    office.decide(office.pending(run_id), actor=member(office.tenant, "approver"))
    office.activate([ALLOW_TELL, {**LARGE, "separation": "two_people"}])
    office.work()
    again = office.pending(run_id)
    assert (again["kind"], again["quorum"], again["separation"]) == ("call", 2, "two_people")
    assert again["shown"]["calls"][0]["arguments"] == {"to": "Ola", "rate": "1.10"}
    assert (again["editor"], again["shown"]["edited_by"]) == (office.approver.label, office.approver.label)
    assert again["actions"][0]["edited"]
    with pytest.raises(OwnRequest):
        office.decide(again)
    for _ in range(2):
        office.decide(again, actor=member(office.tenant, "approver"))
    office.work()
    with tenant_tx(office.tenant.id):
        sent = Operation.objects.get(run_id=run_id, business_key="pay:Ola")
    assert (orjson.loads(bytes(sent.payload)), sent.sends) == ({"to": "Ola", "rate": "1.10"}, 1)
    assert office.run(run_id).status == "completed"
    office.check(run_id)


def test_over_http(office):
    admin = caller(office.tenant, "admin")
    assert admin.post("policies/try/", {"rules": RULES}).json()["calls"] == 0
    made = admin.post("policies/", {"rules": RULES, "note": "from the handbook"})
    assert made.status_code == 201, made.content
    assert [one["state"] for one in admin.get("policies/").json()["items"]] == ["proposed"]
    problem(admin.post("policies/", {"rules": [], "note": "x"}), 400)
    problem(caller(office.tenant, "approver").post("policies/", {"rules": RULES, "note": "x"}), 403)


def test_rules_whose_patterns_cost_too_much_together_are_refused(office):
    """They are compiled under the locks of a send, at every call."""
    rule = {"when": r"target.matches('^\\w{10}$')", "decide": "allow"}
    rules = [{"name": f"r{n}", **rule} for n in range(5)]
    assert try_policy(actor=office.admin, rules=rules[:4])["calls"] == 0
    with pytest.raises(BadInput, match="too costly patterns") as refused:
        try_policy(actor=office.admin, rules=rules)
    assert refused.value.where == "/rules/4/when"
