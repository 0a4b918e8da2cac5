"""Every request with its decisions as typed JSON, for other systems: page by page, in the order they were asked (C5.3).

``RECORD_SCHEMA`` is published at ``approvals/schema/``. What is written there is only ever added to; a change of
meaning is a new ``format``.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from approvals.actions.decide import DECISIONS
from approvals.law import ON_TIMEOUT, RISKS, SEPARATIONS, STATES
from approvals.verbs import READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.base import Page, content, cursor_of, hexed, parsed, position_of, reading
from runtime.queries.outputs import HUMAN_DECISION
from runtime.store.tx import Tx

FORMAT = "quarterdeck.approval/1"
MOST = 200
# A page holds no more bytes of what was shown than this, and always one request.
MOST_BYTES = 8_000_000
# A request is seen once its transaction commits, so long after its ``asked_at`` at the most: the database ends
# transactions that stand still sooner.
SETTLED = timedelta(minutes=1)
REPORTS = ("applied", "not_applied", "unknown")
_LIST = "approvals.records"
_FIRST = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class ExportPage(Page):
    """A page of the export; an export that goes on from ``settled_until`` misses no request that was committed late."""

    settled_until: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the page as the API answers it."""
        return {**Page.as_json(self), "settled_until": self.settled_until}


def export_requests(
    *,
    actor: Actor,
    since: datetime | None = None,
    until: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> ExportPage:
    """Return requests asked from ``since`` on and before ``until`` (both may be open), the oldest first.

    Each is an object of ``RECORD_SCHEMA``: the action with its digest, the terms, every decision with what it quoted,
    and what became of it. A page ends early after MOST_BYTES. What was shown, with the arguments, needs
    ``payload.read``; without it ``redacted`` says so. What was asked before ``settled_until``, the same on all pages of
    a walk, is in it; later ones may be seen after their successors, so the next export begins there. Raises BadInput
    for a foreign cursor. Verb ``approval.read``.
    """
    position = position_of(_LIST, actor, cursor)
    with reading(actor, READ) as tx:
        # Looked at before the rows are: what is committed after this moment is not settled.
        settled = tx.now() - SETTLED if position is None else datetime.fromisoformat(position[2])
        at, after = (since or "-infinity", _FIRST) if position is None else (position[0], uuid.UUID(position[1]))
        wanted = {"at": at, "after": after, "until": until or "infinity", "limit": min(limit, MOST) + 1}
        asked = tx.rows("approvals_asked", wanted)
        taken = _fitting(asked, min(limit, MOST))
        items = _records(tx, [row[0] for row in taken], redacted=not may(actor, v.PAYLOAD_READ))
    more = len(taken) < len(asked)
    if until is not None:
        settled = min(settled, until)
    following = [taken[-1][1].isoformat(), str(taken[-1][0]), settled.isoformat()] if more else None
    return ExportPage(items, None if following is None else cursor_of(_LIST, actor, following), settled_until=settled)


def _fitting(asked: Sequence[tuple[uuid.UUID, datetime, int]], limit: int) -> list[tuple[uuid.UUID, datetime, int]]:
    taken: list[tuple[uuid.UUID, datetime, int]] = []
    size = 0
    for row in asked[:limit]:
        size += row[2]
        if taken and size > MOST_BYTES:
            break
        taken.append(row)
    return taken


def _records(tx: Tx, ids: list[uuid.UUID], *, redacted: bool) -> list[dict[str, Any]]:
    if not ids:
        return []
    roots, successors = dict(tx.rows("approval_roots", (ids,))), dict(tx.rows("approval_successors", (ids,)))
    calls, said = _grouped(tx.dicts("approvals_calls", (ids,))), _grouped(tx.dicts("approvals_said", (ids,)))
    reports = {one["request_id"]: one for one in tx.dicts("approvals_reports", (ids,))}
    return [
        _record(
            {**row, "intent_id": roots[row["id"]], "superseded_by": successors.get(row["id"]), "redacted": redacted},
            calls[row["id"]],
            said[row["id"]],
            reports.get(row["id"]),
        )
        for row in tx.dicts("approvals_whole", (ids,))
    ]


def _grouped(rows: list[dict[str, Any]]) -> dict[uuid.UUID, list[dict[str, Any]]]:
    found: dict[uuid.UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row.pop("request_id")].append(row)
    return found


_SAME = (
    "id intent_id kind run_id task_id step_id node execution_version workflow title requested_by state superseded_by "
    "problem decided_at decided_by start_by closed_at outcome_reason redacted"
).split()
_TERMS = ("role", "quorum", "separation", "on_timeout", "start_within_seconds")


def _record(
    row: dict[str, Any], calls: list[dict[str, Any]], said: list[dict[str, Any]], report: dict[str, Any] | None
) -> dict[str, Any]:
    shown = None if row["redacted"] else content(row["shown"])
    sent = {one["node"]: one.get("arguments") for one in (shown or {}).get("calls") or []}
    action_sha256 = hexed(row["action_sha256"])
    target = None if row["target"] is None else {"id": row["target"], "version": row["target_version"]}
    record = {
        "format": FORMAT,
        **{name: row[name] for name in _SAME},
        "subject": {"kind": row["subject_kind"], "id": row["subject_id"]},
        "proposal": row["version"],
        "supersedes": row["supersedes_id"],
        "edited_by": row["editor"],
        "asked_at": row["created_at"],
        "expires_at": row["deadline"],
        "risk": RISKS[row["risk"]],
        "payload_sha256": hexed(row["payload_sha256"]),
        "action": {"sha256": action_sha256, "calls": [_call(one, sent) for one in calls], "target": target},
        "terms": {name: row[name] for name in _TERMS},
        "decisions": [_decision(one, action_sha256) for one in said],
        "report": None if report is None else _report(report),
    }
    return record if shown is None else {**record, "shown": shown}


def _call(row: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    told = {name: row[name] for name in ("node", "tool", "business_key", "edited", "operation_id")}
    told["used_at"] = row["consumed_at"]
    told["contract_sha256"], told["arguments_sha256"] = hexed(row["contract_sha256"]), hexed(row["arguments_sha256"])
    return {**told, "arguments": sent[row["node"]]} if row["node"] in sent else told


def _decision(row: dict[str, Any], action_sha256: str | None) -> dict[str, Any]:
    return {
        "decision": row["decision"],
        "by": row["actor"],
        "in_place_of": row["for_actor"],
        "proposal": row["version"],
        "payload_sha256": hexed(row["payload_sha256"]),
        "action_sha256": action_sha256,
        "comment": row["comment"],
        "at": row["at"],
        "output_kind": HUMAN_DECISION,
    }


def _report(row: dict[str, Any]) -> dict[str, Any]:
    details = parsed(row["details"])
    return {"outcome": details["outcome"], "detail": details["detail"], "by": row["actor"], "at": row["at"]}


def _shape(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: dict[str, Any] = {"type": "string"}
_ID: dict[str, Any] = {"type": "string", "format": "uuid"}
_SHA256: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_CALL = _shape(
    {
        "node": {**_TEXT, "description": "Which call of the request; for a step of a workflow its node."},
        "tool": {**_TEXT, "description": "name@version"},
        "contract_sha256": _SHA256,
        "business_key": _TEXT,
        "arguments_sha256": {**_SHA256, "description": "Of the RFC 8785 bytes that may be sent."},
        "arguments": {"description": "What may be sent; needs payload.read."},
        "edited": {"type": "boolean"},
        "operation_id": _or_null({**_ID, "description": "The one effect that used the grant."}),
        "used_at": _or_null(_TIME),
    },
    optional=("arguments",),
)
_SAID = _shape(
    {
        "decision": {"enum": list(DECISIONS)},
        "by": _TEXT,
        "in_place_of": _or_null(_TEXT),
        "proposal": _COUNT,
        "payload_sha256": {**_SHA256, "description": "As it was quoted: what the person was shown."},
        "action_sha256": _SHA256,
        "comment": _TEXT,
        "at": _TIME,
        "output_kind": {"const": HUMAN_DECISION},
    }
)
_PROPERTIES: dict[str, Any] = {
    "format": {"const": FORMAT},
    "id": _ID,
    "intent_id": {**_ID, "description": "The first proposal of the chain: an edit keeps it."},
    "proposal": _COUNT,
    "supersedes": _or_null(_ID),
    "superseded_by": _or_null(_ID),
    "edited_by": _or_null(_TEXT),
    "kind": {"enum": ["node", "call", "input", "subject"]},
    "subject": _shape({"kind": _TEXT, "id": _or_null(_TEXT)}),
    **dict.fromkeys(("run_id", "task_id", "step_id"), _or_null(_ID)),
    "node": _TEXT,
    "execution_version": _or_null(_COUNT),
    **dict.fromkeys(("workflow", "title", "requested_by"), _TEXT),
    "asked_at": {**_TIME, "description": "It is seen up to a minute later: the next export begins at `settled_until`."},
    "expires_at": _or_null({**_TIME, "description": "No decision is taken from then on."}),
    "state": {"enum": list(STATES)},
    "outcome_reason": _TEXT,
    "problem": _or_null(_TEXT),
    "risk": {"enum": list(RISKS)},
    "payload_sha256": {**_SHA256, "description": "Of the RFC 8785 bytes of `shown`."},
    "action": _shape(
        {
            "sha256": {
                **_SHA256,
                "description": "The action digest that a grant binds; deadline and routing are not in it.",
            },
            "calls": {"type": "array", "items": _CALL},
            "target": _or_null(_shape({"id": _TEXT, "version": _or_null(_TEXT)})),
        }
    ),
    "terms": _shape(
        {
            "role": _TEXT,
            "quorum": _COUNT,
            "separation": {"enum": list(SEPARATIONS)},
            "on_timeout": {"enum": list(ON_TIMEOUT)},
            "start_within_seconds": _or_null({"type": "number"}),
        }
    ),
    "decisions": {"type": "array", "items": _SAID},
    "decided_at": _or_null(_TIME),
    "decided_by": _or_null(_TEXT),
    "start_by": _or_null({**_TIME, "description": "The effect starts before then or not at all."}),
    "closed_at": _or_null(_TIME),
    "report": _or_null(_shape({"outcome": {"enum": list(REPORTS)}, "detail": _TEXT, "by": _TEXT, "at": _TIME})),
    "shown": {"description": "Exactly what a person was shown; needs payload.read."},
    "redacted": {"type": "boolean"},
}
RECORD_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "An approval request with its decisions",
    **_shape(_PROPERTIES, optional=("shown",)),
}


__all__ = ["FORMAT", "MOST", "RECORD_SCHEMA", "REPORTS", "export_requests"]
