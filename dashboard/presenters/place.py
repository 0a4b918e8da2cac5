"""Where a step stands in its graph: its neighbours on both sides, with what became of each. Pure."""

from __future__ import annotations

from typing import Any

MOST = 4


def place(graph: dict[str, Any], node: str) -> dict[str, Any] | None:
    """Return {before, at, after, before_more, after_more, level, levels}; None where the graph has no such node.

    A neighbour: {id, title, kind, tool, status, cause, way}; ``way`` is "failure" along an edge that only a failure
    takes, "not taken" along the other branch of a switch. At most MOST on a side, the others are a number. ``level``
    counts from 1 along the longest way.
    """
    nodes = {one["id"]: one for one in graph["nodes"]}
    if node not in nodes:
        return None
    before = [_shown(nodes[edge["source"]], edge) for edge in graph["edges"] if edge["target"] == node]
    after = [_shown(nodes[edge["target"]], edge) for edge in graph["edges"] if edge["source"] == node]
    return {
        "before": before[:MOST],
        "before_more": max(0, len(before) - MOST),
        "at": _shown(nodes[node], None),
        "after": after[:MOST],
        "after_more": max(0, len(after) - MOST),
        "level": nodes[node]["level"] + 1,
        "levels": 1 + max(one["level"] for one in graph["nodes"]),
    }


def _shown(node: dict[str, Any], edge: dict[str, Any] | None) -> dict[str, Any]:
    step = node["step"] or {}
    way = ""
    if edge is not None:
        way = "not taken" if edge["taken"] is False else "failure" if edge["on_failure"] == "fallback" else ""
    return {
        "id": node["id"],
        "title": node["title"],
        "kind": node["kind"],
        "tool": node["tool"],
        "status": step.get("status", "waiting"),
        "cause": step.get("cause"),
        "way": way,
    }
