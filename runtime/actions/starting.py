"""Making a run: its steps in memory, its roots begun, its rows inserted as they stand after the first moves."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from runtime.graph.plan import Plan
from runtime.graph.propagate import begin, settle
from runtime.kernel.actor import Actor
from runtime.kernel.ids import uuid7
from runtime.machine.apply import add_step, note
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays


@dataclass(slots=True)
class Draft:
    """What a new run is made from; ``pools`` are those that tools ask for, before the task's own.

    ``parent`` is the run that submitted the task, ``budget`` what this run may use (C1.2), ``bounds`` what it
    shares with the runs above it (``attributes.bounds_below``).
    """

    task_id: uuid.UUID
    run_id: uuid.UUID
    version_id: uuid.UUID
    manifest_id: uuid.UUID
    plan: Plan
    payload_sha256: bytes
    input: bytes
    deadline: datetime | None
    priority: int = 0
    pool: str = "default"
    scheduled_at: datetime | None = None
    pools: Mapping[str, str] = field(default_factory=dict)
    parent: uuid.UUID | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)
    bounds: Sequence[Mapping[str, Any]] = ()


def start_run(
    unit: Frame,
    actor: Actor,
    draft: Draft,
    now: datetime,
    *,
    rerun_of: uuid.UUID | None = None,
    adopts: list[str] | None = None,
    reason: str | None = None,
) -> RunState:
    """Make a run with its steps in memory, let its roots begin, and note RUN_CREATED first.

    ``adopts`` are the nodes whose results in ``rerun_of`` may be taken over (``actions.reruns``).
    """
    run = RunState(
        draft.run_id, draft.task_id, draft.version_id, draft.manifest_id, "accepted", "", 1, 0, draft.priority,
        draft.deadline, False, False, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, now, None, None,
    )  # fmt: skip
    run.fresh, run.plan, run.now = True, draft.plan, now
    unit.runs[run.id] = run
    payload: dict[str, Any] = {"task_id": str(draft.task_id), "rerun_of": str(rerun_of) if rerun_of else None}
    if adopts:
        payload["adopts"] = adopts
    if draft.parent is not None:
        payload["parent"] = str(draft.parent)
    if draft.budget:
        payload["budget"] = dict(draft.budget)
    note(
        run,
        "RUN_CREATED",
        actor=None if actor.is_engine else actor.label,
        reason=reason,
        to_status="accepted",
        payload=payload,
    )
    later = draft.scheduled_at if draft.scheduled_at and draft.scheduled_at > now else None
    for node in draft.plan.nodes.values():
        add_step(run, new_step(run, node, draft.pools.get(node.tool or "", draft.pool), draft.priority))
    for name in draft.plan.roots:
        begin(run, run.steps[name], draft.plan.nodes[name], not_before=later)
    settle(unit, [run])
    return run


def new_step(run: RunState, node: Any, pool: str, priority: int, execution_version: int = 1) -> StepState:
    """Return a fresh waiting row for ``node``; its own pool and priority refine the tool's or the task's."""
    home = pool if node.pool == "default" else node.pool
    step = StepState(
        uuid7(), run.id, node.id, node.kind, execution_version, False, "waiting", None, 1, 0, 0,
        max(-100, min(100, priority + node.priority)), home, True, None, None,
        node.n_deps, 0, 0, 0, 0, False, False, None, None, run.now, None, None, None,  # type: ignore[arg-type]
    )  # fmt: skip
    if node.prefer is not None and node.prefer.pool != home:
        step.home_pool = home
    return step


def insert_runs(
    unit: Frame, runs: Sequence[RunState], drafts: Sequence[Draft], rerun_of: uuid.UUID | None = None
) -> None:
    """Insert the rows of fresh runs, each made from the draft at its place, as they stand after their first moves."""
    rows = [
        (
            r.id, r.task_id, r.workflow_version_id, r.manifest_id, rerun_of, None, r.id, r.status, r.version, r.seq,
            r.priority, r.deadline, r.n_steps, r.n_open, r.n_live, r.n_timer, r.n_hold_approval, r.n_hold_external,
            r.n_unknown, r.n_bad, r.n_open_operations, r.created_at, r.started_at, r.finished_at, d.parent,
            orjson.dumps(dict(d.budget)).decode() if d.budget else None,
            orjson.dumps(list(d.bounds)).decode() if d.bounds else None,
        )
        for r, d in zip(runs, drafts, strict=True)
    ]  # fmt: skip
    if rows:
        unit.tx.send("insert_runs", (unit.tx.tenant_id, *arrays("uuuuuuusiliziiiiiiiiizzzuss", rows)))
