"""Ending what is open in a run: all its steps, for a cancel or because the deadline passed (C5.5, invariant 6)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.actions.acting import Act
from runtime.actions.base import frame, run_answer
from runtime.graph import compensate
from runtime.graph.propagate import attention
from runtime.kernel.actor import Actor
from runtime.machine.apply import move_run, set_flags
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.rows import RunState, StepState

# Statuses in which a passed deadline ends nothing: the run is being ended already.
_PAST_DEADLINES = ("cancelling", "compensating")


def end_step(act: Act, step: StepState, cause: str, *, by: str) -> None:
    """End one open step: what had not started is skipped with ``cause``, what runs is killed. Others stay."""
    if step.status in ("waiting", "queued", "hold"):
        act.move(step, "skipped", by=by, cause=cause)
    elif step.status == "running":
        act.kill(step, by=by, cause=cause)


def end_steps(act: Act, cause: str, *, cancel: bool) -> None:
    """End every open step of the run but those that undo effects.

    On ``cancel`` a running step whose call may be changing something outside is asked to end and left to its owner,
    and an unknown one is killed, its operation stays open; else a running one is killed and an unknown one stays.
    """
    act.load_all()
    steps = [step for step in act.current() if not step.undoes]
    act.read_operations(step for step in steps if step.status in ("running", "unknown"))
    for step in steps:
        if cancel and step.status == "running" and any(o.status == "sent" for o in act.operations.get(step.id, ())):
            act.ask_to_end(step)
        else:
            end_step(act, step, cause, by="cancel")
        if cancel and step.status == "unknown":
            act.kill(step, by="cancel", cause=cause)


def end_cancelled(*, actor: Actor, run_id: uuid.UUID, lock_timeout_ms: int | None = None) -> dict[str, Any]:
    """Kill what a cancelled run still runs though its time to end by itself is over; a duty calls it as the engine.

    Its operation stays open and the run needs attention: the call may still be applied outside. What its worker
    reports later is recorded with the operation and changes no status. Raises NotFound, and psycopg's errors of
    ``RETRYABLE`` while others hold the run: the duty comes back to it, and meanwhile looks after the other runs.
    """
    with frame(actor, lock_timeout_ms=lock_timeout_ms) as unit:
        run = unit.run(run_id)
        late = run.cancel_by is not None and run.now is not None and run.cancel_by <= run.now
        if late and run.cancel_requested and not run.ended:
            act = Act(unit, run, actor, "it did not end by itself")
            end_steps(act, "cancelled", cancel=False)
            act.close()
        return run_answer(run)


def end_for_deadline(*, actor: Actor, run_id: uuid.UUID, lock_timeout_ms: int | None = None) -> dict[str, Any]:
    """End a run whose deadline has passed, by the database's clock; the timer duty calls it as the engine.

    Steps that had not started are skipped, running ones killed. The run then fails with reason ``deadline``; with an
    operation open or a step unknown it needs attention instead. Nothing happens before the deadline, or to a run that
    is ended or being cancelled; one in a person's hands stays there, but starts nothing more. Raises as
    :func:`end_cancelled`.
    """
    with frame(actor, lock_timeout_ms=lock_timeout_ms) as unit:
        run = unit.run(run_id)
        if _is_over(run):
            _end(unit, run, actor)
        return run_answer(run)


def _is_over(run: RunState) -> bool:
    if run.ended or run.cancel_requested or run.status in _PAST_DEADLINES:
        return False
    if run.reason == "deadline" or (run.status == "needs_attention" and run.n_open <= run.n_unknown):
        return False
    return run.deadline is not None and run.now is not None and run.deadline <= run.now


def _end(unit: Frame, run: RunState, actor: Actor) -> None:
    assert run.deadline is not None
    act = Act(unit, run, actor, "deadline")
    set_flags(run, "DEADLINE_PASSED", payload={"deadline": run.deadline.isoformat()})
    run.reason = "deadline"
    end_steps(act, "deadline", cancel=False)
    if run.n_unknown or run.n_open_operations:
        if run.attention is None:
            attention(run, "The deadline passed while an external effect is not settled.")
        if run.status != "needs_attention":
            move_run(run, "needs_attention", by="engine", actor=act.label)
    elif run.status != "needs_attention" and not compensate.begin_due(unit, run):
        move_run(run, "failed", by="engine", actor=act.label, reason="deadline")
        need_case(run, "failed_with_effects", "The run's deadline passed.")
    act.close()
