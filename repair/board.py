"""The compensation board: per run every effect, what became of it, on what evidence, and whose it is (C4.5, B9.2)."""

from __future__ import annotations

import uuid
from typing import Any

from repair.queries import cases_of_run
from runtime.kernel.actor import Actor
from runtime.queries.run_parts import OPERATION_BOUND, list_operations
from runtime.queries.runs import read_run

# What became of an effect, the harmless first.
STANDS = (
    "done", "irreversible", "compensating", "compensated", "failed", "unknown", "absent", "written_off", "undoing",
)  # fmt: skip
EVIDENCE = (
    "external_ref", "response_sha256", "sends", "sent_at", "settled_at", "observed_at", "queried_at", "finding",
    "next_query_at",
)  # fmt: skip
_DOUBTS = ("unknown", "failed")
_UNDOES = "undo:"


def effects_of_run(*, actor: Actor, run_id: uuid.UUID) -> dict[str, Any]:
    """Return {items, more}: every effect of a run as the page's board shows it, doubts first.

    An item: {operation_id, business_key, node, tool, status, stands, evidence, owner, case_id, case_state, undone_by}.
    ``stands`` is one of STANDS; ``evidence`` has the columns of EVIDENCE; ``undone_by`` is {operation_id, business_key,
    tool, status, external_ref} of the newest operation that undoes it. ``more``: the run has more effects than are
    read. Raises NotFound. Verbs ``run.read``, ``operation.read`` and ``repair.read``.
    """
    read_run(actor=actor, run_id=run_id)
    operations = list_operations(actor=actor, run_id=run_id)
    rows = board(operations, cases_of_run(actor=actor, run_id=run_id))
    return {"items": [_item(row) for row in rows], "more": len(operations) >= OPERATION_BOUND}


def _item(row: dict[str, Any]) -> dict[str, Any]:
    operation, case, undone = row["operation"], row["case"], row["undone_by"]
    return {
        "operation_id": operation["id"],
        **{name: operation[name] for name in ("business_key", "node", "tool", "status")},
        "stands": row["kind"],
        "evidence": {name: operation[name] for name in EVIDENCE},
        "owner": row["owner"],
        "case_id": case["id"] if case else None,
        "case_state": case["state"] if case else None,
        "undone_by": undone
        and {
            "operation_id": undone["id"],
            **{name: undone[name] for name in ("business_key", "tool", "status", "external_ref")},
        },
    }


def board(operations: list[dict[str, Any]], cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every effect of a run with what became of it: {operation, kind, owner, case, undone_by}; doubts first.

    ``undone_by`` is the newest operation that undoes it, None where none was sent. Pure.
    """
    undone: dict[str, dict[str, Any]] = {}
    for one in operations:
        if _undoes(one):
            undone[_undone_key(one["business_key"], operations)] = one
    about: dict[Any, dict[str, Any]] = {}
    for one in sorted(cases, key=lambda case: case["state"] == "resolved"):
        about.setdefault(one["operation_id"], one)
    rows = []
    for one in operations:
        case = about.get(one["id"])
        rows.append(
            {
                "operation": one,
                "kind": stands(one),
                "case": case,
                "owner": case["owner"] or case["resolved_by"] if case else None,
                "undone_by": undone.get(one.get("business_key", "")),
            }
        )
    order = STANDS[::-1]
    return sorted(rows, key=lambda row: (row["kind"] not in _DOUBTS, order.index(row["kind"])))


def stands(operation: dict[str, Any]) -> str:
    """Return what became of an effect: one of STANDS."""
    status = operation["status"]
    if status == "succeeded" and _undoes(operation):
        return "undoing"
    if status in ("succeeded", "partially_applied"):
        return "done" if operation["consistency"]["compensation"] else "irreversible"
    if status in ("compensating", "compensated", "written_off"):
        return str(status)
    if status == "compensation_failed":
        return "failed"
    return "absent" if status in ("absent", "refused", "void", "intended") else "unknown"


def _undoes(operation: dict[str, Any]) -> bool:
    """Whether the operation was sent by a step that undoes an effect: no node of a workflow has such a name."""
    return str(operation.get("node") or "").startswith(("undo:", "undo@"))


def _undone_key(key: str, operations: list[dict[str, Any]]) -> str:
    """Return the key of the effect that an undoing's key is made from; a further try has a number behind it."""
    rest = key.removeprefix(_UNDOES)
    known = {one.get("business_key") for one in operations}
    return rest if rest in known else rest.rpartition(":")[0]
