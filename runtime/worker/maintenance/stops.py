"""What goes on when an emergency stop is lifted or its time is over, or a tool's samples are signed."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from runtime.actions.base import WORK_CHANNEL
from runtime.graph.plans import plan_of
from runtime.graph.propagate import go_on, settle
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.directory import all_tenants
from runtime.store.tx import Tx, plain_tx, tenant_tx
from runtime.tools.contract import parse_reference
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt, attempt_runs, by_tenant
from runtime.worker.permits import UNSIGNED
from runtime.worker.stops import Standing, everywhere

_BATCH = 500
_AFTER = timedelta(seconds=5)
# The floor below that: what no stop's end and no signature woke is looked at as often, and uses no attempt by it.
_LOOK_EACH = timedelta(seconds=600)


class Releaser:
    """Queues steps that no stop holds back any more, and lets tools be asked again; only after a stop has ended."""

    def __init__(self) -> None:
        # A fresh scheduler does not know what ended before it began: it looks once.
        self._seen: object = self
        self._asked: object = self
        self._looked_at: datetime | None = None

    def run_once(self) -> int:
        """Return how many steps went on."""
        with plain_tx() as tx:
            row = tx.one("last_stop_end")
            ended, now = row[0] if row else None, tx.now()
            if ended == self._seen and self._looked_at is not None and now - self._looked_at < _LOOK_EACH:
                return 0
            fresh = ended is not None and now - ended < _AFTER
        if ended != self._asked:
            for tenant in all_tenants():
                attempt("stops", tenant.id, partial(_ask_again, tenant.id))
            self._asked = ended
        standing = everywhere()
        seen, done, released = set[tuple[Any, ...]](), set[tuple[Any, ...]](), 0
        while rows := _page(seen):
            seen.update(rows)
            for tenant_id, pairs in by_tenant(rows).items():
                released += attempt_runs("stops", tenant_id, pairs, partial(_release, tenant_id, standing, done))
        # What could not be looked at is so at the next turn. And a worker that still remembers the stop may hold a step
        # back a moment after its end.
        self._seen = self if fresh or len(done) < len(seen) else ended
        self._looked_at = now
        return released


def _ask_again(tenant_id: uuid.UUID) -> int:
    """Let the reconciler look again at questions that were kept back."""
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        return tx.count("held_queries_soon")


def _page(seen: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the next stopped steps: however many another stop still holds back, those behind them are looked at."""
    with plain_tx() as tx:
        rows = tx.rows("stopped_steps", (_BATCH + len(seen),))
    return [row for row in rows if row not in seen]


def _release(
    tenant_id: uuid.UUID, standing: list[Standing], done: set[tuple[Any, ...]], pairs: list[tuple[Any, ...]]
) -> int:
    """Let a tenant's steps go on and return how many; they are added to ``done`` once that is committed."""
    released = 0
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        frame.lock({run_id for run_id, _node in pairs})
        frame.load([pair for pair in pairs if pair[0] in frame.runs])
        held = _held_back(frame, pairs)
        kept = still_kept(tx, held, standing)
        for run, step in held:
            if step.id not in kept:
                go_on(run, step, reason="the stop is over")
                released += 1
        settle(frame)
        frame.flush()
        if released:
            tx.notify(WORK_CHANNEL)
    done.update(pairs)
    return released


def still_kept(tx: Tx, held: list[tuple[RunState, StepState]], standing: list[Standing]) -> set[uuid.UUID]:
    """Return the ids of those of the stopped steps that a stop or a missing signature still keeps back.

    Queued again they would only find that out by another attempt.
    """
    unsigned = {step.id: tool for run, step in held if (tool := _unsigned_for(run, step)) is not None}
    signed = _signed(tx, list(unsigned.values()))
    kept = {step_id for step_id, tool in unsigned.items() if tool not in signed}
    assert tx.tenant_id is not None, "stopped steps are a tenant's"
    for run, step in held:
        tool = run.plan.nodes[step.node].tool
        if any(stop.covers(tx.tenant_id, tool, run.plan.name) for stop in standing):
            kept.add(step.id)
    return kept


def _held_back(frame: Frame, pairs: list[tuple[Any, ...]]) -> list[tuple[RunState, StepState]]:
    """Return those of the steps that still wait for the end of a stop, or for a signature."""
    found = []
    for run_id, node in pairs:
        run = frame.runs.get(run_id)
        step = run.steps.get(node) if run is not None else None
        if run is None or step is None or (run.ended and not step.undoes):
            continue
        if (step.status, step.cause) == ("waiting", "stopped"):
            found.append((run, step))
    return found


def _unsigned_for(run: RunState, step: StepState) -> str | None:
    """Return the tool whose samples were not signed when the step was to call it, as name@version."""
    error = step.error or {}
    return error.get("tool") or run.plan.nodes[step.node].tool if error.get("code") == UNSIGNED else None


def _signed(tx: Tx, references: list[str]) -> set[str]:
    """Return those of the tools whose samples are signed for their contract now."""
    if not references:
        return set()
    names, numbers = zip(*map(parse_reference, sorted(set(references))), strict=True)
    return {f"{name}@{number}" for name, number in tx.rows("signed_tools", (list(names), list(numbers)))}
