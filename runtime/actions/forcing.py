"""Forcing a success with a second person: the demand is an event of the run, another admin's decision carries it out.

What was demanded is read from the ledger and compared with the row as it is then; a step that moved is not forced.
"""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import Act
from runtime.actions.base import check_step_version, step_answer
from runtime.graph.foresee import foresee_forced
from runtime.graph.plans import plan_of
from runtime.graph.rewind import change_end
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict
from runtime.machine.apply import check_move, note
from runtime.machine.frame import Frame
from runtime.machine.law import ADMIN
from runtime.machine.rows import RunState, StepState
from runtime.machine.second import why_second
from runtime.models import Tenant
from runtime.store.tx import Tx

KIND = "force"
# As long as other requests wait for a person; after that nothing was forced.
WAITS_SECONDS = 24 * 3600.0


def needs_second(act: Act, step: StepState) -> str | None:
    """Return why another admin has to agree to forcing ``step``; its open operations are read."""
    settings = Tenant.objects.values_list("settings", flat=True).get(id=act.actor.tenant_id)
    return why_second(settings, len(act.operations.get(step.id, ())))


def ask_second(act: Act, step: StepState, evidence: str, why: str) -> dict[str, Any]:
    """Write the demand into the run's ledger and ask another admin; the step stays as it is.

    They are shown what was said, what would start, what stays open outside and which attempt would be ended. Returns
    the step's answer with ``asked`` {approval_id, why}. Raises MoveRefused, and Conflict when somebody asked already.
    """
    run, tx = act.run, act.unit.tx
    check_force(run, step)
    demand = {"version": step.version, "evidence": evidence or None, "why": why}
    note(run, "FORCE_ASKED", step, actor=act.label, reason=act.reason, payload=dict(demand))
    payload = {
        "run_id": str(run.id),
        "node": step.node,
        "status": step.status,
        "reason": act.reason,
        "evidence": evidence or None,
        **preview(act, step),
    }
    before = step_answer(run, step)
    act.close()
    approval_id = seams.ask_people(
        tx=tx, kind=KIND, subject_id=str(step.id), title=f"Mark {step.node} as succeeded by hand", goal=act.reason,
        payload=payload, requested_by=act.actor.label, role="admin", risk="high", expires_s=WAITS_SECONDS,
    )  # fmt: skip
    if approval_id is None:
        raise Conflict(
            "Another admin was asked about this step already.",
            remediation="Wait for their decision, or let them reject it.",
            run_id=run.id,
            step_id=step.id,
        )
    asked = {"approval_id": str(approval_id), "why": why}
    act.record(v.STEP_FORCE, "step", step.id, result="asked", details={"node": step.node, **demand, **asked})
    return {**before, "run_version": run.version, "asked": asked}


def check_force(run: RunState, step: StepState) -> None:
    """Raise MoveRefused where the law lets nobody force the step; a running one is killed first."""
    check_move(run, step, "killed" if step.status == "running" else "mark_successed", ADMIN)


def preview(act: Act, step: StepState) -> dict[str, Any]:
    """Return {starts, may_start, still_open, killed_attempt}: nodes, operations {business_key, status}, an attempt."""
    act.load_all()
    ahead = foresee_forced(act.run, step)
    open_now = act.operations.get(step.id, [])
    return {
        "starts": list(ahead.runs),
        "may_start": list(ahead.perhaps),
        "still_open": [{"business_key": one.business_key, "status": one.status} for one in open_now],
        "killed_attempt": living(step),
    }


def living(step: StepState) -> dict[str, Any] | None:
    """Return the attempt that runs, for the record: {attempt, owner_epoch, worker_session}; None when none does."""
    if step.status != "running":
        return None
    session = str(step.worker_session_id) if step.worker_session_id else None
    return {"attempt": step.attempt, "owner_epoch": step.owner_epoch, "worker_session": session}


def force(act: Act, step: StepState, evidence: str, **more: Any) -> StepState:
    """Mark ``step`` as succeeded by hand; ``more`` goes to event and audit besides evidence and the living attempt."""
    run = act.run
    said = {"evidence": evidence or None, "killed_attempt": living(step), **more}
    act.details |= said
    another_end = step.ended or step.status == "running"
    if step.status == "running":
        act.kill(step, by="admin")
    elif step.status == "unknown":
        act.doubts += act.operations.get(step.id, [])
    act.move(step, "mark_successed", by="admin", fence=True, payload=said)
    if not another_end or run.ended:
        return step
    # Its other end was counted, or told, already: what follows is counted anew instead of once more.
    act.ended.clear()
    act.load_all()
    reason = f"{step.node} was forced"
    act.ended += change_end(run, step.node, act.unit.load, actor=None, reason=reason)
    return step


def resume_force(*, tx: Tx, subject_id: str, granted: bool, actor: Actor, request_id: uuid.UUID, reason: str) -> None:
    """Carry out what another admin agreed to, in the deciding transaction, or note that they did not; the seam's call.

    Raises Stale when the step is not as it was shown, MoveRefused by the law, PermissionDenied; nothing is decided
    then.
    """
    unit = Frame(tx, plan_of)
    run, step = unit.step(uuid.UUID(subject_id))
    row = tx.one("force_asked", (run.id, step.id))
    if row is None:
        return
    demanded_by, demand_reason, evidence, version = row
    details = {"asked_by": demanded_by, "approval_id": str(request_id)}
    if not granted:
        act = Act(unit, run, actor, reason)
        note(run, "FORCE_DECLINED", step, actor=act.label, reason=reason or None, payload=dict(details))
        unit.flush()
        act.record(v.STEP_FORCE, "step", step.id, result="rejected", details={"node": step.node, **details})
        return
    authorize(actor, v.STEP_FORCE)
    check_step_version(run, step, version)
    act = Act(unit, run, actor, demand_reason)
    act.read_operations([step])
    before = {"status": step.status, "version": step.version, "cause": step.cause}
    force(act, step, evidence or "", **details)
    act.close()
    after = {"status": step.status, "version": step.version, "cause": step.cause}
    act.record(
        v.STEP_FORCE, "step", step.id, details={"node": step.node, "before": before, "after": after, **act.details}
    )
