"""An operator's verb under way: one run under lock, who acts and why, what it ends, and the one way to finish it.

The order is that of every action: authorize → frame → lock → version → moves → propagate and settle → flush → audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.actions.base import (
    WORK_CHANNEL,
    check_reason,
    check_run_version,
    check_step_version,
    frame,
    run_answer,
    step_answer,
)
from runtime.graph.owners import owner_of
from runtime.graph.propagate import attention, propagate, settle
from runtime.graph.rewind import change_end, lost_before
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import AlreadySucceeded, Conflict, FinishedRun, MoveRefused, OperationOpen, Unavailable
from runtime.machine.apply import CONTROL_CHANNEL, move_step, note
from runtime.machine.frame import Frame
from runtime.machine.needs import doubt_effect
from runtime.machine.operations import OPEN, OperationState, move_operation, write_operations
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import RETRYABLE, retrying, tenant_tx


def permit(actor: Actor, verb: str, query: str, subject_id: uuid.UUID) -> None:
    """Raise PermissionDenied unless the actor's role, or an object permission on the subject's workflow, allows it."""
    workflow_id = None
    if isinstance(actor, Actor) and actor.user_id is not None and not may(actor, verb):
        with tenant_tx(actor.tenant_id) as tx:
            row = tx.one(query, (subject_id,))
        workflow_id = row[0] if row else None
    authorize(actor, verb, workflow_id)


def insist(work: Callable[[], Any]) -> Any:
    """Run ``work`` again while others hold its rows. Raises Unavailable when they do for too long."""
    try:
        return retrying(work)
    except RETRYABLE as problem:
        raise Unavailable("Others hold these rows for too long; nothing was changed.", retry_after=1.0) from problem


class Act:
    """What one verb does to one run: moves with the actor's name and reason, what ended, what stays in doubt."""

    def __init__(self, unit: Frame, run: RunState, actor: Actor, reason: str) -> None:
        self.unit, self.run, self.actor, self.reason = unit, run, actor, reason
        self.label = None if actor.is_engine else actor.label
        self.ended: list[tuple[RunState, StepState]] = []
        self.operations: dict[uuid.UUID, list[OperationState]] = {}
        self.doubts: list[OperationState] = []
        self.details: dict[str, Any] = {}  # what the audit keeps of the act besides both states

    def load_all(self) -> None:
        """Read every current step of the run."""
        self.unit.load([(self.run.id, "")])

    def current(self) -> list[StepState]:
        """Return the run's current steps, each before what it depends on.

        Ending them in this order never counts an end for a successor that is ended in the same act.
        """
        nodes = self.run.plan.nodes
        return sorted(self.run.steps.values(), key=lambda step: -nodes[step.node].index)

    def move(self, step: StepState, to: str, *, by: str, **more: Any) -> None:
        """Move a step by the law in the actor's name; an end is followed through the graph by :meth:`close`."""
        was_ended = step.ended
        move_step(self.run, step, to, by=by, actor=self.label, reason=self.reason or None, **more)
        if step.ended and not was_ended:
            self.ended.append((self.run, step))

    def ask_to_end(self, step: StepState) -> None:
        """Tell the worker of a running step to end its call; the step stays its owner's until it reports."""
        note(self.run, "STEP_CANCEL_REQUESTED", step, actor=self.label, reason=self.reason or None)
        self.unit.tx.notify(CONTROL_CHANNEL, f"kill:{step.id}:{step.owner_epoch}")

    def kill(self, step: StepState, *, by: str, cause: str | None = None) -> None:
        """Kill a step: a new epoch makes what its owner still submits stale; its attempt ends, its worker is told.

        Its open operation stays open and is reconciled, but one that was not sent is void.
        """
        self.move(step, "killed", by=by, cause=cause, fence=True)
        for operation in self.operations.get(step.id, ()):
            if operation.status == "intended":
                move_operation(self.run, step, operation, "void", by="cancel", actor=self.label)
            else:
                self.doubts.append(operation)

    def read_operations(self, steps: Iterable[StepState]) -> None:
        """Lock the open operations of ``steps``; asks nothing when the run has none."""
        ids = [step.id for step in steps]
        if not ids or self.run.n_open_operations == 0:
            return
        for row in self.unit.tx.rows("operations_of_steps", (self.unit.tx.tenant_id, ids)):
            operation = OperationState(*row)
            if operation.status in OPEN:
                self.operations.setdefault(operation.step_id, []).append(operation)

    def lost_again(self, names: Collection[str]) -> list[str]:
        """Return the steps that OR joins among ``names`` had ended, as :func:`lost_before`.

        Not those whose effect is open, nor what waits for them.
        """
        lost, nodes = lost_before(self.run, names), self.run.plan.nodes
        self.read_operations(self.run.steps[name] for name in lost)
        left = {name for name in lost if self.operations.get(self.run.steps[name].id)}
        while stuck := {n for n in lost if n in left or any(source in left for source, _edge in nodes[n].predecessors)}:
            left |= stuck
            lost = lost_before(self.run, names, without=left)
        return lost

    def want_again(self, names: Iterable[str], why: str) -> None:
        """Let what follows steps of :meth:`lost_again`, which have fresh rows by now, wait for them again."""
        for name in names:
            self.ended += change_end(self.run, name, self.unit.load, actor=None, reason=why)

    def refuse_open_operations(self, steps: Iterable[StepState]) -> None:
        """Raise OperationOpen when an effect of one of ``steps`` is not settled."""
        steps = list(steps)
        self.read_operations(steps)
        for step in steps:
            for operation in self.operations.get(step.id, ()):
                raise OperationOpen(
                    f"Operation {operation.business_key} of step {step.node} is {operation.status}.",
                    run_id=self.run.id,
                    step_id=step.id,
                    operation_id=str(operation.id),
                )

    def own_doubts(self) -> None:
        """Give the run an owner for effects that nobody looks after any more (invariant 7)."""
        orphaned = [o for o in self.doubts if o.next_query_at is None]
        for one in orphaned:
            doubt_effect(self.run, one, "Execution ended, external action to be verified.")
        if orphaned and self.run.attention is None and not self.run.ended:
            keys = ", ".join(o.business_key for o in orphaned[:10])
            evidence = f"The step was ended while its operation was not settled: {keys}."
            attention(self.run, evidence, owner_of(self.unit.tx, orphaned[0]))

    def close(self, *, settle_reason: str | None = None) -> None:
        """Follow what ended, derive the run's status, write everything, and ring the workers when work is ready."""
        self.own_doubts()
        if not self.run.ended:
            propagate(self.unit.runs, self.ended, self.unit.load)
        moved = [o for one in self.operations.values() for o in one if o.version != o.read_version]
        # Before the run is settled: what is to be undone is read from the ledger.
        write_operations(self.unit.tx, moved)
        actor = self.label if settle_reason is not None else None
        settle(self.unit, [self.run], actor=actor, reason=settle_reason)
        self.unit.flush()
        if any(run.woke for run in self.unit.runs.values()):
            self.unit.tx.notify(WORK_CHANNEL)

    def record(self, verb: str, kind: str, subject_id: object, **more: Any) -> None:
        """Append the act to the audit; the transaction's last statement."""
        audit.record(
            self.unit.tx,
            actor=self.actor,
            verb=verb,
            subject_kind=kind,
            subject_id=str(subject_id),
            run_id=self.run.id,
            reason=self.reason,
            **more,
        )


