"""Deciding a request: once, in time, by authorised people, on exactly what they were shown (A7.2, C5.6)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import psycopg

from approvals.actions.quota import pass_on
from approvals.asked import Asked, lock_request, refuse_closed, refuse_other
from approvals.errors import AlreadySpoken, CannotBeShown, NotUsable, OwnRequest, ReviewLimitReached
from approvals.people import Voice, approvals_given, counted, voice_of
from approvals.quota import refuse_spent
from approvals.verbs import DECIDE
from approvals.writing import record_act
from runtime.access.authorize import authorize
from runtime.access.verbs import PAYLOAD_READ
from runtime.actions.acting import Act, insist
from runtime.actions.base import check_reason, frame
from runtime.actions.holds import pass_decision
from runtime.journal import audit
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.kernel.ids import uuid7
from runtime.machine.frame import Frame
from runtime.store.tx import Tx, is_guard, tenant_tx

DECISIONS = {"approve": "approved", "reject": "rejected"}


def decide_request(
    *, actor: Actor, request_id: uuid.UUID, decision: str, version: int, payload_hash: str, comment: str = ""
) -> dict[str, Any]:
    """Approve or reject a request, quoting the version and the payload's hash (hex) as they were shown.

    Where several people have to approve, each gives one voice; the last of them decides, and one rejection does.
    Returns {approval_id, decision, state, version, payload_hash, approvals, quorum, decided_by, decided_at, start_by,
    run_id, step_id, step_status, run_status, replayed}. The same decision again by the same person is answered alike,
    ``replayed``. Everything else on a closed, late or changed request is refused and stays in the audit: AlreadyClosed,
    AlreadySpoken, TooLate, OtherVersion, HandedOver, OwnRequest, CannotBeShown, Conflict (the run is ending),
    PermissionDenied, NotFound, BadInput. Verb ``approval.decide``, in the role that the request names; to approve
    ``payload.read`` too, since nobody approves what is withheld from them.
    """
    authorize(actor, DECIDE)
    if decision not in DECISIONS:
        raise BadInput("There is no such decision.", where="/decision", remediation="Decide `approve` or `reject`.")
    quoted = quoted_hash(payload_hash)
    text = check_reason(comment)
    try:
        if decision == "approve":
            authorize(actor, PAYLOAD_READ)
        return looking_again(lambda: _decide(actor, request_id, decision, version, quoted, text))
    except (Conflict, PermissionDenied) as problem:
        details = {"decision": decision, "version": version, "payload_hash": payload_hash}
        record_refusal(actor, DECIDE, request_id, problem, details)
        if isinstance(problem, ReviewLimitReached):
            pass_on(actor=actor, request_id=request_id)
        raise


def looking_again(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run ``work``, and once more when the database's guard refuses what was allowed a moment ago.

    Between the look at the deadline and the statement time goes on: the second look tells that it is too late.
    """
    try:
        return insist(work)
    except psycopg.Error as problem:
        if not is_guard(problem):
            raise
        return insist(work)


def _decide(
    actor: Actor, request_id: uuid.UUID, decision: str, version: int, quoted: bytes, comment: str
) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        asked = lock_request(unit, request_id)
        voices = _voices(tx, asked)
        earlier = next((one for one in voices if one["user_id"] == actor.user_id), None)
        if earlier is not None and _same(earlier, decision, version, quoted):
            return _answer(unit, asked, decision, voices, replayed=True)
        voice = voice_of(tx, actor, asked, {one[name] for one in voices for name in ("user_id", "for_user_id")})
        _check(asked, voice, voices, decision, version, quoted, tx.now())
        refuse_spent(tx, actor.user_id, actor.label, asked)
        row = tx.one(
            "approval_decision_insert",
            (
                uuid7(), tx.tenant_id, asked.id, decision, actor.label, actor.user_id, actor.token_id,
                voice.for_user_id, voice.for_label, version, quoted, comment, None,
            ),
        )  # fmt: skip
        assert row is not None
        spoken = {"user_id": voice.user_id, "for_user_id": voice.for_user_id, "decision": decision, "at": row[0]}
        voices.append(spoken)
        details = _details(asked, voice, version, quoted)
        if decision == "approve" and counted(tx, voices, asked.role) < asked.quorum:
            return _heard(unit, asked, actor, comment, voices, details)
        return _settle(unit, asked, actor, decision, comment, voices, details)


def _heard(
    unit: Frame, asked: Asked, actor: Actor, comment: str, voices: list[dict[str, Any]], details: dict[str, Any]
) -> dict[str, Any]:
    """Keep a voice; others have to agree before anything happens."""
    unit.tx.send("approval_heard", (asked.id, asked.revision))
    answer = _answer(unit, asked, "approve", voices, replayed=False)
    told = {**details, "approvals": answer["approvals"], "quorum": asked.quorum}
    record_act(unit.tx, actor, DECIDE, asked, result="heard", reason=comment, details=told)
    return answer


