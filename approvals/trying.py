"""What rules would have said of the past: of calls that people were asked about, and of those that were sent unasked.

A dry run: it judges what was shown and what was sent, with the time of then, and writes nothing (C5.3, A10.2).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from approvals.actions.own import contract_of
from approvals.law import GRANTED
from approvals.policy import Policy, Verdict, facts_of
from runtime.graph.undo import RESERVED
from runtime.store.tx import Tx

# How the rules differ from what happened: they let through what people rejected, deny what was let through, ask where
# nobody was asked, ask no more where people approved.
DIFFERENCES = ("lets_through", "stops", "asks", "asks_no_more")
COUNTS = ("calls", "allow", "approval", "deny", "unknown", *DIFFERENCES)
MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Past:
    """One call of the past; field order is that of the queries. ``arguments`` is None where its content is gone."""

    kind: str
    id: uuid.UUID
    state: str
    requester: str
    at: datetime
    workflow: str
    node: str
    tool: str
    business_key: str
    arguments: Any


def tried(tx: Tx, policy: Policy, most: int) -> dict[str, Any]:
    """Return what a policy would have said of the newest ``most`` requests' calls and as many that were sent unasked.

    {calls, allow, approval, deny, unknown (their content is gone), lets_through, stops, asks, asks_no_more, items}.
    An item: {kind: request | sent, id (of the request or the operation), state, tool, workflow, node, requester, at,
    decide, rule, reason, differs (one of ``DIFFERENCES`` or empty)}; at most 100, those that differ first.
    """
    counts = dict.fromkeys(COUNTS, 0)
    items = []
    for call in _past(tx, most):
        counts["calls"] += 1
        if call.arguments is None:
            counts["unknown"] += 1
            continue
        verdict = policy.judge(_facts(tx, call))
        differs = _differs(call, verdict)
        counts[verdict.decide] += 1
        if differs:
            counts[differs] += 1
        items.append(_item(call, verdict, differs))
    items.sort(key=lambda one: not one["differs"])
    return {**counts, "items": items[:MOST_LISTED]}


def _past(tx: Tx, most: int) -> Iterator[Past]:
    for row in tx.rows("policy_past", (most,)):
        past = Past("request", *row)
        calls = orjson.loads(bytes(past.arguments)).get("calls", [])
        call = next((one for one in calls if one["node"] == past.node), None)
        yield replace(past, arguments=None if call is None else call["arguments"])
    for row in tx.rows("policy_past_sent", {"most": most}):
        past = Past("sent", *row)
        yield replace(past, arguments=orjson.loads(bytes(past.arguments)))


def _facts(tx: Tx, call: Past) -> dict[str, Any]:
    return facts_of(
        contract_of(tx, call.tool),
        call.arguments,
        requester=call.requester,
        workflow=call.workflow,
        node=call.node,
        business_key=call.business_key,
        now=call.at,
        undoes=RESERVED.match(call.node) is not None,
    )


def _differs(call: Past, verdict: Verdict) -> str:
    approved = call.kind == "request" and call.state in GRANTED
    if verdict.decide == "deny":
        return "stops" if approved or call.kind == "sent" else ""
    if verdict.decide == "allow":
        return "asks_no_more" if approved else "lets_through" if call.state == "rejected" else ""
    return "asks" if call.kind == "sent" else ""


def _item(call: Past, verdict: Verdict, differs: str) -> dict[str, Any]:
    return {
        "kind": call.kind,
        "id": str(call.id),
        "state": call.state,
        "tool": call.tool,
        "workflow": call.workflow,
        "node": call.node,
        "requester": call.requester,
        "at": call.at,
        "decide": verdict.decide,
        "rule": verdict.rule,
        "reason": verdict.reason,
        "differs": differs,
    }
