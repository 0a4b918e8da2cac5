"""Carrying a proposal out, once, and the second person's review before it.

What is accepted, what is applied and what is verified are told apart: the proposal, the entry ``resolved`` with what
moved, and ``verified_by``, which is the tool's own word or the person's whose word stands for it.
"""

from __future__ import annotations

import uuid
from typing import Any

from repair.actions.base import Desk, act_on_case, answer_of, insist_on_person, there
from repair.actions.investigate import ask_again_before, kept, take_finding
from repair.actions.propose import insist_on_permitted, why_second
from repair.actions.without_effect import authorize_kind, carries, search_again
from repair.errors import CaseNotHeld, SamePerson
from repair.foresight import reference_of
from repair.law import (
    COMPENSATE,
    CONFIRM_ABSENT,
    DONE,
    PROPOSED,
    RECORD_SUCCESS,
    RESOLVED,
    RESUME_STEP,
    REVIEWING,
    WRITE_OFF,
)
from repair.models import Case, Proposal
from repair.proof import insist_on_proof
from repair.resuming import insist_on_preview, same_execution
from repair.standing import held_for_recovery
from repair.verbs import REVIEW, WORK
from repair.verbs import WRITE_OFF as MAY_WRITE_OFF
from runtime.access.authorize import authorize, may
from runtime.actions import repairing
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import BadInput, Conflict
from runtime.machine.operations import OperationState
from runtime.tools.query import Finding
from runtime.tools.validation import check_output

DECISIONS = ("approve", "send_back")


