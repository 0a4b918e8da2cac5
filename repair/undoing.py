"""Whether the desk can order that an effect is undone, and what became of what a case ordered (C4.5, C8.4).

An order is accepted (the proposal), applied (a step of the run works on it) and verified (the ledger says that it is
undone) at three different times; the case is resolved by the second, and the third is read from the ledger.
"""

from __future__ import annotations

import uuid
from typing import Any

from repair.law import COMPENSATE, RESOLVED, RESUME_STEP
from repair.models import Case, Entry, Proposal
from runtime.graph.plan import Plan
from runtime.graph.undo import RESERVED
from runtime.kernel.seams import OrderWords
from runtime.models import Operation
from runtime.store.tx import Tx

NOTHING_UNDOES = "The tool's contract names nothing that undoes it."
_UNDOES = "What undid an effect is not undone itself."
_BY_HAND = "Its workflow names a person who undoes it."
PENDING, VERIFIED, FAILED, UNVERIFIED = "pending", "verified", "failed", "unverified"


def why_not_undone(plan: Plan | None, node: str, by_contract: str | None) -> str | None:
    """Return why the desk cannot order that what ``node`` did is undone, one sentence; None when it can."""
    if RESERVED.match(node):
        return _UNDOES
    declared = plan.nodes[node].undo if plan is not None and node in plan.nodes else None
    if declared is not None and declared.person is not None:
        return _BY_HAND
    return None if by_contract else NOTHING_UNDOES


def verification(tx: Tx, case: dict[str, Any]) -> dict[str, Any] | None:
    """Return how far a resolved case is verified: {state, by, at, order, later}; None for one that is not resolved.

    ``state`` is pending, verified, failed, or unverified where nobody's word stands for it. ``order`` is the step that
    carries it on, where one does: {step_id, run_id, node, status}, for an undoing also {tool, business_key, deadline}.
    ``later`` is the id of the case that a failed undoing opened.
    """
    if case["state"] != RESOLVED:
        return None
    if case["resolution"] == COMPENSATE:
        return _of_undoing(tx, case) if case["operation_id"] else _of_all(case)
    if (replayed := _said(case, "replayed_ids")) is not None:
        return _of_messages(tx, replayed, _said(case, "messages"))
    if case["resolution"] == RESUME_STEP and (resumed := _resumed(case)) is not None:
        return _of_resumed(tx, resumed)
    by = case["verified_by"]
    return _stands(VERIFIED if by else UNVERIFIED, by, case["resolved_at"] if by else None)


def _stands(state: str, by: str | None = None, at: Any = None, **more: Any) -> dict[str, Any]:
    return {"state": state, "by": by, "at": at, "order": None, "later": None, **more}


def _of_undoing(tx: Tx, case: dict[str, Any]) -> dict[str, Any]:
    operation = case["operation"]
    orders = tx.dicts("orders_of_operation", {"operation": case["operation_id"], "until": case["resolved_at"]})
    order = orders[0] if orders else None
    later = Case.objects.filter(operation_id=case["operation_id"], id__gt=case["id"]).order_by("id").first()
    if later is not None or operation["status"] == "compensation_failed":
        return _stands(FAILED, order=order, later=str(later.id) if later is not None else None)
    if operation["status"] == "compensated":
        return _stands(VERIFIED, "ledger", operation["settled_at"], order=order)
    return _stands(PENDING, order=order)


def _of_all(case: dict[str, Any]) -> dict[str, Any]:
    """What was ordered for several effects of a run is verified when the ledger says of each that it is undone."""
    ids = _said(case, "undone") or []
    rows = list(Operation.objects.filter(id__in=ids).order_by("settled_at").values_list("status", "settled_at"))
    if any(status == "compensation_failed" for status, _at in rows):
        later = Case.objects.filter(operation_id__in=ids, id__gt=case["id"]).order_by("id").first()
        return _stands(FAILED, later=str(later.id) if later is not None else None)
    if rows and all(status == "compensated" for status, _at in rows):
        return _stands(VERIFIED, "ledger", rows[-1][1])
    return _stands(PENDING)


def _of_messages(tx: Tx, ids: list[str], sent_again: int) -> dict[str, Any]:
    """What was sent again is verified by the messages: that each went, or that one is back in quarantine.

    Of more than are followed, and of what was forgotten since, nobody can say it.
    """
    total, went, back, at = tx.rows("replayed_messages", ([uuid.UUID(one) for one in ids],))[0]
    if back:
        return _stands(FAILED)
    return _stands(VERIFIED, "quarantine", at) if went == total == sent_again else _stands(PENDING)


def _said(case: dict[str, Any], name: str) -> Any:
    """Return what the entry of the case's resolution says under a name."""
    said = [entry["data"] for entry in case["entries"] if entry["type"] == "resolved"]
    return said[-1].get(name) if said else None


def _resumed(case: dict[str, Any]) -> dict[str, Any] | None:
    resumed: dict[str, Any] | None = _said(case, "resumed")
    return resumed


def _of_resumed(tx: Tx, resumed: dict[str, Any]) -> dict[str, Any]:
    """What was resumed is verified when it succeeded, and by that alone."""
    rows = tx.dicts("case_step", (resumed["step_id"],))
    if not rows:
        return _stands(PENDING)
    step = rows[0]
    order = {"step_id": step["id"], "run_id": resumed["run_id"], "node": step["node"], "status": step["status"]}
    if step["status"] == "succeeded":
        return _stands(VERIFIED, "ledger", step["finished_at"], order=order)
    return _stands(FAILED if step["status"] in ("failed", "killed", "skipped") else PENDING, order=order)


def order_words(tx: Tx, run_id: uuid.UUID, step_id: uuid.UUID) -> OrderWords | None:
    """Return who proposed and who reviewed the repair by which a step undoes an effect; None for any other order."""
    rows = Entry.objects.filter(case__run_id=run_id, case__resolution=COMPENSATE, type="resolved").order_by("-id")
    for data in rows.values_list("data", flat=True):
        steps = [*data.get("undo_steps", ()), (data.get("undoing") or {}).get("step_id")]
        if str(step_id) in steps:
            said = Proposal.objects.filter(id=data["repair_id"], decision="approve").first()
            if said is None or said.reviewed_user_id is None or said.reviewed_at is None:
                return None
            return OrderWords(said.proposed_user_id, (said.reviewed_user_id,), said.reviewed_at)
    return None
