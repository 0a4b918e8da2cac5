"""Reads of what belongs to one run and spans its steps: side effects, attempts, checkpoints, acts of people."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may, may_which
from runtime.kernel.actor import Actor
from runtime.models.effects import OPERATION_OPEN
from runtime.queries import failures, outputs
from runtime.queries.base import Page, content, cursor_of, hexed, parsed, position_of, reading
from runtime.queries.runs import kinds_in, present_event
from runtime.store.tx import tenant_tx

AUDIT_WINDOW = 20_000
OPERATION_BOUND = ARTIFACT_BOUND = 500


def database_now(*, actor: Actor) -> datetime:
    """Return ``qd_now()``: ages and countdowns on a page are told by the clock that decides. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        return tx.now()


def list_operations(*, actor: Actor, run_id: uuid.UUID, node: str | None = None) -> list[dict[str, Any]]:
    """Return the run's side effects in the order of their intents, without payloads. Verb ``operation.read``.

    At most OPERATION_BOUND, or all of one ``node`` up to it; of more those that are open before all others.
    ``consistency`` is what the tool's contract says about its answers: idempotency, recovery and its query tool.
    """
    wanted: dict[str, Any] = {"run": run_id, "node": node, "at": None, "id": None, "first": list(OPERATION_OPEN)}
    with reading(actor, v.OPERATION_READ) as tx:
        rows = tx.dicts("run_operations", {**wanted, "limit": OPERATION_BOUND})
    return [_present_operation(row, run_id) for row in sorted(rows, key=lambda row: (row["intended_at"], row["id"]))]


def page_operations(*, actor: Actor, run_id: uuid.UUID, cursor: str | None = None, limit: int = 50) -> Page:
    """Return a page of what :func:`list_operations` returns, however many there are. Verb ``operation.read``."""
    name = f"operations.{run_id}"
    at, last = position_of(name, actor, cursor) or (None, None)
    wanted: dict[str, Any] = {"run": run_id, "node": None, "at": at, "id": last, "first": [], "limit": limit + 1}
    with reading(actor, v.OPERATION_READ) as tx:
        rows = tx.dicts("run_operations", wanted)
    following = None
    if len(rows) > limit:
        rows = rows[:limit]
        following = cursor_of(name, actor, [rows[-1]["intended_at"].isoformat(), str(rows[-1]["id"])])
    return Page([_present_operation(row, run_id) for row in rows], following)


def _present_operation(row: dict[str, Any], run_id: uuid.UUID) -> dict[str, Any]:
    contract = content(row.pop("contract")) or {}
    row["consistency"] = {name: contract.get(name) for name in ("idempotency", "query", "compensation")}
    row["tool"] = f"{row['tool']}@{row.pop('tool_version')}"
    row["payload_sha256"], row["response_sha256"] = hexed(row["payload_sha256"]), hexed(row["response_sha256"])
    place = {"run_id": run_id, "step_id": row["step_id"], "status": row["status"]}
    row["error"] = failures.told(parsed(row["error"]), **place)
    row["output_kind"] = outputs.of_operation(row.pop("kind"), row["status"])
    return row


def list_attempts(*, actor: Actor, run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return every attempt of the run with its worker and that worker's lease, by start. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("run_attempts", (run_id,))
    for row in rows:
        error, outcome = parsed(row["error"]), row["outcome"]
        row["error"] = failures.told(error, run_id=run_id, step_id=row["step_id"], status=outcome or "")
        row["output_kind"] = outputs.of_attempt(row.pop("kind"), outcome)
    return rows


def list_node_events(*, actor: Actor, run_id: uuid.UUID, node: str) -> list[dict[str, Any]]:
    """Return the events of one node in order, after RUN_CREATED; at most 2,000. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        head = tx.dicts("read_run_seq", (run_id,))
        if not head:
            return []
        kind_of = kinds_in(tx, head[0]["workflow_version_id"])
        return [present_event(row, run_id, kind_of) for row in tx.dicts("node_events", {"run": run_id, "node": node})]


def list_checkpoints(*, actor: Actor, run_id: uuid.UUID) -> dict[tuple[str, int], dict[str, Any]]:
    """Return (node, execution version) → what was persisted for it, without the output. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("run_checkpoints", (run_id,))
    for row in rows:
        row["output_sha256"] = hexed(row["output_sha256"])
    return {(row["node"], row["execution_version"]): row for row in rows}


def list_artifacts(*, actor: Actor, run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return the large contents that a run's input and its steps' outputs refer to, in the order they came (A9.7).

    {id, node, execution_version (both None: the input), sha256, size (bytes), media_type, created_by, created_at,
    purged, output_kind}, at most ARTIFACT_BOUND; never the content. Verb ``artifact.read``.
    """
    with reading(actor, v.ARTIFACT_READ) as tx:
        rows = tx.dicts("run_artifacts", {"run": run_id, "limit": ARTIFACT_BOUND})
    return [
        {**row, "sha256": hexed(row["sha256"]), "output_kind": outputs.of_node(kind) if kind else None}
        for row in rows
        for kind in [row.pop("kind")]
    ]


def list_run_audit(*, actor: Actor, run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return the acts of people and services on the run, newest first. Verb ``audit.read``."""
    authorize(actor, v.AUDIT_READ)
    with reading(actor, v.AUDIT_READ) as tx:
        rows = tx.dicts("run_audit", {"run": run_id, "window": AUDIT_WINDOW})
    for row in rows:
        row["details"] = (content(row.pop("body")) or {}).get("details")
        row["sha256"], row["previous_sha256"] = hexed(row["sha256"]), hexed(row["previous_sha256"])
    return rows


def permitted(*, actor: Actor, run_id: uuid.UUID, verbs: Iterable[str]) -> frozenset[str]:
    """Return which of ``verbs`` the actor may do on this run; object permissions on its workflow count too.

    For showing or hiding a button, never for a change: the action asks again.
    """
    wanted = frozenset(verbs)
    allowed = frozenset(verb for verb in wanted if may(actor, verb))
    if allowed == wanted or actor.user_id is None:
        return allowed
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("workflow_of_run", (run_id,))
    return allowed if row is None else may_which(actor, wanted, row[0])
