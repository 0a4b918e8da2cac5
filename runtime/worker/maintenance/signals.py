"""External events that came before their step waited, and steps whose event does not come (C5.1, A6.1)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from runtime.actions.acting import Act
from runtime.actions.signals import deliver
from runtime.graph.plans import plan_of
from runtime.kernel.actor import engine
from runtime.machine.frame import Frame
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt, attempt_runs, by_tenant, due

_BATCH = 500


class Deliverer:
    """Looks at runs that have kept events, so many a turn, each of them in time: many may wait for another event."""

    def __init__(self) -> None:
        self._after = uuid.UUID(int=0)

    def run_once(self) -> int:
        """Give early events to the steps that wait by now; those of ended runs are late. Returns how many."""
        with plain_tx() as tx:
            rows = tx.rows("kept_signals", (self._after, _BATCH))
        self._after = rows[-1][1] if len(rows) == _BATCH else uuid.UUID(int=0)
        return sum(attempt("signals", tenant, partial(_deliver, tenant, run_id)) for tenant, run_id in rows)


def _deliver(tenant_id: uuid.UUID, run_id: uuid.UUID) -> int:
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        unit = Frame(tx, plan_of)
        act = Act(unit, unit.run(run_id), engine(tenant_id), "")
        done = 0
        for inbox_id, name, correlation_id, event_id in tx.rows("inbox_kept", (run_id,)):
            waits = [node for node in act.run.plan.nodes.values() if node.event == name]
            done += deliver(act, inbox_id, name, correlation_id, event_id, waits)[0] != "kept"
        act.close()
    return done


def end_overdue() -> int:
    """Skip steps (cause ``deadline``) whose event did not come in time; returns how many. The edges' policy follows."""
    rows = due("overdue_signals", "overdue_signals", _BATCH)
    return sum(attempt_runs("overdue_signals", t, pairs, partial(_end, t)) for t, pairs in by_tenant(rows).items())


def _end(tenant_id: uuid.UUID, pairs: list[tuple[Any, ...]]) -> int:
    ended = 0
    for run_id, node in pairs:
        with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
            unit = Frame(tx, plan_of)
            run = unit.run(run_id)
            unit.load([(run_id, node)])
            step = run.steps[node]
            due = step.not_before is not None and run.now is not None and step.not_before <= run.now
            if run.ended or step.status != "hold" or step.cause != "external" or not due:
                continue
            act = Act(unit, run, engine(tenant_id), "The event did not come in time.")
            act.move(step, "skipped", by="engine", cause="deadline")
            act.close()
            ended += 1
    return ended
