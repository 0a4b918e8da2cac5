"""What the rows say now of what a case is about: run, steps, effect, and the line of epochs; read, never changed."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import F

from runtime.kernel.errors import NotFound
from runtime.models import Event, Run
from runtime.store.tx import Tx
from runtime.tools.registry import tool_of

CHAIN = ("seq", "type", "from_status", "to_status", "cause", "attempt", "owner_epoch", "actor", "occurred_at")
MOST_EVENTS = 50
# Of a case about a run: so many of its open steps, and of their attempts.
MOST_STEPS, MOST_ATTEMPTS = 200, 200


def add_subject(tx: Tx, case: dict[str, Any]) -> None:
    """Add what the rows say now of run, step and operation, and the line of epochs."""
    case["run"] = _run(case["run_id"]) if case["run_id"] else None
    case["step"], case["lease"], case["epochs"], case["stale"], case["chain"] = None, None, [], [], []
    case["concerned"] = []
    if case["subject_kind"] == "run":
        _add_steps(tx, case)
    elif case["step_id"]:
        steps = tx.dicts("case_step", (case["step_id"],))
        case["step"] = steps[0] if steps else None
        leases = tx.dicts("case_lease", (case["step_id"],))
        case["lease"] = leases[0] if leases else None
        case["epochs"] = tx.dicts("epoch_line", (case["run_id"], case["step_id"]))
        case["stale"] = _stale(case["run_id"], payload__step_id=str(case["step_id"]))
        newest = Event.objects.filter(run_id=case["run_id"], step_id=case["step_id"]).order_by("-seq")
        case["chain"] = list(newest.values(*CHAIN)[:MOST_EVENTS])[::-1]
    case["operation"] = None
    if case["operation_id"]:
        rows = tx.dicts("case_operation", (case["operation_id"],))
        case["operation"] = rows[0] if rows else None
    case["contract"] = _contract(tx, case["tool"])
    case["left"] = _left(case)


def _add_steps(tx: Tx, case: dict[str, Any]) -> None:
    """Add the steps that a case about a run concerns: those open now, and those that its claims name as fenced."""
    case["concerned"] = tx.dicts("case_steps", (case["run_id"], MOST_STEPS))
    fenced = [
        uuid.UUID(one["step_id"]) for entry in case["entries"] for one in (entry["data"].get("fenced") or {}).values()
    ]
    ids = list(dict.fromkeys([*fenced, *(one["id"] for one in case["concerned"])]))
    if ids:
        case["epochs"] = tx.dicts("epoch_line_of_steps", (case["run_id"], ids, MOST_ATTEMPTS))
        case["stale"] = _stale(case["run_id"], payload__step_id__in=[str(one) for one in ids])


def _stale(run_id: uuid.UUID, **of: Any) -> list[dict[str, Any]]:
    rows = Event.objects.filter(run_id=run_id, type="STALE_SUBMIT", **of).order_by("seq")
    return [dict(row) for row in rows.values("seq", "payload", "occurred_at")[:MOST_EVENTS]]


def _run(run_id: uuid.UUID) -> dict[str, Any] | None:
    """Return what is told of a case's run: where it stands, and under which versions it was bound."""
    columns = ("id", "status", "cancel_requested", "deadline", "version", "workflow_version_id")
    bound = {"bound_to": F("workflow_version__number"), "manifest_sha256": F("manifest__sha256")}
    row = Run.objects.filter(id=run_id).values(*columns, **bound).first()
    if row is None:
        return None
    number = row.pop("bound_to")
    return {**row, "workflow_version": number, "manifest_sha256": bytes(row["manifest_sha256"]).hex()}


def _left(case: dict[str, Any]) -> dict[str, Any]:
    """Return what of its time and tries is left; nothing meters money yet."""
    most = (case["contract"] or {}).get("retry", {}).get("max_attempts", 1)
    tried = case["step"]["attempt"] if case["step"] else None
    return {
        "deadline": case["run"]["deadline"] if case["run"] else None,
        "attempts": None if tried is None else max(0, int(most) - tried),
    }


def _contract(tx: Tx, tool: str) -> dict[str, Any] | None:
    if not tool:
        return None
    try:
        contract = tool_of(tx, tool).contract
    except NotFound:
        return None
    names = (
        "name",
        "version",
        "description",
        "side_effect",
        "recovery",
        "idempotency",
        "query",
        "lookup",
        "compensation",
        "owner",
        "success_evidence",
    )
    return {**{name: getattr(contract, name) for name in names}, "retry": contract.retry}
