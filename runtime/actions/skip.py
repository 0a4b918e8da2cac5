"""Skip a step, and take a skip back."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_step, refuse_ended, refuse_stopping
from runtime.actions.ending import end_step
from runtime.graph.propagate import resolve
from runtime.graph.rewind import affected, counters, recount, renew, set_counters
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, MoveRefused
from runtime.machine.rows import StepState


def skip_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Skip a step that waits, is queued or is held: skipped(user), which satisfies what follows.

    Skipping an approval grants nothing: the operation behind it still needs its grant. Raises MoveRefused by the law,
    FinishedRun, Stale, NotFound, PermissionDenied.
    """
    return act_on_step(
        actor=actor, verb=v.STEP_SKIP, step_id=step_id, expected_version=expected_version, reason=reason, do=_skip
    )


def _skip(act: Act, step: StepState) -> StepState:
    refuse_ended(act.run)
    act.move(step, "skipped", by="operator", cause="user")
    return step


def unskip_step(*, actor: Actor, step_id: uuid.UUID, expected_version: int | None, reason: str) -> dict[str, Any]:
    """Take a user's skip back: the step waits for its inputs again, counted anew.

    Only while nothing that follows it has started. What follows and was queued, held or skipped on its account gets a
    fresh row at execution_version + 1; so do branches that an OR join had ended on its account. Raises Conflict when
    something started or the run is being cancelled, MoveRefused by the law, FinishedRun, Stale, NotFound,
    PermissionDenied.
    """
    return act_on_step(
        actor=actor, verb=v.STEP_UNSKIP, step_id=step_id, expected_version=expected_version, reason=reason, do=_unskip
    )


def _unskip(act: Act, step: StepState) -> StepState:
    run = act.run
    refuse_stopping(run)
    if step.status != "skipped" or step.cause != "user":
        raise MoveRefused(
            f"Step {step.node} is {step.status}({step.cause or ''}); only a user's skip is taken back.",
            remediation="Rerun what led to it; upstream_failed skips revive by themselves.",
            run_id=run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )
    act.load_all()
    behind = affected(run, step.node)
    _refuse_started(act, [run.steps[name] for name in behind])
    set_counters(step, counters(run, step.node))
    act.move(step, "waiting", by="operator", type="STEP_UNSKIPPED", payload={"deps": step.deps()})
    moved_on = [name for name in behind if not (run.steps[name].status == "waiting" and run.steps[name].cause is None)]
    for name in reversed(moved_on):
        end_step(act, run.steps[name], "cancelled", by="operator")
    act.ended.clear()
    lost, why = act.lost_again(behind), f"{step.node} is no longer skipped"
    fresh = [*moved_on, *lost]
    for name in sorted([*behind, *lost], key=lambda name: run.plan.nodes[name].index):
        if name in fresh:
            renew(run, [name], first=None, actor=None, reason=why)
        else:
            recount(run, name)
    resolve(run, step, act.ended, act.unit.load, not_before=_planned(act, step))
    for name in fresh:
        resolve(run, run.steps[name], act.ended, act.unit.load)
    act.want_again(lost, why)
    return step


def _planned(act: Act, step: StepState) -> datetime | None:
    """Return when the task is planned to start, for a step that nothing comes before; None when that is past."""
    run = act.run
    if run.plan.nodes[step.node].n_deps or step.attempt or run.now is None:
        return None
    row = act.unit.tx.one("planned_start", (run.task_id,))
    return row[0] if row and row[0] is not None and row[0] > run.now else None


def _refuse_started(act: Act, rows: list[StepState]) -> None:
    for row in rows:
        # The attempt counts claims: a step that yielded or is to be retried has started.
        if row.attempt > 0 or row.status in ("running", "succeeded", "failed", "killed", "unknown"):
            raise Conflict(
                f"Step {row.node} follows it and has started: it is {row.status}.",
                remediation="Let the run go on, or start a new run of the task.",
                run_id=act.run.id,
                step_id=row.id,
                current_status=row.status,
                current_version=row.version,
            )
