"""The gate before a side effect: a call behind an approval needs a grant for exactly itself (invariant 6, C5.6).

Skipping or forcing an approval step grants nothing. Asked in the transaction that commits the intent: what it lets
through is used up in that transaction, by that operation, or not at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from approvals.gating import gated_by, was_asked
from approvals.law import APPROVER_GONE, NOT_STARTED, REQUESTER_GONE
from approvals.people import Requesters, Standing
from approvals.policies import active_policy
from approvals.policy import Policy, Verdict, facts_of
from approvals.terms import Terms, in_time, meets
from approvals.writing import TARGET_CHANGED, note, target_changed
from runtime.kernel.seams import ALLOW, GateAnswer, order_words
from runtime.store import locks
from runtime.store.tx import Tx
from runtime.worker.execute import Prepared


@dataclass(frozen=True, slots=True)
class Grant:
    """One permitted call of a decided request; field order is that of the query ``approval_grants``."""

    id: uuid.UUID
    request_id: uuid.UUID
    run_id: uuid.UUID
    node: str
    tool: str
    contract_sha256: bytes
    business_key: str
    arguments_sha256: bytes
    operation_id: uuid.UUID | None
    kind: str
    asked_at: str
    asked_by: uuid.UUID
    state: str
    lapsed: bool | None
    role: str
    quorum: int
    separation: str
    arguments: bytes | None
    prepared_sha256: bytes | None
    target: str | None
    target_version: str | None
    decided_at: datetime | None

    def covers(self, item: Prepared) -> bool:
        """Say whether this is the very call that was approved, whatever else became of the grant.

        Where a person edited it, the call is known by what the workflow itself would send.
        """
        contract = item.tool.contract
        prepared = self.arguments_sha256 if self.prepared_sha256 is None else self.prepared_sha256
        return (
            self.run_id == item.claimed.run_id
            and self.node == item.claimed.node.id
            and self.tool == contract.reference
            and bytes(self.contract_sha256) == contract.digest
            and self.business_key == item.claimed.business_key
            and bytes(prepared) == item.input_sha256
        )

    @property
    def used(self) -> bool:
        return self.operation_id is not None


def gate(question: str, tx: Tx, items: Sequence[Prepared]) -> list[GateAnswer]:
    """Answer for each writing call whether it may be sent: by the tenant's policy, and by the workflow's approvals."""
    if question != "operation":
        return [ALLOW] * len(items)
    policy = active_policy(tx)
    gated: dict[uuid.UUID, Sequence[str]] = {}
    for item in items:
        plan = item.claimed.plan
        approvals = gated_by(tx, plan).get(item.claimed.node.id) if plan.asks else None
        if approvals:
            gated[item.claimed.step_id] = approvals
    if policy is None and not gated:
        return [ALLOW] * len(items)
    asking = [item for item in items if policy is not None or item.claimed.step_id in gated]
    pairs = {(item.claimed.run_id, name) for item in asking for name in gated.get(item.claimed.step_id, ())}
    steps = {(row[1], row[2]): (row[6], row[7], row[0]) for row in locks.step_rows(tx, pairs)} if pairs else {}
    runs = sorted({item.claimed.run_id for item in asking})
    grants = _usable(tx, [Grant(*row) for row in tx.rows("approval_grants", (runs,))])
    askers = Requesters(tx, runs)
    answers = []
    for item in items:
        wanted = gated.get(item.claimed.step_id, ())
        using, answer = _workflow(item, wanted, steps, [grant for grant in grants if grant.covers(item)])
        changed = [grant for grant in using if answer.verdict == "allow" and _target_changed(tx, item, grant)]
        if changed:
            using, answer = (), _void_changed(tx, item, changed)
        if using and answer.verdict == "allow" and (gone := _gone(tx, item, using, askers)) is not None:
            using, answer = (), gone
        answers.append((item, using, answer))
    return [answer for _item, _using, answer in answers] if policy is None else _judged(tx, policy, answers)


def _judged(
    tx: Tx, policy: Policy, answers: Sequence[tuple[Prepared, Sequence[Grant], GateAnswer]]
) -> list[GateAnswer]:
    """Lay the tenant's policy over what the workflows' approvals say; it only ever takes away."""
    now = tx.now()
    begun = _begun(tx, [item for item, _using, _answer in answers])
    judged = []
    for item, using, answer in answers:
        if (item.claimed.run_id, item.claimed.business_key) in begun:
            # It was let through when it was sent; now the ledger answers, and sends nothing new.
            judged.append(answer)
        else:
            verdict = policy.judge(_facts(item, answer, now))
            undoes = item.claimed.undo is not None
            if undoes and (verdict.decide == "approval" or verdict.yields) and answer.verdict == "allow":
                judged.append(_ordered(tx, item, verdict, answer, now))
            else:
                judged.append(_under(verdict, using, answer, now))
    return judged


def _under(verdict: Verdict, using: Sequence[Grant], answer: GateAnswer, now: datetime) -> GateAnswer:
    if verdict.yields and (using or answer.verdict != "allow"):
        return answer
    if verdict.decide == "deny":
        return GateAnswer("deny", verdict.reason)
    if answer.verdict == "park":  # nobody is asked on behalf of who may not ask any more
        return answer
    if verdict.decide == "approval" and not any(_enough(grant, verdict.terms, now) for grant in using):
        return GateAnswer("hold", f"Rule {verdict.rule!r} asks for people.")
    return answer


def _enough(grant: Grant, wanted: Terms, now: datetime) -> bool:
    """Say whether a grant stands under a rule of now; one that was used was begun in its time."""
    return meets(grant, wanted) and (grant.used or in_time(grant.decided_at, wanted, now))


def _ordered(tx: Tx, item: Prepared, verdict: Verdict, answer: GateAnswer, now: datetime) -> GateAnswer:
    """Let an undoing through that people ordered on the rule's terms; any other fails, and becomes a person's (C4.5).

    No step of the workflow could hold for it: its run may have ended. So the order itself is the approval: those who
    approved it at the repair desk have to be as many, in the role, by the separation and within the time that the
    rule asks for, and to have that right still.
    """
    words, terms = order_words(tx, item.claimed.run_id, item.claimed.step_id), verdict.terms
    if words is None:
        return GateAnswer("deny", f"Rule {verdict.rule!r} asks for people to undo this.")
    if not in_time(words.at, terms, now):
        return GateAnswer("deny", f"Rule {verdict.rule!r} asks for people, and their order was not begun in time.")
    behind = set(words.approved_by) | ({words.asked_by} if terms.separation == "none" else set())
    people = Standing(tx)
    given = sum(people.decides(user_id, terms.role) for user_id in behind)
    if given < terms.quorum:
        needed = f"{terms.quorum} of the role {terms.role or 'that decides'}"
        return GateAnswer("deny", f"Rule {verdict.rule!r} asks for people to undo this: {needed}, {given} ordered it.")
    return answer


def _begun(tx: Tx, items: Sequence[Prepared]) -> set[tuple[uuid.UUID, str | None]]:
    keys = sorted({item.claimed.business_key or "" for item in items})
    return {(row[0], row[1]) for row in tx.rows("operations_begun", (tx.tenant_id, keys))}


def _facts(item: Prepared, answer: GateAnswer, now: datetime) -> dict[str, Any]:
    """Return what rules read of the call as it would be sent: with a person's edit, where one was approved."""
    claimed, edited = item.claimed, answer.details.get("arguments")
    assert claimed.task is not None
    return facts_of(
        item.tool.contract,
        item.arguments if edited is None else orjson.loads(edited),
        requester=claimed.task.created_by,
        workflow=claimed.plan.name,
        node=claimed.node.id,
        business_key=claimed.business_key or "",
        undoes=claimed.undo is not None,
        now=now,
    )


