"""An operator's pause of one step, and its release.

By the law only a waiting step goes to ``hold``. A queued one is parked: it stays queued, outside the ready index, with
``hold_requested``. A running one goes on and holds at its next yield or retry.
"""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_ended, refuse_stopping
from runtime.graph.propagate import resolve
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, MoveRefused
from runtime.machine.apply import request_hold
from runtime.machine.rows import StepState


def hold_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Hold a waiting, queued or running step. A timer it waits for is kept and goes on while it is held.

    Raises MoveRefused by the law, Conflict when it is held already, FinishedRun, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor, verb=v.STEP_HOLD, step_id=step_id, expected_version=expected_version, reason=reason, do=_hold
    )


def _hold(act: Act, step: StepState) -> StepState:
    refuse_ended(act.run)
    if step.hold_requested or (step.status == "hold" and step.cause == "pause"):
        raise Conflict(
            f"Step {step.node} is held already.",
            run_id=act.run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )
    if step.status in ("queued", "running"):
        request_hold(act.run, step, True, actor=act.label, reason=act.reason or None)
    else:
        act.move(step, "hold", by="operator", cause="pause", not_before=step.not_before)
    return step


def release_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Release a step that an operator held, one whose policy wants a person to look first (``review``), or one that
    could not be recovered as it stood (``recovery``); or take back a hold that was not reached yet.

    Approvals are not walked around: what waits for a decision is decided, never released. Raises MoveRefused, Conflict
    when the run is being cancelled, FinishedRun, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor, verb=v.STEP_RELEASE, step_id=step_id, expected_version=expected_version, reason=reason, do=release
    )


def release(act: Act, step: StepState) -> StepState:
    """Release a held step inside the caller's act, who closes it; raises as :func:`release_step`."""
    run = act.run
    (refuse_ended if step.undoes else refuse_stopping)(run)
    if step.status in ("queued", "running") and step.hold_requested:
        request_hold(run, step, False, actor=act.label, reason=act.reason or None)
        return step
    if step.status != "hold" or step.cause not in ("pause", "review", "recovery"):
        held = step.status == "hold"
        raise MoveRefused(
            f"Step {step.node} {f'waits for: {step.cause}' if held else 'is not held'}.",
            remediation="A release lifts a pause or a review; an approval is decided." if held else "",
            run_id=run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )
    timer, joins = step.not_before, False
    if timer is not None:
        last = act.unit.tx.one("last_wait", (run.id, step.id))
        joins = last is not None and last[0] is None  # it waits for its inputs, and the time is that of the join
        if last is not None and last[0] == "stopped":
            # The stop may be over by now, and nobody looked at a held step then: its worker asks for stops again.
            timer = run.now
    cause = "timer" if timer is not None and not joins else None
    act.move(step, "waiting", by="operator", type="STEP_RELEASED", cause=cause, not_before=timer)
    if timer is None or joins:
        resolve(run, step, act.ended, act.unit.load)
    elif run.now is not None and timer <= run.now:
        act.move(step, "queued", by="engine")
    return step
