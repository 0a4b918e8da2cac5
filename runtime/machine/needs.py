"""Asking for a person in a unit of work (``Frame.flush`` tells who listens), and what a person's hand does to rows."""

from __future__ import annotations

from typing import Any

from runtime.kernel.seams import CaseNeed
from runtime.machine.apply import note, touch
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState


def need_case(
    run: RunState,
    kind: str,
    reason: str,
    *,
    step: StepState | None = None,
    operation: OperationState | None = None,
    facts: dict[str, Any] | None = None,
    doubts: dict[str, Any] | None = None,
    source: str = "engine",
) -> None:
    """Ask for a person about an operation, else a step, else the run; ``kind`` is one of ``seams.CASE_KINDS``."""
    known: dict[str, Any] = dict(facts or {})
    if operation is not None:
        known |= {
            "operation_status": operation.status,
            "business_key": operation.business_key,
            "sends": operation.sends,
        }
        if operation.external_ref:
            known["external_ref"] = operation.external_ref
        if operation.error:
            known["error"] = operation.error
    elif step is not None and step.error:
        known["error"] = step.error
    run.needs.append(
        CaseNeed(
            kind,
            reason,
            run_id=run.id,
            step_id=step.id if step is not None else operation.step_id if operation is not None else None,
            operation_id=operation.id if operation is not None else None,
            facts=known,
            doubts=dict(doubts or {}),
            source=source,
        )
    )


def doubt_effect(run: RunState, operation: OperationState, reason: str, *, step: StepState | None = None) -> None:
    """Ask for a person about an operation of which nothing automatic can tell whether it was applied."""
    times = "once" if operation.sends == 1 else f"{operation.sends} times"
    doubts = {"applied": f"Sent {times}; no definite answer was recorded."}
    need_case(run, "operation_unknown", reason, step=step, operation=operation, doubts=doubts)


def release_attention(run: RunState, *, actor: str | None, reason: str) -> None:
    """Take a run out of a person's hands: nothing of it is open any more; its status follows when it is derived."""
    run.attention = None
    note(run, "ATTENTION_RELEASED", actor=actor, reason=reason)


def fence_step(run: RunState, step: StepState, *, actor: str | None, reason: str) -> None:
    """Take a new owner_epoch for a step that does not run: whatever an older owner still submits is stale (C2.9).

    A parked one may be let go in this very moment, by somebody who waits for no run: what was read of that is old. So
    it goes back into the ready index, and is parked anew by its next claim where it still has to wait.
    """
    step.owner_epoch, step.version = step.owner_epoch + 1, step.version + 1
    if step.status == "queued" and not step.claimable:
        step.claimable = run.may_claim(step)
        run.woke += step.claimable
    touch(run, step)
    note(run, "STEP_FENCED", step, actor=actor, reason=reason)
