"""Who works on a case: claim, release, hand over. A claim takes a new owner_epoch on the steps the case concerns.

Those are the one step of a case about an effect or a step, and every step that has not ended of a case about a run.
"""

from __future__ import annotations

import uuid
from itertools import islice
from typing import Any

from repair.actions.base import Desk, act_on_case, answer_of, insist_on_person, there
from repair.errors import CaseHeld
from repair.law import CLAIMED, HELD, OPEN
from repair.models import Case
from repair.verbs import WORK
from runtime.access.authorize import authorize
from runtime.access.identity import role_in
from runtime.access.roles import verbs_of_role
from runtime.actions.repairing import take_over, take_over_run
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound
from runtime.machine.rows import StepState
from runtime.models import Membership
from runtime.store.tx import tenant_tx

RUN = "run"
# A fact is read at a glance.
MOST_TOLD = 20
# A run may have thousands of open steps: entry, audit and answer name so many; each has its STEP_FENCED event.
MOST_NAMED = 50
# Node → {step_id, epoch_before, epoch}.
Fenced = dict[str, dict[str, Any]]


def claim_case(
    *, actor: Actor, case_id: uuid.UUID, expected_version: int | None = None, reason: str = ""
) -> dict[str, Any]:
    """Take a case: from this commit on whatever an older owner of its steps submits is refused and shown (C8.4).

    ``fenced_count`` in the answer counts the steps that have a new epoch, ``fenced`` tells of the first 50: node →
    {step_id, epoch_before, epoch}. The same person's claim again is answered as it was, ``replayed``. Raises CaseHeld
    naming who holds it and since when, CaseResolved, OtherCaseVersion, NotFound, PermissionDenied.
    Verb ``repair.work``.
    """

    def already(case: Case) -> dict[str, Any] | None:
        return answer_of(case, replayed=True) if case.state in HELD and case.owner == actor.label else None

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.claim",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=_claim,
        already=already,
    )


def _claim(desk: Desk) -> dict[str, Any]:
    case = desk.case
    if case.state != OPEN:
        since = case.claimed_at.isoformat(timespec="seconds") if case.claimed_at else "before"
        raise CaseHeld(f"{case.owner} holds it since {since}.", **there(case))
    fenced = _own(desk, desk.actor.label, insist_on_person(desk.actor))
    before = _epoch_before(desk, fenced)
    desk.tell("claimed", epoch_before=before, epoch=case.owner_epoch, node=case.node, **_named(fenced))
    if fenced:
        epochs = [f"{node} {one['epoch']}" for node, one in fenced.items()]
        known = case.owner_epoch if case.subject_kind != RUN else epochs[:MOST_TOLD]
        desk.learn("owner_epoch", known, source="engine")
    return {"epoch_before": before, **_named(fenced)}


def _own(desk: Desk, label: str, user_id: int) -> Fenced:
    """Give the case to a person under a new epoch of each step it concerns; returns those that have one."""
    taken: list[tuple[StepState, int]] = []
    if desk.act is not None and desk.case.subject_kind == RUN:
        taken = take_over_run(desk.act)
    elif desk.act is not None and desk.step is not None:
        taken = [(desk.step, desk.step.owner_epoch)]
        take_over(desk.act, desk.step, desk.operation)
    if taken:
        # Of several steps the highest: the line of a case only grows. Each step's own stands in the entry.
        epochs = [step.owner_epoch for step, _before in taken]
        desk.set(owner_epoch=max(*epochs, desk.case.owner_epoch or 0))
    desk.set(state=CLAIMED, owner=label, owner_user_id=user_id, claimed_at=desk.now)
    return {
        step.node: {"step_id": str(step.id), "epoch_before": before, "epoch": step.owner_epoch}
        for step, before in taken
        if step.owner_epoch != before
    }


def _named(fenced: Fenced) -> dict[str, Any]:
    """Return how many steps have a new epoch, and the first of them by name."""
    return {"fenced_count": len(fenced), "fenced": dict(islice(fenced.items(), MOST_NAMED))}


def _epoch_before(desk: Desk, fenced: Fenced) -> int | None:
    """Return the highest epoch that was taken from somebody; the step's own where nothing was to be taken."""
    if fenced:
        return max(one["epoch_before"] for one in fenced.values())
    return desk.step.owner_epoch if desk.step is not None else None


def release_case(*, actor: Actor, case_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Give a case back: it is open again under the epoch it has. A reason is required; who holds it releases it.

    Raises CaseNotHeld, BadInput, CaseResolved, OtherCaseVersion, NotFound, PermissionDenied. Verb ``repair.work``.
    """

    def release(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        desk.tell("released", epoch=desk.case.owner_epoch)
        desk.set(state=OPEN, owner=None, owner_user_id=None, claimed_at=None, proposal_id=None)
        return {}

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.release",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=release,
        reason_required=True,
    )


def hand_over_case(
    *, actor: Actor, case_id: uuid.UUID, to: str, expected_version: int | None, reason: str
) -> dict[str, Any]:
    """Hand a case to another member who may work on repairs; they own it from here, under a new epoch of its steps.

    Who holds it hands it over, or an admin when its owner cannot be reached. What was proposed is withdrawn. Raises
    BadInput for somebody who may not work on repairs, CaseNotHeld, CaseResolved, OtherCaseVersion, NotFound,
    PermissionDenied. Verb ``repair.work``.
    """
    authorize(actor, WORK)
    user_id, label = _member(actor, to)

    def hand_over(desk: Desk) -> dict[str, Any]:
        if not hands_over_others(desk.actor):
            desk.insist_on_owner()
        before, owner = desk.case.owner_epoch, desk.case.owner
        fenced = _own(desk, label, user_id)
        desk.set(proposal_id=None)
        named = _named(fenced)
        desk.tell("handed_over", to=label, of=owner, epoch_before=before, epoch=desk.case.owner_epoch, **named)
        return {"handed_to": label, **named}

    def already(case: Case) -> dict[str, Any] | None:
        return answer_of(case, replayed=True) if case.state in HELD and case.owner == label else None

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.hand_over",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=hand_over,
        already=already,
        reason_required=True,
    )


def hands_over_others(actor: Actor) -> bool:
    """Whether the actor may hand over a case that somebody else holds: an admin, when its owner cannot be reached."""
    return actor.user_id is not None and role_in(actor.tenant_id, actor.user_id) == "admin"


def _member(actor: Actor, name: str) -> tuple[int, str]:
    """Return the user id and label of a member who may work on repairs."""
    username = name.removeprefix("user:").strip()
    with tenant_tx(actor.tenant_id):
        rows = Membership.objects.filter(user__username=username, ended_at=None, user__is_active=True)
        found = rows.values_list("user_id", "role").first()
    if found is None:
        raise NotFound(f"There is no member {username!r} in this tenant.", where="/to")
    if WORK not in verbs_of_role(found[1]):
        raise BadInput(
            f"{username} is {found[1]} and may not work on repairs.", where="/to", remediation="Choose another member."
        )
    return found[0], f"user:{username}"
