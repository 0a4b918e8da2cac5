"""Using the grant of a program's own action, once, and reporting what came of it (C5.3, C5.6).

The whole tuple is looked at again under the lock: granted for this action and this version of its target, in time to
start, its approvers and the asker still authorised, the active policy content, no stop standing. Nothing here calls
anything; the asker does, once it was let through.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import orjson

from approvals.actions.decide import quoted_hash, record_refusal
from approvals.actions.own import ACTION, contract_of, lock_own, told
from approvals.asked import Asked
from approvals.errors import GrantGone, NotDecided, NotUsable, OtherAction, Stopped
from approvals.law import APPROVER_GONE, NOT_STARTED, POLICY_ASKS_MORE, POLICY_DENIES
from approvals.people import Standing
from approvals.policies import active_policy
from approvals.policy import DEFAULT, facts_of
from approvals.records import REPORTS
from approvals.terms import in_time, meets
from approvals.verbs import ASK
from approvals.writing import TARGET_CHANGED, note, record_act, target_changed
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.kernel.ids import uuid7
from runtime.queries.base import parsed
from runtime.store.tx import Tx
from runtime.worker import stops

MAX_KEY = 150


@dataclass(frozen=True, slots=True)
class _Quoted:
    """What the asker says that it is about to do; ``arguments`` are canonical bytes."""

    action_sha256: bytes
    arguments: bytes
    target_version: str | None
    use_key: str


def use_grant(
    *,
    actor: Actor,
    request_id: uuid.UUID,
    action_hash: str,
    arguments: Any,
    target_version: str | None = None,
    use_key: str = "",
) -> dict[str, Any]:
    """Use a grant up: from now on its asker may carry the action out, and nobody may again.

    Quotes the action's digest (hex) and the arguments that are about to be sent. Where a version of the target was
    approved, ``target_version`` is the one that the asker finds now: another voids the grant. Returns
    {approval_id, state, action_hash, use_id, used_at, replayed, …}; ``use_id`` is unique, to be sent on as the
    effect's idempotency key. The same ``use_key`` again is answered alike, without one there is no second time.
    Raises NotDecided (retryable), OtherAction, GrantGone with what became of it, Stopped (retryable), NotUsable,
    PermissionDenied for whoever did not ask for it, NotFound. Verb ``approval.ask``.
    """
    authorize(actor, ASK)
    digest_quoted = quoted_hash(action_hash, "/action_hash")
    if len(use_key) > MAX_KEY or not use_key.isprintable():
        raise BadInput(f"A use_key has at most {MAX_KEY} printable characters.", where="/use_key")
    quoted = _Quoted(digest_quoted, canonical_bytes(arguments), target_version, use_key)
    try:
        answer: dict[str, Any] | QuarterdeckError = insist(lambda: _use(actor, request_id, quoted))
        if isinstance(answer, QuarterdeckError):
            raise answer
        return answer
    except (NotDecided, Stopped):
        raise  # asked again and again meanwhile: as rows of the audit they would grow its chain without bound
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, "approval.use", request_id, problem, {"action_hash": action_hash})
        raise


def _use(actor: Actor, request_id: uuid.UUID, quoted: _Quoted) -> dict[str, Any] | QuarterdeckError:
    """Return what the asker is told; a refusal that closes the grant is returned, so that the closing commits."""
    with frame(actor) as unit:
        tx, asked = unit.tx, lock_own(unit, actor, request_id)
        (action,) = tx.dicts("approval_actions", (asked.id,))
        _refuse_other(asked, action, quoted)
        used = next((parsed(row[1]) for row in tx.rows("approval_uses", (asked.id,)) if row[0] == "use"), None)
        if asked.state == "consumed" and used is not None and quoted.use_key and used["use_key"] == quoted.use_key:
            return _told(asked, action, replayed=True)
        if asked.state == "pending":
            raise NotDecided(**asked.there())
        if asked.state != "approved":
            why = f" ({asked.outcome_reason})" if asked.outcome_reason else ""
            raise GrantGone(f"The request is {asked.state}{why}.", outcome_reason=asked.outcome_reason, **asked.there())
        if (gone := _over(tx, actor, asked, action, quoted)) is not None:
            return gone
        assert tx.tenant_id is not None
        if any(stop.covers(tx.tenant_id, action["tool"], "") for stop in stops.own(tx)):
            raise Stopped(**asked.there())
        use_id = uuid7()
        tx.send("approval_use", ([action["id"]], [use_id]))
        tx.send("approval_used_up", ([asked.id],))
        note(tx, asked.id, "use", actor.label, "", {"use_id": str(use_id), "use_key": quoted.use_key})
        details = {"use_id": str(use_id), "action_hash": quoted.action_sha256.hex(), "tool": action["tool"]}
        record_act(tx, actor, "approval.use", asked, result="used", details=details)
        asked.state = "consumed"
        (action,) = tx.dicts("approval_actions", (asked.id,))
        return _told(asked, action, replayed=False)


def _refuse_other(asked: Asked, action: dict[str, Any], quoted: _Quoted) -> None:
    """Raise OtherAction for what is not the very action, BadInput where it is not told or not known by a version."""
    other = quoted.action_sha256 != bytes(asked.action_sha256)
    if other or digest(quoted.arguments) != bytes(action["arguments_sha256"]):
        where, now = "/action_hash" if other else "/arguments", bytes(asked.action_sha256).hex()
        raise OtherAction(where=where, current_action_hash=now, **asked.there())
    if asked.target_version is not None and quoted.target_version is None:
        mend = "Read the target, and quote the version that it is in now."
        raise BadInput("It was asked for one version of its target.", where="/target_version", remediation=mend)
    if asked.target_version is None and quoted.target_version is not None:
        mend = "Leave it out, or name the version when you ask."
        raise BadInput("It was asked for no version of a target.", where="/target_version", remediation=mend)


def _over(tx: Tx, actor: Actor, asked: Asked, action: dict[str, Any], quoted: _Quoted) -> QuarterdeckError | None:
    """Close a grant that holds no more: time, givers' right, target's version, policy; returns the refusal."""
    start_by = tx.one("approval_start_by", (asked.id,))
    assert start_by is not None
    votes, people = tx.rows("approval_votes", ([asked.id],)), Standing(tx)
    if start_by[0] is not None and start_by[0] <= tx.now():
        return _close(tx, asked, "lapsed", NOT_STARTED)
    if sum(people.speaks(user_id, for_user_id, asked.role) for _id, user_id, for_user_id in votes) < asked.quorum:
        return _close(tx, asked, "revoked", APPROVER_GONE)
    if quoted.target_version != asked.target_version:
        told = {"node": ACTION, "from": asked.target_version, "to": quoted.target_version}
        note(tx, asked.id, TARGET_CHANGED, actor.label, "", told)
        return _close(tx, asked, "voided", target_changed(asked.target_version, quoted.target_version))
    return _judged(tx, asked, action, quoted)


def _judged(tx: Tx, asked: Asked, action: dict[str, Any], quoted: _Quoted) -> QuarterdeckError | None:
    """Close what the policy of now denies, or would let pass on stricter terms only, as the gate judges a call."""
    policy = active_policy(tx)
    if policy is None or policy.version == DEFAULT:  # by default its own approval is enough
        return None
    facts = facts_of(
        contract_of(tx, action["tool"]),
        orjson.loads(quoted.arguments),
        requester=asked.requested_by,
        workflow="",
        node=ACTION,
        business_key=action["business_key"],
        now=tx.now(),
    )
    verdict = policy.judge(facts)
    if verdict.decide == "deny":
        return _close(tx, asked, "revoked", POLICY_DENIES, verdict.reason)
    enough = meets(asked, verdict.terms) and in_time(asked.decided_at, verdict.terms, tx.now())
    if verdict.decide == "approval" and not enough:
        return _close(tx, asked, "revoked", POLICY_ASKS_MORE, f"Rule {verdict.rule!r} asks for people.")
    return None


def _close(tx: Tx, asked: Asked, to: str, reason: str, why: str = "") -> QuarterdeckError:
    tx.send("approval_close", {"to": to, "from": "approved", "reason": reason, "ids": [asked.id]})
    asked.state = to
    return GrantGone(f"The grant is {to}: {reason}. {why}".rstrip(), outcome_reason=reason, **asked.there())


def _told(asked: Asked, action: dict[str, Any], *, replayed: bool) -> dict[str, Any]:
    used = {"use_id": action["operation_id"], "used_at": action["consumed_at"]}
    return {**told(asked, replayed=replayed), **used}


def report_outcome(*, actor: Actor, request_id: uuid.UUID, outcome: str, detail: str = "") -> dict[str, Any]:
    """Say what came of an action whose grant was used: applied, not_applied, or unknown until something is known.

    Returns {approval_id, state, outcome, replayed}. The same report again is answered alike; only "unknown" is ever
    followed by another. Raises NotUsable when the grant was not used or another outcome stands, PermissionDenied,
    NotFound, BadInput. Verb ``approval.ask``. It is the asker's word, and no proof.
    """
    authorize(actor, ASK)
    if outcome not in REPORTS:
        mend = f"Choose from: {', '.join(REPORTS)}."
        raise BadInput(f"There is no outcome {outcome[:60]!r}.", where="/outcome", remediation=mend)
    text = check_reason(detail)
    try:
        answer: dict[str, Any] = insist(lambda: _report(actor, request_id, {"outcome": outcome, "detail": text}))
        return answer
    except (Conflict, PermissionDenied) as problem:
        record_refusal(actor, "approval.report", request_id, problem, {"outcome": outcome})
        raise


def _report(actor: Actor, request_id: uuid.UUID, said: dict[str, Any]) -> dict[str, Any]:
    with frame(actor) as unit:
        asked = lock_own(unit, actor, request_id)
        if asked.state != "consumed":
            raise NotUsable(f"Its grant was not used: the request is {asked.state}.", **asked.there())
        reports = [parsed(row[1]) for row in unit.tx.rows("approval_uses", (asked.id,)) if row[0] == "report"]
        replayed = bool(reports) and reports[-1] == said
        if not replayed:
            if reports and reports[-1]["outcome"] != "unknown":
                raise NotUsable(f"{reports[-1]['outcome']!r} was reported before.", **asked.there())
            note(unit.tx, asked.id, "report", actor.label, said["detail"], said)
            record_act(unit.tx, actor, "approval.report", asked, result=said["outcome"], details=said)
        return {"approval_id": str(asked.id), "state": asked.state, "outcome": said["outcome"], "replayed": replayed}


__all__ = ["report_outcome", "use_grant"]
