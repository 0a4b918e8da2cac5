"""A program asks for its own action, waits, uses the grant once, and reports; every refusal says what is there."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pytest

from approvals.actions.policies import try_policy
from runtime.actions.tenants import add_member
from runtime.tools.registry import register_tool
from tests.support.api import caller, problem
from tests.support.duties import close_idle, expire_requests
from tests.support.office import writing
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C5.6", "C8.5"), pytest.mark.django_db(transaction=True)]

ACTION: dict[str, Any] = {"tool": "bank.wire@1", "arguments": {"to": "Ada", "amount": "12.50"}, "target": "account:7"}
RULES = [{"name": "all", "when": "true", "decide": "allow"}]


@pytest.fixture
def agent(office):
    """A program with a token of its own."""
    return caller(office.tenant, "integrator")


@pytest.fixture
def approver(office):
    return caller(office.tenant, "approver")


def ask(agent: Any, key: str | None = None, action: Any = None, **more: Any) -> dict[str, Any]:
    body = {"action": action or ACTION, "title": "Wire money", "goal": "invoice 9", **more}
    answer = agent.post("approvals/", body, Idempotency_Key=key or str(uuid.uuid4()))
    assert answer.status_code in (200, 201), answer.content
    return answer.json()


def decide(approver: Any, asked: dict[str, Any], decision: str = "approve") -> None:
    body = {"decision": decision, "version": asked["version"], "payload_hash": asked["payload_hash"], "comment": "ok"}
    answer = approver.post(f"approvals/{asked['approval_id']}/decide/", body)
    assert answer.status_code == 200, answer.content


def consume(agent: Any, asked: dict[str, Any], **more: Any) -> Any:
    body = {"action_hash": asked["action_hash"], "arguments": ACTION["arguments"], **more}
    return agent.post(f"approvals/{asked['approval_id']}/consume/", body)


def wait(agent: Any, asked: dict[str, Any], query: str = "seconds=0") -> dict[str, Any]:
    answer = agent.get(f"approvals/{asked['approval_id']}/wait/?{query}")
    assert answer.status_code == 200
    return json.loads(b"".join(answer)) if answer.streaming else answer.json()


@pytest.mark.req("A10.2")
def test_a_policy_is_tried_on_what_programs_asked_for_too(office, agent, approver):
    for number, decision in ((1, "approve"), (2, "reject")):
        decide(approver, ask(agent, key=f"wire-{number}"), decision)
    when = f"tool.name == 'bank.wire' && workflow == '' && amount == 12.5 && requester == '{agent.actor.label}'"
    tried = try_policy(actor=office.admin, rules=[{"name": "wires", "when": when, "decide": "deny"}])
    assert (tried["calls"], tried["deny"], tried["stops"]) == (2, 2, 1)
    assert {(one["node"], one["state"], one["differs"]) for one in tried["items"]} == {
        ("action", "approved", "stops"),
        ("action", "rejected", ""),
    }
    page = Reader(office.tenant, "admin").post("/policy/", {"rules": json.dumps(RULES), "try": "1"}, 200)
    assert agent.actor.name in page.content.decode()


def test_ask_wait_consume_report(office, agent, approver):
    asked = ask(agent)
    assert (asked["state"], asked["role"], asked["replayed"]) == ("pending", "approver", False)
    whole = approver.get(f"approvals/{asked['approval_id']}/").json()
    assert whole["shown"]["calls"][0]["arguments"] == ACTION["arguments"]
    assert (whole["target"], whole["goal"], whole["shown"]["goal"]) == ("account:7", "invoice 9", "invoice 9")
    # Of a tool that nobody described the worst is presumed.
    assert (whole["risk"], whole["requested_by"]) == ("high", agent.actor.label)
    problem(consume(agent, asked), 409, "approval_pending")
    assert wait(agent, asked)["state"] == "pending"
    decide(approver, asked)
    told = wait(agent, asked, "seconds=30")
    assert (told["state"], told["decided_by"], told["comment"]) == ("approved", approver.actor.label, "ok")
    used = consume(agent, asked, arguments=ACTION["arguments"], use_key="u1")
    assert used.status_code == 200, used.content
    assert (used.json()["state"], used.json()["replayed"]) == ("consumed", False)
    path = f"approvals/{asked['approval_id']}/outcome/"
    assert agent.post(path, {"outcome": "unknown", "detail": "no answer"}).json()["replayed"] is False
    assert agent.post(path, {"outcome": "applied"}).json()["outcome"] == "applied"
    assert agent.post(path, {"outcome": "applied"}).json()["replayed"] is True
    problem(agent.post(path, {"outcome": "not_applied"}), 409, "approval_refused")
    (record,) = caller(office.tenant).get("approvals/export/").json()["items"]
    assert (record["report"]["outcome"], record["report"]["by"]) == ("applied", agent.actor.label)
    assert record["action"]["calls"][0]["operation_id"] == used.json()["use_id"]
    verbs = [e["verb"] for e in caller(office.tenant).get(f"audit/?subject={asked['approval_id']}").json()["items"]]
    reports = ["approval.report"] * 3  # the refused one too
    assert sorted(verbs) == sorted(["approval.ask", "approval.decide", "approval.use", *reports])


def test_a_use_that_comes_too_early_leaves_no_trace_and_a_refused_one_does(office, agent, approver):
    admin = caller(office.tenant)
    asked = ask(agent)

    def uses() -> list[str]:
        found = admin.get(f"audit/?subject={asked['approval_id']}").json()["items"]
        return [one["result"] for one in found if one["verb"] == "approval.use"]

    for _ in range(3):
        problem(consume(agent, asked), 409, "approval_pending")
    decide(approver, asked)
    stop = admin.post("stops/", {"scope": "tool", "name": "bank.wire", "reason": "incident"}).json()
    problem(consume(agent, asked), 409, "approval_stopped")
    assert uses() == []
    admin.post(f"stops/{stop['stop_id']}/lift/", {})
    problem(consume(agent, asked, arguments={"to": "Eve"}), 409, "approval_other_action")
    assert uses() == ["refused"]


def test_a_grant_is_used_once_and_a_lost_answer_is_asked_for_again(agent, approver):
    asked = ask(agent)
    decide(approver, asked)
    first = consume(agent, asked, use_key="u1").json()
    again = consume(agent, asked, use_key="u1").json()
    assert (again["replayed"], again["use_id"]) == (True, first["use_id"])
    for other in ({}, {"use_key": "u2"}):
        told = problem(consume(agent, asked, **other), 409, "approval_not_granted")
        assert told["current_state"] == "consumed"


@pytest.mark.req("A7.2")
def test_of_many_at_once_one_uses_it(agent, approver):
    asked = ask(agent)
    decide(approver, asked)
    answers: list[int] = []

    def use(n: int) -> None:
        answers.append(consume(agent, asked, use_key=f"u{n}").status_code)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 409, 409, 409, 409, 409]


def test_only_the_very_action_is_let_through(agent, approver):
    asked = ask(agent)
    decide(approver, asked)
    told = problem(consume(agent, {**asked, "action_hash": "ab" * 32}), 409, "approval_other_action")
    assert (told["where"], told["current_action_hash"]) == ("/action_hash", asked["action_hash"])
    changed = {**ACTION["arguments"], "amount": "1250"}
    assert problem(consume(agent, asked, arguments=changed), 409, "approval_other_action")["where"] == "/arguments"
    problem(consume(agent, {**asked, "action_hash": "12"}), 400)
    alone = agent.post(f"approvals/{asked['approval_id']}/consume/", {"action_hash": asked["action_hash"]})
    problem(alone, 400)
    # Nothing of it used the grant.
    assert consume(agent, asked, arguments=ACTION["arguments"]).status_code == 200


def test_the_version_of_the_target_that_was_approved_is_the_one_that_is_used(office, agent, approver):
    action = {**ACTION, "target_version": "v1"}
    same, moved = ask(agent, action=action), ask(agent, action=action)
    for one in (same, moved):
        decide(approver, one)
    assert problem(consume(agent, same), 400)["where"] == "/target_version"
    assert consume(agent, same, target_version="v1").status_code == 200
    told = problem(consume(agent, moved, target_version="v2"), 409, "approval_not_granted")
    assert (told["current_state"], told["outcome_reason"]) == ("voided", "target changed: v1 → v2")
    assert wait(agent, moved)["state"] == "voided"
    problem(consume(agent, moved, target_version="v1"), 409, "approval_not_granted")
    notes = approver.get(f"approvals/{moved['approval_id']}/").json()["notes"]
    assert [one["details"]["to"] for one in notes if one["kind"] == "target_changed"] == ["v2"]
    unbound = ask(agent)
    decide(approver, unbound)
    assert problem(consume(agent, unbound, target_version="v1"), 400)["where"] == "/target_version"


def test_a_restarted_program_finds_its_request_by_what_it_asked(agent, approver):
    asked = ask(agent, "wire-9")
    decide(approver, asked)
    again = ask(agent, "wire-9")
    assert (again["approval_id"], again["state"], again["replayed"]) == (asked["approval_id"], "approved", True)
    other = {"action": {**ACTION, "arguments": {"to": "Eve"}}, "title": "Wire money"}
    told = problem(agent.post("approvals/", other, Idempotency_Key="wire-9"), 409, "request_key_conflict")
    assert told["current_action_hash"] == asked["action_hash"]
    # Numbers keep their kind: 1 and 1.0 are one JSON number, "1" is another value.
    ask(agent, "n", {"tool": "bank.wire@1", "arguments": {"n": 1}})
    text = {"action": {"tool": "bank.wire@1", "arguments": {"n": "1"}}, "title": "Wire money"}
    problem(agent.post("approvals/", text, Idempotency_Key="n"), 409, "request_key_conflict")


def test_nothing_is_asked_without_a_key(agent):
    told = problem(agent.post("approvals/", {"action": ACTION, "title": "Wire money"}), 400)
    assert told["where"] == "header Idempotency-Key"
    assert agent.get("approvals/?state=all").json()["items"] == []


def test_time_runs_out_before_and_after_the_decision(office, clock, agent, approver):
    late = ask(agent, expires_s=60)
    kept = ask(agent, start_within_s=60)
    left = ask(agent, start_within_s=60)
    decide(approver, kept)
    decide(approver, left)
    clock.advance(61)
    assert expire_requests() >= 1
    assert wait(agent, late)["outcome_reason"] == "timeout"
    assert problem(consume(agent, late), 409, "approval_not_granted")["outcome_reason"] == "timeout"
    assert problem(consume(agent, kept), 409, "approval_not_granted")["current_state"] == "lapsed"
    assert close_idle() >= 1
    assert wait(agent, left)["state"] == "lapsed"
    assert wait(agent, kept)["state"] == "lapsed"


def test_a_rejection_and_a_revocation_let_nothing_through(agent, approver):
    rejected, revoked = ask(agent), ask(agent)
    decide(approver, rejected, "reject")
    decide(approver, revoked)
    approver.post(f"approvals/{revoked['approval_id']}/revoke/", {"reason": "wrong account"})
    assert problem(consume(agent, rejected), 409, "approval_not_granted")["current_state"] == "rejected"
    assert problem(consume(agent, revoked), 409, "approval_not_granted")["current_state"] == "revoked"
    path = f"approvals/{rejected['approval_id']}/outcome/"
    problem(agent.post(path, {"outcome": "applied"}), 409, "approval_refused")


def test_a_stop_holds_it_back_and_keeps_the_grant(office, agent, approver):
    asked = ask(agent)
    decide(approver, asked)
    admin = caller(office.tenant)
    stop = admin.post("stops/", {"scope": "tool", "name": "bank.wire", "reason": "incident"}).json()
    assert problem(consume(agent, asked), 409, "approval_stopped")["retryable"] is True
    admin.post(f"stops/{stop['stop_id']}/lift/", {})
    assert consume(agent, asked).status_code == 200


def test_who_may_not(office, agent, approver, other_tenant):
    asked = ask(agent)
    body = {"decision": "approve", "version": asked["version"], "payload_hash": asked["payload_hash"]}
    problem(agent.post(f"approvals/{asked['approval_id']}/decide/", body), 403)
    admin = caller(office.tenant)
    own = ask(admin)
    quoted = {"decision": "approve", "version": own["version"], "payload_hash": own["payload_hash"]}
    problem(admin.post(f"approvals/{own['approval_id']}/decide/", quoted), 403, "own_request")
    decide(approver, asked)
    problem(consume(caller(office.tenant, "integrator"), asked), 403)
    problem(consume(caller(office.tenant, "viewer"), asked), 403)
    problem(consume(caller(other_tenant, "integrator"), asked), 404)
    problem(caller(other_tenant, "integrator").get(f"approvals/{asked['approval_id']}/wait/?seconds=0"), 404)
    step = office.pending(office.ask())
    problem(consume(agent, {**step, "approval_id": step["id"]}), 409, "approval_refused")


def test_a_grant_belongs_to_the_identity_that_asked_and_not_to_its_name(office, agent, approver, test_database):
    """Also where a name passed on, past the guard of the database that keeps it whose it is."""
    asked = ask(agent)
    decide(approver, asked)
    heir = caller(office.tenant, "integrator")
    rename = "UPDATE auth_user SET username = %s WHERE id = %s"
    with test_database.connect() as connection, connection.transaction():
        connection.execute("ALTER TABLE auth_user DISABLE TRIGGER qd_keep_username")
        connection.execute(rename, [f"renamed-{uuid.uuid4().hex}", agent.actor.user_id])
        connection.execute(rename, [agent.actor.name, heir.actor.user_id])
        connection.execute("ALTER TABLE auth_user ENABLE TRIGGER qd_keep_username")
    problem(consume(heir, asked), 403)
    assert consume(agent, asked).status_code == 200


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"title": ""}, "/title"),
        ({"role": "king"}, "/role"),
        ({"quorum": 0}, "/quorum"),
        ({"expires_s": -1}, "/expires_s"),
        ({"action": {"tool": "bank.wire", "arguments": {}}}, "/action/tool"),
        ({"action": {"tool": "bank.wire@1"}}, "/action"),
        ({"approve": True}, "approve"),
    ],
)
def test_bad_requests_are_told_where(agent, change, where):
    body = {"action": ACTION, "title": "Wire money", **change}
    answer = agent.post("approvals/", body, Idempotency_Key="bad")
    assert where in str(problem(answer, 400))
    assert agent.get("approvals/?state=all").json()["items"] == []


def test_a_registered_tool_is_asked_about_by_its_contract(office, agent):
    form = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
    register_tool(actor=office.admin, contract=writing("bank.pay", input_schema=form, compensation="office.tell@1"))
    asked = ask(agent, action={"tool": "bank.pay@1", "arguments": {"to": "Ada"}})
    whole = caller(office.tenant).get(f"approvals/{asked['approval_id']}/").json()
    assert whole["shown"]["calls"][0]["effect"]["undo"] == "office.tell@1"
    wrong = {"action": {"tool": "bank.pay@1", "arguments": {"to": 7}}, "title": "Pay"}
    assert problem(agent.post("approvals/", wrong, Idempotency_Key="wrong"), 400)["where"] == "/action/arguments/to"


def test_the_policy_denies_what_it_does_not_name_and_adds_people(office, agent):
    rule = {"name": "wires", "when": "tool.name == 'bank.wire'", "decide": "approval", "role": "approver", "quorum": 2}
    office.activate([rule])
    other = {"action": {"tool": "bank.burn@1", "arguments": {}}, "title": "Burn"}
    refused = agent.post("approvals/", other, Idempotency_Key="other")
    assert "names this call" in problem(refused, 409, "approval_refused")["detail"]
    whole = caller(office.tenant).get(f"approvals/{ask(agent)['approval_id']}/").json()
    assert (whole["quorum"], whole["shown"]["policy"]["rules"][0]["rule"]) == (2, "wires")


def test_the_policy_of_now_is_asked_at_the_use(office, agent, approver):
    """As the gate does for a workflow's call: a program has no second, weaker way."""
    wires = {"name": "wires", "when": "tool.name == 'bank.wire'", "decide": "approval", "role": "approver"}
    office.activate([wires])
    denied, few, enough = ask(agent), ask(agent), ask(agent, quorum=2)
    for one in (denied, few, enough):
        decide(approver, one)
    decide(caller(office.tenant, "approver"), enough)
    office.activate([{**wires, "quorum": 2}])
    told = problem(consume(agent, few), 409, "approval_not_granted")
    assert (told["current_state"], told["outcome_reason"]) == ("revoked", "the policy asks for more now")
    assert consume(agent, enough).status_code == 200
    office.activate([{**wires, "decide": "deny"}])
    told = problem(consume(agent, denied), 409, "approval_not_granted")
    assert (told["current_state"], told["outcome_reason"]) == ("revoked", "the policy denies it now")
    assert "Rule 'wires' of policy 3 denies it." in told["detail"]
    assert wait(agent, denied)["state"] == "revoked"


