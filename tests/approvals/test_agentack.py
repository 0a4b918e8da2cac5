"""agentack, a suite of others, judges what the export says of every end that a request has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from approvals.actions.own import OwnAction, ask_own
from approvals.actions.propose import propose_edit
from approvals.actions.revoke import revoke_grant
from approvals.actions.using import use_grant
from approvals.queries import get_request
from runtime.actions.runs import cancel_run
from tests.support.duties import close_idle, expire_requests
from tests.support.traces import trace_of, write_trace

pytestmark = [pytest.mark.req("C5.3", "C5.6", "A7.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lived(office, clock) -> Any:
    """An office in which requests have come to every end that there is."""
    office.decide(office.pending(office.ask({"to": "used"})))
    office.work()
    office.decide(office.pending(office.ask({"to": "rejected"})), "reject")
    edited = office.pending(office.ask({"to": "edited"}))
    quoted = {name: edited[name] for name in ("version", "payload_hash")}
    answer = propose_edit(
        actor=office.approver,
        request_id=edited["id"],
        arguments={"to": "edited", "rate": "1"},
        comment="less",
        **quoted,
    )
    office.decide(get_request(actor=office.admin, request_id=answer["approval_id"]))
    office.work()
    own = OwnAction("bank.wire@1", {"to": "own", "amount": 2**53 - 1, "part": 0.5})
    asked = ask_own(actor=office.integrator, key="own", action=own, title="Wire")
    office.decide(get_request(actor=office.admin, request_id=asked["approval_id"]))
    said = {"action_hash": asked["action_hash"], "arguments": own.arguments}
    use_grant(actor=office.integrator, request_id=asked["approval_id"], **said)
    revoked = office.pending(office.ask({"to": "revoked"}))
    office.decide(revoked)
    revoke_grant(actor=office.approver, request_id=revoked["id"], reason="wrong")
    cancelled = office.ask({"to": "cancelled"})
    cancel_run(actor=office.oncall, run_id=cancelled, reason="not wanted")
    voided = office.ask({"to": "voided"})
    office.decide(office.pending(voided))
    cancel_run(actor=office.oncall, run_id=voided, reason="not wanted")
    late = ask_own(actor=office.integrator, key="late", action=own, title="Wire", start_within_s=60)
    office.decide(get_request(actor=office.admin, request_id=late["approval_id"]))
    office.ask({"to": "expired"})
    clock.advance(3601)
    expire_requests()
    close_idle()
    return office


def check(folder: Path, events: list[dict[str, Any]]) -> tuple[int, str]:
    """Return exit status and output of ``agentack check``."""
    trace, policy = write_trace(folder, events)
    command = [sys.executable, "-m", "agentack", "check", str(trace), "--policy", str(policy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def test_the_exported_trace_of_every_end_passes(lived, tmp_path):
    pytest.importorskip("agentack")
    events = trace_of(lived.admin, "office")
    decisions = [one for one in events if one["type"] == "approval_decision"]
    assert {one["decision"] for one in decisions} == {"allow", "deny"}
    assert all(one["expires_at"] for one in decisions)
    assert sum(one["type"] == "action_executed" for one in events) == 3
    intents = [one["intent_id"] for one in events if one["type"] == "action_proposed"]
    assert len(intents) == len(set(intents)) + 1, "the edit alone shares its intent with what it replaced"
    status, said = check(tmp_path, events)
    assert (status, "PASS" in said) == (0, True), said


@pytest.mark.parametrize("broken", ["changed", "denied", "twice"])
def test_the_suite_would_find_a_breach(lived, tmp_path, broken):
    """Else its PASS would say nothing."""
    pytest.importorskip("agentack")
    events = trace_of(lived.admin, "office")
    done = next(i for i, one in enumerate(events) if one["type"] == "action_executed")
    if broken == "changed":
        events[done] = json.loads(json.dumps(events[done]).replace('"used"', '"Eve"'))
    elif broken == "twice":
        events.insert(done + 1, events[done])
    else:
        denied = next(one for one in events if one["type"] == "action_blocked" and "rejected" in one["reason"])
        asked = next(
            one for one in events if one["type"] == "approval_requested" and one["action_id"] == denied["action_id"]
        )
        place = events.index(denied)
        events[place] = {**denied, "type": "action_executed", "action": asked["action"]}
        del events[place]["reason"]
    status, said = check(tmp_path, events)
    assert status != 0, said
    assert "FAIL" in said, said
