"""One decision on several requests: only of one shape, each bound to what was shown of it, each answered by itself."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.actions.decide import DECISIONS, decide_request
from approvals.models import Request
from approvals.verbs import DECIDE, READ
from runtime.access.authorize import authorize
from runtime.actions.base import check_reason
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, QuarterdeckError
from runtime.queries.base import reading

MOST = 100
RISKY = 2  # from medium risk on, the number is typed


def decide_many(
    *, actor: Actor, decision: str, items: list[dict[str, Any]], comment: str = "", confirm: str = ""
) -> dict[str, Any]:
    """Decide every request of ``items`` ({id, version, payload_hash}) as it was shown, one after the other.

    All are of one shape: kind, node, title and tools. From medium risk on ``confirm`` has to be "approve N" (or
    "reject N"). Returns {decision, decided, refused, items: [{id, ok, state | code, detail}]}: a refused one changes
    nothing and stops no other. Raises BadInput before anything is decided, NotFound. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    authorize(actor, READ)
    text = check_reason(comment, required=decision == "reject")
    if decision not in DECISIONS:
        raise BadInput("There is no such decision.", where="/decision", remediation="Decide `approve` or `reject`.")
    ids = [_id(item, i) for i, item in enumerate(items)]
    if not ids or len(ids) > MOST or len(set(ids)) != len(ids):
        mend = "Name each request once."
        raise BadInput(f"From 1 to {MOST} requests are decided at once.", where="/items", remediation=mend)
    _check(actor, ids, decision, confirm)
    answers = [_one(actor, item, request_id, decision, text) for item, request_id in zip(items, ids, strict=True)]
    decided = sum(one["ok"] for one in answers)
    return {"decision": decision, "decided": decided, "refused": len(answers) - decided, "items": answers}


def wanted_word(decision: str, number: int) -> str:
    """Return what is typed to decide risky requests in bulk."""
    return f"{decision} {number}"


def _check(actor: Actor, ids: list[uuid.UUID], decision: str, confirm: str) -> None:
    with reading(actor, READ):
        rows = list(
            Request.objects.filter(id__in=ids)
            .prefetch_related("actions")
            .only("id", "kind", "node", "title", "risk", "subject_kind")
        )
        shapes = {
            (one.kind, one.node, one.title, one.subject_kind, *sorted(a.tool for a in one.actions.all()))
            for one in rows
        }
        risk = max((one.risk for one in rows), default=0)
    if len(rows) != len(ids):
        raise NotFound("Not every one of these approvals is in this tenant.")
    if len(shapes) > 1:
        raise BadInput(
            "These requests are of different shapes: decide each kind by itself.",
            where="/items",
            remediation="Choose requests of one step with the same tools.",
        )
    if risk >= RISKY and confirm.strip() != (word := wanted_word(decision, len(ids))):
        raise BadInput(f"These are risky: type {word!r}.", where="/confirm", remediation="Type it to confirm.")


def _one(actor: Actor, item: dict[str, Any], request_id: uuid.UUID, decision: str, comment: str) -> dict[str, Any]:
    try:
        answer = decide_request(
            actor=actor,
            request_id=request_id,
            decision=decision,
            version=item["version"],
            payload_hash=item["payload_hash"],
            comment=comment,
        )
    except QuarterdeckError as problem:
        return {"id": str(request_id), "ok": False, **problem.as_refusal()}
    return {"id": str(request_id), "ok": True, "state": answer["state"], "replayed": answer["replayed"]}


def _id(item: dict[str, Any], index: int) -> uuid.UUID:
    try:
        return uuid.UUID(str(item["id"]))
    except (ValueError, KeyError):
        raise BadInput("It is no id.", where=f"/items/{index}/id", remediation="Copy it from the list.") from None
