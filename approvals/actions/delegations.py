"""Standing in for somebody for a time: from, to, between which dates; both names in every decision made so."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from approvals.people import deciding_role, member_named
from approvals.standing import sees_all
from approvals.verbs import ANSWER, DECIDE
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

    Returns {delegation_id, from, to, starts_at, ends_at, created}. A delegation lends the right to decide, never more,
    and ends with it; it is not passed on. Where one between the same two lasts all that time already, that one is
    answered and ``created`` is False. Raises BadInput, Conflict where MOST_OPEN from that person are not over,
    PermissionDenied. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)
    with frame(actor) as unit:
        tx = unit.tx
        giver, taker = _giver(tx, actor, whose), _member(tx, to, "/to")
        if giver[0] == taker[0]:
            raise BadInput("One stands in for another person.", where="/to", remediation="Name another member.")
        tx.send("delegation_serial", (tx.tenant_id, giver[0]))
        now = tx.now()
        begins = starts_at or now
        _check_dates(begins, ends_at, now)
        asked = {"from": giver[0], "to": taker[0], "starts": begins, "ends": ends_at}
        if (known := tx.one("delegation_covers", asked)) is not None:
            return _answer(known[0], giver[1], taker[1], known[1], known[2], created=False)
        _refuse_many(tx, giver)
        delegation_id = uuid7()
        words = (delegation_id, tx.tenant_id, *giver, *taker, starts_at, ends_at, text, actor.label)
        row = tx.one("delegation_insert", words)
        assert row is not None
        answer = _answer(delegation_id, giver[1], taker[1], row[0], ends_at, created=True)
        told = {name: answer[name] for name in ("delegation_id", "from", "to")}
        told |= {"starts_at": row[0].isoformat(), "ends_at": ends_at.isoformat()}
        _record(tx, actor, "approval.stand_in", delegation_id, text, told)
    return answer


def _refuse_many(tx: Tx, giver: tuple[int | None, str]) -> None:
    row = tx.one("delegations_open", (giver[0],))
    if row is not None and row[0] >= MOST_OPEN:
        raise Conflict(f"{row[0]} delegations from {giver[1]} are not over.", remediation="End one of them first.")


def end_delegation(*, actor: Actor, delegation_id: uuid.UUID) -> dict[str, Any]:
    """End a delegation now, or call it off before it begins: by who gave it, who took it, or an admin.

    Raises NotFound, Conflict where it is over already, PermissionDenied. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    with frame(actor) as unit:
        row = unit.tx.one("delegation_lock", (delegation_id,))
        if row is None:
            raise NotFound("There is no delegation of that id in this tenant.")
        giver, taker, over = row
        if actor.label not in (giver, taker) and not sees_all(actor):
            raise PermissionDenied("It is ended by who gave it, who took it, or an admin.", verb=DECIDE)
        if over:
            raise Conflict("The delegation has ended already.")
        unit.tx.send("delegation_end", (actor.label, delegation_id))
        _record(unit.tx, actor, "approval.stand_in_end", delegation_id, "", {"from": giver, "to": taker})
    return {"delegation_id": str(delegation_id), "ended": True}


def _giver(tx: Tx, actor: Actor, whose: str | None) -> tuple[int, str]:
    """Return (user id, label) of whose right is lent: the actor's own, or where an admin says so another member's."""
    if whose is not None and f"user:{whose}" != actor.label:
        if not sees_all(actor):
            raise PermissionDenied("Only an admin sets who stands in for another person.", verb=DECIDE)
        return _member(tx, whose, "/from")
    if actor.user_id is None:
        detail = "A program decides nothing, so nobody stands in for it."
        raise BadInput(detail, where="/from", remediation="Say for which member.")
    return actor.user_id, actor.label


def _member(tx: Tx, name: str, where: str) -> tuple[int, str]:
    """Return (user id, label) of a member who decides or answers requests; BadInput for any other name."""
    found = member_named(tx, name)
    if found is None:
        detail = f"{name[:150]!r} is no active member of this tenant."
        raise BadInput(detail, where=where, remediation="Name a member.")
    if all(deciding_role(tx, found[0], verb) is None for verb in (DECIDE, ANSWER)):
        detail = f"{name[:150]} decides nothing in this tenant: a delegation would change nothing."
        raise BadInput(detail, where=where, remediation=f"Name a member with `{DECIDE}`.")
    return found


def _check_dates(begins: datetime, ends: datetime, now: datetime) -> None:
    """Raise BadInput for a time that is none, is over, or is longer than MAX_DELEGATION."""
    where, detail, mend = "/ends_at", "", "Choose an end after its start, within a year."
    if ends <= begins:
        detail = "It would end before it begins."
    elif ends <= now:
        detail = "This end is over already."
    # The length is a difference: a sum could leave the years that there are.
    elif ends - begins > MAX_DELEGATION or ends.year > LAST_YEAR:
        detail = f"A delegation lasts {MAX_DELEGATION.days} days at most."
    if detail:
        raise BadInput(detail, where=where, remediation=mend)


def _answer(
    delegation_id: uuid.UUID, giver: str, taker: str, starts_at: datetime, ends_at: datetime, *, created: bool
) -> dict[str, Any]:
    return {
        "delegation_id": str(delegation_id),
        "from": giver,
        "to": taker,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "created": created,
    }


def _record(tx: Tx, actor: Actor, verb: str, delegation_id: uuid.UUID, reason: str, details: dict[str, Any]) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=verb,
        subject_kind="delegation",
        subject_id=delegation_id,
        reason=reason,
        details=details,
    )
