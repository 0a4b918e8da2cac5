"""Verbs on a run: cancel, pause, resume (C5.5, A5.1)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, act_on_run, refuse_ended
from runtime.actions.base import WORK_CHANNEL
from runtime.actions.ending import end_steps
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import AlreadySucceeded, Conflict, FinishedRun
from runtime.machine.apply import move_run, set_flags
from runtime.machine.rows import RunState


def cancel_run(*, actor: Actor, run_id: uuid.UUID, reason: str, expected_version: int | None = None) -> dict[str, Any]:
    """Cancel a run: nothing new starts, what had not started is skipped, what runs is killed with a new epoch.

    A call that is changing something outside is asked to end and stays its worker's until it reports, so that what it
    did is known: the run is ``cancelling`` until then, for QUARTERDECK_CANCEL_GRACE_SECONDS at most, then it is killed
    too. The run ends ``cancelled``; while an external effect is open it needs attention instead: "execution cancelled,
    external action to be verified". Effects are undone where the workflow's policies say so. A repeated cancel is
    answered with what is there; a completed run raises AlreadySucceeded, one that ended otherwise FinishedRun naming
    its status. Raises PermissionDenied, NotFound, Stale.
    """
    return act_on_run(
        actor=actor,
        verb=v.RUN_CANCEL,
        run_id=run_id,
        expected_version=expected_version,
        reason=reason,
        already=_cancelled,
        do=_cancel,
    )


def _cancelled(run: RunState) -> bool:
    if run.status == "completed":
        raise AlreadySucceeded(
            "The run is already completed; there is nothing to cancel.",
            run_id=run.id,
            current_status=run.status,
            current_version=run.version,
        )
    if run.ended and run.status != "cancelled":
        raise FinishedRun(
            f"The run is already {run.status}; there is nothing to cancel.",
            remediation="Its results stand; what is to be undone needs its own task.",
            run_id=run.id,
            current_status=run.status,
            current_version=run.version,
        )
    return run.ended or run.cancel_requested


def _cancel(act: Act) -> None:
    run = act.run
    assert run.now is not None
    by = run.now + timedelta(seconds=conf().cancel_grace_seconds)
    set_flags(run, "CANCEL_REQUESTED", cancel=True, cancel_by=by, actor=act.label, reason=act.reason)
    # A run in a person's hands, or undoing its effects, is left by that road only; its steps end all the same.
    if run.status not in ("cancelling", "compensating", "needs_attention"):
        move_run(run, "cancelling", by="cancel", actor=act.label, reason=act.reason)
    end_steps(act, "cancelled", cancel=True)
    act.close(settle_reason=act.reason or "cancelled")


def pause_run(*, actor: Actor, run_id: uuid.UUID, reason: str, expected_version: int | None = None) -> dict[str, Any]:
    """Pause a run: its queued steps are parked and nothing is claimed; running steps go on to their safe point.

    Raises FinishedRun, Conflict (being cancelled), PermissionDenied, NotFound, Stale.
    """
    return act_on_run(
        actor=actor,
        verb=v.RUN_PAUSE,
        run_id=run_id,
        expected_version=expected_version,
        reason=reason,
        already=lambda run: _asked(run, paused=True),
        do=lambda act: _set_paused(act, True),
    )


def resume_run(*, actor: Actor, run_id: uuid.UUID, reason: str, expected_version: int | None = None) -> dict[str, Any]:
    """Resume a paused run; steps that an operator holds stay held. Raises as :func:`pause_run`."""
    return act_on_run(
        actor=actor,
        verb=v.RUN_RESUME,
        run_id=run_id,
        expected_version=expected_version,
        reason=reason,
        already=lambda run: _asked(run, paused=False),
        do=lambda act: _set_paused(act, False),
    )


def _asked(run: RunState, *, paused: bool) -> bool:
    refuse_ended(run)
    if run.cancel_requested:
        raise Conflict(
            "The run is being cancelled: it is neither paused nor resumed.",
            run_id=run.id,
            current_status=run.status,
            current_version=run.version,
        )
    return run.paused is paused


def _set_paused(act: Act, paused: bool) -> None:
    run = act.run
    type = "PAUSE_REQUESTED" if paused else "RESUME_REQUESTED"
    set_flags(run, type, paused=paused, actor=act.label, reason=act.reason)
    changed = act.unit.tx.count("park_steps", {"run": run.id, "claimable": run.dispatchable})
    act.close(settle_reason=act.reason or None)
    if changed and run.dispatchable:
        act.unit.tx.notify(WORK_CHANNEL)
