"""What was decided before about the same tool and target, and what the reader did there themselves (B6.4, C5.3)."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.verbs import READ
from runtime.kernel.actor import Actor
from runtime.queries.base import found, reading

MOST_ALIKE = 50
MOST_OWN = 20


def past_of(*, actor: Actor, request_id: uuid.UUID) -> dict[str, Any]:
    """Return {alike, own}: closed requests like this one, and the actor's acts on it and on them, newest first.

    ``alike``, at most MOST_ALIKE among the tenant's 2,000 closed last: they permit a call of a tool of the same
    name, on the same target where this one names a target: {id, title, state, target, requested_by, run_id,
    decided_at, decided_by, closed_at}. ``own``, at most MOST_OWN: {request_id, title, version, kind, text, at};
    ``kind`` is approve, reject or that of a note; acts on other proposals of this request are among them. Raises
    NotFound. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        chain = [row[0] for row in tx.rows("approval_chain", {"id": request_id})]
        row = found(tx.dicts("approval_read", (request_id,))[0] if chain else None, "approval")
        tools = sorted({one["tool"].partition("@")[0] for one in tx.dicts("approval_actions", (request_id,))})
        words = {"tenant": tx.tenant_id, "chain": chain, "target": row["target"], "tools": tools, "most": MOST_ALIKE}
        alike = tx.dicts("approval_past", words) if tools else []
        ids = [*chain, *(one["id"] for one in alike)]
        mine = {"tenant": tx.tenant_id, "user": actor.user_id, "label": actor.label, "ids": ids, "most": MOST_OWN}
        own = tx.dicts("approval_past_own", mine) if actor.user_id is not None else []
    return {"alike": alike, "own": own}


__all__ = ["MOST_ALIKE", "MOST_OWN", "past_of"]
