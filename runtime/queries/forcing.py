"""What forcing a step would do, before anybody does it: what starts, what stays open outside, which attempt ends."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.forcing import check_force, living
from runtime.graph.foresee import foresee_forced
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.errors import MoveRefused, NotFound
from runtime.machine.operations import OPEN
from runtime.machine.rows import RunState, StepState
from runtime.machine.second import why_second
from runtime.models import Tenant
from runtime.queries.base import reading
from runtime.store.tx import Tx


def preview_force(*, actor: Actor, step_id: uuid.UUID) -> dict[str, Any]:
    """Return what marking a step as succeeded by hand would do; nothing is locked, nothing is changed.

    {step_id, run_id, node, status, version, why_not, second, starts, may_start, still_open, killed_attempt}.
    ``why_not`` is None where the law has the move; ``second`` says why another admin has to agree, None when nobody
    has to. ``starts`` and ``may_start`` (behind a switch that has not decided) are nodes, foreseen for the case that
    every step succeeds; ``still_open`` the step's open operations {id, business_key, status}; ``killed_attempt``
    {attempt, owner_epoch, worker_session} of a running step. Raises NotFound. Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        run, step = foreseen_from(tx, step_id)
        operations = tx.dicts("read_step_operations", (run.id, step_id))
        settings = Tenant.objects.values_list("settings", flat=True).get(id=actor.tenant_id)
    names = ("id", "business_key", "status")
    still = [{name: one[name] for name in names} for one in operations if one["status"] in OPEN]
    why_not = _why_not(run, step)
    ahead = foresee_forced(run, step) if why_not is None else None
    return {
        "step_id": str(step.id),
        "run_id": str(run.id),
        "node": step.node,
        "status": step.status,
        "version": step.version,
        "why_not": why_not,
        "second": why_second(settings, len(still)),
        "starts": list(ahead.runs) if ahead else [],
        "may_start": list(ahead.perhaps) if ahead else [],
        "still_open": still,
        "killed_attempt": living(step),
    }


def foreseen_from(tx: Tx, step_id: uuid.UUID) -> tuple[RunState, StepState]:
    """Return a step and its run with every current step, read without a lock, to foresee from. Raises NotFound."""
    found = tx.one("step_run", (step_id,))
    if found is None:
        raise NotFound("There is no step of that id in this tenant.")
    run = RunState(*tx.rows("run_unlocked", (found[0],))[0])
    run.now, run.plan = tx.now(), plan_of(tx, run.workflow_version_id)
    run.steps = {row[2]: StepState(*row) for row in tx.rows("steps_of_runs", ([run.id],))}
    step = run.steps.get(found[1])
    if step is None or step.id != step_id:
        [old] = tx.rows("step_by_id", (step_id,))
        step = StepState(*old)
    return run, step


def _why_not(run: RunState, step: StepState) -> str | None:
    if step.undoes:
        return "What undoes an effect is no part of the workflow."
    try:
        check_force(run, step)
    except MoveRefused as refusal:
        return refusal.detail
    return None
