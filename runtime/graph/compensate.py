"""Undoing effects (C4.5, B9.2): when a run would end and its policy says so, or by a person's order.

An operation is undone by a step of its own in the same run, under a key of its own; what is undone last was done first.
One is undone after the other: where one cannot be, a person decides about the rest. All of it happens in the
transaction of whatever brought it about, under the run's lock.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from runtime.graph.derive import is_bad
from runtime.graph.owners import owner_of
from runtime.graph.plan import NodePlan
from runtime.graph.readiness import ancestors
from runtime.graph.undo import Undo, undo_name, undone_node
from runtime.kernel.ids import uuid7
from runtime.machine.apply import move_step, need_attention, plan_undo
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.operations import OperationState, move_operation, write_operations
from runtime.machine.rows import RunState, StepState

_ATTENTION_HOURS = 24
# What surely had no effect may be tried again under a new key; under the old one the ledger answers for ever.
_CLOSED_KEYS = ("refused", "void", "written_off")


def begin_due(frame: Frame, run: RunState) -> bool:
    """Begin to undo the run's last effect that its policies call to be undone; False when there is none.

    Called when nothing else of the run is open; operations that were moved in this unit of work are written already.
    Waits while it is not known what was applied, or a person has the run.
    """
    if run.n_open or run.n_unknown or run.n_compensating or run.attention is not None or not run.plan.compensates:
        return False
    frame.load([(run.id, "")])
    nodes = _called(run)
    if not nodes:
        return False
    if run.n_open_operations:
        rows = frame.tx.rows("open_operations_of_run", (run.id,))
        if any(row[0] != "partially_applied" for row in rows):
            return False
    for node, version, by_contract, *row in frame.tx.rows("effects_of_run", (run.id,)):
        if node in nodes:
            begin(frame, run, OperationState(*row), node, version, by_contract, by="engine", who=None, reason="")
            return True
    return False


def _called(run: RunState) -> set[str]:
    """Return the nodes whose effects are to be undone: those that ended badly under ``compensate``, and all before."""
    found: set[str] = set()
    for name, node in run.plan.nodes.items():
        step = run.steps[name]
        if node.compensates and is_bad(step.status, step.cause):
            found |= {name, *ancestors(run.plan, name)}
    return found


def begin(
    frame: Frame,
    run: RunState,
    operation: OperationState,
    node: str,
    version: int,
    by_contract: str | None,
    *,
    by: str,
    who: str | None,
    reason: str,
) -> StepState | None:
    """Move an operation to ``compensating`` and queue the step that undoes it; return that step.

    Where the workflow names a person instead of a tool, or nothing undoes the effect, the operation goes on to
    ``compensation_failed`` with that person as owner, and None is returned. ``who`` is the person that ordered it.
    """
    plan: NodePlan = run.plan.nodes[node]
    undo = plan.undo or Undo()
    tool = undo.tool or by_contract
    move_operation(run, None, operation, "compensating", by=by, actor=who, reason=reason or None)
    write_operations(frame.tx, [operation])
    if undo.person is not None or tool is None:
        # A second move is a second update: the guard sees each.
        operation.read_status, operation.read_version = operation.status, operation.version
        _hand_over(run, operation, node, undo, owner_of(frame.tx, operation))
        write_operations(frame.tx, [operation])
        return None
    return _order(frame, run, operation, undo_name(node, version), tool, undo.deadline_s, who, reason)


def _order(
    frame: Frame,
    run: RunState,
    operation: OperationState,
    name: str,
    tool: str,
    seconds: float,
    who: str | None,
    reason: str,
) -> StepState:
    assert run.now is not None
    frame.load([(run.id, name), (run.id, undone_node(name))])
    step = _fresh(run, name, uuid7())
    key = _key(frame, operation)
    deadline = run.now + timedelta(seconds=seconds)
    order = {
        "id": uuid7(),
        "tenant": frame.tx.tenant_id,
        "operation": operation.id,
        "run": run.id,
        "step": step.id,
        "check": uuid7(),
        "tool": tool,
        "key": key,
        "deadline": deadline,
        "reason": reason,
        "by": who or "engine",
        "at": run.now,
    }
    frame.tx.send("insert_compensation", order)
    payload = {"undoes": str(operation.id), "tool": tool, "business_key": key, "deadline": deadline.isoformat()}
    plan_undo(run, step, payload)
    move_step(run, step, "queued", by="engine")
    return step


def _key(frame: Frame, operation: OperationState) -> str:
    """Return the key of the next call that undoes ``operation``: the last one's while that may have been applied."""
    before = frame.tx.rows("orders_before", (operation.id,))
    if before and before[-1][1] not in _CLOSED_KEYS:
        return str(before[-1][0])
    key = f"undo:{operation.business_key}" + (f":{len(before) + 1}" if before else "")
    if len(key) > 500:
        key = f"undo:{hashlib.sha256(operation.business_key.encode()).hexdigest()}:{len(before) + 1}"
    return key


