"""Registration's check of approvals: what one gates is a tool call that comes after it (C5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.graph.plan import Edge
from runtime.graph.problems import Problems, nearest
from runtime.kernel.schemas import SchemaProblem, compile_schema


def check_gates(document: Mapping[str, Any], edges: list[Edge], problems: Problems) -> None:
    """Add a problem for each entry of ``gates`` that is no tool node behind its approval, and each form in error."""
    for i, node in enumerate(document["nodes"]):
        if node["kind"] == "input":
            _check_form(f"/nodes/{i}/form", node["form"], problems)
    kinds = {node["id"]: node["kind"] for node in document["nodes"]}
    for i, node in enumerate(document["nodes"]):
        if not node.get("gates"):
            continue
        behind = _behind(node["id"], edges)
        for j, gated in enumerate(node["gates"]):
            where = f"/nodes/{i}/gates/{j}"
            if gated not in kinds:
                mend = "Name a node of this workflow." + nearest(gated, kinds)
                problems.add(where, f"the approval gates `{gated}`, which does not exist", mend)
            elif kinds[gated] != "tool":
                problems.add(where, f"the approval gates `{gated}`, which calls no tool", "Name a tool node.")
            elif gated not in behind:
                mend = f"Let `{gated}` come after `{node['id']}`."
                problems.add(where, f"the approval gates `{gated}`, which does not come after it", mend)


def _check_form(where: str, form: dict[str, Any], problems: Problems) -> None:
    try:
        compile_schema(form)
    except SchemaProblem as problem:
        problems.add(where + problem.where, problem.detail, "Use a self-contained JSON Schema 2020-12.")


def _behind(node_id: str, edges: list[Edge]) -> set[str]:
    after: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
    seen: set[str] = set()
    stack = [node_id]
    while stack:
        for target in after.get(stack.pop(), ()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen
