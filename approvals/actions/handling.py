"""Who works on a request: claiming, releasing, handing over. None of it decides anything (C8.5).

Each locks the row, looks at what is there by the clock after the lock, and leaves note and audit with every name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from approvals.actions.decide import record_refusal
from approvals.asked import Asked, lock_request, refuse_closed, refuse_other_version
from approvals.errors import HandedOver, NotUsable, OtherVersion
from approvals.groups import in_words
from approvals.people import ADMIN, Standing, deciding_role, may_decide, member_named, role_of, voice_of
from approvals.quota import refuse_full
from approvals.verbs import DECIDE
from approvals.writing import assign, note, record_act, tell
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied
from runtime.machine.frame import Frame
from runtime.store.tx import Tx

Do = Callable[[Frame, Asked], dict[str, Any]]


def handle(
    *,
    actor: Actor,
    act: str,
    request_id: uuid.UUID,
    reason: str = "",
    version: int | None = None,
    expected_revision: int | None = None,
    do: Do,
) -> dict[str, Any]:
    """Lock a pending request, let ``do`` change it, and leave note and audit; the shape of every act on a request.

    ``do`` returns what the note tells. Answers as :func:`standing`. ``expected_revision`` is the one that was shown: a
    request that somebody took on, handed over or gave time to since is looked at again first.
    Refusals stay in the audit. Raises NotFound, PermissionDenied, AlreadyClosed, TooLate, OtherVersion, Conflict.
    """
    verb = f"approval.{act}"

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            asked = lock_request(unit, request_id)
            if act != "extend" or asked.state != "pending":
                refuse_closed(asked, unit.tx.now())
            if version is not None:
                refuse_other_version(asked, version)
            refuse_changed(asked, expected_revision)
            told = do(unit, asked)
            note(unit.tx, asked.id, act, actor.label, reason, told or None)
            answer = standing(asked)
            record_act(unit.tx, actor, verb, asked, reason=reason, details=told or None)
            return answer

    try:
        return insist(once)
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, verb, request_id, problem, {})
        raise


def refuse_changed(asked: Asked, expected_revision: int | None) -> None:
    """Refuse to act on a request that people have changed since it was shown. Raises OtherVersion."""
    if expected_revision is not None and expected_revision != asked.seen:
        now = f"{asked.assignee} has it now." if asked.assignee else "Nobody in particular has it now."
        raise OtherVersion(f"Somebody changed the request since it was shown to you. {now}", **asked.there())


def standing(asked: Asked) -> dict[str, Any]:
    """Return where a request stands after an act."""
    return {
        "approval_id": str(asked.id),
        "state": asked.state,
        "version": asked.version,
        "payload_hash": bytes(asked.payload_sha256).hex(),
        "role": asked.role,
        "level": asked.level,
        "assignee": asked.assignee,
        "assigned_by": asked.assigned_by,
        "deadline": asked.deadline,
    }


def claim_request(
    *, actor: Actor, request_id: uuid.UUID, version: int | None = None, expected_revision: int | None = None
) -> dict[str, Any]:
    """Take a request on: nobody else decides it until it is released, handed over or escalated.

    Claiming again what one has changes nothing. Raises HandedOver when somebody else has it, NotUsable where several
    people have to agree. Verb ``approval.decide``, in the role that the request names.
    """
    authorize(actor, DECIDE)

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        voice_of(unit.tx, actor, asked)
        if asked.quorum > 1:
            raise NotUsable(f"{asked.quorum} people have to agree: it belongs to nobody alone.", **asked.there())
        if asked.assignee_id != actor.user_id:
            refuse_full(unit.tx, actor.user_id, actor.label, asked)
            assign(unit.tx, asked, (actor.user_id, actor.label), (actor.user_id, actor.label))
        return {}

    return handle(
        actor=actor, act="claim", request_id=request_id, version=version, expected_revision=expected_revision, do=do
    )


def release_request(
    *, actor: Actor, request_id: uuid.UUID, reason: str = "", expected_revision: int | None = None
) -> dict[str, Any]:
    """Give a claimed or handed-over request back to everybody of its role; an admin may do so for others.

    Raises NotUsable when nobody has it. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason)

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        if asked.assignee_id is None:
            raise NotUsable("Nobody has it: everybody of the role decides it.", **asked.there())
        mine = actor.user_id in (asked.assignee_id, asked.assigned_by_id)
        if not mine and role_of(actor) != ADMIN:
            raise HandedOver(f"{asked.assignee} has it.", assignee=asked.assignee, **asked.there())
        told = {"from": asked.assignee}
        assign(unit.tx, asked, None, None)
        return told

    shown = {"expected_revision": expected_revision}
    return handle(actor=actor, act="release", request_id=request_id, reason=text, do=do, **shown)


def delegate_request(
    *,
    actor: Actor,
    request_id: uuid.UUID,
    to: str,
    reason: str,
    version: int | None = None,
    expected_revision: int | None = None,
) -> dict[str, Any]:
    """Hand one request over to a member (a user name), who alone decides it then, in the actor's right where need be.

    Who may: whoever may decide it, the present holder, an admin. Both names stand in note, audit and decision. Raises
    BadInput for no member, one who can decide nothing, or the requester. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    text = check_reason(reason, required=True)

    def do(unit: Frame, asked: Asked) -> dict[str, Any]:
        tx, role = unit.tx, role_of(actor)
        holds = asked.assignee_id == actor.user_id
        if asked.assignee_id is not None and not holds and role != ADMIN and asked.assigned_by_id != actor.user_id:
            raise HandedOver(f"{asked.assignee} has it.", assignee=asked.assignee, **asked.there())
        if not holds and not may_decide(tx, actor, asked.role, role):
            raise PermissionDenied(f"{actor.label} may not decide this request, and so not hand it over.", verb=DECIDE)
        if asked.quorum > 1:
            raise NotUsable(f"{asked.quorum} people have to agree: it belongs to nobody alone.", **asked.there())
        # A right that was lent is not lent on: nobody could decide then.
        lends = asked.separation == "none" or asked.requested_by != actor.label
        found = receiver(tx, to, asked, lends=lends and Standing(tx).decides(actor.user_id, asked.role))
        if found[0] != asked.assignee_id:
            refuse_full(tx, *found, asked, "/to")
        told = {"from": asked.assignee or actor.label, "to": found[1], "by": actor.label}
        assign(tx, asked, found, (actor.user_id, actor.label))
        tell(tx, asked.id, tx.now(), "delegated")
        return told

    shown = {"version": version, "expected_revision": expected_revision}
    return handle(actor=actor, act="delegate", request_id=request_id, reason=text, do=do, **shown)


def receiver(tx: Tx, username: str, asked: Asked, *, lends: bool) -> tuple[int, str]:
    """Return (id, label) of who is to decide. ``lends``: the giver's own right may be lent to them. Raises BadInput."""
    found = member_named(tx, username)
    if found is None:
        raise BadInput(f"{username!r} is no active member of this tenant.", where="/to", remediation="Name a member.")
    if asked.separation != "none" and found[1] == asked.requested_by:
        raise BadInput(f"{found[1]} asked for it.", where="/to", remediation="Name another person.")
    if deciding_role(tx, found[0]) is None:
        mend = "Name a member whose role carries `approval.decide`."
        raise BadInput(f"{found[1]} may decide nothing.", where="/to", remediation=mend)
    if not lends and not Standing(tx).decides(found[0], asked.role):
        detail = f"{found[1]} may not decide this request, and the right to is not yours to lend."
        raise BadInput(detail, where="/to", remediation=f"Name a member of {in_words(asked.role, ADMIN)}.")
    return found