def refuse_ended(run: RunState) -> None:
    """Raise FinishedRun when the run has ended."""
    if run.ended:
        raise FinishedRun(
            f"The run is {run.status}; its state is never left.",
            remediation="Start a new run of the task.",
            run_id=run.id,
            current_status=run.status,
            current_version=run.version,
        )


def refuse_stopping(run: RunState) -> None:
    """Raise Conflict when nothing new may start in the run: cancelled, or its deadline passed (invariant 6)."""
    refuse_ended(run)
    past = run.deadline is not None and run.now is not None and run.deadline <= run.now
    if run.cancel_requested or past or run.status == "compensating":
        why = "is being cancelled" if run.cancel_requested else "has passed its deadline" if past else "is being undone"
        raise Conflict(f"The run {why}: nothing new starts in it.", run_id=run.id, current_status=run.status)


def act_on_step(
    *,
    actor: Actor,
    verb: str,
    step_id: uuid.UUID,
    expected_version: int | None,
    reason: str,
    do: Callable[[Act, StepState], StepState | dict[str, Any]],
    reason_required: bool = False,
) -> dict[str, Any]:
    """Run one verb on one step and answer with what is there then; the shape of every step action.

    ``do`` moves the step in the frame and returns the row to answer with, or a whole answer when it has finished the
    work by itself (a rerun that became a new run). Raises PermissionDenied, NotFound, Stale, MoveRefused, Conflict.
    """
    text = check_reason(reason, required=reason_required)
    permit(actor, verb, "workflow_of_step", step_id)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            run, step = unit.step(step_id)
            _refuse_late_kill(verb, run, step)
            check_step_version(run, step, expected_version)
            _refuse_superseded(run, step)
            _refuse_undoing(verb, run, step)
            before = {"status": step.status, "version": step.version, "cause": step.cause}
            act = Act(unit, run, actor, text)
            shown = do(act, step)
            if isinstance(shown, dict):
                return shown
            act.close()
            after = {"status": shown.status, "version": shown.version, "cause": shown.cause}
            details = {"node": shown.node, "before": before, "after": after, **act.details}
            if shown is not step:
                details["new_step_id"] = str(shown.id)
            act.record(verb, "step", step_id, details=details)
            return step_answer(run, shown)

    return insist(once)


