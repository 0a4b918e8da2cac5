"""The product's exported approvals as a trace of agentack, whose rules then judge them.

The mapping is ours, and says less than the export does: a proposal is an action, its intent is the chain of proposals
it belongs to; an edit is a deny of the old one with a new proposal of the same intent; what nobody decided in time, or
was cancelled, is a deny. ``expires_at`` is always told: of a grant its permission to start, of a deny the deadline.
What waits, or is granted and unused, has no end yet: a trace of finished sessions leaves it out.
What was executed is read from the ledger and not from the request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from approvals.law import GRANTED
from approvals.records import export_requests
from runtime.access.roles import verbs_of_role
from runtime.kernel.actor import Actor
from runtime.models import Operation, Tenant
from runtime.store.tx import tenant_tx

POLICY = """version = 1

[approval]
require_for = ["*"]
max_age_seconds = 60
single_use = true
exact_action_binding = true
stop_is_terminal = true
"""


def records_of(actor: Actor) -> list[dict[str, Any]]:
    """Return everything that a tenant's export holds, as JSON."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = export_requests(actor=actor, cursor=cursor, limit=200)
        found += page.items
        if (cursor := page.next) is None:
            return found


def trace_of(actor: Actor, session: str) -> list[dict[str, Any]]:
    """Return the events of what has come to an end, in their order; the last one ends the session."""
    records = records_of(actor)
    used = [call["operation_id"] for one in records for call in one["action"]["calls"] if call["operation_id"]]
    with tenant_tx(actor.tenant_id):
        sent = {row.id: json.loads(bytes(row.payload)) for row in Operation.objects.filter(id__in=used)}
    rows = [row for record in records for call in record["action"]["calls"] for row in _events(record, call, sent)]
    rows.sort(key=lambda row: row[:2])
    last = max((row[0] for row in rows), default=None)
    if last is None:
        return []
    told = [*(row[2] for row in rows), {"type": "session_end", "timestamp": last.isoformat()}]
    return [{"schema_version": 2, "session_id": session, **one} for one in told]


def _events(record: dict[str, Any], call: dict[str, Any], sent: dict[Any, Any]) -> Iterable[tuple[Any, int, dict]]:
    granted, ended = record["state"] in GRANTED, call["used_at"] or record["closed_at"]
    if ended is None:
        return
    names = {name: f"{record[own]}/{call['node']}" for name, own in (("action_id", "id"), ("intent_id", "intent_id"))}
    own = {**names, "approval_id": names["action_id"]}
    asked, action = record["asked_at"], _action(record, call, call["arguments"])
    decided = record["decided_at"] or record["closed_at"]
    until = record["start_by"] if granted else record["expires_at"]
    assert until is not None, "what may start, or be decided, has an end"
    yield asked, 0, {"type": "action_proposed", "timestamp": asked.isoformat(), **names, "action": action}
    yield asked, 1, {"type": "approval_requested", "timestamp": asked.isoformat(), **own, "action": action}
    said = {"decision": "allow" if granted else "deny", "expires_at": until.isoformat()}
    yield decided, 2, {"type": "approval_decision", "timestamp": decided.isoformat(), **own, **said}
    # The guard says a decision's moment, microseconds after the statement that also closed a rejected request.
    ended = max(ended, decided)
    at = {"timestamp": ended.isoformat(), **own}
    if call["used_at"] is not None:
        done = _action(record, call, sent.get(call["operation_id"], call["arguments"]))
        yield ended, 3, {"type": "action_executed", **at, "action": done}
    else:
        why = f"{record['state']} {record['outcome_reason']}".strip()
        yield ended, 3, {"type": "action_blocked", **at, "reason": why}


def _action(record: dict[str, Any], call: dict[str, Any], arguments: Any) -> dict[str, Any]:
    name, _, version = call["tool"].rpartition("@")
    action = {"tool": name, "operation": f"v{version}", "parameters": {"arguments": arguments}}
    target = record["action"]["target"]
    return action if target is None else {**action, "resource": f"{target['id']}@{target['version']}"}


def write_trace(folder: Path, events: list[dict[str, Any]]) -> tuple[Path, Path]:
    """Write trace and policy; returns both files."""
    trace, policy = folder / "trace.jsonl", folder / "policy.toml"
    trace.write_text("".join(json.dumps(event) + "\n" for event in events))
    policy.write_text(POLICY)
    return trace, policy


def breaches(actor: Actor) -> list[str]:
    """Return what agentack finds in the trace of a tenant's approvals."""
    from agentack.engine import evaluate_events
    from agentack.models import TraceEvent
    from agentack.policy import Policy

    policy = Policy(require_approval_for=("*",), max_approval_age_seconds=60)
    events = [TraceEvent.from_dict(one, line=i) for i, one in enumerate(trace_of(actor, "office"), 1)]
    found = evaluate_events(events, policy=policy).findings if events else ()
    return [f"{one.rule_id} {one.message}" for one in found]


def judge(tenant: Tenant) -> None:
    """Assert that the trace of a tenant's approvals, as a test left them, passes agentack's rules."""
    if find_spec("agentack") is not None:
        reader = Actor(kind="service", name="trace", tenant_id=tenant.id, verbs=verbs_of_role("admin"))
        assert not breaches(reader)
