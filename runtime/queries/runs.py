"""Reads of runs: lists, one run, its events after a seq, its snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Exists, OuterRef, Q

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import CursorExpired
from runtime.machine.law import RUN_ENDED
from runtime.models import Operation, Run, Step
from runtime.queries import failures, outputs
from runtime.queries.base import COUNT_BOUND, Page, content, cursor_of, found, hexed, parsed, position_of, reading
from runtime.queries.steps import present_step
from runtime.queries.success import success_of
from runtime.store.tx import Tx

COUNTERS = {
    "steps": "n_steps",
    "open": "n_open",
    "live": "n_live",
    "timer": "n_timer",
    "hold_approval": "n_hold_approval",
    "hold_external": "n_hold_external",
    "unknown": "n_unknown",
    "bad": "n_bad",
    "open_operations": "n_open_operations",
}
# The newest runs it submitted that are told with a run.
CHILDREN = 20
# As many as the overview looks at when it counts failures by class.
ERROR_WINDOW = 2_000
_LISTED = [
    "id",
    "task_id",
    "status",
    "reason",
    "version",
    "seq",
    "priority",
    "deadline",
    "paused",
    "cancel_requested",
    "created_at",
    "started_at",
    "finished_at",
    "rerun_of_id",
    "parent_id",
    "workflow_version__number",
    "task__workflow_name",
    "task__name",
    *COUNTERS.values(),
]


def list_runs(
    *,
    actor: Actor,
    status: Sequence[str] = (),
    workflow: str | None = None,
    task_id: uuid.UUID | None = None,
    parent: uuid.UUID | None = None,
    created_from: datetime | None = None,
    created_before: datetime | None = None,
    error_class: str | None = None,
    queued_in: str | None = None,
    open_since: datetime | None = None,
    effects: Sequence[str] = (),
    among: Sequence[uuid.UUID] | None = None,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
) -> Page:
    """Return runs, newest first, with keyset cursors. Verb ``run.read``.

    ``error_class`` is that of a failed step, looked for among the newest ERROR_WINDOW runs with one; ``queued_in`` is
    the pool in which a step of the run waits for a worker; ``open_since`` finds runs that began before it and are not
    at an end; ``effects`` those with an operation in one of these statuses, of OPERATION_OPEN.
    """
    with reading(actor, v.RUN_READ):
        rows = Run.objects.all()
        if status:
            rows = rows.filter(status__in=list(status))
        if workflow is not None:
            rows = rows.filter(task__workflow_name=workflow)
        if task_id is not None:
            rows = rows.filter(task_id=task_id)
        if parent is not None:
            rows = rows.filter(parent_id=parent)
        if created_from is not None:
            rows = rows.filter(created_at__gte=created_from)
        if created_before is not None:
            rows = rows.filter(created_at__lt=created_before)
        if error_class is not None:
            of_class = {} if error_class == "none" else {"error__class": error_class}
            failed = Step.objects.filter(run=OuterRef("pk"), status="failed", superseded=False, **of_class)
            # Among so many of the newest with a bad end: no index knows the classes, and steps are too many to walk.
            newest = rows.filter(n_bad__gt=0).order_by("-created_at").values("id")[:ERROR_WINDOW]
            rows = rows.filter(Exists(failed), id__in=newest)
        if queued_in is not None:
            waiting = Step.objects.filter(run=OuterRef("pk"), status="queued", pool=queued_in, superseded=False)
            rows = rows.filter(Exists(waiting), n_live__gt=0)
        if open_since is not None:
            rows = rows.filter(created_at__lte=open_since, finished_at__isnull=True)
        if effects:
            rows = rows.filter(id__in=Operation.objects.filter(status__in=list(effects)).values("run_id"))
        if among is not None:
            rows = rows.filter(id__in=list(among))
        return _by_time(rows, actor, cursor, limit, count)


def _by_time(rows: Any, actor: Actor, cursor: str | None, limit: int, count: bool) -> Page:
    """Page by (created_at, id): the index of recent runs; the clock of tests may run ahead of the ids."""
    counted = len(rows.order_by()[: COUNT_BOUND + 1].values_list("id")) if count else None
    if (position := position_of("runs", actor, cursor)) is not None:
        at, last = datetime.fromisoformat(position[0]), position[1]
        rows = rows.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(id__lt=last))
    listed = list(rows.order_by("-created_at", "-id").values(*_LISTED)[: limit + 1])
    following = None
    if len(listed) > limit:
        listed = listed[:limit]
        following = cursor_of("runs", actor, [listed[-1]["created_at"].isoformat(), str(listed[-1]["id"])])
    return Page([_present_listed(row) for row in listed], following, counted)


def _present_listed(row: dict[str, Any]) -> dict[str, Any]:
    row["workflow"] = row.pop("task__workflow_name")
    row["workflow_version"] = row.pop("workflow_version__number")
    row["name"], row["output_kind"] = row.pop("task__name"), outputs.of_run(row["status"])
    row["rerun_of"], row["parent"] = row.pop("rerun_of_id"), row.pop("parent_id")
    row["counts"] = {name: row.pop(column) for name, column in COUNTERS.items()}
    return row


def steps_by_hand(*, actor: Actor, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, int]]:
    """Return run → {forced, skipped}: how many of its present steps a person set so; runs without one are left out.

    One query for a page of runs; it looks at their steps. Verb ``run.read``.
    """
    if not run_ids:
        return {}
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("steps_by_hand", (list(run_ids),))
    return {row.pop("run_id"): row for row in rows}


def read_run(*, actor: Actor, run_id: uuid.UUID) -> dict[str, Any]:
    """Return one run. Raises NotFound. Verb ``run.read``.

    ``output_kind`` says what it has come to (``queries.outputs``). Of a completed run of a workflow with an ``output``
    also ``output_sha256`` and ``output_artifact_id``, or ``output_error``; the ``output`` itself only with
    ``payload.read`` (A9.8), while its artifact is kept, and up to the size of a step's output that is kept inline.
    ``children`` are the newest runs of tasks that this run submitted, ``children_more`` says whether there are more.
    """
    with reading(actor, v.RUN_READ) as tx:
        run = run_in(tx, run_id)
        children = tx.dicts("read_children", {"run": run_id, "limit": CHILDREN + 1})
        run |= {"children": children[:CHILDREN], "children_more": len(children) > CHILDREN}
        if run["status"] in ("completed", "partially_completed"):
            run |= _output(tx, run_id, shown=may(actor, v.PAYLOAD_READ))
        if "output_error" in run:
            run["output_kind"] = outputs.FAILURE
        return run


def _output(tx: Tx, run_id: uuid.UUID, *, shown: bool) -> dict[str, Any]:
    rows = tx.dicts("read_run_output", {"run": run_id, "most": conf().inline_result_bytes})
    if not rows or (rows[0]["output_sha256"] is None and rows[0]["error"] is None):
        return {}
    row = rows[0]
    if row["error"] is not None:
        return {"output_error": row["error"]} if shown else {"output_error": ""}
    told = {"output_sha256": hexed(row["output_sha256"]), "output_artifact_id": row["artifact_id"]}
    return {**told, "output": content(row["content"])} if shown and row["content"] is not None else told


def run_in(tx: Tx, run_id: uuid.UUID) -> dict[str, Any]:
    """Return one run inside an open transaction; for reads that need more of the same moment.

    What it keeps of its making (C1.2): ``request_sha256``, the tools' versions with their contracts' hashes, ``scope``
    (what its task permits), ``budget`` and what is used of it, ``parent``. ``success`` says whether the task's
    criterion is met (``queries.success``); None without one.
    """
    rows = tx.dicts("read_run", (run_id,))
    row = found(rows[0] if rows else None, "run")
    return {
        "id": row["id"],
        "task_id": row["task_id"],
        "workflow": row["workflow_name"],
        "workflow_version": row["workflow_version"],
        "workflow_version_id": row["workflow_version_id"],
        "manifest_id": row["manifest_id"],
        "manifest_sha256": hexed(row["manifest_sha256"]),
        "name": row["task_name"],
        "status": row["status"],
        "output_kind": outputs.of_run(row["status"]),
        "reason": row["reason"],
        "version": row["version"],
        "seq": row["seq"],
        "priority": row["priority"],
        "paused": row["paused"],
        "cancel_requested": row["cancel_requested"],
        "attention": parsed(row["attention"]),
        "rerun_of": row["rerun_of_id"],
        "parent": row["parent_id"],
        "parent_step_id": row["parent_step_id"],
        "request_sha256": hexed(row["payload_sha256"]),
        "tools": orjson.loads(row["tools"]),
        "scope": orjson.loads(row["scope"]),
        **_budget(tx, run_id, orjson.loads(row["budget"]) if row["budget"] else {}),
        "success": success_of(tx, [run_id]).get(run_id),
        "trace_id": row["trace_id"],
        "created_by": row["created_by"],
        "deadline": row["deadline"],
        "created_at": row["created_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "counts": {name: row[column] for name, column in COUNTERS.items()},
    }


def _budget(tx: Tx, run_id: uuid.UUID, budget: dict[str, Any]) -> dict[str, Any]:
    """Return {budget, budget_used}: the second says how much of what is bounded the run and those below it used."""
    used = {}
    for name in ("calls", "effects"):
        if name in budget:
            rows = tx.rows(f"{name}_of_runs", ([run_id],))
            used[name] = sum(row[2] if name == "calls" else row[1] for row in rows)
    return {"budget": budget, "budget_used": used}


def success_of_runs(*, actor: Actor, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return what :func:`runtime.queries.success.success_of` says of a page of runs. Verb ``run.read``."""
    if not run_ids:
        return {}
    with reading(actor, v.RUN_READ) as tx:
        return success_of(tx, run_ids)


