"""Editing what a request asks for: a new proposal, marked human_edited, that takes the old one's place (C5.4).

It is checked against the tool's schema like any call, has hashes of its own, and needs its own approval. What the
workflow itself would send is kept beside it: by that the call is known when it comes. A program's own action is edited
too: it is told that its request is superseded, reads the new one, and may carry out exactly that.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import orjson

from approvals.actions.decide import quoted_hash, record_refusal
from approvals.actions.handling import standing
from approvals.actions.own import EXTERNAL, contract_of, proposal_of
from approvals.asked import Asked, lock_request, refuse_closed, refuse_other
from approvals.binding import refuse_rebinding
from approvals.errors import NotUsable
from approvals.law import EDITED
from approvals.people import voice_of
from approvals.policies import under_policy
from approvals.rendering import Call, Rendered, submitter_of
from approvals.terms import Terms
from approvals.verbs import DECIDE
from approvals.writing import About, note, record_act, write_request
from runtime.access.authorize import authorize
from runtime.actions.acting import insist, refuse_stopping
from runtime.actions.base import check_reason, frame
from runtime.graph.plan import Plan
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError, SchemaMismatch
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState
from runtime.store.tx import Tx
from runtime.tools.calls import prepare

# How many proposals follow each other: whoever finds no words by then rejects it.
MOST_PROPOSALS = 50


def propose_edit(
    *,
    actor: Actor,
    request_id: uuid.UUID,
    arguments: Any,
    version: int,
    payload_hash: str,
    comment: str,
    node: str | None = None,
) -> dict[str, Any]:
    """Supersede a request by one whose call sends ``arguments`` instead; ``node`` names the call where it has several.

    Quotes version and payload hash as shown. Deadline, role and quorum stay. Returns {approval_id (the new one),
    supersedes, version, payload_hash, state, …}. Raises SchemaMismatch when the tool does not take the arguments,
    BadInput when the call's business key or target is made of what was edited, NotUsable when nothing changes or there
    is no such call, and what deciding raises. Verb ``approval.decide``.
    """
    authorize(actor, DECIDE)
    quoted, text = quoted_hash(payload_hash), check_reason(comment, required=True)
    try:
        return insist(lambda: _propose(actor, request_id, arguments, version, quoted, text, node))
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, "approval.propose", request_id, problem, {"version": version})
        raise


def _propose(
    actor: Actor, request_id: uuid.UUID, arguments: Any, version: int, quoted: bytes, comment: str, node: str | None
) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        asked = lock_request(unit, request_id)
        voice_of(tx, actor, asked)
        now = tx.now()
        refuse_closed(asked, now)
        refuse_other(asked, version, quoted)
        if asked.version >= MOST_PROPOSALS:
            mend = "Decide it as it is, or reject it."
            raise NotUsable(
                f"It was edited {asked.version - 1} times; that is the most.", remediation=mend, **asked.there()
            )
        run = _run_of(unit, asked)
        rendered = _edited(tx, asked, actor, arguments, node, None if run is None else run.plan)
        rendered.submitted_by = None if run is None else submitter_of(tx, run)
        name, kind = (run.plan.name, asked.kind) if run is not None else ("", EXTERNAL)
        terms = under_policy(tx, rendered, _terms(asked), name, kind, now=now, refuse_denied=True)
        closing = {"to": "superseded", "from": "pending", "reason": EDITED, "ids": [asked.id]}
        tx.send("approval_close", closing)
        new_id = write_request(tx, _about(asked, actor), terms, rendered, now, deadline=asked.deadline)
        assert new_id is not None, "the old one is closed"
        told = {"supersedes": str(asked.id), "superseded_by": str(new_id)}
        note(tx, new_id, "propose", actor.label, comment, told)
        fresh = lock_request(unit, new_id)
        hashes = {"action_hash_before": bytes(asked.action_sha256), "action_hash": bytes(fresh.action_sha256)}
        details = {**told, **{name: value.hex() for name, value in hashes.items()}}
        record_act(tx, actor, "approval.propose", fresh, result="human_edited", reason=comment, details=details)
        return {**standing(fresh), "supersedes": str(asked.id)}


def _run_of(unit: Frame, asked: Asked) -> RunState | None:
    """Return the run that the calls are made in, None for a program's own action. Raises NotUsable for no call."""
    if asked.run_id is not None:
        run = unit.runs[asked.run_id]
        refuse_stopping(run)
        return run
    if asked.subject_kind != EXTERNAL:
        raise NotUsable("It is no call: its own app changes it.", **asked.there())
    return None


