"""New runs of a task that has run before: fresh, or adopting what is still valid of the last one (A9.6, C1.1).

How an adopted step comes to ``succeeded`` by the law: its row begins as any other and is queued, claimed and
completed by its owner; but the worker, having rendered the input, finds the old run's checkpoint of the same manifest
and the same input digest, and reports its output without calling. RUN_CREATED names the run (``rerun_of``) and the
nodes that may be adopted (``adopts``). Adoption is so decided where the input is known, by the strictest rule; what no
longer fits is called. A writing tool is never adopted: its business key finds the ledger's answer, nothing is sent.
Approvals are asked and verdicts are reached anew.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.actions.acting import Act, insist, permit
from runtime.actions.attributes import bounds_below
from runtime.actions.base import WORK_CHANNEL, check_reason, frame, step_answer
from runtime.actions.manifests import clock_and_policies, manifest_of, tool_pools
from runtime.actions.starting import Draft, insert_runs, start_run
from runtime.actions.terms import check_terms, known_budget
from runtime.graph.readiness import descendants
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.classes import due_of
from runtime.kernel.errors import Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.machine import law
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState


def new_run(
    *, actor: Actor, task_id: uuid.UUID, reason: str = "", budget: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Start a fresh run of a task: nothing is adopted. ``budget`` is this run's own, in place of the task's (C4.10).

    Returns {task_id, run_id, rerun_of, status, adopts}. Raises Conflict while a run of the task is open or its
    deadline has passed, NotFound, BadInput, PermissionDenied.
    """
    if budget is not None:
        check_terms({"budget": budget})
    return _another(actor, task_id, reason, adopt=False, budget=budget)


def rerun_task(*, actor: Actor, task_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Start a run of a task that adopts what is still valid of the last one. Answers and raises as :func:`new_run`."""
    return _another(actor, task_id, reason, adopt=True)


def _another(
    actor: Actor, task_id: uuid.UUID, reason: str, *, adopt: bool, budget: dict[str, Any] | None = None
) -> dict[str, Any]:
    text = check_reason(reason)
    permit(actor, v.RUN_CREATE, "workflow_of_task", task_id)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            return _answer(*_start(unit, actor, task_id, text, adopt=adopt, budget=budget))

    return insist(once)


def _answer(run: RunState, old: uuid.UUID, adopts: list[str]) -> dict[str, Any]:
    return {
        "task_id": str(run.task_id),
        "run_id": str(run.id),
        "rerun_of": str(old),
        "status": run.status,
        "adopts": adopts,
    }


def rerun_from(act: Act, step: StepState) -> dict[str, Any]:
    """Start a run of the finished run's task that adopts everything valid but ``step`` and what depends on it.

    Returns the step answer of the new run's step of the same node, with ``rerun_of``.
    """
    not_again = {step.node, *descendants(act.run.plan, step.node)}
    run, old, adopts = _start(
        act.unit, act.actor, act.run.task_id, act.reason, adopt=True, of=act.run, without=not_again, step=step
    )
    return {**step_answer(run, run.steps[step.node]), "rerun_of": str(old), "adopts": adopts}


def _start(
    unit: Frame,
    actor: Actor,
    task_id: uuid.UUID,
    reason: str,
    *,
    adopt: bool,
    of: RunState | None = None,
    without: set[str] | None = None,
    step: StepState | None = None,
    budget: dict[str, Any] | None = None,
) -> tuple[RunState, uuid.UUID, list[str]]:
    tx = unit.tx
    task = tx.one("lock_task_for_run", (task_id,))
    if task is None:
        raise NotFound("There is no task of that id in this tenant.")
    _, version_id, priority, pool, deadline, timeout, spec_sha256, tasks_budget = task
    latest = tx.one("latest_run_of_task", (task_id,))
    assert latest is not None
    if latest[1] not in law.RUN_ENDED:
        raise Conflict(
            f"A run of this task is {latest[1]}; a task has one open run.",
            remediation="Wait until it has ended, or cancel it.",
            run_id=latest[0],
            current_status=latest[1],
        )
    source = of.id if of is not None else latest[0]
    if adopt:  # what is run again may use what that run might, which can be a budget of its own
        budget = orjson.loads(tx.rows("budget_of_run", (source,))[0][0])
    now, policies, classes = clock_and_policies(tx)
    plan = unit.plan_of(tx, version_id)
    draft = Draft(
        task_id=task_id,
        run_id=uuid7(),
        version_id=version_id,
        manifest_id=manifest_of(tx, version_id, bytes(spec_sha256), plan, policies),
        plan=plan,
        payload_sha256=b"",
        input=b"",
        deadline=_deadline(now, deadline, timeout) or due_of(classes, priority, now),
        priority=priority,
        pool=pool,
        pools=tool_pools(unit.tx, version_id, plan),
        parent=latest[2],
        budget=known_budget(orjson.loads(tasks_budget)) if budget is None else budget,
        bounds=bounds_below(tx.one("run_above", (latest[2],)) if latest[2] else None),
    )
    adopts = _adoptable(unit, source, draft, without or set()) if adopt else []
    run = start_run(unit, actor, draft, now, rerun_of=source, adopts=adopts, reason=reason or None)
    insert_runs(unit, [run], [draft], rerun_of=source)
    unit.flush()
    tx.notify(WORK_CHANNEL)
    audit.record(
        tx,
        actor=actor,
        verb=v.STEP_RERUN if step is not None else v.RUN_CREATE,
        subject_kind="step" if step is not None else "task",
        subject_id=str(step.id if step is not None else task_id),
        run_id=run.id,
        result="accepted",
        reason=reason,
        details={"rerun_of": str(source), "adopts": adopts, **({"budget": draft.budget} if draft.budget else {})},
    )
    return run, source, adopts


def _deadline(now: datetime, deadline: datetime | None, timeout: float | None) -> datetime | None:
    """Return a new run's deadline as the task says, its time limit counted anew. Raises Conflict when it passed."""
    if deadline is not None and deadline <= now:
        raise Conflict("The task's deadline has passed: nothing new starts.", remediation="Submit a new task.")
    if timeout is None:
        return deadline
    limit = now + timedelta(seconds=timeout)
    return limit if deadline is None else min(limit, deadline)


def _adoptable(unit: Frame, source: uuid.UUID, draft: Draft, without: set[str]) -> list[str]:
    """Return the tool nodes whose checkpoint in ``source`` was made under the very manifest of the new run."""
    rows = unit.tx.rows("adoptable_nodes", (source, draft.manifest_id))
    nodes = draft.plan.nodes
    names = {row[0] for row in rows if row[0] in nodes and nodes[row[0]].kind == "tool"}
    return sorted(names - without, key=lambda name: nodes[name].index)
