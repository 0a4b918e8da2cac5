"""A program takes its request back before it is decided, and hands in what people decide it by."""

from __future__ import annotations

import hashlib
import uuid
from functools import partial
from typing import Any

import pytest

from runtime.models import Artifact
from runtime.store.tx import tenant_tx
from tests.approvals.test_own import ACTION, ask, consume, decide, wait
from tests.support.api import caller, problem
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "C5.6"), pytest.mark.django_db(transaction=True)]

OFFER = b"invoice 9: 12.50"


@pytest.fixture
def agent(office):
    return caller(office.tenant, "integrator")


@pytest.fixture
def approver(office):
    return caller(office.tenant, "approver")


def withdraw(who: Any, asked: dict[str, Any], **more: Any) -> Any:
    return who.post(f"approvals/{asked['approval_id']}/withdraw/", {"version": asked["version"], **more})


def test_what_nobody_decided_is_withdrawn_once_and_answered_alike_again(office, agent, approver):
    asked = ask(agent, "wire-9")
    first = withdraw(agent, asked, reason="paid by card").json()
    again = withdraw(agent, asked, reason="paid by card").json()
    assert (first["state"], first["replayed"], again["state"], again["replayed"]) == (
        "cancelled", False, "cancelled", True,
    )  # fmt: skip
    told = wait(agent, asked)
    assert (told["state"], told["outcome_reason"], told["decided_by"]) == ("cancelled", "withdrawn", None)
    quoted = {"decision": "approve", "version": asked["version"], "payload_hash": asked["payload_hash"]}
    problem(approver.post(f"approvals/{asked['approval_id']}/decide/", quoted), 409, "approval_closed")
    assert problem(consume(agent, asked), 409, "approval_not_granted")["current_state"] == "cancelled"
    # Its key stays used: what is still wanted is asked for under another.
    assert ask(agent, "wire-9")["state"] == "cancelled"
    (on_terms, note) = approver.get(f"approvals/{asked['approval_id']}/").json()["notes"]
    assert (on_terms["kind"], on_terms["details"]["quorum"]) == ("ask", 1)
    assert (note["kind"], note["actor"], note["text"]) == ("withdraw", agent.actor.label, "paid by card")
    rows = caller(office.tenant).get(f"audit/?subject={asked['approval_id']}").json()["items"]
    found = [(one["actor"], one["result"], one["reason"]) for one in rows if one["verb"] == "approval.withdraw"]
    assert found == [(agent.actor.label, "cancelled", "paid by card")]


def test_a_decision_or_another_version_is_not_taken_back(office, clock, agent, approver):
    asked, late = ask(agent), ask(agent, expires_s=60)
    told = problem(withdraw(agent, {**asked, "version": 2}), 409, "stale")
    assert told["current_version"] == 1
    problem(agent.post(f"approvals/{asked['approval_id']}/withdraw/", {}), 400)
    decide(approver, asked)
    assert problem(withdraw(agent, asked), 409, "approval_closed")["current_state"] == "approved"
    assert consume(agent, asked).status_code == 200
    clock.advance(61)
    problem(withdraw(agent, late), 409, "approval_expired")


def test_only_the_identity_that_asked_or_an_admin_withdraws(office, agent, approver, other_tenant):
    asked = ask(agent)
    problem(withdraw(caller(office.tenant, "integrator"), asked), 403)
    problem(withdraw(approver, asked), 403)
    problem(withdraw(caller(other_tenant, "integrator"), asked), 404)
    step = office.pending(office.ask())
    problem(withdraw(agent, {"approval_id": step["id"], "version": step["version"]}), 409, "approval_refused")
    assert wait(agent, asked)["state"] == "pending"
    assert withdraw(caller(office.tenant), asked, reason="the program is gone").json()["state"] == "cancelled"


@pytest.mark.req("C8.2")
def test_a_decision_and_a_withdrawal_at_once_leave_one_end(agent, approver):
    for _ in range(5):
        asked = ask(agent)
        quoted = {"decision": "approve", "version": asked["version"], "payload_hash": asked["payload_hash"]}
        path = f"approvals/{asked['approval_id']}/decide/"
        answers = together(partial(withdraw, agent, asked), partial(approver.post, path, quoted))
        assert sorted(one.status_code for one in answers) == [200, 409]
        assert wait(agent, asked)["state"] == ("cancelled" if answers[0].status_code == 200 else "approved")


def test_evidence_is_shown_bound_by_its_hash_and_kept(office, agent, approver):
    made = agent.upload(OFFER, media_type="text/plain").json()
    reference = {"artifact_id": made["artifact_id"], "sha256": hashlib.sha256(OFFER).hexdigest()}
    asked = ask(agent, "wire-9", evidence=[reference])
    (shown,) = approver.get(f"approvals/{asked['approval_id']}/").json()["shown"]["evidence"]
    assert shown == {**reference, "size": len(OFFER), "media_type": "text/plain"}
    with tenant_tx(office.tenant.id):
        assert Artifact.objects.get(id=reference["artifact_id"]).expires_at is None
    assert ask(agent, "wire-9", evidence=[reference])["replayed"] is True
    other = {"action": ACTION, "title": "Wire money"}
    problem(agent.post("approvals/", other, Idempotency_Key="wire-9"), 409, "request_key_conflict")
    wrong = {**other, "evidence": [{**reference, "sha256": "0" * 64}]}
    assert problem(agent.post("approvals/", wrong, Idempotency_Key="w"), 400)["where"] == "/evidence/0"
    decide(approver, asked)
    assert consume(agent, asked).status_code == 200


def test_an_asker_hands_in_more_while_it_waits(agent, approver):
    asked = ask(agent)
    made = agent.upload(OFFER, media_type="text/plain").json()
    reference = {"artifact_id": made["artifact_id"], "sha256": made["sha256"]}
    said = agent.post(
        f"approvals/{asked['approval_id']}/comments/", {"text": "the invoice", "attachments": [reference]}
    )
    assert said.status_code == 201, said.content
    whole = approver.get(f"approvals/{asked['approval_id']}/").json()
    assert whole["notes"][-1]["details"]["attachments"][0]["sha256"] == reference["sha256"]
    assert (whole["state"], whole["payload_hash"]) == ("pending", asked["payload_hash"])


def test_no_request_is_withdrawn_that_is_not_there(agent):
    problem(withdraw(agent, {"approval_id": str(uuid.uuid4()), "version": 1}), 404)
