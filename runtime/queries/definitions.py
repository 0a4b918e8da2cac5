"""Reads of what is registered: workflows, their versions, tools."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.graph.problems import warned
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound
from runtime.queries.base import Page, content, cursor_of, hexed, position_of, reading


def list_workflows(*, actor: Actor, cursor: str | None = None, limit: int = 50) -> Page:
    """Return workflows by name. Verb ``workflow.read``."""
    after = (position_of("workflows", actor, cursor) or [""])[0]
    with reading(actor, v.WORKFLOW_READ) as tx:
        rows = tx.dicts("read_workflows", (after, limit + 1))
    return _cut("workflows", actor, rows, limit, ["name"])


def list_versions(*, actor: Actor, name: str, cursor: str | None = None, limit: int = 50) -> Page:
    """Return a workflow's versions, newest first. Raises NotFound. Verb ``workflow.read``."""
    below = (position_of(f"versions.{name}", actor, cursor) or [2**31 - 1])[0]
    with reading(actor, v.WORKFLOW_READ) as tx:
        rows = tx.dicts("read_workflow_versions", {"name": name, "below": below, "limit": limit + 1})
    if not rows and cursor is None:
        raise NotFound(f"There is no workflow {name!r} in this tenant.")
    answer = _cut(f"versions.{name}", actor, rows, limit, ["number"])
    for row in answer.items:
        _rename(row)
    return answer


def read_version(*, actor: Actor, name: str, number: int) -> dict[str, Any]:
    """Return one version with its specification, and what its registration would warn of today under ``warnings``.

    Raises NotFound. Verb ``workflow.read``.
    """
    with reading(actor, v.WORKFLOW_READ) as tx:
        rows = tx.dicts("read_workflow_version", (name, number))
        if not rows:
            raise NotFound(f"There is no workflow {name!r} in version {number} in this tenant.")
        row = rows[0]
        row["spec"] = content(row["spec"])
        row |= warned(seams.workflow_warnings(tx, row["spec"]))
    return _rename(row)


def _rename(row: dict[str, Any]) -> dict[str, Any]:
    row["version"] = row.pop("number")
    row["spec_sha256"] = hexed(row["spec_sha256"])
    row["workflow_version_id"] = row.pop("id")
    return row


def list_tools(*, actor: Actor, cursor: str | None = None, limit: int = 50) -> Page:
    """Return every version of every tool with its contract, by name and version. Verb ``tool.read``."""
    after = position_of("tools", actor, cursor) or ["", 0]
    with reading(actor, v.TOOL_READ) as tx:
        rows = tx.dicts("read_tools", (after[0], after[1], limit + 1))
    answer = _cut("tools", actor, rows, limit, ["name", "number"])
    for row in answer.items:
        _present_tool(row)
    return answer


def tool_writes(*, actor: Actor, tool: str) -> bool:
    """Return whether a tool, ``name@version``, writes by its contract; an unknown one does not. Verb ``tool.read``."""
    name, _, number = tool.rpartition("@")
    with reading(actor, v.TOOL_READ) as tx:
        rows = tx.dicts("tools_by_name", ([name], [int(number)]))
    return bool(rows) and rows[0]["side_effect"] == "write"


def list_whole_tools(*, actor: Actor, cursor: str | None = None, limit: int = 50) -> Page:
    """Return ``limit`` tools by name, each with all its versions, so that none is cut by a page. Verb ``tool.read``."""
    after = (position_of("tools.whole", actor, cursor) or [""])[0]
    with reading(actor, v.TOOL_READ) as tx:
        rows = tx.dicts("read_whole_tools", {"after": after, "limit": limit + 1})
    names = list(dict.fromkeys(row["name"] for row in rows))
    kept = names[:limit]
    items = [_present_tool(row) for row in rows if row["name"] in set(kept)]
    return Page(items, cursor_of("tools.whole", actor, [kept[-1]]) if len(names) > limit else None)


def _present_tool(row: dict[str, Any]) -> dict[str, Any]:
    row["version"] = row.pop("number")
    row["contract"], row["contract_sha256"] = content(row["contract"]), hexed(row["contract_sha256"])
    return row


def _cut(name: str, actor: Actor, rows: list[dict[str, Any]], limit: int, key: list[str]) -> Page:
    if len(rows) <= limit:
        return Page(rows)
    rows = rows[:limit]
    return Page(rows, cursor_of(name, actor, [rows[-1][column] for column in key]))
