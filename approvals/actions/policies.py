"""Proposing a policy, trying it on the past, and activating it, which itself needs another person (C5.3, A10.2)."""

from __future__ import annotations

import uuid
from typing import Any

import orjson

from approvals.askable import rule_warnings
from approvals.asked import lock_request, refuse_closed
from approvals.errors import NotUsable
from approvals.groups import check_groups
from approvals.policy import check_rules, compiled
from approvals.subjects import ask_about
from approvals.trying import COUNTS, tried
from approvals.verbs import POLICY
from approvals.writing import note as write_note
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.graph.problems import warned
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.errors import Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx, tenant_tx

KIND = "policy"
MOST_TRIED = 1000
NO_OTHER_ADMIN = "There is no other admin in this tenant, so nobody can activate it: make a second member an admin."


def propose_policy(*, actor: Actor, rules: Any, note: str, policy_id: uuid.UUID | None = None) -> dict[str, Any]:
    """Write a new version of the tenant's rules and ask another admin to activate it.

    ``policy_id`` is the caller's own id of this proposal: sent again, it is answered as before. Returns {policy_id,
    version, sha256, state, approval_id, tried, replayed}: ``tried`` is what it would have said of the past, which is
    what the approver is shown; ``warnings`` (and ``warnings_left_out``), the rules that would find nobody to ask today,
    or too few: {where, detail, remediation}; and ``warning`` where there is no other admin. Raises BadInput naming the
    place, Conflict when the id is that of another proposal, PermissionDenied. Verbs as for trying.
    """
    _permit(actor)
    text, data = check_reason(note, required=True), check_rules(rules)
    given = policy_id or uuid7()
    return insist(lambda: _propose(actor, given, data, text))


def _propose(actor: Actor, policy_id: uuid.UUID, data: bytes, text: str) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        tx.send("policy_serial", (tx.tenant_id,))
        rules = orjson.loads(data)
        check_groups(tx, rules)
        answer = _proposed_before(tx, actor, policy_id, data, text)
        if answer is not None:
            found = tried(tx, compiled(answer["version"], data), MOST_TRIED)
        else:
            answer, found = _write(tx, actor, policy_id, data, text)
        others = tx.one("other_admins_count", (actor.user_id or 0,))
        told = warned(rule_warnings(tx, rules))
    assert others is not None
    return {**answer, "tried": found, **told, **({} if others[0] else {"warning": NO_OTHER_ADMIN})}


def _proposed_before(tx: Tx, actor: Actor, policy_id: uuid.UUID, data: bytes, text: str) -> dict[str, Any] | None:
    """Return the answer to a proposal that is sent again; None for a new one. Raises Conflict for another one's id."""
    row = tx.one("policy_of_id", (policy_id,))
    if row is None:
        return None
    version, sha256, note, by, state, approval_id = row
    if (bytes(sha256), note, by) != (digest(data), text, actor.label):
        raise _used(version)
    answer = {"policy_id": str(policy_id), "version": version, "sha256": bytes(sha256).hex(), "state": state}
    return {**answer, "approval_id": str(approval_id), "replayed": True}


def _used(version: int | None) -> Conflict:
    other = f"version {version}" if version is not None else "another proposal"
    return Conflict(
        f"This policy_id was used for {other}.",
        where="/policy_id",
        remediation="Look at what is proposed already; propose other rules under another id.",
    )


