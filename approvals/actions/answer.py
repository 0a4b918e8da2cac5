"""Answering a step that asks for an input: a value that fits its form becomes its output, no approval (C5.4)."""

from __future__ import annotations

import uuid
from typing import Any

import orjson

from approvals.actions.decide import looking_again, quoted_hash, record_refusal
from approvals.actions.quota import pass_on
from approvals.asked import Asked, lock_request, refuse_closed, refuse_other
from approvals.errors import CannotBeShown, ReviewLimitReached
from approvals.people import voice_of
from approvals.quota import refuse_spent
from approvals.verbs import ANSWER
from approvals.writing import record_act
from runtime.access.authorize import authorize
from runtime.actions.acting import Act
from runtime.actions.base import check_reason, frame
from runtime.actions.holds import pass_decision
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import Conflict, NotFound, PayloadTooLarge, PermissionDenied, SchemaMismatch
from runtime.kernel.ids import uuid7
from runtime.kernel.schemas import compile_schema
from runtime.machine.frame import Frame
from runtime.store.tx import Tx, tenant_tx


def answer_input(
    *,
    actor: Actor,
    step_id: uuid.UUID,
    value: Any,
    version: int | None = None,
    payload_hash: str | None = None,
    comment: str = "",
) -> dict[str, Any]:
    """Answer the request of a step that holds for an input; ``value`` is JSON and fits the form.

    Returns as a decision does. The same answer again by the same person is answered alike, ``replayed``. Raises
    NotFound (the step asks for none), SchemaMismatch naming each wrong place, PayloadTooLarge, AlreadyClosed, TooLate,
    OtherVersion, HandedOver, CannotBeShown, ReviewLimitReached (the request goes back to everybody of its role),
    PermissionDenied. Verb ``approval.answer``, in the role that the request names.
    """
    authorize(actor, ANSWER)
    text, quoted = check_reason(comment), None if payload_hash is None else quoted_hash(payload_hash)
    data = canonical_bytes(value)
    if len(data) > (limit := conf().max_payload_bytes):
        raise PayloadTooLarge(f"The answer has {len(data)} bytes; the limit is {limit}.", limit=limit)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("input_of_step", (step_id,))
    if row is None:
        raise NotFound("This step asks for no input.")
    try:
        return looking_again(lambda: _answer(actor, row[0], data, version, quoted, text))
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, ANSWER, row[0], problem, {"step_id": str(step_id), "answer_sha256": digest(data).hex()})
        if isinstance(problem, ReviewLimitReached):
            pass_on(actor=actor, request_id=row[0])
        raise


def _answer(
    actor: Actor, request_id: uuid.UUID, data: bytes, version: int | None, quoted: bytes | None, comment: str
) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        asked = lock_request(unit, request_id)
        if _said_before(tx, asked, actor, data):
            return _told(unit, asked, replayed=True)
        voice = voice_of(tx, actor, asked)
        refuse_closed(asked, tx.now())
        refuse_other(asked, asked.version if version is None else version, quoted or bytes(asked.payload_sha256))
        if asked.problem is not None:
            raise CannotBeShown(f"What is asked for cannot be shown: {asked.problem}", **asked.there())
        _check_form(tx, asked, data)
        refuse_spent(tx, actor.user_id, actor.label, asked)
        tx.send(
            "approval_decision_insert",
            (
                uuid7(), tx.tenant_id, asked.id, "approve", actor.label, actor.user_id, actor.token_id,
                voice.for_user_id, voice.for_label, asked.version, bytes(asked.payload_sha256), comment, data,
            ),
        )  # fmt: skip
        told = {"approval_id": str(asked.id), "answer_sha256": digest(data).hex()}
        answer = _go_on(unit, asked, actor, comment, told)
        details = told if voice.for_label is None else {**told, "in_place_of": voice.for_label}
        record_act(tx, actor, ANSWER, asked, result="answered", reason=comment, details=details)
        return answer


def _said_before(tx: Tx, asked: Asked, actor: Actor, data: bytes) -> bool:
    mine = [one for one in tx.dicts("approval_decisions", (asked.id,)) if one["user_id"] == actor.user_id]
    return any(one["answer"] is not None and bytes(one["answer"]) == data for one in mine)


def _go_on(unit: Frame, asked: Asked, actor: Actor, comment: str, told: dict[str, Any]) -> dict[str, Any]:
    """Close the request as answered and queue its step, whose output is the answer."""
    words = {"id": asked.id, "state": "approved", "by": actor.label, "comment": comment, "revision": asked.revision}
    moved = unit.tx.one("approval_decide", words)
    assert moved is not None, "the row is locked"
    asked.state, asked.decided_by, asked.decided_at = "approved", actor.label, moved[0]
    assert asked.step_id is not None
    run, step = unit.step(asked.step_id)
    act = Act(unit, run, actor, comment)
    pass_decision(act, step, granted=True, payload=told)
    act.close()
    return _told(unit, asked, replayed=False)


def _check_form(tx: Tx, asked: Asked, data: bytes) -> None:
    row = tx.one("approval_content", (asked.id,))
    assert row is not None
    form, value = compile_schema(orjson.loads(bytes(row[0]))["form"]), orjson.loads(data)
    if form.fits(value):
        return
    found = [
        {"where": f"/value{one.where}", "detail": one.detail, "remediation": one.mend} for one in form.problems(value)
    ]
    first = found[0]
    raise SchemaMismatch(first["detail"], where=first["where"], remediation=first["remediation"], problems=found)


def _told(unit: Frame, asked: Asked, *, replayed: bool) -> dict[str, Any]:
    assert asked.step_id is not None
    run, step = unit.step(asked.step_id)
    return {
        "approval_id": str(asked.id),
        "decision": "approve",
        "state": asked.state,
        "version": asked.version,
        "payload_hash": bytes(asked.payload_sha256).hex(),
        "approvals": 1,
        "quorum": asked.quorum,
        "decided_by": asked.decided_by,
        "decided_at": asked.decided_at,
        "run_id": str(run.id),
        "step_id": str(step.id),
        "step_status": step.status,
        "run_status": run.status,
        "replayed": replayed,
    }
