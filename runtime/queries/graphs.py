"""A run's graph with positions and the state of each node, and the small pieces by which a picture of it is kept live.

A step's *brief* form is what a picture shows: {id, node, kind, status, cause, attempt, version, execution_version,
queued_at, started_at, finished_at, not_before, hold_requested, forced, choice, error, since}; ``error`` is the class
alone, ``since`` the beginning of a hold or a doubt.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from datetime import datetime
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.graph.layout import FORMAT, drawing_of, edges_in, shape_of
from runtime.graph.plan import Plan
from runtime.graph.plans import plan_of
from runtime.graph.undo import undone_node
from runtime.kernel.actor import Actor
from runtime.queries.base import found, parsed, reading
from runtime.queries.replay import past_in
from runtime.queries.steps import present_step
from runtime.store.tx import Tx

_BRIEF = (
    "id node kind status cause attempt version execution_version queued_at started_at finished_at not_before "
    "hold_requested forced"
).split()
_RUN = "status reason version seq paused cancel_requested started_at finished_at deadline".split()
_DOUBTS = ("hold", "unknown")
# Final drawings of the versions looked at lately; they never change. Simple ones stand in until the duty has drawn.
_final: OrderedDict[uuid.UUID, dict[str, Any]] = OrderedDict()
_simple: OrderedDict[uuid.UUID, dict[str, Any]] = OrderedDict()
_KEPT = 64


def brief_step(row: dict[str, Any]) -> dict[str, Any]:
    """Return a step row in its brief form."""
    step = {name: row[name] for name in _BRIEF}
    step["choice"] = parsed(row["choice"])
    error = parsed(row["error"])
    step["error"] = error.get("class", "error") if isinstance(error, dict) else None
    step["since"] = row.get("since")
    return step


def drawing_in(tx: Tx, version_id: uuid.UUID, plan: Plan) -> dict[str, Any]:
    """Return the stored drawing of a workflow version, or a simple one made here until it is stored."""
    if version_id in _final:
        _final.move_to_end(version_id)
        return _final[version_id]
    row = tx.one("layout_of", (version_id, FORMAT))
    if row is not None:
        return _keep(_final, version_id, orjson.loads(bytes(row[0])))
    if version_id not in _simple:
        _keep(_simple, version_id, drawing_of(shape_of(plan), "layered"))
    return _simple[version_id]


def _keep(cache: OrderedDict[uuid.UUID, dict[str, Any]], key: uuid.UUID, drawing: dict[str, Any]) -> dict[str, Any]:
    cache[key] = drawing
    if len(cache) > _KEPT:
        cache.popitem(last=False)
    return drawing


def read_graph(*, actor: Actor, run_id: uuid.UUID, brief: bool = False, until: int | None = None) -> dict[str, Any]:
    """Return the run's graph: {last_included_seq, at, workflow, run, layout, nodes, edges, undoing}. Verb ``run.read``.

    With ``until`` it is the graph as it stood after that event, told by the events alone; ``at`` is that event's time.

    A node: id, kind, title, tool, join (mode, policy, timeout_s or None), step (its current execution version, brief if
    asked), ``level`` (the longest path to it), its upper left corner x, y in pixels and its ``group``. An edge: source,
    target, on_failure, optional, case (a switch's branch), taken (None until the switch decided), ``points`` (x, y, x,
    y, …). ``layout`` has engine, direction (TB, LR), width, height, box and ``groups``, a smaller drawing of a large
    graph. ``undoing`` are the steps that undo an effect or check that (id, kind, title of the node whose effect it is,
    tool, level, join, ``undoes``, step): no workflow has them, and no drawing. Raises NotFound, and with
    ``until`` as ``replay.past_in`` does.
    """
    with reading(actor, v.RUN_READ) as tx:
        if until is None:
            rows, run, version_id, at = _present(tx, run_id)
        else:
            past = past_in(tx, run_id, until)
            rows, run, version_id, at = past.rows_then(), past.run_then(), past.run["workflow_version_id"], past.at
        plan = plan_of(tx, version_id)
        drawing = drawing_in(tx, version_id, plan)
        doubts = any(row["status"] in _DOUBTS for row in rows)
        since = dict(tx.rows("live_since", (run_id, run["seq"]))) if doubts else {}
    for row in rows:
        row["since"] = since.get(row["id"])
    show = brief_step if brief else present_step
    steps = {row["node"]: show(row) for row in rows}
    undoing = [_undoing(plan, step) for name, step in steps.items() if name not in plan.nodes]
    groups = drawing["groups"]
    layout = {name: drawing[name] for name in ("engine", "direction", "width", "height", "box")}
    return {
        "last_included_seq": run["seq"],
        "at": at,
        "workflow": plan.name,
        "run": run,
        "layout": {**layout, "groups": _without(groups, "members") if groups else None},
        "nodes": _nodes(plan, drawing, steps),
        "edges": _edges(plan, drawing, steps),
        "undoing": undoing,
    }


def _undoing(plan: Plan, step: dict[str, Any]) -> dict[str, Any]:
    """Return a step that undoes an effect like a node; the drawing has no place for it."""
    node = plan.nodes[undone_node(step["node"])]
    own = plan.nodes[step["node"]]
    return {
        "id": own.id,
        "kind": own.kind,
        "title": node.title or node.id,
        "tool": own.tool,
        "level": 0,
        "join": {"mode": "all", "policy": "all_succeeded", "timeout_s": None},
        "undoes": node.id,
        "step": step,
    }


def _present(tx: Tx, run_id: uuid.UUID) -> tuple[list[dict[str, Any]], dict[str, Any], uuid.UUID, datetime]:
    """Return the steps' rows and the run of one moment, the id of its workflow version, and the time."""
    rows = tx.dicts("read_run_steps", (run_id,))
    head = found(rows[0] if rows else None, "run")
    run = tx.dicts("live_run", (run_id,))[0]
    run.update(seq=head["run_seq"], version=head["run_version"], status=head["run_status"])
    return [row for row in rows if row["id"] is not None], run, head["workflow_version_id"], tx.now()