def _refuse_superseded(run: RunState, step: StepState) -> None:
    if step.superseded:
        current = run.steps[step.node]
        raise MoveRefused(
            f"Step {step.node} has a newer execution version: {current.execution_version}.",
            remediation="Act on the current execution version of the step.",
            run_id=run.id,
            step_id=step.id,
            current_step_id=str(current.id),
            current_status=current.status,
            current_version=current.version,
        )


def _refuse_late_kill(verb: str, run: RunState, step: StepState) -> None:
    """A cancel that comes too late is told so, whatever version its sender was shown (C5.5)."""
    if verb == v.STEP_KILL and step.status == "succeeded" and not step.superseded:
        raise AlreadySucceeded(
            f"Step {step.node} has already succeeded; there is nothing to kill.",
            run_id=run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )


def _refuse_undoing(verb: str, run: RunState, step: StepState) -> None:
    if step.undoes and verb not in (v.STEP_KILL, v.STEP_HOLD, v.STEP_RELEASE):
        raise MoveRefused(
            f"Step {step.node} undoes an effect; it is no part of the workflow.",
            remediation="Act on the operation: order its compensation, or resolve its repair case.",
            run_id=run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )


def act_on_run(
    *,
    actor: Actor,
    verb: str,
    run_id: uuid.UUID,
    expected_version: int | None,
    reason: str,
    already: Callable[[RunState], bool],
    do: Callable[[Act], None],
) -> dict[str, Any]:
    """Run one verb on one run and answer with what is there then.

    ``already`` says whether the run is as asked for: a repeated request is answered, whatever version it names, and
    writes nothing. ``do`` changes the run and closes the act. Raises PermissionDenied, NotFound, Stale, Conflict.
    """
    text = check_reason(reason)
    permit(actor, verb, "workflow_of_run", run_id)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            run = unit.run(run_id)
            if already(run):
                return run_answer(run)
            check_run_version(run, expected_version)
            before = {"status": run.status, "version": run.version}
            act = Act(unit, run, actor, text)
            do(act)
            act.record(verb, "run", run_id, details={"before": before, "after": run_answer(run)})
            return run_answer(run)

    return insist(once)
