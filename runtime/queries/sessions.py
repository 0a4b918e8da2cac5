"""Reads of sessions: their owner's, and those of others for whoever may use them (A1.2)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.base import Page, cursor_of, found, parsed, position_of, reading
from runtime.store.tx import Tx

# The newest tasks that are read with their session.
TASKS_SHOWN = 50


def list_sessions(*, actor: Actor, key: str | None = None, cursor: str | None = None, limit: int = 50) -> Page:
    """Return one's own sessions, newest first, without their contexts; with ``session.use`` everybody's.

    Verb ``task.read``.
    """
    (below,) = position_of("sessions", actor, cursor) or (None,)
    owner = None if may(actor, v.SESSION_USE) else actor.label
    with reading(actor, v.TASK_READ) as tx:
        items = tx.dicts("read_sessions", {"owner": owner, "key": key, "below": below, "limit": limit + 1})
    return _cut("sessions", actor, items, limit)


def read_session(*, actor: Actor, session_id: uuid.UUID) -> dict[str, Any]:
    """Return {id, key, created_by, created_at, redacted, context, tasks, tasks_more}: the newest TASKS_SHOWN tasks.

    Another's session needs ``session.use``, and its context ``payload.read`` too. Raises NotFound. Verb ``task.read``.
    """
    with reading(actor, v.TASK_READ) as tx:
        row = _session(tx, actor, session_id)
        tasks = tx.dicts("read_session_tasks", {"id": session_id, "below": None, "limit": TASKS_SHOWN + 1})
    context = parsed(row.pop("context"))
    row["redacted"] = row["created_by"] != actor.label and not may(actor, v.PAYLOAD_READ)
    if not row["redacted"]:
        row["context"] = context
    return {**row, "tasks": tasks[:TASKS_SHOWN], "tasks_more": len(tasks) > TASKS_SHOWN}


def list_session_tasks(*, actor: Actor, session_id: uuid.UUID, cursor: str | None = None, limit: int = 50) -> Page:
    """Return the tasks of a session, newest first, each with its newest run. Raises NotFound. Verb ``task.read``."""
    name = f"sessions.{session_id}"
    (below,) = position_of(name, actor, cursor) or (None,)
    with reading(actor, v.TASK_READ) as tx:
        _session(tx, actor, session_id)
        items = tx.dicts("read_session_tasks", {"id": session_id, "below": below, "limit": limit + 1})
    return _cut(name, actor, items, limit)


def _session(tx: Tx, actor: Actor, session_id: uuid.UUID) -> dict[str, Any]:
    rows = tx.dicts("read_session", (session_id,))
    visible = bool(rows) and (rows[0]["created_by"] == actor.label or may(actor, v.SESSION_USE))
    row: dict[str, Any] = found(rows[0] if visible else None, "session")
    return row


def _cut(name: str, actor: Actor, items: list[dict[str, Any]], limit: int) -> Page:
    more = len(items) > limit
    items = items[:limit]
    return Page(items, cursor_of(name, actor, [str(items[-1]["id"])]) if more else None)
