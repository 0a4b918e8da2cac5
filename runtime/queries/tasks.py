"""Reads of tasks, their outcomes, and the search over ids, names and keys."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.kernel.ids import parse_uuid
from runtime.models import Task
from runtime.queries.base import Page, content, cursor_of, found, hexed, page, parsed, position_of, reading
from runtime.store.tx import Tx

SEARCH_WINDOW = 20_000
SEARCH_LIMIT = 50
# The newest pieces of evidence that are read with the outcome.
EVIDENCE_SHOWN = 100


def list_tasks(
    *,
    actor: Actor,
    workflow: str | None = None,
    request_key: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
) -> Page:
    """Return tasks, newest first, without their inputs. Verb ``task.read``."""
    with reading(actor, v.TASK_READ):
        rows = Task.objects.values(
            "id",
            "name",
            "workflow_name",
            "workflow_version__number",
            "request_key",
            "priority",
            "pool",
            "scheduled_at",
            "deadline",
            "created_by",
            "created_at",
        )
        if workflow is not None:
            rows = rows.filter(workflow_name=workflow)
        if request_key is not None:
            rows = rows.filter(request_key=request_key)
        return page(rows, name="tasks", actor=actor, cursor=cursor, limit=limit, count=count, present=_present_listed)


def _present_listed(row: dict[str, Any]) -> dict[str, Any]:
    row["workflow"] = row.pop("workflow_name")
    row["workflow_version"] = row.pop("workflow_version__number")
    return row


def read_task(*, actor: Actor, task_id: uuid.UUID) -> dict[str, Any]:
    """Return a task with its runs, newest first. ``input`` and ``state`` need ``payload.read`` (A9.8).

    ``state`` is the business State as the last completed run of a workflow with a ``state`` left it, else empty.

    Raises NotFound. Verb ``task.read``.
    """
    with reading(actor, v.TASK_READ) as tx:
        rows = tx.dicts("read_task", (task_id,))
        row = found(rows[0] if rows else None, "task")
        runs = tx.dicts("read_task_runs", (task_id,))
    shown = may(actor, v.PAYLOAD_READ)
    task = {
        "id": row["id"],
        "workflow": row["workflow_name"],
        "payload_sha256": hexed(row["payload_sha256"]),
        **{name: row[name] for name in _PLAIN},
        **{name: parsed(row[name]) for name in ("scope", "success", "retry", "budget")},
        "redacted": not shown,
        "runs": [
            {**{k: x for k, x in run.items() if k != "rerun_of_id"}, "rerun_of": run["rerun_of_id"]} for run in runs
        ],
    }
    if shown:
        task["input"], task["state"] = content(row["input"]), parsed(row["state"])
    return task


_PLAIN = [
    "workflow_version",
    "name",
    "goal",
    "request_key",
    "priority",
    "pool",
    "agent",
    "session",
    "timeout_seconds",
    "scheduled_at",
    "data_time",
    "deadline",
    "created_by",
    "created_at",
    "started_at",
]


def read_outcome(*, actor: Actor, task_id: uuid.UUID) -> dict[str, Any]:
    """Return {outcome, history, evidence, evidence_more} of a task: the newest verdict or None, the newest 200 of them.

    ``evidence`` is what they can cite, the newest EVIDENCE_SHOWN pieces in their order; ``evidence_more`` says whether
    there are older ones. Their content needs ``payload.read``. Raises NotFound. Verb ``task.read``.
    """
    with reading(actor, v.TASK_READ) as tx:
        rows = tx.dicts("read_task", (task_id,))
        found(rows[0] if rows else None, "task")
        outcomes = tx.dicts("read_outcomes", (task_id,))
        evidence = _evidence(tx, actor, task_id, None, EVIDENCE_SHOWN + 1)
    for row in outcomes:
        row["verifier"] = f"{row['verifier']}@{row.pop('verifier_version')}"
    return {
        "outcome": outcomes[0] if outcomes else None,
        "history": outcomes,
        "evidence": evidence[EVIDENCE_SHOWN - 1 :: -1],
        "evidence_more": len(evidence) > EVIDENCE_SHOWN,
    }


def list_evidence(*, actor: Actor, task_id: uuid.UUID, cursor: str | None = None, limit: int = 50) -> Page:
    """Return the evidence of a task, newest first, with keyset cursors; its content needs ``payload.read`` (A9.8).

    Raises NotFound. Verb ``task.read``.
    """
    name = f"evidence.{task_id}"
    (below,) = position_of(name, actor, cursor) or (None,)
    with reading(actor, v.TASK_READ) as tx:
        rows = tx.dicts("read_task", (task_id,))
        found(rows[0] if rows else None, "task")
        items = _evidence(tx, actor, task_id, below, limit + 1)
    more = len(items) > limit
    items = items[:limit]
    return Page(items, cursor_of(name, actor, [str(items[-1]["id"])]) if more else None)


def _evidence(tx: Tx, actor: Actor, task_id: uuid.UUID, below: str | None, limit: int) -> list[dict[str, Any]]:
    """Return evidence with an id below ``below``, newest first."""
    rows = tx.dicts("read_evidence", {"task": task_id, "below": below, "limit": limit})
    shown = may(actor, v.PAYLOAD_READ)
    for row in rows:
        body = row.pop("content")
        row["content_sha256"], row["redacted"] = hexed(row["content_sha256"]), not shown
        if shown:
            row["content"] = content(body)
    return rows


def search(*, actor: Actor, text: str) -> list[dict[str, Any]]:
    """Return what ``text`` may mean: {kind, id, run_id, task_id, label}, at most SEARCH_LIMIT. Verb ``task.read``.

    An id finds its object; a business key (or a part of one, such as an order number) its operations; a request key
    or a part of a name its tasks; a part of a name its workflows. Parts are looked for among the newest rows.
    """
    text = text.strip()
    if not 2 <= len(text) <= 200 or "\x00" in text:
        raise BadInput("A search has 2 to 200 characters.", where="query q", remediation="Send another text.")
    with reading(actor, v.TASK_READ) as tx:
        if (wanted := parse_uuid(text)) is not None:
            return tx.dicts("search_ids", {"id": wanted})
        params = {"text": text, "window": SEARCH_WINDOW, "limit": SEARCH_LIMIT}
        hits = tx.dicts("search_business_keys", params) if may(actor, v.OPERATION_READ) else []
        hits += tx.dicts("search_tasks", params)
        if may(actor, v.WORKFLOW_READ):
            hits += tx.dicts("search_workflows", params)
    return hits[:SEARCH_LIMIT]
