"""What a person does to a request's time: extending its deadline, escalating it before the deadline does (A7.3)."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import orjson

from approvals.actions.handling import handle
from approvals.asked import Asked
from approvals.errors import NotUsable
from approvals.groups import GROUP, MANAGER, check_group, members_asked, named
from approvals.people import ADMIN, check_asked, deciding_role, may_decide, role_of, roles_asked, verb_for
from approvals.terms import half_time
from approvals.verbs import DECIDE
from approvals.writing import tell
from runtime.access.authorize import authorize
from runtime.access.roles import ROLES
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
        _permit(unit.tx, actor, asked)
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

    ``role`` is a role, ``group:NAME``, or ``manager``: that of who has the request, else of who asked for it. It stays
    pending with a new deadline; nobody holds it any more. Rungs of the ladder on which nobody stands are passed. Raises
    BadInput for whom nobody knows, and for a role or group in which nobody could decide it. Verb
    ``approval.decide``, or the admin's role.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        _permit(unit.tx, actor, asked)
        if role is not None:
            _check_rung(unit.tx, asked, role)
            asked.ladder = [{"role": role}, *asked.ladder]
        elif not asked.ladder:
            asked.ladder = [{"role": ADMIN}]
        return climb(unit.tx, asked, unit.tx.now())

    shown = {"version": version, "expected_revision": expected_revision}
    return handle(actor=actor, act="escalate", request_id=request_id, reason=text, do=do, **shown)


def _check_rung(tx: Tx, asked: Asked, role: str) -> None:
    """Raise BadInput for a rung that asks nobody: an unknown role or group, or one in which nobody could decide."""
    found = named(role)
    if found is not None and found[0] == GROUP:
        # Whoever removes the group looks for requests that ask it, and finds this one or comes before it.
        tx.send("group_serial", (tx.tenant_id,))
        check_group(tx, found[1], "/role")
        if not _somebody(tx, asked, role):
            mend = "Ask another group or role, or let an admin say who is in it."
            raise BadInput(f"Nobody in the group {found[1]} may decide this.", where="/role", remediation=mend)
    elif role == MANAGER:
        if _standing_on(tx, asked, MANAGER) is None:
            whose = asked.assignee or asked.requested_by
            mend = "Ask another role or group, or let an admin say who the manager is."
            raise BadInput(f"{whose} has no manager who may decide this.", where="/role", remediation=mend)
    elif role not in ROLES:
        mend = f"Use {MANAGER}, {GROUP}:NAME, or one of: {', '.join(sorted(ROLES))}."
        raise BadInput(f"There is no role {role[:60]!r}.", where="/role", remediation=mend)
    else:
        check_asked(tx, asked.kind, role)


def _standing_on(tx: Tx, asked: Asked, rung: str) -> str | None:
    """Return whom a rung asks, ``manager`` by whose; None where nobody stands on it who could decide."""
    if rung == MANAGER:
        kind, _sep, name = (asked.assignee or asked.requested_by).partition(":")
        wanted = f"{MANAGER}:{name}"
        return wanted if kind == "user" and _somebody(tx, asked, wanted) else None
    if named(rung) is None:
        return rung if roles_asked(tx, asked.kind).get(rung) else None
    return rung if _somebody(tx, asked, rung) else None


def _somebody(tx: Tx, asked: Asked, wanted: str) -> bool:
    """Return whether anybody but the requester could decide a request that asks a group or a manager now."""
    barred = None if asked.separation == "none" else asked.requested_by
    others = [user for user, name, _at in members_asked(tx, wanted) if f"user:{name}" != barred]
    return any(deciding_role(tx, user, verb_for(asked.kind)) is not None for user in others)


def _next_rung(tx: Tx, asked: Asked) -> tuple[dict[str, Any], list[Any]]:
    """Return the next rung that somebody stands on, and those after it; where nobody does, an admin is asked."""
    rungs = list(asked.ladder)
    while rungs:
        rung = rungs.pop(0)
        if (wanted := _standing_on(tx, asked, rung["role"])) is not None:
            return {**rung, "role": wanted}, rungs
    return {"role": ADMIN}, []


def _permit(tx: Tx, actor: Actor, asked: Asked) -> None:
    if not may_decide(tx, actor, asked.role, role_of(actor)) and asked.assignee_id != actor.user_id:
        raise PermissionDenied(f"{actor.label} may not decide this request, and so not change its time.", verb=DECIDE)


def climb(tx: Tx, asked: Asked, now: datetime) -> dict[str, Any]:
    """Ask the next rung of a locked request: its role, a new deadline, nobody in particular. Returns the facts."""
    rung, rest = _next_rung(tx, asked)
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