def _write(tx: Tx, actor: Actor, policy_id: uuid.UUID, data: bytes, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write a version and ask for it; return the answer and what the dry run came to."""
    words = {"id": policy_id, "tenant": tx.tenant_id, "rules": data, "sha256": digest(data), "note": text}
    row = tx.one("policy_insert", {**words, "by": actor.label})
    if row is None:  # an id that another tenant has
        raise _used(None)
    version, found = row[0], tried(tx, compiled(row[0], data), MOST_TRIED)
    approval_id = _ask_admins(tx, actor, policy_id, version, data, text, found)
    answer = {
        "policy_id": str(policy_id),
        "version": version,
        "sha256": digest(data).hex(),
        "state": "proposed",
        "approval_id": str(approval_id),
    }
    audit.record(
        tx,
        actor=actor,
        verb=POLICY,
        subject_kind=KIND,
        subject_id=policy_id,
        result="proposed",
        reason=text,
        details={name: answer[name] for name in ("version", "sha256", "approval_id")},
    )
    return {**answer, "replayed": False}, found


def _ask_admins(
    tx: Tx, actor: Actor, policy_id: uuid.UUID, version: int, data: bytes, note: str, found: dict[str, Any]
) -> uuid.UUID | None:
    """Ask another admin to activate a version: they see its rules, what it replaces and what the dry run came to."""
    active = tx.one("policy_active", (tx.tenant_id,))
    payload = {
        "version": version,
        "replaces": None if active is None else active[0],
        "rules": orjson.loads(data),
        "on_the_past": {name: found[name] for name in COUNTS},
    }
    approval_id = ask_about(
        tx=tx,
        kind=KIND,
        subject_id=str(policy_id),
        title=f"Activate policy {version}",
        goal=note,
        payload=payload,
        requested_by=actor.label,
        role="admin",
        risk="high",
    )
    tx.send("policy_asked", (approval_id, policy_id))
    return approval_id


def withdraw_policy(*, actor: Actor, policy_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Take a proposed version back: its request is cancelled, and nobody activates it any more.

    Any admin may, whoever proposed it. Returns {policy_id, version, state, approval_id}. Raises NotFound, AlreadyClosed
    when it was decided, PermissionDenied, BadInput. Verb ``policy.propose``.
    """
    authorize(actor, POLICY)
    text = check_reason(reason, required=True)
    return insist(lambda: _withdraw(actor, policy_id, text))


def _withdraw(actor: Actor, policy_id: uuid.UUID, text: str) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        row = tx.one("policy_request", (policy_id,))
        if row is None or row[0] is None:
            raise NotFound("There is no policy of that id in this tenant.")
        # The request first, as its decision does.
        asked = lock_request(unit, row[0])
        tx.send("policy_serial", (tx.tenant_id,))
        there = tx.one("policy_lock", (policy_id,))
        assert there is not None
        if there[1] != "proposed":
            raise NotUsable(f"Version {there[0]} is {there[1]}: there is nothing to withdraw.", **asked.there())
        refuse_closed(asked, tx.now())
        closing = {"to": "cancelled", "from": "pending", "reason": f"withdrawn by {actor.label}"[:200]}
        tx.send("approval_close", {**closing, "ids": [asked.id]})
        tx.send("policy_withdraw", (policy_id,))
        write_note(tx, asked.id, "withdraw", actor.label, text)
        answer = {"policy_id": str(policy_id), "version": there[0], "state": "withdrawn", "approval_id": str(asked.id)}
        audit.record(
            tx,
            actor=actor,
            verb=POLICY,
            subject_kind=KIND,
            subject_id=policy_id,
            result="withdrawn",
            reason=text,
            details={"version": there[0], "approval_id": str(asked.id)},
        )
    return answer


def try_policy(*, actor: Actor, rules: Any, limit: int = MOST_TRIED) -> dict[str, Any]:
    """Say what rules would have said of the newest ``limit`` requests' calls and as many that were sent unasked.

    Writes nothing. Returns what ``approvals.trying.tried`` does, and ``warnings`` as proposing does. Raises BadInput
    naming the place, PermissionDenied. Verbs ``policy.propose`` and ``payload.read``: a rule's answer tells of what it
    read.
    """
    _permit(actor)
    data = check_rules(rules)
    with tenant_tx(actor.tenant_id) as tx:
        check_groups(tx, rules)
        found = tried(tx, compiled(0, data), min(limit, MOST_TRIED))
        return {**found, **warned(rule_warnings(tx, rules))}


def _permit(actor: Actor) -> None:
    authorize(actor, POLICY)
    authorize(actor, v.PAYLOAD_READ)


def refuse_overtaken(tx: Tx, version: int) -> None:
    """Refuse to activate a version that a newer one overtook. Raises NotUsable; the request stays as it was."""
    newer = tx.one("policy_newer", (version,))
    if newer is not None and newer[0] is not None:
        raise NotUsable(
            f"Version {newer[0]} was activated since: version {version} would take its rules back unseen.",
            remediation="Withdraw or reject it, and propose its rules again: they are compared with those of today.",
        )


def resume_policy(*, tx: Tx, subject_id: str, granted: bool, actor: Actor, request_id: uuid.UUID, reason: str) -> None:
    """Activate an approved version in the deciding transaction, or close a rejected one; the seam calls it."""
    policy_id = uuid.UUID(subject_id)
    tx.send("policy_serial", (tx.tenant_id,))
    row = tx.one("policy_lock", (policy_id,))
    if row is None or row[1] != "proposed":
        return
    retired = None
    if granted:
        refuse_overtaken(tx, row[0])
        retired = tx.one("policy_retire")
        tx.send("policy_activate", (policy_id,))
    else:
        tx.send("policy_reject", (policy_id,))
    audit.record(
        tx,
        actor=actor,
        verb="policy.activate",
        subject_kind=KIND,
        subject_id=policy_id,
        result="active" if granted else "rejected",
        reason=reason,
        details={"version": row[0], "approval_id": str(request_id), "retired": None if retired is None else retired[0]},
    )
