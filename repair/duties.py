"""What time does to cases: an overdue one goes up its chain, one that settled by itself is closed (C8.4)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import orjson

from repair.actions.base import Desk, open_desk
from repair.addressee import tool_owner
from repair.chains import due_place
from repair.law import OPEN, RESOLVED, SETTLED
from repair.wiring import OVERDUE
from runtime.actions.base import frame
from runtime.actions.repairing import leave_to_the_engine
from runtime.kernel.actor import engine
from runtime.kernel.ids import uuid7
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_due

_BATCH = 200
_NOTHING_LEFT = ("absent", "refused", "void", "compensated")


def escalate_overdue() -> int:
    """Tell the next link of the tenant's chain of each case whose time for that has come; returns how many.

    The case stays overdue on every screen, and the last link stays told.
    """
    return attempt_due("overdue_cases", "overdue_cases", _BATCH, partial(_one, _escalate))


def close_settled() -> int:
    """Close cases that nobody has taken and whose effect was settled meanwhile; returns how many."""
    return attempt_due("settled_cases", "settled_cases", _BATCH, partial(_one, _close))


def _one(act: Callable[[Desk], bool], tenant_id: uuid.UUID, case_id: uuid.UUID) -> int:
    with frame(engine(tenant_id), lock_timeout_ms=LOCK_TIMEOUT_MS) as unit:
        desk = open_desk(unit, engine(tenant_id), case_id, "")
        if not act(desk):
            return 0
        desk.close()
        return 1


def _escalate(desk: Desk) -> bool:
    case, now = desk.case, desk.now
    place, link = due_place(case, now)
    if link is None:
        if place != case.escalations:  # an older chain told them: the case is not due for it again
            desk.set(escalations=place)
            desk.close()
        return False
    told = {"tool_owner": answers} if (answers := tool_owner(desk.unit.tx, case.tool)) else {}
    desk.tell("escalated", to=link.to, owner=case.owner, due_at=case.due_at.isoformat(), **told)
    desk.set(escalations=place, escalated_to=link.to)
    note = orjson.dumps({"case_id": str(case.id)}).decode()
    desk.unit.tx.send("outbox_insert", (uuid7(), desk.actor.tenant_id, uuid7(), OVERDUE, note, now))
    return True


def _close(desk: Desk) -> bool:
    case = desk.case
    if case.state != OPEN or desk.operation is None or desk.act is None:
        return False
    status, run = desk.operation.status, desk.act.run
    wanted = not run.cancel_requested and run.status not in ("failed", "cancelled")
    if case.kind != "operation_unknown" or not (status in _NOTHING_LEFT or (status == "succeeded" and wanted)):
        # It was sent again between the look and the lock.
        return False
    desk.reason = f"The operation is {status}."
    leave_to_the_engine(desk.act)
    desk.learn("operation_status", status, source="ledger")
    desk.tell("settled", operation_status=status)
    desk.set(state=RESOLVED, resolution=SETTLED, resolved_by="engine", resolved_at=desk.now, verified_by="ledger")
    return True
