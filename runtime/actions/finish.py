"""Kill a step, and force its success (A2.6, invariant 12)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_ended
from runtime.actions.base import check_reason
from runtime.graph.rewind import change_end
from runtime.kernel.actor import Actor
from runtime.machine.rows import StepState


def kill_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Kill a queued, running or unknown step; its worker is told, what it still submits is stale.

    An operation it had sent stays open: it is reconciled, and the run gets an owner for it. Raises MoveRefused by the
    law, FinishedRun, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor, verb=v.STEP_KILL, step_id=step_id, expected_version=expected_version, reason=reason, do=_kill
    )


def _kill(act: Act, step: StepState) -> StepState:
    refuse_ended(act.run)
    act.read_operations([step])
    act.kill(step, by="operator")
    return step


def force_step(
    *, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str, evidence: str = ""
) -> dict[str, Any]:
    """Force a step's success: its execution status only, with the permanent mark ``forced``; a reason is required.

    It grants nothing, writes no Outcome and settles no operation: the run is not completed while one is open. A
    running step is killed first, under a new epoch; event and audit name the attempt that lived. They keep the
    ``evidence`` too, or that there is none. Steps that were skipped because it had failed revive. In a finished run the
    step is marked and nothing follows. Raises BadInput without a reason, MoveRefused by the law, Stale, NotFound,
    PermissionDenied.
    """
    seen = check_reason(evidence)
    return act_on_step(
        actor=actor,
        verb=v.STEP_FORCE,
        step_id=step_id,
        expected_version=expected_version,
        reason=reason,
        do=lambda act, step: _force(act, step, seen),
        reason_required=True,
    )


def _force(act: Act, step: StepState, evidence: str) -> StepState:
    run = act.run
    act.read_operations([step])
    said = {"evidence": evidence or None, "killed_attempt": _living(step)}
    act.details |= said
    another_end = step.ended or step.status == "running"
    if step.status == "running":
        act.kill(step, by="admin")
    elif step.status == "unknown":
        act.doubts += act.operations.get(step.id, [])
    act.move(step, "mark_successed", by="admin", fence=True, payload=said)
    if not another_end or run.ended:
        return step
    # Its other end was counted, or told, already: what follows is counted anew instead of once more.
    act.ended.clear()
    act.load_all()
    reason = f"{step.node} was forced"
    act.ended += change_end(run, step.node, act.unit.load, actor=None, reason=reason)
    return step


def _living(step: StepState) -> dict[str, Any] | None:
    """Return the attempt that runs, for the record: {attempt, owner_epoch, worker_session}; None when none does."""
    if step.status != "running":
        return None
    session = str(step.worker_session_id) if step.worker_session_id else None
    return {"attempt": step.attempt, "owner_epoch": step.owner_epoch, "worker_session": session}
