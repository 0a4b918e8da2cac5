"""Proposing a resolution: what the contract and the answer from outside permit; risky ones go to a second person."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from repair.actions.base import Desk, act_on_case, answer_of, insist_on_person, there
from repair.actions.without_effect import authorize_kind
from repair.errors import NotPermitted
from repair.law import (
    CLAIMED,
    COMPENSATE,
    KEEP_PENDING,
    PROPOSED,
    RECORD_SUCCESS,
    RESOLUTIONS,
    REVIEWING,
    WRITE_OFF,
    permitted,
    why_not,
)
from repair.models import Case, Proposal
from repair.policy import needs_second, policy_of
from repair.proof import insist_on_proof
from repair.reviews import reviewed_in_bulk, tell_reviewers
from repair.standing import About, why_not_now
from repair.undoing import why_not_undone
from repair.verbs import WORK
from repair.verbs import WRITE_OFF as MAY_WRITE_OFF
from runtime.access.authorize import authorize
from runtime.access.verbs import OPERATION_COMPENSATE
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import BadInput, Conflict
from runtime.kernel.ids import uuid7
from runtime.kernel.unseen import is_blank

# The permission that proposing it takes besides ``repair.work``.
ALSO_NEEDS = {WRITE_OFF: MAY_WRITE_OFF, COMPENSATE: OPERATION_COMPENSATE}
MOST_PENDING = timedelta(days=30)
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "record_success": ("external_ref", "output"),
    "confirm_absent": (),
    "resume_step": ("preview",),
    "write_off": (),
    "compensate": ("output",),
}


def propose_resolution(
    *,
    actor: Actor,
    case_id: uuid.UUID,
    resolution: str,
    reason: str,
    expected_version: int | None,
    arguments: dict[str, Any] | None = None,
    repair_id: uuid.UUID | None = None,
) -> dict[str, Any]:
    """Propose how a case is resolved; the answer says whether another person has to look at it, and why.

    ``repair_id`` is the caller's own id of this proposal: sent again, it is answered as before. Raises NotPermitted
    with the reason and what is ``permitted``, NotProved, BadInput, CaseNotHeld, CaseResolved, OtherCaseVersion,
    NotFound, PermissionDenied. Verb ``repair.work``, for a write-off ``repair.write_off`` too, to have an effect undone
    ``operation.compensate``, for messages in quarantine ``message.resolve``.
    """
    if resolution not in RESOLUTIONS:
        raise BadInput(
            "There is no such resolution.", where="/resolution", remediation=f"Choose one of: {', '.join(RESOLUTIONS)}."
        )
    if resolution in ALSO_NEEDS:
        authorize(actor, ALSO_NEEDS[resolution])
    said = _checked(resolution, arguments or {})
    given = repair_id or uuid7()

    def already(case: Case) -> dict[str, Any] | None:
        earlier = Proposal.objects.filter(id=given).first()
        if earlier is None:
            return None
        same = (earlier.case_id, earlier.resolution, earlier.arguments) == (case.id, resolution, said)
        if not same or earlier.proposed_by != actor.label:
            raise Conflict("This repair_id was used for another proposal.", where="/repair_id", **there(case))
        return _shown(case, earlier, replayed=True)

    def propose(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        insist_on_permitted(desk, resolution)
        authorize_kind(actor, desk.case, resolution)
        if resolution == RECORD_SUCCESS and desk.case.answered_by not in ("query", "ledger"):
            insist_on_proof(desk, said.get("output", {"external_ref": said["external_ref"]}), said["external_ref"])
        why = why_second(desk, resolution, said)
        Proposal.objects.create(
            id=given,
            tenant_id=actor.tenant_id,
            case_id=desk.case.id,
            resolution=resolution,
            arguments=said,
            arguments_sha256=digest(canonical_bytes(said)),
            reason=desk.reason,
            answer=desk.case.answer,
            proposed_by=actor.label,
            proposed_user_id=insist_on_person(actor),
            proposed_at=desk.now,
            needs_review=why is not None,
        )
        if desk.case.state == REVIEWING:
            raise Conflict(
                "A proposal is under review.", remediation="Wait for it, or have it sent back.", **there(desk.case)
            )
        desk.tell("proposed", resolution=resolution, repair_id=str(given), second=why)
        _move(desk, why)
        desk.set(proposal_id=given)
        if why is not None and not reviewed_in_bulk(given):
            tell_reviewers(desk.unit.tx, desk.now, case_id=desk.case.id, repair_id=given)
        return {"repair_id": str(given), "needs_review": why is not None, "why_review": why}

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.propose",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=propose,
        already=already,
        reason_required=True,
    )


def why_second(desk: Desk, resolution: str, arguments: dict[str, Any]) -> str | None:
    """Return why another person has to look at this, by what is known of the case now; None when nobody has to."""
    contract = desk.contract()
    return needs_second(
        policy_of(desk.actor.tenant_id),
        resolution,
        recovery=desk.case.recovery,
        idempotency=contract.idempotency if contract else "none",
        answered_by=desk.case.answered_by,
        own_output="output" in arguments,
    )


def _move(desk: Desk, why: str | None) -> None:
    """proposed, and on to the review in a second update: the guard sees each move."""
    if why is None:
        desk.set(state=PROPOSED)
        return
    if desk.case.state != PROPOSED:
        version = desk.case.version
        if Case.objects.filter(id=desk.case.id, version=version).update(version=version + 1, state=PROPOSED) != 1:
            raise Conflict("The case was changed by somebody else first.", **there(desk.case))
        desk.case.version = version + 1
    desk.set(state=REVIEWING)


def _shown(case: Case, proposal: Proposal, *, replayed: bool) -> dict[str, Any]:
    return answer_of(case, replayed=replayed, repair_id=str(proposal.id), needs_review=proposal.needs_review)


def insist_on_permitted(desk: Desk, resolution: str) -> None:
    """Raise NotPermitted unless the recovery class, the answer and the contract permit the resolution."""
    case, contract = desk.case, desk.contract()
    reason = why_not(resolution, case.recovery, case.answer, case.kind)
    if reason is None and resolution == COMPENSATE and case.recovery is not None:
        plan = desk.act.run.plan if desk.act is not None else None
        reason = why_not_undone(plan, case.node, contract.compensation if contract else None)
    if reason is None:
        reason = why_not_now(desk.unit.tx, About.of(case), resolution)
    if reason is not None:
        fit = permitted(case.recovery, case.answer, case.kind)
        raise NotPermitted(reason, permitted=sorted(fit), answer=case.answer, **there(case))


def _checked(resolution: str, arguments: dict[str, Any]) -> dict[str, Any]:
    unknown = set(arguments) - set(_ARGUMENTS[resolution])
    if unknown:
        raise BadInput(f"{sorted(unknown)[0]} is no argument of {resolution}.", where="/arguments")
    if resolution == "record_success":
        reference = arguments.get("external_ref")
        if not isinstance(reference, str) or is_blank(reference) or len(reference.strip()) > 500:
            raise BadInput(
                "A success that is recorded has the reference it has outside.",
                where="/arguments/external_ref",
                remediation="Give the receipt, booking or message number.",
            )
    if not isinstance(arguments.get("preview", ""), str):
        raise BadInput("The preview is quoted by its hash.", where="/arguments/preview")
    canonical_bytes(arguments)
    return arguments


def keep_pending(
    *, actor: Actor, case_id: uuid.UUID, due_at: datetime, reason: str, expected_version: int | None
) -> dict[str, Any]:
    """Keep a case open until another due date, with the reason; what was proposed is withdrawn.

    Raises BadInput for a date that is past or more than 30 days away, CaseNotHeld, CaseResolved, OtherCaseVersion,
    NotFound, PermissionDenied. Verb ``repair.work``.
    """

    def keep(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        if not desk.now < due_at <= desk.now + MOST_PENDING:
            raise BadInput(
                "The new due date lies within the next 30 days.", where="/due_at", remediation="Choose another date."
            )
        desk.tell("kept_pending", due_at=due_at.isoformat(), was=desk.case.due_at.isoformat())
        desk.set(state=CLAIMED, due_at=due_at, proposal_id=None, escalations=0, escalated_to="")
        return {"resolution": KEEP_PENDING}

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.keep_pending",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=keep,
        reason_required=True,
    )