def _edited(tx: Tx, asked: Asked, actor: Actor, arguments: Any, node: str | None, plan: Plan | None) -> Rendered:
    """Return what the new proposal shows and permits: the old one with one call's arguments changed."""
    row = tx.one("approval_content", (asked.id,))
    assert row is not None
    old = orjson.loads(bytes(row[0]))
    calls = [_call(tx, asked, one, shown) for one, shown in zip(_rows(tx, asked), old["calls"], strict=True)]
    place = _which(asked, calls, node)
    call = calls[place]
    try:
        data = prepare(call.contract, arguments)
    except SchemaMismatch as problem:
        problem.where = f"/arguments{(problem.where or '').removeprefix('/arguments')}"
        raise
    except QuarterdeckError as problem:
        raise BadInput(problem.detail, where=f"/arguments{problem.where or ''}") from problem
    if digest(data) == call.arguments_sha256:
        raise NotUsable("These are the arguments it has already: nothing would change.", **asked.there())
    if plan is not None:
        refuse_rebinding(plan, asked.node, call.node, call.arguments, orjson.loads(data))
    elif _state(call, call.arguments) != _state(call, orjson.loads(data)):
        mend = "Leave what names it as it is; or reject the request, so that another is asked for."
        raise BadInput("The state that the call writes stays as it was asked.", where="/arguments", remediation=mend)
    calls[place] = replace(
        call,
        arguments=orjson.loads(data),
        arguments_sha256=digest(data),
        edited=data,
        prepared_sha256=call.prepared_sha256 or call.arguments_sha256,
    )
    rendered = Rendered(
        asked.requested_by,
        asked.title,
        old.get("goal", ""),
        payload=old["payload"],
        calls=calls,
        evidence=old.get("evidence", []),
        target=asked.target,
        target_version=asked.target_version,
        target_was=(old.get("target") or {}).get("was"),
        declared_risk=old["risk"]["level"] if "declared" in old["risk"]["reasons"] else "",
        edited_by=actor.label,
    )
    rendered.seal()
    return rendered


def _state(call: Call, arguments: Any) -> str | None:
    return call.contract.state(arguments) if isinstance(arguments, dict) else None


def _rows(tx: Tx, asked: Asked) -> list[tuple[Any, ...]]:
    return tx.rows("approval_contents", (asked.id,))


def _call(tx: Tx, asked: Asked, row: tuple[Any, ...], shown: dict[str, Any]) -> Call:
    node, tool, contract_sha256, business_key, arguments_sha256, edited, prepared_sha256 = row
    contract = contract_of(tx, tool)
    if contract.digest != bytes(contract_sha256):
        # A tool's version is never changed; but of one that nobody had described the worst was presumed.
        mend = "Reject it, so that the program asks under the tool's contract."
        raise NotUsable("The tool was registered since it was asked for.", remediation=mend, **asked.there())
    return Call(
        node=node,
        tool=tool,
        contract_sha256=contract.digest,
        business_key=business_key,
        arguments=shown["arguments"],
        arguments_sha256=bytes(arguments_sha256),
        contract=contract,
        edited=None if edited is None else bytes(edited),
        prepared_sha256=None if prepared_sha256 is None else bytes(prepared_sha256),
        original=shown.get("original"),
    )


def _which(asked: Asked, calls: list[Call], node: str | None) -> int:
    names = [call.node for call in calls]
    if asked.problem is not None or not names:
        raise NotUsable("It permits no call whose arguments could be edited.", **asked.there())
    if node is None and len(names) > 1:
        mend = f"Name one of: {', '.join(names)}."
        raise BadInput("It permits several calls: say which one.", where="/node", remediation=mend)
    if node is not None and node not in names:
        mend = f"Name one of: {', '.join(names)}."
        raise BadInput(f"It permits no call of {node!r}.", where="/node", remediation=mend)
    return 0 if node is None else names.index(node)


def _about(asked: Asked, actor: Actor) -> About:
    return About(
        kind=asked.kind,
        run_id=asked.run_id,
        task_id=asked.task_id,
        step_id=asked.step_id,
        node=asked.node,
        execution_version=asked.execution_version,
        subject_kind=asked.subject_kind,
        subject_id=None if asked.subject_id is None else proposal_of(asked.subject_id, asked.version + 1),
        version=asked.version + 1,
        supersedes=asked.id,
        editor_id=actor.user_id,
    )


def _terms(asked: Asked) -> Terms:
    return Terms(
        role=asked.role,
        quorum=asked.quorum,
        separation=asked.separation,
        start_within_s=asked.start_within_seconds,
        on_timeout=asked.on_timeout,
        ladder=asked.ladder,
    )


__all__ = ["propose_edit"]
