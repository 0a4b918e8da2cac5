"""Rerun of a step: in an open run as its next execution version, in a finished run as a new run of the task."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_stopping
from runtime.actions.ending import end_step
from runtime.actions.reruns import rerun_from
from runtime.graph.propagate import resolve
from runtime.graph.rewind import affected, renew
from runtime.kernel.actor import Actor
from runtime.kernel.errors import MoveRefused, OperationOpen
from runtime.machine import law
from runtime.machine.rows import RunState, StepState


def rerun_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Run a succeeded, failed, killed or forced step again.

    In an open run the step gets a fresh row at execution_version + 1, which is queued (an approval asks again), and
    its descendants get fresh waiting rows. Descendants that had started are ended first: a running one is killed,
    one that waited is skipped(cancelled). An OR join that goes back takes the branches with it that it had ended: they
    begin again, so that it does not depend on the one alone. Left as they are: forced steps, a user's skips, an OR join
    that another branch satisfied. A forced step that is itself run again stays in its older version as it is, marked by
    hand: force is not undone, its follow-up is the new version. In a finished run the answer is a step of a new run
    (``rerun_of``).

    Raises OperationOpen while an effect of the step or of a descendant is not settled, MoveRefused by the law,
    Conflict when the run is being cancelled or past its deadline, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor,
        verb=v.STEP_RERUN,
        step_id=step_id,
        expected_version=expected_version,
        reason=reason,
        do=run_again,
    )


def run_again(act: Act, step: StepState) -> StepState | dict[str, Any]:
    """Rerun a step within an act: its fresh row, or the answer of a new run. Raises as :func:`rerun_step`."""
    run = act.run
    check_rerun(run, step)
    act.refuse_open_operations([step])
    if run.ended:
        return rerun_from(act, step)
    refuse_stopping(run)
    act.load_all()
    behind = affected(run, step.node)
    rows = [run.steps[name] for name in behind]
    act.refuse_open_operations(rows)
    for row in reversed(rows):
        if row.status == "unknown":
            raise OperationOpen(f"Step {row.node} depends on it and is unknown.", run_id=run.id, step_id=row.id)
        end_step(act, row, "cancelled", by="operator")
    lost = act.lost_again(behind)
    names = sorted([step.node, *behind, *lost], key=lambda name: run.plan.nodes[name].index)
    fresh = renew(run, names, first=step.node, actor=act.label, reason=act.reason or None)
    # What was ended here is superseded: nothing follows from it but these fresh rows.
    act.ended.clear()
    for row in fresh:
        resolve(run, row, act.ended, act.unit.load)
    act.want_again(lost, f"{step.node} is run again")
    return run.steps[step.node]


def check_rerun(run: RunState, step: StepState) -> None:
    """Raise MoveRefused where the law lets nobody run the step again."""
    if step.status in law.RERUN_SOURCES:
        return
    raise MoveRefused(
        f"A step that is {step.status} is not run again.",
        remediation=f"A rerun goes from {', '.join(law.RERUN_SOURCES)}; a skip is taken back by unskip.",
        run_id=run.id,
        step_id=step.id,
        current_status=step.status,
        current_version=step.version,
    )
