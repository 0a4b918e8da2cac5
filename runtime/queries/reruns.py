"""What running a step again would do, before anybody does it: what runs, what is ended first, what is reused."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import refuse_stopping
from runtime.actions.rerun import check_rerun
from runtime.graph.foresee import NOTHING, Foresight, foresee
from runtime.graph.rewind import affected
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, MoveRefused
from runtime.machine.operations import OPEN
from runtime.machine.rows import RunState, StepState
from runtime.models import Operation
from runtime.queries.base import reading
from runtime.queries.forcing import foreseen_from


def preview_rerun(*, actor: Actor, step_id: uuid.UUID) -> dict[str, Any]:
    """Return what running a step again would do; nothing is locked, nothing is changed (A9.6).

    {step_id, run_id, node, status, version, execution_version, why_not, how, runs, may_run, ended, reused, still_open}.
    ``why_not`` is None where it may be run again. ``how`` is ``again`` (its next execution version), ``new_run`` (the
    run has ended) or ``nothing``. The lists hold nodes in their order, foreseen for the case that every step succeeds;
    ``may_run`` stand behind a switch that has not decided, ``ended`` are under way and are ended first. ``still_open``
    are the operations {id, node, business_key, status} that refuse it. Raises NotFound. Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        run, step = foreseen_from(tx, step_id)
        behind = [] if run.ended or step.superseded or step.undoes else affected(run, step.node)
        nodes = {run.steps[name].id: name for name in behind} | {step.id: step.node}
        rows = Operation.objects.filter(run_id=run.id, step_id__in=nodes, status__in=OPEN).order_by("id")
        still = [
            {"id": key, "node": nodes[owner], "business_key": business_key, "status": status}
            for key, owner, business_key, status in rows.values_list("id", "step_id", "business_key", "status")
        ]
    why_not = _why_not(run, step, [run.steps[name] for name in behind], still)
    ahead = foresee(run, step, same_execution=False) if why_not is None else Foresight(NOTHING)
    return {
        "step_id": str(step.id),
        "run_id": str(run.id),
        "node": step.node,
        "status": step.status,
        "version": step.version,
        "execution_version": step.execution_version,
        "why_not": why_not,
        "how": ahead.how,
        "runs": list(ahead.runs),
        "may_run": list(ahead.perhaps),
        "ended": list(ahead.ended),
        "reused": list(ahead.reused),
        "still_open": still,
    }


def _why_not(run: RunState, step: StepState, behind: list[StepState], still: list[dict[str, Any]]) -> str | None:
    if step.undoes:
        return "What undoes an effect is no part of the workflow."
    if step.superseded:
        return "A newer execution version took its place."
    try:
        check_rerun(run, step)
        if not run.ended:
            refuse_stopping(run)
    except (MoveRefused, Conflict) as refusal:
        return refusal.detail
    if still:
        return f"Operation {still[0]['business_key']} of step {still[0]['node']} is {still[0]['status']}."
    unknown = next((one.node for one in behind if one.status == "unknown"), None)
    return f"Step {unknown} depends on it and is unknown." if unknown else None
