"""What a person's repair does to a run, its step and its operation; the only ways in for the app above (C8.4).

Each is called with the run under lock, inside an :class:`Act` that the caller closes. None decides whether it may: the
caller has asked the law of cases, the permission and the second person.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, refuse_ended, refuse_stopping
from runtime.actions.compensation import ANSWERED, lock_effect, order_undoing
from runtime.actions.hold import release
from runtime.actions.holds import pass_decision
from runtime.actions.judging import judge, own_the_doubt
from runtime.actions.recovery import unfit
from runtime.actions.rerun import run_again
from runtime.graph.propagate import go_on, propagate
from runtime.kernel.canonical import digest
from runtime.kernel.errors import Conflict
from runtime.machine.needs import fence_step, release_attention
from runtime.machine.operations import OPEN, OperationState, move_operation, write_operations
from runtime.machine.rows import StepState
from runtime.store.arrays import arrays

# Statuses of an operation whose undoing was ordered, and of one whose doubt a repair may end.
UNDOING = ANSWERED
DOUBTFUL = ("sent", "unknown", "needs_human", "partially_applied", "compensation_failed")


def lock_operation(act: Act, operation_id: uuid.UUID) -> OperationState | None:
    """Lock one operation after its run; the act writes it back when it is closed."""
    row = act.unit.tx.one("operation_lock", (act.unit.tx.tenant_id, operation_id))
    if row is None:
        return None
    operation = OperationState(*row)
    act.operations.setdefault(operation.step_id, []).append(operation)
    return operation


def take_over(act: Act, step: StepState, operation: OperationState | None) -> int:
    """Take a new owner_epoch on a step and return it: from this commit on its old owner changes nothing (C2.9).

    A running step's attempt ends and the step is unknown: who takes it over does not know what its worker did. In a
    finished run nobody may write any more, so nothing is taken.
    """
    run = act.run
    if (run.ended and not step.undoes) or step.superseded:
        return step.owner_epoch
    if step.status == "running":
        act.move(step, "unknown", by="engine", cause="taken_over", fence=True)
        if operation is None:
            act.read_operations([step])
        for sent in [operation] if operation is not None else act.operations.get(step.id, ()):
            _doubt_what_was_sent(act, step, sent)
    else:
        fence_step(run, step, actor=act.label, reason=act.reason)
    return step.owner_epoch


def take_over_run(act: Act) -> list[tuple[StepState, int]]:
    """Take a new owner_epoch on every step of the run that has not ended; returns each with the epoch it had before.

    For a case about the run as a whole, of which no step is the one (C8.4). In a finished run nobody may write any
    more, so nothing is taken. Nor is what undoes an effect: that has its own order, and its own case when it fails.
    """
    run = act.run
    if run.ended:
        return []
    act.load_all()
    steps = [step for step in run.steps.values() if not (step.ended or step.undoes or step.superseded)]
    running = [step for step in steps if step.status == "running"]
    act.read_operations(running)
    misfits = unfit(act.unit, running) if running else {}
    before = [(step, step.owner_epoch) for step in steps]
    for step in steps:
        if step.status == "running":
            _take_from_its_worker(act, step, misfits.get(step.id))
        else:
            fence_step(run, step, actor=act.label, reason=act.reason)
    return before


def _take_from_its_worker(act: Act, step: StepState, misfit: str | None) -> None:
    """End a step's attempt. Where nothing of it is open outside it goes on under a new one: no case is about it alone.

    It is judged as a lost worker's is: what may have been sent gets its query, or a case of its own and who answers for
    the tool; what may not go on as it is holds; in a cancelled run the step ends.
    """
    run, operations = act.run, act.operations.get(step.id, [])
    act.move(step, "unknown", by="engine", cause="taken_over", fence=True)
    verdict = judge(
        act.unit.tx, run, step, operations, unfit=misfit, why=_taken_over(step), reason="taken over", actor=act.label
    )
    if verdict == "killed":
        act.ended.append((run, step))
    elif verdict == "unsent":
        act.move(step, "waiting", by="engine", cause="reconciled")
        go_on(run, step, reason="nothing was sent")


def _doubt_what_was_sent(act: Act, step: StepState, operation: OperationState) -> None:
    """Give what the step's worker has sent a next query time, or its run an owner, however the case came about."""
    if operation.status == "sent":
        move_operation(act.run, step, operation, "unknown", by="engine", actor=act.label, reason="taken over")
        own_the_doubt(act.unit.tx, act.run, operation, _taken_over(step))


