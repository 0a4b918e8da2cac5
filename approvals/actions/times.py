"""What a person does to a request's time: extending its deadline, escalating it before the deadline does (A7.3)."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import orjson

from approvals.actions.handling import handle
from approvals.asked import Asked
from approvals.errors import NotUsable
from approvals.people import ADMIN, may_decide, role_of
from approvals.terms import half_time
from approvals.verbs import DECIDE
from approvals.writing import tell
from runtime.access.authorize import authorize
from runtime.actions.base import check_reason
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, PermissionDenied
from runtime.machine.frame import Frame
from runtime.store.tx import Tx

MAX_EXTENSION = timedelta(days=90)


def extend_request(
    *,
    actor: Actor,
    request_id: uuid.UUID,
    seconds: float,
    reason: str,
    version: int | None = None,
    expected_revision: int | None = None,
) -> dict[str, Any]:
    """Move the deadline to ``seconds`` from now. What was asked stays the same: nothing is superseded.

    A request that waits on after its deadline (``keep``) is decided again only after this. Raises BadInput when it
    would not be later than now or more than 90 days away, TooLate once it was rejected. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)
    if not 0 < seconds <= MAX_EXTENSION.total_seconds():
        raise BadInput("A request is extended by up to 90 days.", where="/seconds", remediation="Choose fewer seconds.")

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        _permit(actor, asked)
        now = unit.tx.now()
        before, until = asked.deadline, now + timedelta(seconds=seconds)
        if before is not None and until <= before:
            raise BadInput(
                f"The deadline is {before.isoformat()} already.", where="/seconds", remediation="Choose a later one."
            )
        if before is not None and before <= now and asked.on_timeout != "keep":
            raise NotUsable("Its time is over: it is being closed.", **asked.there())
        asked.deadline = until
        reschedule(unit.tx, asked, now)
        return {"from": before.isoformat() if before else None, "to": until.isoformat()}

    shown = {"version": version, "expected_revision": expected_revision}
    return handle(actor=actor, act="extend", request_id=request_id, reason=text, do=do, **shown)


def escalate_request(
    *,
    actor: Actor,
    request_id: uuid.UUID,
    reason: str,
    role: str | None = None,
    version: int | None = None,
    expected_revision: int | None = None,
) -> dict[str, Any]:
    """Ask the next rung of the request's ladder now, or ``role`` (by default an admin) when it has none left.

    It stays pending with a new deadline; nobody holds it any more. Verb ``approval.decide``, or the admin's role.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        _permit(actor, asked)
        if role is not None:
            asked.ladder = [{"role": role}, *asked.ladder]
        elif not asked.ladder:
            asked.ladder = [{"role": ADMIN}]
        return climb(unit.tx, asked, unit.tx.now())

    shown = {"version": version, "expected_revision": expected_revision}
    return handle(actor=actor, act="escalate", request_id=request_id, reason=text, do=do, **shown)


def _permit(actor: Actor, asked: Asked) -> None:
    if not may_decide(actor, asked.role, role_of(actor)) and asked.assignee_id != actor.user_id:
        raise PermissionDenied(f"{actor.label} may not decide this request, and so not change its time.", verb=DECIDE)


def climb(tx: Tx, asked: Asked, now: datetime) -> dict[str, Any]:
    """Ask the next rung of a locked request: its role, a new deadline, nobody in particular. Returns the facts."""
    rung, *rest = asked.ladder
    before = {"role": asked.role, "deadline": asked.deadline.isoformat() if asked.deadline else None}
    span = (asked.deadline - asked.created_at).total_seconds() if asked.deadline else 0.0
    seconds = rung.get("expires_s") or max(60.0, span / (asked.level + 1))
    asked.role, asked.ladder, asked.level = rung["role"], rest, asked.level + 1
    asked.deadline = now + timedelta(seconds=seconds)
    asked.assignee_id = asked.assignee = asked.assigned_by_id = asked.assigned_by = None
    reschedule(tx, asked, now)
    tell(tx, asked.id, now, "escalated")
    return {"from": before, "to": {"role": asked.role, "deadline": asked.deadline.isoformat()}, "level": asked.level}


def reschedule(tx: Tx, asked: Asked, now: datetime) -> None:
    """Write the times, role and holder of a request under lock, as ``asked`` has them now."""
    changed = tx.count(
        "approval_reschedule",
        {
            "id": asked.id,
            "deadline": asked.deadline,
            "remind_at": half_time(now, asked.deadline),
            "role": asked.role,
            "level": asked.level,
            "ladder": orjson.dumps(asked.ladder).decode(),
            "assignee_id": asked.assignee_id,
            "assignee": asked.assignee,
            "assigned_by_id": asked.assigned_by_id,
            "assigned_by": asked.assigned_by,
            "revision": asked.revision,
        },
    )
    assert changed == 1, "the row is locked"
    asked.revision += 1
