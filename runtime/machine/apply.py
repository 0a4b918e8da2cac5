"""The one place where a status changes.

A caller holds the run's row (``store.locks``), moves steps and runs in memory with :func:`move_step` and
:func:`move_run`, then calls :func:`flush` once: compare-and-set updates and the events that tell of them go out
set-based in the caller's transaction (engine.md 2). Nothing here decides *what* should happen.
"""

from __future__ import annotations

import copy
import uuid
from datetime import datetime
from typing import Any

import orjson

from runtime.kernel.errors import MoveRefused
from runtime.machine import law
from runtime.machine.flush import CONTROL_CHANNEL as CONTROL_CHANNEL
from runtime.machine.flush import flush as flush
from runtime.machine.rows import ASKED, RunState, StepState
from runtime.machine.tokens import hold_tokens
from runtime.machine.write import step_row

_STEP_EVENTS = {
    "queued": "STEP_QUEUED",
    "running": "STEP_STARTED",
    "succeeded": "STEP_SUCCEEDED",
    "failed": "STEP_FAILED",
    "killed": "STEP_KILLED",
    "skipped": "STEP_SKIPPED",
    "hold": "STEP_HELD",
    "waiting": "STEP_WAITING",
    "mark_successed": "STEP_FORCED",
    "unknown": "STEP_UNKNOWN",
}


def dump(value: Any) -> str | None:
    """Return ``value`` as JSON text for a jsonb parameter; None stays None."""
    return None if value is None else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def note(
    run: RunState,
    type: str,
    step: StepState | None = None,
    *,
    actor: str | None = None,
    reason: str | None = None,
    payload: dict[str, Any] | str | None = None,
    from_status: str | None = None,
    to_status: str | None = None,
    cause: str | None = None,
    input_sha256: bytes | None = None,
    output_sha256: bytes | None = None,
) -> int:
    """Append an event to ``run`` and return its run_seq. Without a move it tells of a fact that changed no status."""
    run.seq += 1
    if step is None:
        subject: tuple[Any, ...] = (None, None, None, None, None, run.version)
    else:
        subject = (step.id, step.node, step.execution_version, step.attempt, step.owner_epoch, step.version)
    run.events.append(
        (
            run.id,
            run.seq,
            type,
            *subject,
            from_status,
            to_status,
            cause,
            actor,
            reason,
            payload if payload is None or isinstance(payload, str) else dump(payload),
            input_sha256,
            output_sha256,
            run.manifest_id,
            run.now,
        )
    )
    return run.seq


def touch(run: RunState, step: StepState) -> None:
    """Mark a step row as changed without a move (a counter or a flag); its version stays."""
    step.dirty = True
    run.steps[step.node] = step


def _count(run: RunState, step: StepState, sign: int) -> None:
    for name in step.category():
        setattr(run, name, getattr(run, name) + sign)


def add_step(run: RunState, step: StepState) -> None:
    """Take a freshly made step row into ``run``; :func:`flush` inserts it."""
    step.fresh = step.dirty = True
    run.steps[step.node] = step
    run.n_steps += 1
    _count(run, step, 1)


def _before_move(run: RunState, step: StepState) -> None:
    # A second change of one row in one transaction is a second UPDATE: the database guard sees each move by itself.
    if step.dirty and step.version != step.read_version and not step.fresh:
        _to_wave(run, step)
        step.read_status, step.read_version = step.status, step.version


def _to_wave(run: RunState, step: StepState) -> None:
    """Let the row be updated as it stands now, before what follows is written."""
    if step.waves == len(run.waves):
        run.waves.append([])
    run.waves[step.waves].append(step_row(step))
    step.waves += 1


def plan_undo(run: RunState, step: StepState, payload: dict[str, Any]) -> None:
    """Take a step that undoes an effect, or checks that it is undone, into the run; an older one is superseded."""
    old = run.steps.get(step.node)
    if old is None:
        add_step(run, step)
        note(run, "COMPENSATION_PLANNED", step, payload=payload, to_status="waiting")
    else:
        replace_step(run, old, step, type="STEP_RENEWED", also=payload)


