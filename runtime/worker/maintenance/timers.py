"""Timers and deadlines: durable, by the database's clock (C5.2)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from runtime.actions.base import WORK_CHANNEL
from runtime.actions.ending import end_cancelled, end_for_deadline
from runtime.graph.plans import plan_of
from runtime.graph.propagate import go_on, propagate, settle, time_out
from runtime.kernel.actor import engine
from runtime.machine.apply import set_timer
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_due, attempt_runs, by_tenant, due
from runtime.worker.maintenance.stops import still_kept
from runtime.worker.stops import own
from runtime.worker.work import REST_SECONDS

_BATCH = 1000


def fire_timers() -> int:
    """Queue waiting steps whose time has come; returns how many."""
    rows = due("timers", "due_timers", _BATCH)
    return sum(attempt_runs("timers", t, pairs, partial(_fire_in, t)) for t, pairs in by_tenant(rows).items())


def _fire_in(tenant_id: uuid.UUID, pairs: list[tuple[Any, ...]]) -> int:
    fired = 0
    ended: list[tuple[RunState, StepState]] = []
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        frame.lock({run_id for run_id, _node in pairs})
        frame.load([(run_id, node) for run_id, node in pairs if run_id in frame.runs])
        late = _late(frame, pairs)
        stopped = [(run, step) for run, step in late if step.cause == "stopped"]
        kept = still_kept(tx, stopped, own(tx)) if stopped else set()
        for run, step in late:
            if step.id in kept:
                _rest(run, step)
                continue
            if step.cause is None:
                ended += time_out(run, step, frame.load)
            else:
                go_on(run, step)
            fired += 1
        propagate(frame.runs, ended, frame.load)
        settle(frame)
        frame.flush()
        if fired:
            tx.notify(WORK_CHANNEL)
    return fired


def _late(frame: Frame, pairs: list[tuple[Any, ...]]) -> list[tuple[RunState, StepState]]:
    """Return those of the steps that still wait, and whose time has come."""
    found = []
    for run_id, node in pairs:
        run = frame.runs.get(run_id)
        step = run.steps.get(node) if run is not None else None
        if run is None or step is None or step.status != "waiting" or (run.ended and not step.undoes):
            continue
        if step.not_before is not None and run.now is not None and step.not_before <= run.now:
            found.append((run, step))
    return found


def _rest(run: RunState, step: StepState) -> None:
    """Let a step rest on that a stop or a missing signature still keeps back: looking uses no attempt."""
    assert run.now is not None
    set_timer(run, step, run.now + timedelta(seconds=REST_SECONDS), cause="stopped")


def seconds_to_next_timer() -> float | None:
    """Return how long until the next timer is due (negative: overdue), or None when there is none."""
    with plain_tx() as tx:
        row = tx.one("next_timer")
        return None if row is None or row[0] is None else float(row[0])


def enforce_deadlines() -> int:
    """End runs whose deadline has passed; returns how many."""
    return attempt_due("deadlines", "due_deadlines", _BATCH, _end)


def enforce_cancels() -> int:
    """Kill what cancelled runs still run after their time to end by itself; returns in how many runs."""
    return attempt_due("cancels", "due_cancels", _BATCH, _kill)


def _kill(tenant_id: uuid.UUID, run_id: uuid.UUID) -> int:
    end_cancelled(actor=engine(tenant_id), run_id=run_id, lock_timeout_ms=LOCK_TIMEOUT_MS)
    return 1


def _end(tenant_id: uuid.UUID, run_id: uuid.UUID) -> int:
    end_for_deadline(actor=engine(tenant_id), run_id=run_id, lock_timeout_ms=LOCK_TIMEOUT_MS)
    return 1