def _taken_over(step: StepState) -> str:
    return f"step {step.node} was taken over while its call was under way"


def effect_applied(act: Act, operation: OperationState, *, reference: str | None, stored: bytes) -> None:
    """Record that the effect is there, with the reference the outside knows it by. Does nothing if that is recorded."""
    if operation.status in ("succeeded", "compensating", "compensated"):
        return
    _to_doubt(act, operation)
    operation.external_ref = reference or operation.external_ref
    operation.response, operation.response_sha256 = stored, digest(stored)
    _move(act, operation, "succeeded")


def effect_absent(act: Act, operation: OperationState, *, why: str) -> None:
    """Record that the effect is not there; the same key may then be sent again, by the contract or a person's order."""
    if operation.status in ("absent", "refused", "void"):
        return
    _to_doubt(act, operation)
    _move(act, operation, "absent", {"class": "business", "code": "confirmed_absent", "message": why[:500]})


def effect_differs(act: Act, operation: OperationState, *, reference: str | None) -> None:
    """Record that another effect is there than the one that was intended. Does nothing where it can be undone as it is.

    What is there may be undone; it is never taken for what was wanted.
    """
    if operation.status not in ("sent", "unknown"):
        return
    _to_doubt(act, operation)
    operation.external_ref = reference or operation.external_ref
    _move(act, operation, "partially_applied")


def undo_effect(act: Act, operation: OperationState) -> dict[str, Any]:
    """Order that an effect is undone, in the one way there is (:func:`runtime.actions.compensation.order_undoing`).

    Returns {operation_id, status, step_id}; asked while it is being undone, or is undone, ``step_id`` is None. Raises
    Conflict and MoveRefused as that does.
    """
    step = None
    if operation.status not in UNDOING:
        effect = replace(lock_effect(act, operation.id), operation=operation)
        step = order_undoing(act, effect)
        # It is written already; the act does not write it once more.
        operation.read_status, operation.read_version = operation.status, operation.version
    return {
        "operation_id": str(operation.id),
        "status": operation.status,
        "step_id": str(step.id) if step is not None else None,
    }


def effect_written_off(act: Act, operation: OperationState, *, why: str) -> None:
    """Give an effect up for good: whether it was applied stays unknown, and nothing looks after it any more."""
    _to_doubt(act, operation)
    if operation.status in ("unknown", "partially_applied"):
        _move(act, operation, "needs_human")
    _move(act, operation, "written_off", {"class": "business", "code": "written_off", "message": why[:500]})


def step_succeeded(act: Act, step: StepState, *, reference: str, stored: bytes) -> None:
    """Let an unknown step succeed with what the outside answered; its checkpoint is an external fact.

    ``stored`` are the canonical bytes of the output, checked against the tool's schema by the caller.
    """
    run = act.run
    if step.status != "unknown" or (run.ended and not step.undoes):
        return
    stored_sha256 = digest(stored)
    payload = {"external_ref": reference}
    act.move(step, "succeeded", by="reconciler", payload=payload, output_sha256=stored_sha256)
    row = (
        run.id, step.node, step.execution_version, step.id, step.attempt, step.owner_epoch, run.manifest_id,
        run.seq, "external_fact", None, stored, stored_sha256, None, None,
    )  # fmt: skip
    act.unit.tx.send("insert_checkpoints", (act.unit.tx.tenant_id, run.now, *arrays("utiuiiulsxxxuu", [row])))


def step_failed(act: Act, step: StepState, *, code: str, message: str) -> None:
    """Let an unknown step fail by a repair; its failure policy follows."""
    if step.status == "unknown" and (step.undoes or not act.run.ended):
        error = {"class": "business", "code": code, "message": message[:500]}
        act.move(step, "failed", by="reconciler", error=error)


