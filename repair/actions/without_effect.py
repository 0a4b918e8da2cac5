"""Closing a case about no effect outside: what each kind may be closed by, done and verified by its own means.

A poison message is settled by the quarantine's own action, a breach by searching for it again, a held step by the
engine's release or its rejection, a failed run's effects by undoing each. What opened the case decides, not a word.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from repair.actions.base import Desk, there
from repair.errors import NotPermitted
from repair.law import COMPENSATE, CONFIRM_ABSENT, RESOLVED, RESUME_STEP, WRITE_OFF
from repair.models import Case, Proposal
from repair.standing import ATTENTION, BREACH, EFFECTS, MOST_SHOWN, POISON, still_breached, told, undoable
from runtime.access.authorize import authorize
from runtime.access.verbs import MESSAGE_RESOLVE
from runtime.actions import messages, repairing
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict
from runtime.store.tx import tenant_tx

# Of messages that were sent again, so many are kept to be verified by.
MOST_FOLLOWED = 500


def authorize_kind(actor: Actor, case: Case, resolution: str) -> None:
    """Ask for the permission that a kind of case needs besides the resolution's own. Raises PermissionDenied."""
    if case.kind == POISON and resolution in (RESUME_STEP, WRITE_OFF):
        authorize(actor, MESSAGE_RESOLVE)


def search_again(actor: Actor, case_id: uuid.UUID, due: Callable[[Case], bool]) -> list[str] | None:
    """Search for the breach of a case that is ``due`` to be closed, in no transaction of it; None for any other case.

    Returns what was found: nothing, when the invariant holds.
    """
    with tenant_tx(actor.tenant_id):
        case = Case.objects.filter(id=case_id, kind=BREACH, recovery__isnull=True).exclude(state=RESOLVED).first()
        if case is None or not due(case):
            return None
        facts = {name: told(case.id, name) for name in ("invariant", "found")}
    return still_breached(actor.tenant_id, facts)


def carries(case: Case, resolution: str) -> Callable[[Desk, Proposal, list[str] | None], dict[str, Any]] | None:
    """Return what closes this kind of case; None where the resolution does it for every kind."""
    if case.recovery is not None:
        return None
    if case.kind == EFFECTS:
        return _undo if resolution == COMPENSATE else _leave
    return {POISON: _messages, BREACH: _breach, ATTENTION: _leave}.get(case.kind)


def _messages(desk: Desk, proposal: Proposal, found: list[str] | None) -> dict[str, Any]:
    topic = str(told(desk.case.id, "topic"))
    if proposal.resolution == CONFIRM_ABSENT:
        return {"topic": topic, "verified_by": "quarantine"}
    replay = proposal.resolution == RESUME_STEP
    closed = messages.close_topic(desk.unit.tx, desk.actor, topic, reason=proposal.reason, replay=replay)
    if not closed:
        raise Conflict("No message of the topic waits in quarantine any more.", **there(desk.case))
    desk.learn("replayed" if replay else "discarded", len(closed), source="quarantine")
    moved = {"topic": topic, "messages": len(closed)}
    return {**moved, "replayed_ids": closed[:MOST_FOLLOWED]} if replay else {**moved, "verified_by": "quarantine"}


def _breach(desk: Desk, proposal: Proposal, found: list[str] | None) -> dict[str, Any]:
    if proposal.resolution == WRITE_OFF:
        return {}
    if found is None:
        raise Conflict("The invariant was not searched for.", remediation="Try it again.", **there(desk.case))
    if found:
        raise NotPermitted(
            f"The invariant does not hold: {'; '.join(found[:MOST_SHOWN])}"[:900],
            remediation="Mend the rows that are named, or have an administrator write the breach off.",
            **there(desk.case),
        )
    return {"verified_by": "invariants"}


def _undo(desk: Desk, proposal: Proposal, found: list[str] | None) -> dict[str, Any]:
    act = desk.act
    assert act is not None
    can, left = undoable(desk.unit.tx, act.run.id)
    ordered = []
    for operation_id in can:
        operation = repairing.lock_operation(act, operation_id)
        if operation is not None:
            ordered.append(repairing.undo_effect(act, operation))
    if left:
        desk.learn("left_applied", left[:50], source="ledger")
    steps = [one["step_id"] for one in ordered if one["step_id"]]
    return {"undone": [one["operation_id"] for one in ordered], "undo_steps": steps, "left": len(left)}


def _leave(desk: Desk, proposal: Proposal, found: list[str] | None) -> dict[str, Any]:
    """Nothing of it is moved: the run is left to the engine as it stands, which the caller does."""
    return {"verified_by": "ledger"} if proposal.resolution == CONFIRM_ABSENT else {}