def test_quorum_and_the_approvers_rights_are_asked_again(office, approver, agent):
    other = caller(office.tenant, "approver")
    asked = ask(agent, quorum=2)
    decide(approver, asked)
    problem(consume(agent, asked), 409, "approval_pending")
    decide(other, asked)
    add_member(actor=office.admin, username=other.actor.name, role="viewer")
    told = problem(consume(agent, asked), 409, "approval_not_granted")
    assert told["outcome_reason"] == "the approver lost the right"
    assert wait(agent, asked)["state"] == "revoked"


def test_a_key_stands_for_its_terms_too(office, agent, approver):
    terms = {"role": "finance", "quorum": 2, "risk": "medium", "expires_s": 600, "start_within_s": 60}
    asked = ask(agent, "k", **terms)
    again = ask(agent, "k", **terms)
    assert again == {**asked, "replayed": True}
    others = {"role": "admin", "quorum": 3, "risk": "high", "expires_s": 60, "start_within_s": 30}
    for name, value in others.items():
        body = {"action": ACTION, "title": "Wire money", "goal": "invoice 9", **terms, name: value}
        told = problem(agent.post("approvals/", body, Idempotency_Key="k"), 409, "request_key_conflict")
        assert (told["where"], told["differs"], told["approval_id"]) == (f"/{name}", [name], asked["approval_id"])
        assert name in told["detail"]
    for name in ("title", "goal"):
        body = {"action": ACTION, "title": "Wire money", "goal": "invoice 9", **terms, name: "something else"}
        told = problem(agent.post("approvals/", body, Idempotency_Key="k"), 409, "request_key_conflict")
        assert told["differs"] == [name]
    # The history says that it was asked, for whoever decides.
    notes = approver.get(f"approvals/{asked['approval_id']}/").json()["notes"]
    assert [(one["kind"], one["actor"], one["details"]["quorum"]) for one in notes] == [("ask", agent.actor.label, 2)]


def test_terms_of_the_policy_are_no_other_terms(office, agent):
    """What the policy adds is not what the program asked: the same question is the same one under any rules."""
    rules = [{"name": "all", "when": "true", "decide": "approval", "role": "finance", "quorum": 2}]
    office.activate(rules)
    asked = ask(agent, "k", quorum=1)
    assert asked["role"] == "admin"
    again = ask(agent, "k", quorum=1)
    assert (again["approval_id"], again["replayed"]) == (asked["approval_id"], True)
    stricter = {"action": ACTION, "title": "Wire money", "goal": "invoice 9", "quorum": 2}
    problem(agent.post("approvals/", stricter, Idempotency_Key="k"), 409, "request_key_conflict")