def _without(mapping: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _nodes(plan: Plan, drawing: dict[str, Any], steps: dict[str, Any]) -> list[dict[str, Any]]:
    corners, members = drawing["nodes"], drawing["groups"]["members"] if drawing["groups"] else None
    levels: dict[str, int] = {}
    nodes = []
    for index, name in enumerate(plan.order):
        node = plan.nodes[name]
        levels[name] = 1 + max((levels[source] for source, _ in node.predecessors), default=-1)
        nodes.append(
            {
                "id": name,
                "kind": node.kind,
                "title": node.title or name,
                "tool": node.tool,
                "level": levels[name],
                "join": {"mode": node.join_mode, "policy": node.join_policy, "timeout_s": node.join_timeout_s},
                "x": corners[2 * index],
                "y": corners[2 * index + 1],
                "group": members[index] if members else None,
                "step": steps.get(name),
            }
        )
    return nodes


def _edges(plan: Plan, drawing: dict[str, Any], steps: dict[str, Any]) -> list[dict[str, Any]]:
    edges = []
    known = {(source, target): one for source, node in plan.nodes.items() for target, one in node.successors}
    for points, (source, target) in zip(drawing["edges"], edges_in(plan), strict=True):
        edge = known[source, target]
        edges.append(
            {
                "source": source,
                "target": target,
                "on_failure": edge.on_failure,
                "optional": edge.optional,
                "case": edge.case,
                "taken": _taken(edge.case, target, steps.get(source)),
                "points": points,
            }
        )
    return edges


def _taken(case: bool, target: str, source: dict[str, Any] | None) -> bool | None:
    if not case or source is None or source["choice"] is None:
        return None
    return target in source["choice"]


def read_patch(*, actor: Actor, run_id: uuid.UUID, after: int | None) -> dict[str, Any]:
    """Return what moved after seq ``after``: {run, steps (brief), first, at}; with None every step. Verb ``run.read``.

    ``run`` has id, seq and the state that a picture shows; the steps are exactly those of that seq, since one statement
    reads both. ``first`` is the oldest seq kept. Raises NotFound.
    """
    with reading(actor, v.RUN_READ) as tx:
        return patch_in(tx, run_id, after)


def patch_in(tx: Tx, run_id: uuid.UUID, after: int | None) -> dict[str, Any]:
    """Return :func:`read_patch` inside an open transaction; the reader must have been allowed to read the run."""
    name, params = (
        ("live_snapshot", {"run": run_id}) if after is None else ("live_patch", {"run": run_id, "after": after})
    )
    rows = tx.dicts(name, params)
    head = found(rows[0] if rows else None, "run")
    run = {"id": run_id, **{name: head[f"run_{name}"] for name in _RUN}}
    steps = [brief_step(row) for row in rows if row["id"] is not None]
    return {"run": run, "steps": steps, "first": head["first_seq"], "at": head["now"]}


def heads_in(tx: Tx, run_ids: list[uuid.UUID]) -> dict[uuid.UUID, tuple[int, str]]:
    """Return run id → (seq, status) of the runs that are there."""
    return {row[0]: (row[1], row[2]) for row in tx.rows("live_heads", (run_ids,))}