def release_held(act: Act, step: StepState) -> dict[str, Any]:
    """Let a step go on that holds because it could not be recovered as it stood. Raises as a release does."""
    release(act, step)
    act.record(v.STEP_RELEASE, "step", step.id, result=step.status)
    return _where(act, step)


def give_up_held(act: Act, step: StepState) -> None:
    """Give such a step up: it is skipped as rejected, and its failure policy follows. Raises as a decision does."""
    if step.status == "hold":
        pass_decision(act, step, granted=False)


def resume(act: Act, step: StepState, *, same_execution: bool) -> dict[str, Any]:
    """Let a step go on: unknown and surely without effect it waits and is queued, ended it is run again.

    ``same_execution``: its tool tells a second send of a key, or nothing was sent at all. Any other tool gets the key
    again under a new execution version only, which is a person's order.
    Returns {step_id, execution_version, run_id}; in a finished run that of a new run of the task. Raises OperationOpen
    while an effect of it is open, Conflict when nothing new may start in the run.
    """
    run = act.run
    _write_operations(act)
    if step.undoes:
        return _resume_undoing(act, step, same_execution=same_execution)
    if not run.ended:
        refuse_stopping(run)
    if step.status == "unknown":
        refuse_ended(run)
        if same_execution:
            act.move(step, "waiting", by="reconciler", cause="reconciled")
            go_on(run, step, reason="a person resumed it")
            return _where(act, step)
        step_failed(act, step, code="confirmed_absent", message="A person confirmed that nothing was applied.")
        propagate(act.unit.runs, act.ended, act.unit.load)
        act.ended.clear()
    answer = run_again(act, step)
    return answer if isinstance(answer, dict) else _where(act, answer)


def _resume_undoing(act: Act, step: StepState, *, same_execution: bool) -> dict[str, Any]:
    """Let a step that undoes an effect go on, in an ended run too; another try is another order, never a bare row."""
    if step.status == "unknown" and same_execution:
        act.move(step, "waiting", by="reconciler", cause="reconciled")
        go_on(act.run, step, reason="a person resumed it")
    else:
        step_failed(act, step, code="confirmed_absent", message="A person confirmed that nothing was applied.")
    return _where(act, step)


def _where(act: Act, step: StepState) -> dict[str, Any]:
    return {"step_id": str(step.id), "execution_version": step.execution_version, "run_id": str(act.run.id)}


def leave_to_the_engine(act: Act) -> bool:
    """Release a run from a person's hands when nothing of it is open any more; returns whether it was."""
    run = act.run
    # What is being undone has a step that goes on by itself; where that fails, the run gets an owner anew.
    if run.ended or run.attention is None or run.n_unknown or run.n_open_operations > run.n_compensating:
        return False
    release_attention(run, actor=act.label, reason=act.reason or "settled")
    return True


def _to_doubt(act: Act, operation: OperationState) -> None:
    """A sent operation that nobody reports any more is unknown before it is anything else."""
    if operation.status not in DOUBTFUL:
        raise Conflict(
            f"Operation {operation.business_key} is {operation.status}; a repair does not change that.",
            run_id=act.run.id,
            operation_id=str(operation.id),
            current_status=operation.status,
        )
    if operation.status == "sent":
        move_operation(act.run, None, operation, "unknown", by="engine", actor=act.label, reason=act.reason)
        _write(act, operation)


def _move(act: Act, operation: OperationState, to: str, error: dict[str, Any] | None = None) -> None:
    step = next((one for one in act.run.steps.values() if one.id == operation.step_id), None)
    move_operation(
        act.run, step, operation, to, by="reconciler", actor=act.label, reason=act.reason or None, error=error
    )
    _write(act, operation)


def _write(act: Act, operation: OperationState) -> None:
    """Each move is an update of its own: the guard sees it."""
    write_operations(act.unit.tx, [operation])
    operation.read_status, operation.read_version = operation.status, operation.version


def _write_operations(act: Act) -> None:
    for operations in act.operations.values():
        for operation in operations:
            if operation.version != operation.read_version:
                _write(act, operation)
    act.operations = {key: rows for key, rows in act.operations.items() if any(o.status in OPEN for o in rows)}
