"""Ordering that an effect is undone: a new action with its own key, deadline and permission (B9.2, C4.5)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import Act, insist
from runtime.actions.base import WORK_CHANNEL, check_reason, frame, run_answer
from runtime.graph import compensate
from runtime.graph.undo import MAX_UNDONE_ID
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, MoveRefused, NotFound, Stale
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState

_SOURCES = ("succeeded", "partially_applied", "needs_human", "compensation_failed")
# Statuses of an effect whose undoing was ordered already.
ANSWERED = ("compensating", "compensated")


def compensate_operation(
    *, actor: Actor, operation_id: uuid.UUID, reason: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Order that what an operation did is undone, by what its workflow or its tool's contract declares for that.

    A step of the run carries it out under a business key of its own, whatever state the run is in; a run that has ended
    keeps its status. A reason is required. Asked again while it is being undone, or is undone, it answers with what is
    there. Returns {operation_id, status, version, run_id, run_status, step_id}; ``step_id`` is None where a person has
    to undo it. Verb ``operation.compensate``.

    Raises NotFound, PermissionDenied, BadInput, Stale; Conflict while the run goes on with its work, or when nothing is
    declared that undoes the effect; MoveRefused when nothing of it is known to have been applied.
    """
    text = check_reason(reason, required=True)
    authorize(actor, v.OPERATION_COMPENSATE)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            found = unit.tx.one("operation_run", (operation_id,))
            if found is None:
                raise NotFound("There is no operation of that id in this tenant.")
            act = Act(unit, unit.run(found[0]), actor, text)
            effect = lock_effect(act, operation_id)
            operation = effect.operation
            if operation.status in ANSWERED:
                return _answer(act.run, operation, None)
            before = operation.status
            step = order_undoing(act, effect, expected_version=expected_version)
            act.close()
            details = {"before": before, "after": operation.status, "business_key": operation.business_key}
            act.record(v.OPERATION_COMPENSATE, "operation", operation_id, details=details)
            return _answer(act.run, operation, step.id if step is not None else None)

    return insist(once)


@dataclass(slots=True)
class Effect:
    """An operation under lock, with where it was sent from and what its tool's contract names to undo it."""

    operation: OperationState
    node: str
    execution_version: int
    by_contract: str | None
    kind: str


def lock_effect(act: Act, operation_id: uuid.UUID) -> Effect:
    """Lock an operation of the act's run, with what undoes it."""
    node, version, by_contract, kind, *row = act.unit.tx.rows("effect_by_id", (operation_id,))[0]
    return Effect(OperationState(*row), node, version, by_contract, kind)


def order_undoing(act: Act, effect: Effect, *, expected_version: int | None = None) -> StepState | None:
    """Order within an act that an effect is undone, and ring the workers; the caller closes the act and audits it.

    The one way in which a person has an effect undone. Returns the step that does it, None where a person has to.
    Raises as :func:`compensate_operation`.
    """
    run, operation = act.run, effect.operation
    _check(run, operation, effect.kind, expected_version)
    undo = run.plan.nodes[effect.node].undo
    if undo is None and (effect.by_contract is None or len(effect.node) > MAX_UNDONE_ID):
        raise Conflict(
            f"Nothing is declared that undoes {operation.business_key}.",
            remediation="Undo it by hand and record that, or register a tool and a workflow that undo it.",
            run_id=run.id,
            operation_id=str(operation.id),
        )
    by_contract, who = effect.by_contract, act.label
    step = compensate.begin(
        act.unit, run, operation, effect.node, effect.execution_version, by_contract, by="reconciler", who=who,
        reason=act.reason,
    )  # fmt: skip
    act.unit.tx.notify(WORK_CHANNEL)
    return step


def _check(run: RunState, operation: OperationState, kind: str, expected: int | None) -> None:
    where: dict[str, Any] = {
        "run_id": run.id,
        "operation_id": str(operation.id),
        "current_status": operation.status,
        "current_version": operation.version,
    }
    if expected is not None and expected != operation.version:
        raise Stale(f"The operation is {operation.status} in version {operation.version}.", **where)
    if kind == "compensation":
        raise MoveRefused("What undid an effect is not undone itself.", remediation="Submit a new task.", **where)
    if operation.status not in _SOURCES:
        raise MoveRefused(
            f"An operation that is {operation.status} is not undone.",
            remediation=f"It is undone when it is one of: {', '.join(_SOURCES)}. Find out first what was applied.",
            **where,
        )
    if not (run.ended or run.cancel_requested or run.attention is not None):
        raise Conflict(
            f"The run is {run.status} and goes on with its work.",
            remediation="Cancel the run, or wait until it has ended.",
            **where,
        )


def _answer(run: RunState, operation: OperationState, step_id: uuid.UUID | None) -> dict[str, Any]:
    shown = run_answer(run)
    return {
        "operation_id": str(operation.id),
        "status": operation.status,
        "version": operation.version,
        "run_id": shown["run_id"],
        "run_status": shown["status"],
        "step_id": str(step_id) if step_id else None,
    }
