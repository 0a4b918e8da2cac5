"""Standing in for somebody for a time: from, to, between which dates; both names in every decision made so."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from approvals.people import ADMIN, member_named, role_of
from approvals.verbs import DECIDE
from runtime.access.authorize import authorize
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx
from runtime.worker.execute import LAST_YEAR

MAX_DELEGATION = timedelta(days=366)
# How many from one person are not over at once: a longer list would hide those that matter.
MOST_OPEN = 50


def add_delegation(
    *,
    actor: Actor,
    to: str,
    ends_at: datetime,
    starts_at: datetime | None = None,
    reason: str,
    whose: str | None = None,
) -> dict[str, Any]:
    """Let a member decide in the actor's place (an admin: in ``whose`` place) until ``ends_at``.

    Returns {delegation_id, from, to, starts_at, ends_at}. A delegation lends the right to decide, never more, and ends
    with it; it is not passed on. Raises BadInput, Conflict where MOST_OPEN from that person are not over,
    PermissionDenied. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)
    with frame(actor) as unit:
        tx = unit.tx
        giver = (actor.user_id, actor.label)
        if whose is not None and f"user:{whose}" != actor.label:
            if role_of(actor) != ADMIN:
                raise PermissionDenied("Only an admin sets who stands in for another person.", verb=DECIDE)
            giver = member_named(tx, whose) or _no_member(whose, "/from")
        taker = member_named(tx, to) or _no_member(to, "/to")
        if giver[0] is None or giver[0] == taker[0]:
            raise BadInput("One stands in for another person.", where="/to", remediation="Name another member.")
        now = tx.now()
        begins = starts_at or now
        # The length is a difference: a sum could leave the years that there are.
        lasts = begins < ends_at and now < ends_at and ends_at - begins <= MAX_DELEGATION
        if not lasts or ends_at.year > LAST_YEAR:
            mend = "Choose an end after its start, within a year."
            raise BadInput("These dates make no time to stand in.", where="/ends_at", remediation=mend)
        _refuse_many(tx, giver)
        delegation_id = uuid7()
        row = tx.one(
            "delegation_insert",
            (delegation_id, tx.tenant_id, *giver, *taker, starts_at, ends_at, text, actor.label),
        )
        assert row is not None
        answer = {
            "delegation_id": str(delegation_id),
            "from": giver[1],
            "to": taker[1],
            "starts_at": row[0],
            "ends_at": ends_at,
        }
        told = {**answer, "starts_at": row[0].isoformat(), "ends_at": ends_at.isoformat()}
        _record(tx, actor, "approval.stand_in", delegation_id, text, told)
    return answer


def _refuse_many(tx: Tx, giver: tuple[int | None, str]) -> None:
    tx.send("stand_in_serial", (tx.tenant_id, giver[0]))
    row = tx.one("delegations_open", (giver[0],))
    if row is not None and row[0] >= MOST_OPEN:
        raise Conflict(f"{row[0]} delegations from {giver[1]} are not over.", remediation="End one of them first.")


def end_delegation(*, actor: Actor, delegation_id: uuid.UUID) -> dict[str, Any]:
    """End a delegation now: by who gave it, who took it, or an admin. Raises NotFound, Conflict, PermissionDenied."""
    authorize(actor, DECIDE)
    with frame(actor) as unit:
        row = unit.tx.one("delegation_lock", (delegation_id,))
        if row is None:
            raise NotFound("There is no delegation of that id in this tenant.")
        _from_id, giver, taker, ended_at = row
        if actor.label not in (giver, taker) and role_of(actor) != ADMIN:
            raise PermissionDenied("It is ended by who gave it, who took it, or an admin.", verb=DECIDE)
        if ended_at is not None:
            raise Conflict("The delegation has ended already.")
        unit.tx.send("delegation_end", (actor.label, delegation_id))
        _record(unit.tx, actor, "approval.stand_in_end", delegation_id, "", {"from": giver, "to": taker})
    return {"delegation_id": str(delegation_id), "ended": True}


def _record(tx: Any, actor: Actor, verb: str, delegation_id: uuid.UUID, reason: str, details: dict[str, Any]) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=verb,
        subject_kind="delegation",
        subject_id=delegation_id,
        reason=reason,
        details=details,
    )


def _no_member(name: str, where: str) -> Any:
    raise BadInput(f"{name!r} is no active member of this tenant.", where=where, remediation="Name a member.")
