"""Taking a grant back before it is used: nothing that it permitted and that was not sent starts any more (C5.6)."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.actions.decide import record_refusal
from approvals.actions.handling import refuse_changed, standing
from approvals.asked import Asked, lock_request
from approvals.errors import NotUsable
from approvals.people import may_decide, role_of
from approvals.verbs import DECIDE
from approvals.writing import note, record_act
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, PermissionDenied


def revoke_grant(
    *, actor: Actor, request_id: uuid.UUID, reason: str, expected_revision: int | None = None
) -> dict[str, Any]:
    """Take back what was approved and not used up. Calls that were sent already stay sent; the rest asks anew.

    Raises NotUsable when it is not approved or was used, PermissionDenied, NotFound. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            asked = lock_request(unit, request_id)
            if not may_decide(unit.tx, actor, asked.role, role_of(actor)):
                raise PermissionDenied(f"{actor.label} may not decide this request.", verb=DECIDE)
            _refuse_unusable(asked)
            refuse_changed(asked, expected_revision)
            closing = {"to": "revoked", "from": "approved", "reason": f"taken back by {actor.label}"[:200]}
            unit.tx.send("approval_close", {**closing, "ids": [asked.id]})
            asked.state = "revoked"
            note(unit.tx, asked.id, "revoke", actor.label, text)
            record_act(unit.tx, actor, "approval.revoke", asked, reason=text)
            return standing(asked)

    try:
        return insist(once)
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, "approval.revoke", request_id, problem, {})
        raise


def _refuse_unusable(asked: Asked) -> None:
    if asked.state != "approved" or asked.n_actions == 0:
        why = "it permits no call" if asked.state == "approved" else f"it is {asked.state}"
        raise NotUsable(f"There is no grant to take back: {why}.", **asked.there())