def read_events(*, actor: Actor, run_id: uuid.UUID, after: int = 0, limit: int = 500) -> dict[str, Any]:
    """Return events with seq > ``after``, in order: {events, last_seq, head_seq, run_status, ended}. Verb ``run.read``.

    ``ended`` says that the run has ended and no step of it is open: nothing follows ``head_seq`` but late facts.
    Raises CursorExpired when ``after`` lies beyond the newest event or before the oldest that is kept; the answer
    names the range.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_run_seq", (run_id,))
        head = found(rows[0] if rows else None, "run")
        first, newest = head["first"] or head["seq"] + 1, head["seq"]
        if not first - 1 <= after <= newest:
            raise CursorExpired(
                f"Events {first} to {newest} are there; nothing follows {after}.",
                run_id=run_id,
                available={"first": first, "last": newest},
            )
        kind_of = kinds_in(tx, head["workflow_version_id"])
        events = [present_event(row, run_id, kind_of) for row in tx.dicts("read_events", (run_id, after, limit))]
        return {
            "events": events,
            "last_seq": events[-1]["seq"] if events else after,
            "head_seq": newest,
            "run_status": head["status"],
            # In a run that has ended an effect may still be undone: its steps are open then.
            "ended": head["status"] in RUN_ENDED and head["n_open"] == 0,
        }


def kinds_in(tx: Tx, workflow_version_id: uuid.UUID) -> Callable[[str], str | None]:
    """Return what gives a node's kind by its name, of a version's nodes and of the steps that undo their effects."""
    nodes = plan_of(tx, workflow_version_id).nodes

    def kind_of(name: str) -> str | None:
        try:
            return nodes[name].kind
        except KeyError:
            return None

    return kind_of


def present_event(row: dict[str, Any], run_id: uuid.UUID, kind_of: Callable[[str], str | None]) -> dict[str, Any]:
    """Return an event row as plain values, with the kind of what it tells of and, where it tells of one, the error."""
    payload = row["payload"] = parsed(row["payload"])
    row["output_kind"] = outputs.of_event(row, kind_of(row["node"]) if row["node"] else None)
    until = payload.get("not_before") if payload and row["type"] == "RETRY_SCHEDULED" else None
    row["error"] = failures.told(
        payload.get("error") if payload else None,
        run_id=run_id,
        step_id=row["step_id"],
        status=row["to_status"] or "",
        until=datetime.fromisoformat(until) if until else None,
        now=row["occurred_at"],
    )
    row["input_sha256"], row["output_sha256"] = hexed(row["input_sha256"]), hexed(row["output_sha256"])
    row["actor"] = row["actor"] or "engine"
    return row


def last_event(*, actor: Actor, run_id: uuid.UUID, step_id: uuid.UUID | None = None) -> dict[str, Any] | None:
    """Return the newest event of a run, or of one of its steps; None when there is none. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_last_event", {"run": run_id, "step": step_id})
        if not rows:
            return None
        return {**rows[0], "actor": rows[0]["actor"] or "engine"}


def read_snapshot(*, actor: Actor, run_id: uuid.UUID) -> dict[str, Any]:
    """Return the run's state as of ``last_included_seq``; events after it continue it without gap. Verb ``run.read``.

    The run's row names the seq; steps are read in one statement with it and are exactly of that moment.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_run_steps", (run_id,))
        found(rows[0] if rows else None, "run")
        run = run_in(tx, run_id)
        # The run's row is read a moment later: what the snapshot claims is what came with the steps.
        run.update(seq=rows[0]["run_seq"], version=rows[0]["run_version"], status=rows[0]["run_status"])
        run["output_kind"] = outputs.of_run(run["status"])
        steps = [present_step(row) for row in rows if row["id"] is not None]
        return {"snapshot_version": 1, "last_included_seq": rows[0]["run_seq"], "run": run, "steps": steps}
