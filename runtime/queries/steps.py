"""Reads of steps and of a run's graph with their status."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries import failures, outputs
from runtime.queries.base import MAX_LIMIT, Page, content, cursor_of, found, hexed, parsed, position_of, reading
from runtime.queries.in_hand import steps_in_hand
from runtime.store.tx import Tx

# The newest attempts that are read with their step; a step that waits for somebody looks again and again.
ATTEMPTS_SHOWN = 100
_ANY_NUMBER = 2**31 - 1
_SHOWN = [
    "id",
    "run_id",
    "node",
    "kind",
    "execution_version",
    "superseded",
    "status",
    "cause",
    "version",
    "owner_epoch",
    "attempt",
    "priority",
    "pool",
    "prefer_until",
    "not_before",
    "hold_requested",
    "forced",
    "created_at",
    "queued_at",
    "started_at",
    "finished_at",
]


def present_step(row: dict[str, Any]) -> dict[str, Any]:
    """Return a step row as plain values: its status, times and error, no input or output but of which kind it is.

    With ``now`` in the row the error says in how many seconds it is tried again by itself.
    """
    step = {name: row[name] for name in _SHOWN}
    step["choice"], error = parsed(row["choice"]), parsed(row["error"])
    step["error"] = failures.of_step(row, error, row.get("now"))
    step["output_kind"] = outputs.of_step(row["kind"], row["status"], row["cause"], error)
    return step


def list_steps(
    *,
    actor: Actor,
    run_id: uuid.UUID,
    all_versions: bool = False,
    cursor: str | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return the run's steps {last_included_seq, items, next}, oldest first, with a keyset cursor.

    Without a limit all current steps are one answer: a run has no more than its nodes. With ``all_versions`` the
    superseded ones are there too, any number of them, and a page has MAX_LIMIT. Raises NotFound. Verb ``run.read``.
    """
    name = f"steps.{run_id}"
    at, last = position_of(name, actor, cursor) or (None, None)
    limit = MAX_LIMIT if limit is None and all_versions else limit
    wanted = {"run": run_id, "all": all_versions, "at": at and datetime.fromisoformat(at), "last": last}
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_steps_page", {**wanted, "limit": None if limit is None else limit + 1})
        found(rows[0] if rows else None, "run")
    following = None
    if limit is not None and len(rows) > limit:
        rows = rows[:limit]
        following = cursor_of(name, actor, [rows[-1]["created_at"].isoformat(), str(rows[-1]["id"])])
    items = [present_step(row) for row in rows if row["id"] is not None]
    return {"last_included_seq": rows[0]["run_seq"], "items": items, "next": following}


def read_step(*, actor: Actor, step_id: uuid.UUID) -> dict[str, Any]:
    """Return a step with attempts, checkpoint, operations and execution versions. Verb ``run.read``.

    ``attempts`` are the newest ATTEMPTS_SHOWN in their order; ``attempts_more`` says whether there are older ones.
    ``checkpoint.output`` is there only with ``payload.read`` (A9.8); its hash always. ``waits_for`` of a parked step is
    {kind, name, number, until}: the limit, breaker, run or state. ``forced_by`` of a step marked by hand is {actor,
    asked_by (where a second person agreed), reason, evidence, from_status, at}. ``heartbeat`` of a running step is what
    its worker's last beat told of it, None before the first (:mod:`runtime.queries.in_hand`). Raises NotFound.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_step", (step_id,))
        row = found(rows[0] if rows else None, "step")
        step = present_step(row)
        step["run_status"], step["run_version"], step["task_id"] = row["run_status"], row["run_version"], row["task_id"]
        waits = tx.dicts("waits_for", (step_id,)) if row["status"] == "queued" else []
        step["waits_for"] = waits[0] if waits else None
        beats = steps_in_hand(tx, step_id) if row["status"] == "running" else []
        step["heartbeat"] = beats[0] if beats else None
        attempts = _attempts(tx, row, _ANY_NUMBER, ATTEMPTS_SHOWN + 1)
        step["attempts"] = attempts[ATTEMPTS_SHOWN - 1 :: -1]
        step["attempts_more"] = len(attempts) > ATTEMPTS_SHOWN
        step["operations"] = tx.dicts("read_step_operations", (row["run_id"], step_id))
        step["execution_versions"] = tx.dicts("read_step_versions", (row["run_id"], row["node"]))
        forced = tx.dicts("step_forced", (row["run_id"], step_id)) if row["forced"] else []
        step["forced_by"] = forced[0] if forced else None
        step["checkpoint"] = _checkpoint(tx, row, open_payload=may(actor, v.PAYLOAD_READ))
        return step


def list_attempts(*, actor: Actor, step_id: uuid.UUID, cursor: str | None = None, limit: int = 50) -> Page:
    """Return the attempts of a step, newest first, with keyset cursors. Raises NotFound. Verb ``run.read``."""
    name = f"attempts.{step_id}"
    (below,) = position_of(name, actor, cursor) or (_ANY_NUMBER,)
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_step", (step_id,))
        items = _attempts(tx, found(rows[0] if rows else None, "step"), below, limit + 1)
    more = len(items) > limit
    items = items[:limit]
    return Page(items, cursor_of(name, actor, [items[-1]["number"]]) if more else None)


def _attempts(tx: Tx, step: dict[str, Any], below: int, limit: int) -> list[dict[str, Any]]:
    """Return attempts with a number below ``below``, newest first."""
    wanted = {"run": step["run_id"], "step": step["id"], "below": below, "limit": limit}
    return [_attempt(one, step) for one in tx.dicts("read_attempts", wanted)]


def _attempt(row: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    row["error"] = failures.told(
        parsed(row["error"]), run_id=step["run_id"], step_id=step["id"], status=row["outcome"] or ""
    )
    row["resources"], row["output_kind"] = parsed(row["resources"]), outputs.of_attempt(step["kind"], row["outcome"])
    row["input_sha256"], row["output_sha256"] = hexed(row["input_sha256"]), hexed(row["output_sha256"])
    return row


def _checkpoint(tx: Tx, step: dict[str, Any], *, open_payload: bool) -> dict[str, Any] | None:
    rows = tx.dicts("read_checkpoint", (step["run_id"], step["node"], step["execution_version"]))
    if not rows:
        return None
    row = rows[0]
    row["input_sha256"], row["output_sha256"] = hexed(row["input_sha256"]), hexed(row["output_sha256"])
    output = row.pop("output")
    row["redacted"], row["output_kind"] = not open_payload, outputs.of_node(step["kind"])
    if open_payload:
        row["output"] = content(output)
    return row
