"""Runs that nothing moves any more: a case opens about each, and settles by itself once something moves (C2.6, C8.4).

What the engine can put right itself it has (``worker/maintenance/stranded.py``) long before a person is asked here.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from repair.actions.base import open_desk
from repair.law import OPEN, RESOLVED, SETTLED
from runtime.actions.base import frame
from runtime.actions.repairing import leave_to_the_engine
from runtime.kernel import seams
from runtime.kernel.actor import engine
from runtime.kernel.conf import conf
from runtime.kernel.seams import CaseNeed
from runtime.machine.rows import RunState
from runtime.store import directory, locks
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt, attempt_runs

DUTY = "repair_stuck"
REASON = "Nothing moves the run, and nobody looks after it."
MOVES = "The run moves again, or has ended."
_BATCH = 500


def watch_standstills() -> int:
    """Open a case about each run at a standstill, and close those that are over; returns how many of both."""
    tenants = [tenant.id for tenant in directory.all_tenants() if not tenant.suspended]
    return sum(attempt(DUTY, tenant_id, partial(_look, tenant_id)) for tenant_id in tenants)


def _look(tenant_id: uuid.UUID) -> int:
    with tenant_tx(tenant_id) as tx:
        stuck = tx.rows("stuck_runs", {"age": conf().stuck_seconds, "most": _BATCH})
        over = tx.rows("standstills_over", (_BATCH,))
    opened = sum(attempt_runs(DUTY, tenant_id, [row], partial(_open, tenant_id)) for row in stuck)
    return opened + sum(attempt_runs(DUTY, tenant_id, [row], partial(_close, tenant_id)) for row in over)


def _open(tenant_id: uuid.UUID, rows: list[tuple[Any, ...]]) -> int:
    """Ask for a person about one run, unless it has moved since it was looked at."""
    [(run_id, seq, status, moved_at, steps)] = rows
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        locked = locks.run_rows(tx, [run_id])
        if not locked or RunState(*locked[0]).seq != seq:
            return 0
        at = moved_at.isoformat(timespec="seconds")
        facts = {"run_status": status, "moved_at": at, "steps_left": steps or []}
        seams.need_cases(tx, [CaseNeed("stuck", REASON, run_id=run_id, facts=facts)])
    return 1


def _close(tenant_id: uuid.UUID, rows: list[tuple[Any, ...]]) -> int:
    """Settle one case that nobody has taken, if its run moves still."""
    [(case_id,)] = rows
    with frame(engine(tenant_id), lock_timeout_ms=LOCK_TIMEOUT_MS) as unit:
        desk = open_desk(unit, engine(tenant_id), case_id, MOVES)
        assert desk.act is not None
        if desk.case.state != OPEN or not unit.tx.rows("run_moves", (desk.case.run_id,))[0][0]:
            return 0
        leave_to_the_engine(desk.act)
        desk.learn("run_status", desk.act.run.status, source="ledger")
        desk.tell("settled", run_status=desk.act.run.status)
        desk.set(state=RESOLVED, resolution=SETTLED, resolved_by="engine", resolved_at=desk.now, verified_by="ledger")
        desk.close()
    return 1
