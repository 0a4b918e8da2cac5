"""Setting how much one person reviews, and what becomes of a request that its holder may not decide now (C7.1)."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.asked import lock_request
from approvals.writing import assign, note, tell
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.kernel.ids import uuid7
from runtime.store.tx import tenant_tx

MOST = 10_000


def set_review_limits(*, actor: Actor, most_held: int | None, most_decided: int | None) -> dict[str, Any]:
    """Bound what one person holds at once (``most_held``) and decides within an hour (``most_decided``); None: nothing.

    It holds from the next act on; what somebody holds already stays theirs. Returns {most_held, most_decided, set_by,
    set_at}. Raises BadInput, PermissionDenied. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    for name, value in (("most_held", most_held), ("most_decided", most_decided)):
        if value is not None and not 1 <= value <= MOST:
            mend = "Leave it out for no limit."
            raise BadInput(f"A review limit is from 1 to {MOST}.", where=f"/{name}", remediation=mend)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("review_limits_put", (uuid7(), tx.tenant_id, most_held, most_decided, actor.label))
        assert row is not None
        audit.record(
            tx,
            actor=actor,
            verb=v.LIMIT_SET,
            subject_kind="review_limit",
            subject_id=tx.tenant_id,
            result="set",
            details={"most_held": most_held, "most_decided": most_decided},
        )
    return dict(zip(("most_held", "most_decided", "set_by", "set_at"), row, strict=True))


def pass_on(*, actor: Actor, request_id: uuid.UUID) -> bool:
    """Give a request that the actor holds and may not decide now to everybody of its role; return whether it was."""

    def once() -> bool:
        with frame(actor) as unit:
            asked = lock_request(unit, request_id)
            if asked.state != "pending" or actor.user_id is None or asked.assignee_id != actor.user_id:
                return False
            assign(unit.tx, asked, None, None)
            note(unit.tx, asked.id, "release", "engine", "review limit", {"from": actor.label})
            tell(unit.tx, asked.id, unit.tx.now())
            return True

    return insist(once)
