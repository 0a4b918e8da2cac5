"""What fills each tab of a run. A function gets the head's context and returns what its template needs besides."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from approvals.queries import list_decisions, list_requests
from dashboard.pages.requests import artifact_url
from dashboard.presenters import timeline as timeline_view
from dashboard.presenters import why as why_answers
from dashboard.presenters import why_focus
from dashboard.presenters.repairs import board as effects_board
from dashboard.presenters.repairs import row as case_row
from dashboard.presenters.undoing import all_steps, in_order
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import CursorExpired, EventsGone, NotFound
from runtime.models.work import STEP_STATUSES
from runtime.queries import run_parts
from runtime.queries.definitions import tool_writes
from runtime.queries.health import pool_queues
from runtime.queries.replay import replay_run
from runtime.queries.runs import read_events
from runtime.queries.steps import list_steps
from runtime.queries.stops import list_stops

Context = dict[str, Any]
EVENT_PAGE = 200
STEP_PAGE = 200
REQUEST_PAGE = 20
OPERATION_PAGE = 100
# The most execution versions that the table of steps goes through; it says when there are more.
MAX_VERSIONS = 20_000
# So many are listed until the drawing takes their place; a reader without scripts finds the rest under Steps.
LISTED_NODES = 100
# The longest ledger that a timeline or a diagnosis reads; longer runs say that they were cut.
MAX_EVENTS = 20_000


def graph(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the nodes by level, for the list that stands where the drawn graph will be."""
    statuses: dict[str, int] = {}
    nodes = in_order(context["graph"])
    for node in nodes:
        if node["step"]:
            statuses[node["step"]["status"]] = statuses.get(node["step"]["status"], 0) + 1
    edges: dict[str, list[str]] = {}
    for edge in context["graph"]["edges"]:
        edges.setdefault(edge["target"], []).append(edge["source"])
    return {
        "nodes": [{"after": edges.get(node["id"], []), **node} for node in nodes[:LISTED_NODES]],
        "more": max(0, len(nodes) - LISTED_NODES),
        "statuses": [(name, statuses[name]) for name in STEP_STATUSES if name in statuses],
        "after": context["graph"]["last_included_seq"],
    }


