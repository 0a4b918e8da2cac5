"""Steps whose owner is gone: replayed when nothing was sent, unknown when something may have been (A6.2, C4.4).

The old owner is frozen first (new owner_epoch), so that whatever it still submits is stale.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from runtime.actions import recovery
from runtime.actions.base import WORK_CHANNEL
from runtime.actions.judging import judge, own_the_doubt
from runtime.graph.plans import plan_of
from runtime.graph.propagate import go_on, propagate, settle
from runtime.machine.apply import move_step
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.operations import OperationState, move_operation, write_operations
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import Array, arrays
from runtime.store.tx import Tx, plain_tx, tenant_tx
from runtime.worker.maintenance import work_lost
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_runs, by_tenant, due

_BATCH = 500
# What is looked at again under the locks may lie behind rows that came meanwhile, or that are left alone.
_WIDER = 64
# A step that takes its worker down with it again and again is a poison step, not bad luck.
MAX_LOST_ATTEMPTS = 5
# In company it may be another one's doing: then it takes more of them.
COMPANY_FACTOR = 3
LONGEST_APART_SECONDS = 30.0
_LOST = "its worker was lost after sending"


def end_expired_sessions() -> int:
    """End sessions whose lease has run out; returns how many. Workers that live on are rung to take a new one."""
    with plain_tx() as tx:
        ended = len(tx.rows("end_expired_sessions"))
        if ended:
            tx.notify(WORK_CHANNEL)
    return ended


def return_orphans() -> dict[str, int]:
    """Give back every running step whose session is over; returns counts of replayed, unknown, failed and parked."""
    counts = {"replayed": 0, "unknown": 0, "failed": 0, "parked": 0}
    rows = due("orphans", "orphaned_steps", _BATCH)
    company = Counter(session_id for *_step, session_id in rows)
    for tenant_id, steps in by_tenant(rows).items():
        alone = {(run_id, node) for run_id, node, session_id in steps if company[session_id] == 1}
        attempt_runs("orphans", tenant_id, steps, partial(_return, tenant_id, alone, counts))
    return counts


def _orphaned(tx: Tx) -> set[tuple[uuid.UUID, str]]:
    return {row[1:3] for row in tx.rows("orphaned_steps", (_BATCH * _WIDER,)) if row[0] == tx.tenant_id}


def _return(
    tenant_id: uuid.UUID,
    alone: set[tuple[uuid.UUID, str]],
    counts: dict[str, int],
    rows: Sequence[tuple[Any, ...]],
    *,
    still: Callable[[Tx], set[tuple[uuid.UUID, str]]] = _orphaned,
    reason: str = "worker session is over",
) -> int:
    """Return a tenant's lost steps in one transaction; returns how many, and adds them to ``counts`` by kind.

    ``alone`` are those that were the only ones their worker ran; ``still`` says, under the locks, which are lost.
    """
    here, pairs = dict.fromkeys(counts, 0), [(row[0], row[1]) for row in rows]
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        frame.lock({run_id for run_id, _node in pairs})
        frame.load(pairs)
        known = still(tx)
        lost = [frame.runs[run].steps[node] for run, node in pairs if (run, node) in known and run in frame.runs]
        lost = [step for step in lost if step.status == "running"]
        if not lost:
            return 0
        before = dict(tx.rows("lost_before", _ids(lost)))
        operations = [
            OperationState(*row) for row in tx.rows("operations_of_steps", (tx.tenant_id, [s.id for s in lost]))
        ]
        unfit = recovery.unfit(frame, lost)
        costs = work_lost.measure(tx, lost)
        open_by_step = {o.step_id: o for o in operations if o.status in ("intended", "sent", "unknown")}
        ended: list[tuple[RunState, StepState]] = []
        attempts = []
        for step in lost:
            run = frame.runs[step.run_id]
            attempts.append((run.id, step.id, step.attempt, "lost", None, None, None, None))
            losses = before.get(step.id, 0) + 1
            poison = losses >= MAX_LOST_ATTEMPTS * (1 if (run.id, step.node) in alone else COMPANY_FACTOR)
            doubt, misfit = open_by_step.get(step.id), unfit.get(step.id)
            here[_return_one(tx, run, step, doubt, ended, losses, misfit, poison=poison, reason=reason)] += 1
        propagate(frame.runs, ended, frame.load)
        write_operations(tx, [o for o in operations if o.version != o.read_version])
        settle(frame)
        now = next(iter(frame.runs.values())).now
        frame.flush(lambda tx: tx.send("finish_attempts", (now, *arrays("uuistxxt", attempts))))
        work_lost.tell(frame, lost, costs)
        tx.notify(WORK_CHANNEL)
    for kind, count in here.items():
        counts[kind] += count
    return len(lost)


def return_forgotten(session_id: uuid.UUID, tenant_id: uuid.UUID, steps: Sequence[tuple[Any, ...]]) -> int:
    """Give back steps (run, node, …) that run under a live session whose worker does not know them; returns how many.

    Called by that worker itself, so what it does not know by then it never will. Whether their calls were made is not
    known either: they are judged like those of a lost worker.
    """

    def held(tx: Tx) -> set[tuple[uuid.UUID, str]]:
        return {(row[1], row[2]) for row in tx.rows("steps_held_by", (session_id,))}

    counts = {"replayed": 0, "unknown": 0, "failed": 0, "parked": 0}
    return _return(tenant_id, set(), counts, steps, still=held, reason="its worker has forgotten it")


def doubt_orphaned_operations() -> int:
    """Make sent operations unknown whose step was ended by somebody else and whose worker is gone; returns how many."""
    rows = due("orphaned_operations", "orphaned_operations", _BATCH)
    return sum(
        attempt_runs("orphaned_operations", tenant_id, pairs, partial(_doubt, tenant_id))
        for tenant_id, pairs in by_tenant(rows).items()
    )


def _doubt(tenant_id: uuid.UUID, pairs: list[tuple[Any, ...]]) -> int:
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        frame.lock({run_id for run_id, _key in pairs})
        still = {row[2] for row in tx.rows("orphaned_operations", (_BATCH * _WIDER,)) if row[0] == tenant_id}
        keys = sorted(key for _run_id, key in pairs if key in still)
        operations = [OperationState(*row) for row in tx.rows("operations_by_key", (tenant_id, keys))]
        doubted = [o for o in operations if o.status == "sent" and o.run_id in frame.runs]
        for operation in doubted:
            run = frame.runs[operation.run_id]
            move_operation(run, None, operation, "unknown", by="engine", reason="step ended, worker gone")
            own_the_doubt(tx, run, operation, _LOST)
        write_operations(tx, doubted)
        settle(frame)
        frame.flush()
    return len(doubted)


def _ids(steps: list[StepState]) -> list[Array]:
    return arrays("uu", [(step.run_id, step.id) for step in steps])


def _return_one(
    tx: Tx,
    run: RunState,
    step: StepState,
    operation: OperationState | None,
    ended: list[tuple[RunState, StepState]],
    losses: int,
    unfit: str | None,
    *,
    poison: bool,
    reason: str,
) -> str:
    """Move one lost step on and return what became of it."""
    move_step(run, step, "unknown", by="engine", cause="lease_lost", reason=reason, fence=True)
    doubted = [] if operation is None else [operation]
    # A step that takes its workers down fails; nobody is asked to look at it first.
    verdict = judge(tx, run, step, doubted, unfit=unfit, why=_LOST, reason=reason, may_hold=not poison)
    if verdict == "killed":
        ended.append((run, step))
        return "unknown" if doubted else "failed"
    if verdict != "unsent":
        return verdict
    if poison:
        error = {
            "class": "internal",
            "code": "worker_lost",
            "message": f"{losses} workers were lost with it",
        }
        move_step(run, step, "failed", by="reconciler", error=error, reason="the step takes its workers down")
        need_case(run, "stuck", f"Step {step.node} takes its workers down.", step=step, facts={"workers_lost": losses})
        ended.append((run, step))
        return "failed"
    later = _apart(run, losses)
    move_step(run, step, "waiting", by="engine", cause="reconciled", reason="nothing was sent", not_before=later)
    if later is None:
        go_on(run, step)
    return "replayed"


def _apart(run: RunState, losses: int) -> datetime | None:
    """Return when a step that lost several workers is tried again: at another time than those that were lost with it.

    The one that takes workers down is so found alone sooner or later, and the others get through without it.
    """
    if losses < 2 or run.now is None:
        return None
    return run.now + timedelta(seconds=random.uniform(0.2, min(2.0 ** (losses - 1), LONGEST_APART_SECONDS)))