def resolve_case(
    *, actor: Actor, case_id: uuid.UUID, expected_version: int | None, repair_id: uuid.UUID | None = None
) -> dict[str, Any]:
    """Carry the case's proposal out, where no second person is needed or one has approved.

    With the ``repair_id`` of what was carried out already the answer is the same again, ``replayed``: double clicks,
    time-outs and two tabs do nothing twice. Raises Conflict when nothing is proposed or the review is missing,
    NotPermitted when the answer from outside has changed, CaseNotHeld, CaseResolved, OtherCaseVersion, NotFound,
    PermissionDenied. Verb ``repair.work``.
    """

    def already(case: Case) -> dict[str, Any] | None:
        if case.state == RESOLVED and repair_id is not None and case.proposal_id == repair_id:
            return answer_of(case, replayed=True, repair_id=str(repair_id))
        return None

    def due(case: Case) -> bool:
        mine = case.state == PROPOSED and case.owner == actor.label and case.proposal_id is not None
        return mine and repair_id in (None, case.proposal_id) and expected_version in (None, case.version)

    finding = ask_again_before(actor, case_id, due) if may(actor, WORK) else None
    found = search_again(actor, case_id, due) if may(actor, WORK) else None

    def resolve(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        proposal = _proposal(desk)
        if repair_id is not None and proposal.id != repair_id:
            raise Conflict("Another proposal took its place.", **there(desk.case))
        if desk.case.state != PROPOSED or proposal.needs_review:
            raise Conflict(
                "A second person has not approved it.", remediation="Ask somebody who may review.", **there(desk.case)
            )
        authorize_kind(actor, desk.case, proposal.resolution)
        return carry_out(desk, proposal, finding, found)

    with kept(actor, WORK, case_id, finding):
        return act_on_case(
            actor=actor,
            verb=WORK,
            audit_verb="repair.resolve",
            case_id=case_id,
            expected_version=expected_version,
            reason="",
            do=resolve,
            already=already,
        )


def review_proposal(
    *,
    actor: Actor,
    case_id: uuid.UUID,
    repair_id: uuid.UUID,
    decision: str,
    expected_version: int | None,
    comment: str = "",
) -> dict[str, Any]:
    """Approve a proposal, which carries it out at once, or send it back with a comment.

    The reviewer is another person than who proposed it. The same decision again is answered as before. Raises
    SamePerson, BadInput, Conflict when another proposal took its place, NotPermitted when the answer from outside has
    changed, CaseResolved, OtherCaseVersion, NotFound, PermissionDenied. Verb ``repair.review``.
    """
    if decision not in DECISIONS:
        raise BadInput("There is no such decision.", where="/decision", remediation="Decide `approve` or `send_back`.")

    def already(case: Case) -> dict[str, Any] | None:
        earlier = Proposal.objects.filter(id=repair_id, case_id=case.id).first()
        if earlier is None or earlier.decision != decision or earlier.reviewed_by != actor.label:
            return None
        return answer_of(case, replayed=True, repair_id=str(repair_id))

    def due(case: Case) -> bool:
        shown = case.state == REVIEWING and case.proposal_id == repair_id and expected_version in (None, case.version)
        return shown and case.owner_user_id != actor.user_id

    ask = decision == "approve" and may(actor, REVIEW)
    finding = ask_again_before(actor, case_id, due) if ask else None
    found = search_again(actor, case_id, due) if ask else None

    def review(desk: Desk) -> dict[str, Any]:
        case = desk.case
        if case.state != REVIEWING:
            raise Conflict(f"Nothing waits for a review; the case is {case.state}.", **there(case))
        proposal = _proposal(desk)
        if proposal.id != repair_id:
            raise Conflict("Another proposal took its place.", **there(case))
        user_id = insist_on_person(actor)
        if user_id == proposal.proposed_user_id or user_id == case.owner_user_id:
            raise SamePerson(f"{actor.label} proposed it; another person reviews it.")
        if proposal.resolution == WRITE_OFF:
            authorize(actor, MAY_WRITE_OFF)
        proposal.decision, proposal.comment = decision, desk.reason
        proposal.reviewed_by, proposal.reviewed_user_id, proposal.reviewed_at = actor.label, user_id, desk.now
        proposal.save(update_fields=["decision", "comment", "reviewed_by", "reviewed_user_id", "reviewed_at"])
        desk.tell("reviewed", decision=decision, repair_id=str(repair_id))
        if decision == "send_back":
            desk.set(state=PROPOSED)
            return {"repair_id": str(repair_id)}
        return carry_out(desk, proposal, finding, found)

    with kept(actor, REVIEW, case_id, finding):
        return act_on_case(
            actor=actor,
            verb=REVIEW,
            audit_verb="repair.review",
            case_id=case_id,
            expected_version=expected_version,
            reason=comment,
            do=review,
            already=already,
            reason_required=decision == "send_back",
        )


def _proposal(desk: Desk) -> Proposal:
    wanted = desk.case.proposal_id
    found = Proposal.objects.select_for_update().filter(id=wanted).first() if wanted is not None else None
    if found is None:
        raise CaseNotHeld("Nothing is proposed.", remediation="Propose a resolution first.", **there(desk.case))
    return found


def carry_out(
    desk: Desk, proposal: Proposal, finding: Finding | None, found: list[str] | None = None
) -> dict[str, Any]:
    """Do what was proposed, by runtime actions only, and resolve the case in the same transaction.

    What the tool said just now counts more than what anybody said before: the law is asked with that. ``found`` is
    what :func:`search_again` found of a breach.
    """
    if finding is not None:
        take_finding(desk, finding)
    insist_on_permitted(desk, proposal.resolution)
    _insist_on_second(desk, proposal)
    if desk.act is not None and desk.step is not None and desk.operation is None:
        # What its worker sent after the case was opened has a case of its own, and is settled there first.
        desk.act.refuse_open_operations([desk.step])
    if desk.act is not None:
        # What moves says why: by who reviewed it, else by who proposed it.
        desk.act.reason = desk.act.reason or proposal.reason
    moved = _carried(desk, proposal, finding, found)
    # That it is undone, or went, is verified by what does it, later; until then it is accepted and applied.
    later = proposal.resolution == COMPENSATE or "replayed_ids" in moved
    verified = moved.pop("verified_by", desk.case.answered_by)
    if desk.act is not None:
        moved["run_released"] = repairing.leave_to_the_engine(desk.act)
    desk.set(
        state=RESOLVED,
        resolution=proposal.resolution,
        resolved_by=desk.actor.label,
        resolved_at=desk.now,
        verified_by=None if later else verified,
        proposal_id=proposal.id,
    )
    desk.tell("resolved", resolution=proposal.resolution, repair_id=str(proposal.id), **moved)
    return {"repair_id": str(proposal.id), **moved}


def _carried(desk: Desk, proposal: Proposal, finding: Finding | None, found: list[str] | None) -> dict[str, Any]:
    """Carry out by what the kind of case asks for, else by what the resolution does to its operation and its step."""
    if (by_kind := carries(desk.case, proposal.resolution)) is not None:
        return by_kind(desk, proposal, found)
    if desk.act is None:
        raise Conflict("The case names no run; nothing of it can be carried out.", **there(desk.case))
    if proposal.resolution == RECORD_SUCCESS and desk.operation is None and desk.step is None:
        raise Conflict("Its step was run again since; nothing is left to record.", **there(desk.case))
    return _CARRY[proposal.resolution](desk, proposal, finding)


def _insist_on_second(desk: Desk, proposal: Proposal) -> None:
    """Raise Conflict when nobody else looked at it and what is known by now asks for that."""
    if proposal.decision != "approve" and (why := why_second(desk, proposal.resolution, proposal.arguments)):
        raise Conflict(f"A second person has to look at it: {why}", remediation="Propose it again.", **there(desk.case))


def _record_success(desk: Desk, proposal: Proposal, finding: Finding | None) -> dict[str, Any]:
    act = desk.act
    assert act is not None
    reference, stored = _what_the_tool_said(desk.operation, finding)
    settled = desk.operation is not None and desk.operation.status == "succeeded"
    by_tool = settled or (finding is not None and finding.kind == "applied")
    reference = reference or proposal.arguments["external_ref"]
    told = proposal.arguments.get("output", {"external_ref": reference})
    if not by_tool:
        insist_on_proof(desk, told, reference)
    if stored is None:
        stored = _checked_output(desk, told)
    if desk.operation is not None:
        repairing.effect_applied(act, desk.operation, reference=reference, stored=stored)
    if desk.step is not None:
        repairing.step_succeeded(act, desk.step, reference=reference, stored=stored)
    return {"external_ref": reference}


def _checked_output(desk: Desk, output: Any) -> bytes:
    contract = desk.output_contract()
    return check_output(contract, output) if contract is not None else canonical_bytes(output)


def _what_the_tool_said(operation: OperationState | None, finding: Finding | None) -> tuple[str | None, bytes | None]:
    """Return the reference and the output that the ledger has of the tool, or that it told now: over any person's."""
    if operation is not None and operation.status == "succeeded":
        return operation.external_ref, bytes(operation.response) if operation.response is not None else None
    if finding is not None and finding.kind == "applied":
        return finding.external_ref, finding.result
    return None, None


def _confirm_absent(desk: Desk, proposal: Proposal, finding: Finding | None) -> dict[str, Any]:
    assert desk.act is not None
    if desk.operation is not None:
        repairing.effect_absent(desk.act, desk.operation, why=proposal.reason)
    if desk.step is not None and (desk.operation is not None or desk.case.kind == "by_hand"):
        repairing.step_failed(desk.act, desk.step, code="confirmed_absent", message=proposal.reason)
    if desk.operation is not None:
        return {}
    # Of a case opened by hand a person's word stands for it; of a step what is read of it.
    return {"verified_by": desk.actor.label if desk.case.kind == "by_hand" else "ledger"}


def _write_off(desk: Desk, proposal: Proposal, finding: Finding | None) -> dict[str, Any]:
    assert desk.act is not None
    if desk.operation is not None:
        repairing.effect_written_off(desk.act, desk.operation, why=proposal.reason)
    if desk.step is not None:
        repairing.step_failed(desk.act, desk.step, code="written_off", message=proposal.reason)
        if held_for_recovery(desk.step.status, desk.step.cause):
            repairing.give_up_held(desk.act, desk.step)
    return {}


def _resume(desk: Desk, proposal: Proposal, finding: Finding | None) -> dict[str, Any]:
    act, contract = desk.act, desk.contract()
    assert act is not None
    if desk.step is None:
        said = "Its step was run again since." if desk.case.node else "The case names no step to resume."
        raise Conflict(said, **there(desk.case))
    if desk.operation is not None and desk.operation.status in repairing.DOUBTFUL:
        repairing.effect_absent(act, desk.operation, why=proposal.reason)
    same = same_execution(contract, about_effect=desk.operation is not None)
    if (shown := proposal.arguments.get("preview")) is not None:
        insist_on_preview(act, desk.step, same, shown)
    if held_for_recovery(desk.step.status, desk.step.cause):
        return {"resumed": repairing.release_held(act, desk.step)}
    return {"resumed": repairing.resume(act, desk.step, same_execution=same)}


def _compensate(desk: Desk, proposal: Proposal, finding: Finding | None) -> dict[str, Any]:
    """Record what is there, let its step fail (its result is on its way out), and order that it is undone."""
    act, operation = desk.act, desk.operation
    assert act is not None
    if operation is None:
        raise Conflict("The case names no effect to undo.", **there(desk.case))
    if operation.status not in repairing.UNDOING:
        reference, stored = _what_the_tool_said(operation, finding)
        reference = reference or reference_of(desk.case)
        if desk.case.answer == DONE:
            if stored is None:
                told = proposal.arguments.get("output")
                stored = (
                    _checked_output(desk, told) if told is not None else canonical_bytes({"external_ref": reference})
                )
            repairing.effect_applied(act, operation, reference=reference, stored=stored)
        else:
            repairing.effect_differs(act, operation, reference=reference)
    if desk.step is not None:
        repairing.step_failed(act, desk.step, code="undone", message=proposal.reason)
    return {"undoing": repairing.undo_effect(act, operation)}


_CARRY = {
    COMPENSATE: _compensate,
    RECORD_SUCCESS: _record_success,
    CONFIRM_ABSENT: _confirm_absent,
    WRITE_OFF: _write_off,
    RESUME_STEP: _resume,
}