def _target_changed(tx: Tx, item: Prepared, grant: Grant) -> bool:
    """Say whether what the call changes is in another version now than the one that was approved (C5.6).

    Of a grant that was used only a call that is proved absent is sent again; what was applied has changed its own
    target, and the ledger answers for it. What another call of the same request left behind was approved with it.
    """
    if item.present is None or grant.target_version is None or grant.target_version == item.present:
        return False
    if grant.used and _begun(tx, [item]):
        return False
    left = tx.one("approval_target_left", (grant.request_id, item.looked_at))
    return left is None or left[0] != item.present


def _void_changed(tx: Tx, item: Prepared, changed: Sequence[Grant]) -> GateAnswer:
    """Void what was approved for another version of the target; the call holds and asks anew for the present one."""
    was, now = changed[0].target_version, item.present
    reason = target_changed(was, now)
    fresh = sorted({grant.request_id for grant in changed if not grant.used})
    if fresh:
        tx.send("approval_close", {"to": "voided", "from": "approved", "reason": reason, "ids": fresh})
    told = {"node": item.claimed.node.id, "from": was, "to": now}
    for request_id in sorted({grant.request_id for grant in changed}):
        note(tx, request_id, TARGET_CHANGED, "engine", "", told)
    return GateAnswer("hold", f"The target is in version {now}; {was} was approved.")