def replace_step(
    run: RunState,
    old: StepState,
    new: StepState,
    *,
    type: str,
    actor: str | None = None,
    reason: str | None = None,
    also: dict[str, Any] | None = None,
) -> None:
    """Put ``new``, a waiting row of the next execution version, in the place of ``old``.

    The old row keeps its status, is superseded and never changes again. Raises MoveRefused when it is superseded
    already or the run has ended.
    """
    if old.superseded or (run.ended and not new.undoes):
        raise _refusal(run, old, "queued", law.OPERATOR)
    _count(run, old, -1)
    run.n_steps -= 1
    # Nothing of it is open: what it wrote alone is anybody's.
    old.superseded, old.serial, old.prefer_until = True, None, None
    _to_wave(run, old)
    old.dirty = False
    add_step(run, new)
    payload = {"supersedes": str(old.id), "superseded_status": old.status, "deps": new.deps(), **(also or {})}
    note(run, type, new, actor=actor, reason=reason, payload=payload, to_status="waiting")


def move_step(
    run: RunState,
    step: StepState,
    to: str,
    *,
    by: str,
    type: str | None = None,
    cause: str | None = None,
    actor: str | None = None,
    reason: str | None = None,
    payload: dict[str, Any] | str | None = None,
    not_before: datetime | None = None,
    worker: uuid.UUID | None = None,
    tokens: list[uuid.UUID] | None = None,
    error: dict[str, Any] | None = None,
    fence: bool = False,
    input_sha256: bytes | None = None,
    output_sha256: bytes | None = None,
) -> int:
    """Move a step by the law and append the event; return the event's run_seq.

    ``by`` is the role that causes it (``law.Move.by``); ``tokens`` are the limits a step that starts holds one of;
    ``fence`` takes a new owner_epoch so that a late submit of
    the old owner is stale (C2.9). Raises MoveRefused when the law has no such move or not for that role, or when the
    row is superseded.
    """
    source = step.status
    check_move(run, step, to, by)
    _before_move(run, step)
    _count(run, step, -1)
    if cause in ASKED if to == "hold" else source == "hold" and step.cause in ASKED:
        run.holds.append((step, to == "hold"))
    step.status, step.cause, step.version = to, cause, step.version + 1
    step.dirty = True
    if step.tokens or step.serial or tokens:
        hold_tokens(run, step, to, tokens)
    if source == "running" and by != law.OWNER and (to == "killed" or cause == "taken_over"):
        run.killed.append((step.id, step.attempt, step.owner_epoch + fence))
    _set_fields(run, step, to, worker, not_before, error, fence)
    _count(run, step, 1)
    if payload is None and (not_before or error):
        payload = {}
    if isinstance(payload, dict):
        if not_before:
            payload["not_before"] = not_before.isoformat()
        if error:
            payload["error"] = error
    seq = note(
        run,
        type or _STEP_EVENTS[to],
        step,
        actor=actor,
        reason=reason,
        payload=payload,
        from_status=source,
        to_status=to,
        cause=cause,
        input_sha256=input_sha256,
        output_sha256=output_sha256,
    )
    if to in law.STEP_ENDED:
        step.ended_seq = seq
    return seq


def check_move(run: RunState, step: StepState, to: str, by: str) -> None:
    """Raise MoveRefused when the law has no such move, or not for that role, or the row is superseded."""
    move = law.STEP.get((step.status, to))
    if move is None or by not in move.by or step.superseded or _over(run, step, to):
        raise _refusal(run, step, to, by)


def _over(run: RunState, step: StepState, to: str) -> bool:
    """Whether the run's end forbids the move: it leaves a mark of force, and what undoes an effect of the run."""
    return run.ended and to != "mark_successed" and not step.undoes


def set_timer(run: RunState, step: StepState, at: datetime, *, cause: str | None = "timer") -> None:
    """Let a waiting step wait for ``at``, when a timer duty queues it (C5.2); with cause None it waits for inputs."""
    _before_move(run, step)
    _count(run, step, -1)
    step.cause, step.not_before, step.version, step.dirty = cause, at, step.version + 1, True
    _count(run, step, 1)
    note(run, "TIMER_SET", step, cause=cause, payload={"not_before": at.isoformat()})


def request_hold(run: RunState, step: StepState, wanted: bool, *, actor: str | None, reason: str | None) -> None:
    """Ask a queued or running step to hold, or take that back. A queued step is parked, a running one yields first."""
    _before_move(run, step)
    step.hold_requested, step.version, step.dirty = wanted, step.version + 1, True
    if step.status == "queued":
        step.claimable = run.may_claim(step)
        run.woke += step.claimable
    note(run, "HOLD_REQUESTED" if wanted else "HOLD_WITHDRAWN", step, actor=actor, reason=reason)


