"""Steps that undo an effect beside those of the workflow: no drawing has a place for them, every list does. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _


def all_steps(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the graph's nodes, and after them its steps that undo an effect, each with a title of its own."""
    return [*graph["nodes"], *({**one, "title": _title(one)} for one in graph.get("undoing", ()))]


def in_order(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the graph's nodes by level, each followed by the steps that undo what it did, one level further in."""
    behind: dict[str, list[dict[str, Any]]] = {}
    for one in all_steps(graph)[len(graph["nodes"]) :]:
        behind.setdefault(one["undoes"], []).append(one)
    rows = []
    for node in graph["nodes"]:
        rows.append(node)
        rows += [{**one, "level": node["level"] + 1, "after": [node["title"]]} for one in behind.get(node["id"], ())]
    return rows


def _title(step: dict[str, Any]) -> str:
    check = step["kind"] == "compensation_check"
    words = _("Check of the undoing: %(title)s") if check else _("Undoing: %(title)s")
    return words % {"title": step["title"]}