def _gone(tx: Tx, item: Prepared, using: Sequence[Grant], askers: Requesters) -> GateAnswer | None:
    """Park a call whose requester lost the right to ask for it, and revoke what was granted to them (C5.6).

    Of one that was sent before the ledger answers; nothing new is sent for it.
    """
    who = askers.gone(item.claimed.run_id)
    if who is None or (all(grant.used for grant in using) and _begun(tx, [item])):
        return None
    fresh = sorted({grant.request_id for grant in using if not grant.used})
    if fresh:
        words = {"to": "revoked", "from": "approved", "reason": REQUESTER_GONE, "ids": fresh}
        tx.send("approval_close", words)
    return GateAnswer("park", f"{who} asked for it and may not any more.")


def _usable(tx: Tx, grants: list[Grant]) -> list[Grant]:
    """Leave out grants whose time is over or whose givers lost the right, and close their requests."""
    gone: dict[tuple[str, str], set[uuid.UUID]] = {}
    good: list[Grant] = []
    fresh = {grant.request_id for grant in grants if not grant.used and grant.state == "approved"}
    votes = tx.rows("approval_votes", (sorted(fresh),)) if fresh else []
    people = Standing(tx)
    for grant in grants:
        if grant.request_id not in fresh or grant.used:
            good.append(grant)
        elif grant.lapsed:
            gone.setdefault(("lapsed", NOT_STARTED), set()).add(grant.request_id)
        elif _given(people, grant, votes) < grant.quorum:
            gone.setdefault(("revoked", APPROVER_GONE), set()).add(grant.request_id)
        else:
            good.append(grant)
    for (state, reason), ids in gone.items():
        tx.send("approval_close", {"to": state, "from": "approved", "reason": reason, "ids": sorted(ids)})
    closed = set().union(*gone.values()) if gone else set()
    return [grant for grant in good if grant.request_id not in closed or grant.used]


def _given(people: Standing, grant: Grant, votes: Sequence[tuple[uuid.UUID, int, int | None]]) -> int:
    """Count who approved and may still do so."""
    given = [vote for vote in votes if vote[0] == grant.request_id]
    return sum(people.speaks(user_id, for_user_id, grant.role) for _id, user_id, for_user_id in given)


def _workflow(
    item: Prepared,
    approvals: Sequence[str],
    steps: dict[tuple[uuid.UUID, str], tuple[str, str | None, uuid.UUID]],
    fitting: Sequence[Grant],
) -> tuple[Sequence[Grant], GateAnswer]:
    """Return the grants that a call would use and what the workflow's own approvals say of it, policy aside."""
    # A grant that this call asked for itself stands for every approval it passes; the newest is the last word said.
    own = [grant for grant in fitting if grant.kind == "call"][-1:]
    wanted = []
    for name in approvals:
        status, cause, step_id = steps.get((item.claimed.run_id, name), ("", None, None))
        if not was_asked(status, cause):
            continue
        wanted.append((name, step_id))
    # Else each has to have granted it.
    using = own or [g for name, step_id in wanted for g in fitting if g.asked_by == step_id][: len(wanted)]
    if not own and {grant.asked_at for grant in using} != {name for name, _step in wanted}:
        return (), GateAnswer("hold", "The call has no grant for exactly these arguments.")
    return using, _using(using)


def _using(using: Sequence[Grant]) -> GateAnswer:
    """Let a call go on under these grants, with the arguments that they permit."""
    fresh = [grant for grant in using if not grant.used]
    details: dict[str, Any] = {}
    if fresh:
        details = {"grants": [g.id for g in fresh], "requests": [g.request_id for g in fresh]}
    edited = {bytes(g.arguments) for g in using if g.arguments is not None}
    if len(edited) > 1 or (edited and any(g.arguments is None for g in using)):
        return GateAnswer("hold", "Its approvals do not agree on the arguments.")
    if edited:
        details["arguments"] = edited.pop()
    return GateAnswer("allow", details=details) if details else ALLOW


def on_sent(tx: Tx, sent: Sequence[tuple[Prepared, GateAnswer]]) -> None:
    """Use the grants up under which calls are sent; a request is consumed with its last call."""
    grants: list[uuid.UUID] = []
    operations: list[uuid.UUID | None] = []
    requests: set[uuid.UUID] = set()
    for item, answer in sent:
        for grant_id in answer.details.get("grants", ()):
            grants.append(grant_id)
            operations.append(item.claimed.operation_id)
        requests.update(answer.details.get("requests", ()))
    if grants:
        tx.send("approval_use", (grants, operations))
        tx.send("approval_used_up", (sorted(requests),))