def set_flags(
    run: RunState,
    type: str,
    *,
    cancel: bool | None = None,
    cancel_by: datetime | None = None,
    paused: bool | None = None,
    actor: str | None = None,
    reason: str | None = None,
    payload: dict[str, Any] | None = None,
) -> None:
    """Set the run's requests and append the event that tells of them; the status follows by ``move_run``.

    ``cancel_by`` is when what a cancel lets end by itself is ended by force.
    """
    run.version += 1
    if cancel is not None:
        run.cancel_requested, run.cancel_by, run.reason = cancel, cancel_by, (reason or "")[:200]
    if cancel_by is not None:
        payload = {**(payload or {}), "by": cancel_by.isoformat()}
    if paused is not None:
        run.paused = paused
    note(run, type, actor=actor, reason=reason, payload=payload)


def need_attention(run: RunState, attention: dict[str, Any]) -> None:
    """Give the run an owner for what is not settled (invariant 7); the status follows when it is derived."""
    run.attention = attention
    note(run, "ATTENTION_REQUIRED", payload={"attention": attention})


def _set_fields(
    run: RunState,
    step: StepState,
    to: str,
    worker: uuid.UUID | None,
    not_before: datetime | None,
    error: dict[str, Any] | None,
    fence: bool,
) -> None:
    """Set what follows from the target status; ``queries.rebuild`` folds by the same rules."""
    now = run.now
    step.not_before, step.prefer_until = not_before, None
    step.worker_session_id = worker
    if fence:
        step.owner_epoch += 1
    if to == "running":
        step.attempt += 1
        step.owner_epoch += 1
        step.started_at = now
        step.error = None
    elif to == "queued":
        step.queued_at = now
        step.claimable = run.may_claim(step)
        if step.home_pool is not None:
            _prefer(run, step)
        run.woke += 1
    else:
        step.error = error
        if to in law.STEP_ENDED:
            step.finished_at = now
            step.hold_requested = False
            if to == "mark_successed":
                step.forced = True
        else:
            step.finished_at = None


def _prefer(run: RunState, step: StepState) -> None:
    """Let a queued step stand in the pool its node prefers; a duty moves it home when its time there is over."""
    assert run.now is not None
    prefer = run.plan.nodes[step.node].prefer
    step.pool, step.prefer_until = prefer.pool, run.now + prefer.time


def _refusal(run: RunState, step: StepState, to: str, by: str) -> MoveRefused:
    source = step.status
    if _over(run, step, to):
        detail, mend = f"The run is {run.status}; its state is never left.", "Start a new run of the task."
    elif step.superseded:
        detail = f"Step {step.node} has a newer execution version."
        mend = "Act on the current execution version of the step."
    elif (source, to) in law.STEP:
        roles = ", ".join(sorted(law.STEP[source, to].by))
        detail, mend = f"{source} → {to} is not for {by}.", f"It is for: {roles}."
    else:
        targets = sorted(target for old, target in law.STEP if old == source)
        detail = f"A step does not go from {source} to {to}."
        mend = f"From {source} it goes to: {', '.join(targets) or 'nothing, it is terminal'}."
    return MoveRefused(
        detail, remediation=mend, run_id=run.id, step_id=step.id, current_status=source, current_version=step.version
    )


def move_run(
    run: RunState,
    to: str,
    *,
    by: str,
    actor: str | None = None,
    reason: str | None = None,
    payload: dict[str, Any] | None = None,
    output_sha256: bytes | None = None,
) -> None:
    """Move a run by the law, through the intermediate statuses it names; one event each. Raises MoveRefused."""
    path = law.run_path(run.status, to)
    if not path:
        raise MoveRefused(f"A run does not go from {run.status} to {to}.", run_id=run.id, current_status=run.status)
    for pair in zip([run.status, *path], path, strict=False):
        if by not in (roles := law.RUN[pair].by):
            detail = f"A run's {pair[0]} → {pair[1]} is not for {by}; it is for: {', '.join(sorted(roles))}."
            raise MoveRefused(detail, run_id=run.id, current_status=run.status)
    for target in path:
        if run.status != run.read_status and not run.fresh:
            # As with steps: each move is an update of its own, and the guard sees it.
            run.trail.append(copy.copy(run))
            run.read_version, run.read_seq, run.read_status = run.version, run.seq, run.status
        source, run.status, run.version = run.status, target, run.version + 1
        if target == "running" and run.started_at is None:
            run.started_at = run.now
        if target in law.RUN_ENDED:
            run.finished_at = run.now
            run.reason = (reason or "")[:200]
        note(
            run,
            f"RUN_{target.upper()}",
            actor=actor,
            reason=reason if target == to else None,
            payload=payload if target == to else None,
            from_status=source,
            to_status=target,
            output_sha256=output_sha256 if target == to else None,
        )