def past(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the run as it stood after the event that is asked for, the nearest there is, and what has moved since."""
    run_id, asked = context["run"]["id"], request.GET.get("until", "")
    head_seq = context["run"]["seq"]
    until = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 15 else head_seq
    try:
        told = replay_run(actor=actor, run_id=run_id, until=min(max(1, until), head_seq))
    except EventsGone as problem:
        return {"past": None, "gone": problem.extra["available"]}
    then = {step["node"]: step for step in told["steps"]}
    every = in_order(context["graph"])
    nodes = [{**node, "step": then[node["id"]]} for node in every if node["id"] in then]
    keys = ("status", "cause", "execution_version")
    titles = {node["id"]: node["title"] for node in every}
    steps = [{**one, "title": titles.get(one["node"], one["node"])} for one in told["steps"]]
    changed = [one for one in steps if one["now"] and any(one[key] != one["now"][key] for key in keys)]
    return {
        "past": told,
        "nodes": nodes[:LISTED_NODES],
        "changed": changed[:STEP_PAGE],
        "changed_more": max(0, len(changed) - STEP_PAGE),
    }


def all_events(actor: Actor, run_id: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return the run's events from the first that is kept, at most MAX_EVENTS, and whether there are more."""
    found: list[dict[str, Any]] = []
    after = 0
    while len(found) < MAX_EVENTS:
        try:
            part = read_events(actor=actor, run_id=run_id, after=after, limit=5000)
        except CursorExpired as problem:
            first = problem.extra["available"]["first"]
            if after or first <= 1:
                return found, True
            after = first - 1
            continue
        found += part["events"]
        after = part["last_seq"]
        if not part["events"] or after >= part["head_seq"]:
            return found, False
    return found, True


def timeline(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the Gantt, up to the moment of the head."""
    events, cut = all_events(actor, context["run"]["id"])
    sort = request.GET.get("sort", "started")
    sort = sort if sort in timeline_view.SORTS else "started"
    drawn = timeline_view.build(context["graph"], events, context["run"], context["now"], sort)
    return {"timeline": drawn, "sort": sort, "sorts": timeline_view.SORTS, "cut": cut}


def steps(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the steps as a table, equal to the graph; superseded ones on request."""
    every = request.GET.get("all") == "1"
    status = request.GET.get("status", "")
    limit = MAX_VERSIONS if every else None
    found = list_steps(actor=actor, run_id=context["run"]["id"], all_versions=every, limit=limit)
    rows = found["items"]
    titles = {node["id"]: node for node in all_steps(context["graph"])}
    order = {name: index for index, name in enumerate(titles)}
    rows.sort(key=lambda row: (order.get(row["node"], len(order)), row["execution_version"]))
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    shown = [row for row in rows if not status or row["status"] == status]
    asked = request.GET.get("at", "")
    at = min(int(asked), len(shown)) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
    part = shown[at : at + STEP_PAGE]
    return {
        "rows": [{**row, "meta": titles.get(row["node"], {"title": row["node"], "tool": None})} for row in part],
        "at": at,
        "until": at + len(part),
        "all": len(shown),
        "before": max(0, at - STEP_PAGE) if at else None,
        "beyond": at + STEP_PAGE if at + STEP_PAGE < len(shown) else None,
        "every": every,
        "cut": found["next"] is not None,
        "status": status if status in STEP_STATUSES else "",
        "statuses": [(name, counts[name]) for name in STEP_STATUSES if name in counts],
    }


def events(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return a page of the ledger; without a cursor its newest part."""
    run_id, head_seq = context["run"]["id"], context["run"]["seq"]
    asked = request.GET.get("after", "")
    after = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 15 else max(0, head_seq - EVENT_PAGE)
    node = request.GET.get("node", "")
    try:
        part = read_events(actor=actor, run_id=run_id, after=min(after, head_seq), limit=EVENT_PAGE)
    except CursorExpired as problem:
        after = problem.extra["available"]["first"] - 1
        part = read_events(actor=actor, run_id=run_id, after=after, limit=EVENT_PAGE)
    rows = [one for one in part["events"] if not node or one["node"] == node]
    seq = request.GET.get("seq", "")
    return {
        "rows": list(reversed(rows)),
        "older": max(0, after - EVENT_PAGE) if after > 0 else None,
        "newer": part["last_seq"] if part["last_seq"] < part["head_seq"] else None,
        "from_seq": part["events"][0]["seq"] if part["events"] else 0,
        "to_seq": part["last_seq"],
        "head_seq": part["head_seq"],
        "node": node,
        "chosen": int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 15 else None,
    }


def operations(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return a page of the side effects, in the order of their intents."""
    run_id, cursor = context["run"]["id"], request.GET.get("cursor")
    found = run_parts.page_operations(actor=actor, run_id=run_id, cursor=cursor, limit=OPERATION_PAGE)
    return {"rows": found.items, "page": found}


def operations_of(actor: Actor, context: Context, node: str) -> list[dict[str, Any]]:
    """Return the side effects of a node; of a run with more of them than its head reads, asked for anew."""
    if len(context["operations"]) < run_parts.OPERATION_BOUND:
        return [one for one in context["operations"] if one["node"] == node]
    return run_parts.list_operations(actor=actor, run_id=context["run"]["id"], node=node)


def approvals(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return a page of the run's requests, newest first, each with what was said to it."""
    run_id, cursor = context["run"]["id"], request.GET.get("cursor")
    found = list_requests(actor=actor, state=None, run_id=run_id, cursor=cursor, limit=REQUEST_PAGE)
    said = list_decisions(actor=actor, request_ids=[one["id"] for one in found.items])
    return {"rows": [{**one, "decisions": said[one["id"]]} for one in found.items], "page": found}


def artifacts(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the large contents that the run refers to; whether a reader gets one is asked where it is read."""
    rows = run_parts.list_artifacts(actor=actor, run_id=context["run"]["id"])
    titles = {node["id"]: node["title"] for node in context["graph"]["nodes"]}
    return {
        "rows": [
            {**one, "url": artifact_url(one["id"]), "title": titles.get(one["node"], one["node"])} for one in rows
        ],
        "cut": len(rows) == run_parts.ARTIFACT_BOUND,
        "may_open": may(actor, v.PAYLOAD_READ),
    }


def why(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the answers for the run and for one of its steps: the chosen one, or the most telling."""
    blockers = why_focus.blockers(context["graph"], context["now"])
    nodes = {node["id"]: node for node in all_steps(context["graph"])}
    last = context["graph"]["nodes"][-1]["id"]
    name = request.GET.get("node") or (blockers[0].node if blockers else last)
    if name not in nodes:
        raise NotFound(f"This run has no step {name[:80]!r}.")
    return {
        "headline": why_focus.headline(context["run"], blockers),
        "blockers": blockers,
        "asked_of": list(nodes.values()),
        "focus": nodes[name],
        "answers": why_answers.answer(facts(actor, context, nodes[name])),
    }


def facts(actor: Actor, context: Context, node: dict[str, Any]) -> why_answers.Facts:
    """Return what is known about a node, all of it from the ledger and its rows."""
    run_id, name = context["run"]["id"], node["id"]
    found = run_parts.list_node_events(actor=actor, run_id=run_id, node=name)
    step = node["step"] or {}
    execution = step.get("execution_version", 1)
    tries = run_parts.list_attempts(actor=actor, run_id=run_id)
    stops = list_stops(actor=actor, standing=True) if may(actor, v.STOP_READ) else []
    tool = node["tool"] or ""
    return why_answers.Facts(
        run=context["run"],
        node=node,
        graph=context["graph"],
        events=[one for one in found if one["node"] == name],
        created=next((one for one in found if one["type"] == "RUN_CREATED"), None),
        attempts=[one for one in tries if (one["node"], one["execution_version"]) == (name, execution)],
        operations=operations_of(actor, context, name),
        checkpoint=run_parts.list_checkpoints(actor=actor, run_id=run_id).get((name, execution)),
        requests=[one for one in context["requests"] if one["node"] == name],
        stops=[one for one in stops if _stops(one, context["run"]["workflow"], tool)],
        now=context["now"],
        writes=bool(tool) and may(actor, v.TOOL_READ) and tool_writes(actor=actor, tool=tool),
        served=step.get("status") != "queued" or step["pool"] in pool_queues(),
    )


def _stops(stop: dict[str, Any], workflow: str, tool: str) -> bool:
    scope, name = stop["scope"], stop["name"]
    if scope in ("tenant", "global"):
        return True
    return name == workflow if scope == "workflow" else bool(tool) and name in (tool, tool.partition("@")[0])


def repairs(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the run's cases, open ones first."""
    board = effects_board(context["operations"], context["cases"])
    return {"rows": [case_row(one) for one in context["cases"]], "board": board, "may_open": may(actor, "repair.open")}


def audit(request: HttpRequest, actor: Actor, context: Context) -> Context:
    """Return the acts of people and services on this run."""
    return {"rows": run_parts.list_run_audit(actor=actor, run_id=context["run"]["id"])}
