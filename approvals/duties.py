"""What time does to requests: it warns, reminds, escalates or rejects as the policy says; it never approves (A7.3)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from approvals.actions.times import climb
from approvals.asked import Asked, lock_request
from approvals.law import NOT_STARTED, RUN_CANCELLED, RUN_ENDED, TIMEOUT
from approvals.terms import last_call
from approvals.writing import note, tell
from runtime.actions.acting import Act
from runtime.actions.base import frame
from runtime.actions.holds import pass_decision
from runtime.kernel import seams
from runtime.kernel.actor import engine
from runtime.kernel.errors import Conflict, MoveRefused, NotFound
from runtime.machine.frame import Frame
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_due

_BATCH = 200


def expire_requests() -> int:
    """Reject or escalate pending requests whose deadline has passed, as their policy says; returns how many."""
    return attempt_due("due_approvals", "due_approvals", _BATCH, partial(_one, _expire))


def remind() -> int:
    """Warn at half the time, remind when a tenth is left, and say once that a kept one is overdue; returns how many."""
    return attempt_due("approval_reminders", "approval_reminders", _BATCH, partial(_one, _remind))


def close_idle() -> int:
    """Close grants that nothing can use any more: lapsed, or void because their run has ended; returns how many."""
    idle = attempt_due("idle_approvals", "idle_approvals", _BATCH, partial(_one, _close))
    return idle + attempt_due("lapsed_grants", "lapsed_grants", _BATCH, partial(_one, _close))


def _one(act: Callable[[Frame, Asked], bool], tenant_id: uuid.UUID, request_id: uuid.UUID) -> int:
    try:
        with frame(engine(tenant_id), lock_timeout_ms=LOCK_TIMEOUT_MS) as unit:
            return int(act(unit, lock_request(unit, request_id)))
    except NotFound:
        return 0


def _expire(unit: Frame, asked: Asked) -> bool:
    """Do what the policy says. A person who decided first has won: the row is locked, and looked at again."""
    now = unit.tx.now()
    if asked.state != "pending" or asked.on_timeout == "keep" or asked.deadline is None or asked.deadline > now:
        return False
    if asked.on_timeout == "escalate" and asked.ladder:
        note(unit.tx, asked.id, "escalate", "engine", "", climb(unit.tx, asked, now))
        return True
    unit.tx.send("approval_close", {"to": "rejected", "from": "pending", "reason": TIMEOUT, "ids": [asked.id]})
    assert unit.tx.tenant_id is not None
    actor = engine(unit.tx.tenant_id)
    if asked.step_id is None:
        seams.resume_subject(
            asked.subject_kind, tx=unit.tx, subject_id=asked.subject_id, granted=False, actor=actor,
            request_id=asked.id, reason=TIMEOUT,
        )  # fmt: skip
        return True
    run, step = unit.step(asked.step_id)
    act = Act(unit, run, actor, TIMEOUT)
    try:
        pass_decision(act, step, granted=False, payload={"approval_id": str(asked.id), "reason": TIMEOUT})
    except (Conflict, MoveRefused):
        # The run is being ended by somebody else, who also ends the step; the request is closed all the same.
        return True
    act.close()
    return True


def _remind(unit: Frame, asked: Asked) -> bool:
    """Warn, remind, or say that a kept one is overdue: whose turn it is follows from how often it was done before.

    The time is counted from the last change of the deadline: what was escalated late has a tenth of its own.
    """
    now, until = unit.tx.now(), asked.deadline
    if asked.state != "pending" or until is None:
        return False
    overdue, kept = until <= now, asked.on_timeout == "keep"
    if overdue and not kept:
        return False
    why = "overdue" if overdue else "warned" if asked.reminders == 0 else "reminded"
    following = last_call(now, until) if why == "warned" else until if why == "reminded" and kept else None
    unit.tx.send("approval_reminded", (following, asked.id, asked.revision))
    note(unit.tx, asked.id, why, "engine")
    tell(unit.tx, asked.id, now, why)
    return True


def _close(unit: Frame, asked: Asked) -> bool:
    if asked.state != "approved":
        return False
    run = None if asked.run_id is None else unit.runs[asked.run_id]
    if run is not None and (run.ended or run.cancel_requested):
        to, reason = "voided", RUN_CANCELLED if run.cancel_requested else RUN_ENDED
    else:
        to, reason = "lapsed", NOT_STARTED
    unit.tx.send("approval_close", {"to": to, "from": "approved", "reason": reason, "ids": [asked.id]})
    return True