def _settle(
    unit: Frame,
    asked: Asked,
    actor: Actor,
    decision: str,
    comment: str,
    voices: list[dict[str, Any]],
    details: dict[str, Any],
) -> dict[str, Any]:
    """Close the request by this decision, and let what it is about go on or end, in the same transaction."""
    tx, state = unit.tx, DECISIONS[decision]
    words = {"id": asked.id, "state": state, "by": actor.label, "comment": comment, "revision": asked.revision}
    moved = tx.one("approval_decide", words)
    assert moved is not None, "the row is locked"
    asked.state, asked.decided_by, asked.decided_at = state, actor.label, moved[0]
    payload = {name: details[name] for name in ("approval_id", "payload_hash", "version")}
    granted = decision == "approve"
    if asked.run_id is None:
        seams.resume_subject(
            asked.subject_kind, tx=tx, subject_id=asked.subject_id, granted=granted, actor=actor,
            request_id=asked.id, reason=comment,
        )  # fmt: skip
    else:
        assert asked.step_id is not None
        run, step = unit.step(asked.step_id)
        act = Act(unit, run, actor, comment)
        pass_decision(act, step, granted=granted, payload=payload)
        act.close()
    answer = _answer(unit, asked, decision, voices, replayed=False)
    record_act(tx, actor, DECIDE, asked, result=state, reason=comment, details=details)
    return {**answer, "start_by": moved[1]}


def _details(asked: Asked, voice: Voice, version: int, quoted: bytes) -> dict[str, Any]:
    details: dict[str, Any] = {
        "approval_id": str(asked.id),
        "payload_hash": quoted.hex(),
        "version": version,
        "action_hash": bytes(asked.action_sha256).hex(),
        "node": asked.node,
        "title": asked.title[:300],
    }
    return details if voice.for_label is None else {**details, "in_place_of": voice.for_label}


def _check(
    asked: Asked,
    voice: Voice,
    voices: list[dict[str, Any]],
    decision: str,
    version: int,
    quoted: bytes,
    now: Any,
) -> None:
    """Refuse what is closed, late, or was shown otherwise; in this order, each telling what is there now."""
    refuse_closed(asked, now)
    refuse_other(asked, version, quoted)
    for one in voices:
        if voice.people & {one["user_id"], one["for_user_id"]}:
            raise AlreadySpoken("One person has one voice, through whatever roles and delegations.", **asked.there())
    if decision == "approve":
        if asked.kind == "input":
            mend = "Answer it with POST steps/{id}/input/."
            raise NotUsable("It asks for an input, and no word approves one.", remediation=mend, **asked.there())
        if asked.problem is not None:
            raise CannotBeShown(f"What would happen cannot be shown: {asked.problem}", **asked.there())
        if asked.separation == "two_people" and asked.editor_id in voice.people:
            raise OwnRequest(f"{asked.editor} edited this proposal: another person approves it.", verb=DECIDE)


def _voices(tx: Tx, asked: Asked) -> list[dict[str, Any]]:
    return tx.dicts("approval_decisions", (asked.id,))


def _same(earlier: dict[str, Any], decision: str, version: int, quoted: bytes) -> bool:
    there = (earlier["decision"], earlier["version"], bytes(earlier["payload_sha256"]))
    return there == (decision, version, quoted)


def _answer(
    unit: Frame, asked: Asked, decision: str, voices: list[dict[str, Any]], *, replayed: bool
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "approval_id": str(asked.id),
        "decision": decision,
        "state": asked.state,
        "version": asked.version,
        "payload_hash": bytes(asked.payload_sha256).hex(),
        "approvals": approvals_given(unit.tx, asked.state, asked.role, voices),
        "quorum": asked.quorum,
        "decided_by": asked.decided_by,
        "decided_at": asked.decided_at,
        "run_id": None,
        "step_id": None,
        "step_status": None,
        "run_status": None,
        "replayed": replayed,
    }
    if asked.step_id is not None:
        run, step = unit.step(asked.step_id)
        told = {"run_id": str(run.id), "step_id": str(step.id), "step_status": step.status, "run_status": run.status}
        answer.update(told)
    return answer


def quoted_hash(text: str, where: str = "/payload_hash") -> bytes:
    """Return the bytes of a hash as it was quoted. Raises BadInput."""
    try:
        value = bytes.fromhex(text)
    except (ValueError, TypeError):
        value = b""
    if len(value) != 32:
        raise BadInput(
            "The hash is a SHA-256 in hex.",
            where=where,
            remediation=f"Quote `{where[1:]}` as shown.",
        )
    return value


def record_refusal(
    actor: Actor, verb: str, request_id: uuid.UUID, problem: QuarterdeckError, details: dict[str, Any]
) -> None:
    """Keep in the audit what was refused, in a transaction of its own."""
    with tenant_tx(actor.tenant_id) as tx:
        audit.record(
            tx,
            actor=actor,
            verb=verb,
            subject_kind="approval",
            subject_id=request_id,
            run_id=problem.run_id,  # type: ignore[arg-type]
            result="refused",
            reason=problem.detail,
            details={"code": problem.code, **details},
        )


__all__ = ["DECISIONS", "decide_request", "looking_again", "quoted_hash", "record_refusal"]
