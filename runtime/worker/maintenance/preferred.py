"""Steps leave the pool their node prefers when nobody claims them there in time, or nobody alive serves it (C2.7)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from runtime.actions.base import WORK_CHANNEL
from runtime.graph.plans import plan_of
from runtime.machine.apply import note
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState
from runtime.store.arrays import arrays
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_runs, by_tenant, due

_BATCH = 1000


def leave_preferred() -> int:
    """Move steps to their ordinary pool; returns how many. Who is held by somebody else has a later turn."""
    rows = due("preferred", "unpreferred", _BATCH)
    return sum(attempt_runs("preferred", t, found, partial(_move_in, t)) for t, found in by_tenant(rows).items())


def _move_in(tenant_id: uuid.UUID, found: list[tuple[Any, ...]]) -> int:
    """Move steps (run, step, until when it stands there, whether the pool is served) and tell of each."""
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        runs = tx.rows("free_runs", arrays("u", [(run_id,) for run_id in {row[0] for row in found}]))
        frame.adopt((RunState(*row) for row in runs), tx.now())
        wanted = [(step_id, until) for run_id, step_id, until, _served in found if run_id in frame.runs]
        moved = tx.rows("leave_preferred", arrays("uz", wanted)) if wanted else []
        frame.load([(run_id, node) for run_id, node, _pool in moved])
        served = {step_id: there for _run_id, step_id, _until, there in found}
        for run_id, node, pool in moved:
            run = frame.runs[run_id]
            step = run.steps[node]
            why = "waited" if served[step.id] else "unserved"
            note(run, "STEP_POOL_CHANGED", step, payload={"from": pool, "to": step.pool, "why": why})
        frame.flush()
        if moved:
            tx.notify(WORK_CHANNEL)
    return len(moved)
