"""Readiness: when a waiting step may start, is skipped, or goes on waiting. Pure functions (A9.1, A9.4).

Each incoming edge counts once, when its source is terminal, as one of

- ``ok``: the source succeeded, was force-succeeded or was skipped by a user;
- ``bskip``: the branch was not taken (skipped with cause ``branch``, a switch edge that was not chosen, or a fallback
  that is not needed: its source ended well);
- ``err``: the source ended otherwise and the edge is forgiving (continue_on_error, fallback, manual_review, optional);
- ``bad``: the source ended otherwise and the edge is not forgiving.

The step row holds the five counters of ``Counters``; ``unknown`` is not terminal and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from runtime.graph.plan import Edge, NodePlan, Plan

Contribution = Literal["ok", "bskip", "err", "bad"]
Decision = Literal["ready"] | tuple[Literal["skip"], Literal["branch", "upstream_failed"]] | None

TERMINAL = frozenset({"succeeded", "failed", "killed", "skipped", "mark_successed"})

_BRANCH: Decision = ("skip", "branch")
_UPSTREAM: Decision = ("skip", "upstream_failed")


class Counters(NamedTuple):
    """The counters of one step over its incoming edges; ``left`` edges have a source that is not terminal."""

    left: int
    ok: int = 0
    bskip: int = 0
    err: int = 0
    bad: int = 0


def contribution(status: str, cause: str | None, edge: Edge, chosen: bool = True) -> Contribution:
    """Return what a terminal source contributes through ``edge``.

    ``chosen`` says whether a switch took this edge's target (``Plan.chosen``); it matters for ``edge.case`` only.
    Raises ValueError when ``status`` is not terminal.
    """
    if status == "succeeded" or status == "mark_successed" or (status == "skipped" and cause == "user"):
        return "bskip" if (edge.case and not chosen) or edge.on_failure == "fallback" else "ok"
    if status == "skipped" and cause == "branch":
        return "bskip"
    if status not in TERMINAL:
        raise ValueError(f"{status} is not terminal")
    return "err" if edge.forgiving else "bad"


def decide(node: NodePlan, left: int, ok: int, bskip: int, err: int, bad: int) -> Decision:
    """Return what a waiting step does next: None (wait), ``"ready"``, or ``("skip", cause)``.

    AND waits until every source is terminal; OR (``any``) starts at the first ``ok``. A step whose inputs were all
    branch-skipped is branch-skipped. ``err`` counts as an answer but never towards ``at_least``.
    """
    if node.join_mode == "any" and ok > 0:
        return "ready"
    if left > 0:
        return None
    if bskip > 0 and ok == err == bad == 0:
        return _BRANCH
    if node.join_mode == "any":
        return "ready" if err > 0 or node.n_deps == 0 else _UPSTREAM
    if node.join_policy == "all_succeeded":
        return _UPSTREAM if bad > 0 else "ready"
    if node.join_policy == "at_least":
        return "ready" if ok >= node.join_n else _UPSTREAM
    return "ready"


def counters_from(
    plan: Plan,
    node: str,
    statuses: Mapping[str, str],
    causes: Mapping[str, str | None],
    choices: Mapping[str, Collection[str]],
) -> Counters:
    """Return the counters of ``node`` from scratch, for rerun and rebuild.

    ``statuses`` and ``causes`` are by node id; ``choices`` maps a switch that decided to the targets it took.
    """
    count = {"left": 0, "ok": 0, "bskip": 0, "err": 0, "bad": 0}
    for source, edge in plan.nodes[node].predecessors:
        status = statuses.get(source, "waiting")
        if status not in TERMINAL:
            count["left"] += 1
            continue
        chosen = not edge.case or node in plan.chosen(source, choices.get(source))
        count[contribution(status, causes.get(source), edge, chosen)] += 1
    return Counters(**count)


def descendants(plan: Plan, node: str) -> tuple[str, ...]:
    """Return every node that depends on ``node``, directly or not, in topological order."""
    return _reach(plan, node, forward=True)


def ancestors(plan: Plan, node: str) -> tuple[str, ...]:
    """Return every node that ``node`` depends on, directly or not, in topological order."""
    return _reach(plan, node, forward=False)


def _reach(plan: Plan, node: str, *, forward: bool) -> tuple[str, ...]:
    seen: set[str] = set()
    stack = [node]
    while stack:
        at = plan.nodes[stack.pop()]
        for other, _edge in at.successors if forward else at.predecessors:
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return tuple(sorted(seen, key=lambda n: plan.nodes[n].index))


def or_losers(plan: Plan, join_node: str, statuses: Mapping[str, str]) -> list[str]:
    """Return the steps that nobody needs any more once the OR join ``join_node`` fired, nearest to the join first.

    These are its predecessors and their ancestors that are not terminal and whose every successor is the join, a loser
    itself or terminal. A predecessor that another open node waits for is no loser, and neither is an ``unknown`` step:
    it may have acted, so reconciliation ends it.
    """
    lost: set[str] = set()
    result = []
    for node_id in reversed(ancestors(plan, join_node)):
        status = statuses.get(node_id, "waiting")
        if status in TERMINAL or status == "unknown":
            continue
        targets = [target for target, _edge in plan.nodes[node_id].successors]
        feeds = any(t == join_node or t in lost for t in targets)
        if feeds and all(t == join_node or t in lost or statuses.get(t) in TERMINAL for t in targets):
            lost.add(node_id)
            result.append(node_id)
    return result
