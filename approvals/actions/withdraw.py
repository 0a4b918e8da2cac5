"""Taking a request of one's own back before anybody decided it: what was asked for is no longer wanted (C5.3)."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.actions.decide import record_refusal
from approvals.actions.own import lock_own, told
from approvals.asked import refuse_closed, refuse_other_version
from approvals.law import WITHDRAWN
from approvals.verbs import ASK
from approvals.writing import note, record_act
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, PermissionDenied

VERB = "approval.withdraw"
CANCELLED = "cancelled"


def withdraw_own(*, actor: Actor, request_id: uuid.UUID, version: int, reason: str = "") -> dict[str, Any]:
    """Cancel a pending request for an own action; nothing is granted by it any more, and its key stays used.

    ``version`` is the one that the asker was told. Who withdraws what is withdrawn is answered alike, ``replayed``.
    Only the identity that asked does so, or an admin in its place. Raises AlreadyClosed or TooLate (it was decided, or
    its time is over), OtherVersion, NotUsable for what a workflow asks for, PermissionDenied, NotFound. Verb
    ``approval.ask``.
    """
    authorize(actor, ASK)
    text = check_reason(reason)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            asked = lock_own(unit, actor, request_id, or_admin=True)
            if asked.state == CANCELLED and asked.version == version:
                return told(asked, replayed=True)
            refuse_closed(asked, unit.tx.now())
            refuse_other_version(asked, version)
            closing = {"to": CANCELLED, "from": "pending", "reason": WITHDRAWN}
            unit.tx.send("approval_close", {**closing, "ids": [asked.id]})
            asked.state = CANCELLED
            note(unit.tx, asked.id, "withdraw", actor.label, text)
            details = {"version": version, "action_hash": bytes(asked.action_sha256).hex()}
            record_act(unit.tx, actor, VERB, asked, result=CANCELLED, reason=text, details=details)
            return told(asked, replayed=False)

    try:
        answer: dict[str, Any] = insist(once)
        return answer
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, VERB, request_id, problem, {"version": version})
        raise
