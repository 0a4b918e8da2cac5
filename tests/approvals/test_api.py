"""approvals/ over HTTP: names of the interface, strict bodies, and nothing but a POST decides."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from runtime.actions.runs import cancel_run
from tests.support.api import caller, problem

pytestmark = [pytest.mark.req("C6.1", "A7.2", "C5.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def asked(office):
    """A request that waits, as the API lists it, with its approver."""
    approver = caller(office.tenant, "approver")
    run_id = office.ask({"to": "Ada"})
    (row,) = approver.get(f"approvals/?state=pending&mine=1&run={run_id}").json()["items"]
    return approver, row


def quote(row, decision="approve", **more):
    return {"decision": decision, "version": row["version"], "payload_hash": row["payload_hash"], **more}


def test_list_read_and_decide(office, asked):
    approver, row = asked
    assert row["may_decide"] is True
    assert row["workflow"] == "pay-out"
    whole = approver.get(f"approvals/{row['id']}/").json()
    assert whole["shown"]["payload"] == {"to": "Ada", "rate": "2.50"}
    assert whole["payload_hash"] == row["payload_hash"]
    answer = approver.post(f"approvals/{row['id']}/decide/", quote(row, comment="fine"))
    assert answer.status_code == 200, answer.content
    assert (answer.json()["state"], answer.json()["decision"]) == ("approved", "approve")
    again = approver.post(f"approvals/{row['id']}/decide/", quote(row, comment="fine"))
    assert again.json()["replayed"] is True
    office.work()
    assert approver.get(f"approvals/{row['id']}/").json()["state"] == "consumed"
    assert approver.get("approvals/?mine=true&count=1").json() == {
        "items": [],
        "next": None,
        "count": 0,
        "count_is": "exact",
    }
    assert [one["id"] for one in approver.get("approvals/?state=consumed").json()["items"]] == [row["id"]]


def test_a_second_a_stale_and_a_forged_decision_tell_what_changed(office, asked):
    approver, row = asked
    path = f"approvals/{row['id']}/decide/"
    stale = problem(approver.post(path, quote(row, version=7)), 409, "stale")
    assert (stale["current_version"], stale["current_state"]) == (1, "pending")
    forged = problem(approver.post(path, quote(row, payload_hash="ab" * 32)), 409, "stale")
    assert forged["current_payload_hash"] == row["payload_hash"]
    assert approver.post(path, quote(row, "reject")).status_code == 200
    second = problem(caller(office.tenant, "admin").post(path, quote(row)), 409, "approval_closed")
    assert (second["current_state"], second["decided_by"]) == ("rejected", approver.actor.label)
    refused = caller(office.tenant, "admin").get("audit/?verb=approval.decide&result=refused").json()["items"]
    assert [entry["details"]["code"] for entry in refused] == ["approval_closed", "stale", "stale"]


def test_getting_changes_nothing(office, asked):
    """Link previews, mail scanners and bots follow links; none of it decides."""
    approver, row = asked
    for method in ("GET", "HEAD", "OPTIONS"):
        for path in (f"approvals/{row['id']}/", f"approvals/{row['id']}/decide/"):
            for query in ("", "?decision=approve&version=1&payload_hash=" + row["payload_hash"]):
                approver.send(method, path + query)
    assert approver.get(f"approvals/{row['id']}/").json()["state"] == "pending"
    problem(approver.get(f"approvals/{row['id']}/decide/"), 405)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "decision"),
        ({"decision": "approve"}, "version"),
        ({"decision": "yes", "version": 1, "payload_hash": "00" * 32}, "/decision"),
        ({"decision": "approve", "version": "1", "payload_hash": "00" * 32}, "/version"),
        ({"decision": "approve", "version": 1, "payload_hash": "00"}, "/payload_hash"),
        ({"decision": "approve", "version": 1, "payload_hash": "00" * 32, "force": True}, "force"),
    ],
)
def test_bodies_are_strict(asked, body, where):
    approver, row = asked
    told = problem(approver.post(f"approvals/{row['id']}/decide/", body), 400)
    assert where in str(told)


def test_who_may_not(office, asked, other_tenant):
    _approver, row = asked
    for role in ("viewer", "oncall", "integrator"):
        problem(caller(office.tenant, role).post(f"approvals/{row['id']}/decide/", quote(row)), 403)
    narrowed = caller(office.tenant, "approver", ["approval.read"])
    problem(narrowed.post(f"approvals/{row['id']}/decide/", quote(row)), 403)
    problem(caller(other_tenant, "admin").post(f"approvals/{row['id']}/decide/", quote(row)), 404)
    problem(caller(other_tenant, "admin").get(f"approvals/{row['id']}/"), 404)
    problem(caller(office.tenant, "admin").get(f"approvals/{uuid.uuid4()}/"), 404)
    problem(caller(office.tenant, "admin").get("approvals/?state=open"), 400)
    assert "shown" not in caller(office.tenant, "viewer").get(f"approvals/{row['id']}/").json()


def test_a_cancelled_run_is_told(office, asked):
    approver, row = asked
    cancel_run(actor=office.oncall, run_id=uuid.UUID(row["run_id"]), reason="no")
    told = problem(approver.post(f"approvals/{row['id']}/decide/", quote(row)), 409, "approval_closed")
    assert told["outcome_reason"] == "run cancelled"


@pytest.mark.req("C5.4", "A7.3", "C8.5")
def test_what_else_is_done_with_a_request(office, asked):
    approver, row = asked
    other = caller(office.tenant, "approver")
    path = f"approvals/{row['id']}/"
    assert approver.post(f"{path}claim/", {}).json()["assignee"] == approver.actor.label
    problem(other.post(f"{path}decide/", quote(row)), 409, "approval_assigned")
    assert approver.post(f"{path}release/", {"reason": "busy"}).json()["assignee"] is None
    extended = approver.post(f"{path}extend/", {"seconds": 9000, "reason": "asking"}).json()
    assert extended["payload_hash"] == row["payload_hash"]
    assert extended["deadline"] > row["deadline"]
    assert approver.post(f"{path}comments/", {"text": "Is it so?"}).status_code == 201
    body = {"arguments": {"to": "Ada", "rate": "1"}, "comment": "less", **quote(row)}
    del body["decision"]
    edited = approver.post(f"{path}propose/", body).json()
    assert (edited["version"], edited["supersedes"]) == (2, row["id"])
    path = f"approvals/{edited['approval_id']}/"
    handed = approver.post(f"{path}delegate/", {"to": other.actor.name, "reason": "yours"}).json()
    assert handed["assignee"] == other.actor.label
    refused = problem(other.post(f"{path}escalate/", {"reason": "above me", "role": "viewer"}), 400)
    assert refused["where"] == "/role"
    escalated = other.post(f"{path}escalate/", {"reason": "above me"}).json()
    assert (escalated["role"], escalated["level"]) == ("admin", 1)
    admin = caller(office.tenant, "admin")
    assert admin.post(f"{path}decide/", {**quote(edited), "comment": "ok"}).json()["state"] == "approved"
    assert admin.post(f"{path}revoke/", {"reason": "wrong"}).json()["state"] == "revoked"
    whole = admin.get(path).json()
    assert [one["kind"] for one in whole["notes"]] == ["propose", "delegate", "escalate", "revoke"]


def test_delegations_over_http(office):
    approver, other = caller(office.tenant, "approver"), caller(office.tenant, "approver")
    body = {"to": other.actor.name, "ends_at": "2099-01-01T00:00:00Z", "reason": "leave"}
    problem(approver.post("delegations/", body), 400)
    problem(approver.post("delegations/", {**body, "ends_at": "soon"}), 400)
    for begins, ends in (("9999-06-01", "9999-12-31"), ("9998-06-01", "9999-01-02"), ("0001-01-01", "9999-12-31")):
        far = {**body, "starts_at": f"{begins}T00:00:00Z", "ends_at": f"{ends}T23:59:59-12:00"}
        assert problem(approver.post("delegations/", far), 400)["where"] == "/ends_at"
    body["ends_at"] = (office.run_now() + timedelta(days=2)).isoformat()
    given = approver.post("delegations/", body)
    assert given.status_code == 201, given.content
    assert [one["to"] for one in other.get("delegations/").json()["items"]] == [other.actor.label]
    assert caller(office.tenant, "approver").get("delegations/").json()["items"] == []
    ended = other.post(f"delegations/{given.json()['delegation_id']}/end/", {})
    assert ended.json()["ended"] is True
    problem(caller(office.tenant, "viewer").post("delegations/", body), 403)


def test_bulk_over_http(office):
    approver = caller(office.tenant, "approver")
    for _ in range(2):
        office.ask()
    rows = approver.get("approvals/?mine=1").json()["items"]
    items = [{name: row[name] for name in ("id", "version", "payload_hash")} for row in rows]
    body = {"decision": "reject", "items": items, "comment": "closing", "confirm": "reject 2"}
    answer = approver.post("approvals/bulk/", body).json()
    assert (answer["decided"], answer["refused"], [one["ok"] for one in answer["items"]]) == (2, 0, [True, True])
    problem(approver.post("approvals/bulk/", {**body, "items": []}), 400)
