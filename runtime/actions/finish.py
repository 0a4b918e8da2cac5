"""Kill a step, and force its success (A2.6, invariant 12)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_ended
from runtime.actions.base import check_reason
from runtime.actions.forcing import ask_second, force, needs_second
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
    step is marked and nothing follows. Where the tenant's policy wants a second person, another admin is asked, the
    answer says so (``asked``: {approval_id, why}) and the step stays as it is until they agree. Raises BadInput
    without a reason, MoveRefused by the law, Stale, NotFound, PermissionDenied.
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


def _force(act: Act, step: StepState, evidence: str) -> StepState | dict[str, Any]:
    act.read_operations([step])
    why = needs_second(act, step)
    return force(act, step, evidence) if why is None else ask_second(act, step, evidence, why)