def _fresh(run: RunState, name: str, step_id: uuid.UUID) -> StepState:
    """Return the waiting row of a step that undoes or checks: urgent, for it is what others wait for.

    It goes to the workers that applied the effect.
    """
    node: NodePlan = run.plan.nodes[name]
    undone = run.steps.get(undone_node(name))
    pool = (undone.home_pool or undone.pool) if undone is not None else node.pool
    old = run.steps.get(name)
    version, epoch = (old.execution_version + 1, old.owner_epoch) if old is not None else (1, 0)
    return StepState(
        step_id, run.id, name, node.kind, version, False, "waiting", None, 1, epoch, 0, min(100, run.priority + 10),
        pool, True, None, None, 0, 0, 0, 0, 0, False, False, None, None, run.now,  # type: ignore[arg-type]
        None, None, None,
    )  # fmt: skip


def follow(frame: Frame, run: RunState, attend: Callable[[RunState, str, str | None], Any]) -> None:
    """Move operations on whose undoing or whose check ended in this unit of work; ``attend`` gives the run an owner."""
    ended = {s.id: s for s in run.steps.values() if s.undoes and s.dirty and s.ended and s.version != s.read_version}
    if not ended:
        return
    moved = []
    for step_id, check_id, *row in frame.tx.rows("undone_by_steps", {"steps": sorted(ended)}):
        operation, check = OperationState(*row), ended.get(check_id)
        step = check or ended[step_id]
        if operation.status != "compensating":
            continue
        if step.status != "succeeded":
            _failed(frame, run, step, operation, attend)
        elif check is None and _checked(run, step):
            _check(frame, run, step, check_id)
            continue
        else:
            move_operation(run, step, operation, "compensated", by="engine")
        moved.append(operation)
    write_operations(frame.tx, moved)


def _checked(run: RunState, step: StepState) -> bool:
    undo = run.plan.nodes[undone_node(step.node)].undo
    return undo is not None and undo.verify_tool is not None


def _check(frame: Frame, run: RunState, step: StepState, check_id: uuid.UUID) -> None:
    """Ask for the business fact next: an answer that says "done" proves nothing (C4.5)."""
    name = step.node.replace("undo", "undo-check", 1)
    frame.load([(run.id, name), (run.id, undone_node(name))])
    check = _fresh(run, name, check_id)
    plan_undo(run, check, {"checks": str(step.id)})
    move_step(run, check, "queued", by="engine")


def _failed(
    frame: Frame,
    run: RunState,
    step: StepState,
    operation: OperationState,
    attend: Callable[[RunState, str, str | None], Any],
) -> None:
    error = step.error or {"class": "policy", "code": step.status, "message": f"The step {step.node} is {step.status}."}
    move_operation(run, step, operation, "compensation_failed", by="engine", error=error)
    need_case(run, "compensation_failed", str(error.get("message") or error["class"])[:500], operation=operation)
    if run.attention is None:
        evidence = f"Operation {operation.business_key} could not be undone: {error.get('message', '')}"[:500]
        attend(run, evidence, owner_of(frame.tx, operation))


def _hand_over(run: RunState, operation: OperationState, node: str, undo: Undo, owner: str | None) -> None:
    """Nothing undoes it safely: it is the declared person's, with the consequence that was declared."""
    assert run.now is not None
    person = undo.person
    message = person.consequence if person is not None else f"Nothing is declared that undoes {node}."
    error = {"class": "policy", "code": "by_hand" if person else "no_compensation", "message": message}
    move_operation(run, None, operation, "compensation_failed", by="engine", error=error)
    need_case(run, "compensation_failed", message, operation=operation)
    if run.attention is None:
        within = timedelta(seconds=person.within_s) if person else timedelta(hours=_ATTENTION_HOURS)
        due = (run.now + within).isoformat()
        evidence = f"Operation {operation.business_key} is to be undone by hand: {message}"
        need_attention(run, {"owner": person.owner if person else owner or "oncall", "evidence": evidence, "due": due})
