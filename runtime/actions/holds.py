"""The seam by which a decision on a held step reaches the engine; approvals and input requests call it (A7.1, C5.6)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_stopping
from runtime.kernel.actor import Actor
from runtime.kernel.errors import MoveRefused
from runtime.machine.rows import StepState


def resolve_hold(
    *, actor: Actor, step_id: uuid.UUID, granted: bool, reason: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Pass on the decision on a step that holds for an approval, an input or a condition.

    Granted: the step is queued; rejected: it is skipped(rejected) and its failure policy follows. Whether the actor
    may decide *this* request (subject, quorum, payload) is asked by the caller's app; here only for the verb
    ``step.resolve``. An operator's pause is not decided but released. Raises MoveRefused when the step does not hold,
    Conflict when the run is being cancelled or past its deadline, FinishedRun, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor,
        verb=v.STEP_RESOLVE,
        step_id=step_id,
        expected_version=expected_version,
        reason=reason,
        do=lambda act, step: pass_decision(act, step, granted=granted),
    )


def pass_decision(act: Act, step: StepState, *, granted: bool, payload: dict[str, Any] | None = None) -> StepState:
    """Move a held step by a decision, inside the caller's act; ``payload`` goes with the event and names the decision.

    A rejection is a typed result: what follows reads it as ``nodes.<id>.error`` {class, code, message, outcome, reason,
    by, at}, and so does the run's output (C5.3).
    Raises MoveRefused, Conflict, FinishedRun as :func:`resolve_hold` does; the caller closes the act.
    """
    refuse_stopping(act.run)
    if step.status != "hold" or step.cause == "pause":
        raise MoveRefused(
            f"Step {step.node} is {step.status}{' by an operator' if step.cause == 'pause' else ''}: "
            "there is nothing to decide.",
            run_id=act.run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )
    told = dict(payload) if payload is not None else None
    if granted:
        act.move(step, "waiting", by="engine", type="STEP_GRANTED", cause="granted", payload=told)
        act.move(step, "queued", by="engine")
    else:
        act.move(step, "skipped", by="engine", cause="rejected", payload=told, error=_rejection(act))
    return step


def _rejection(act: Act) -> dict[str, Any]:
    assert act.run.now is not None
    said = act.reason or "It was rejected."
    result = {"outcome": "rejected", "reason": act.reason, "by": act.label or "engine", "at": act.run.now.isoformat()}
    return {"class": "policy", "code": "rejected", "message": said[:500], **result}
