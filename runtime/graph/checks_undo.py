"""Registration's check of failure policies and of what undoes effects: planned before anything is done (B9.1, C4.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runtime.graph.plan import Edge
from runtime.graph.problems import Problems
from runtime.graph.undo import MAX_UNDONE_ID, RESERVED

RETIRED = "Refer to a version that is in use."


def check_policies(document: Mapping[str, Any], edges: list[Edge], problems: Problems) -> None:
    """Add a problem for each fallback that is mixed with other edges, and for ids that compensations use."""
    before: dict[str, list[Edge]] = {}
    for edge in edges:
        before.setdefault(edge.target, []).append(edge)
    for i, node in enumerate(document["nodes"]):
        if RESERVED.match(node["id"]):
            detail = f"ids like `{node['id']}` belong to the steps that undo effects"
            problems.add(f"/nodes/{i}/id", detail, "Choose an id that does not begin with `undo:`.")
        kinds = {edge.on_failure == "fallback" for edge in before.get(node["id"], ())}
        if len(kinds) > 1:
            detail = f"`{node['id']}` stands in for what failed, but also waits for something else"
            mend = "Give all its edges the policy fallback; what these wait for has surely ended before it."
            problems.add(f"/nodes/{i}/after", detail, mend)
        if "compensation" in node and len(node["id"]) > MAX_UNDONE_ID:
            problems.add(
                f"/nodes/{i}/id", f"an id with a compensation has at most {MAX_UNDONE_ID} characters", "Shorten it."
            )


def check_undo(document: Mapping[str, Any], edges: list[Edge], known: Callable[[str], Any], problems: Problems) -> None:
    """Add a problem for each compensation whose tools are not fit for it, and each effect that nothing undoes.

    ``known`` answers a tool's contract (``side_effect``, ``compensation``, ``retired``) or None.
    """
    undone = _undone(document, edges)
    for i, node in enumerate(document["nodes"]):
        if node["kind"] != "tool":
            continue
        where, contract = f"/nodes/{i}/compensation", known(node["tool"])
        writes = getattr(contract, "side_effect", None) == "write"
        declared: Mapping[str, Any] | None = node.get("compensation")
        by_contract = getattr(contract, "compensation", None)
        if declared is not None and contract is not None and not writes:
            problems.add(where, f"`{node['tool']}` has no effect that could be undone", "Remove it.")
        if declared is None and writes and by_contract is None and node["id"] in undone:
            mend = "Declare a `compensation`: a tool that undoes it, or `owner` and `consequence` where nothing does."
            problems.add(f"/nodes/{i}", f"nothing undoes `{node['id']}`, as the policy compensate asks for", mend)
        if declared is None or "owner" in declared:
            continue
        if declared.get("tool", by_contract) is None and contract is not None:
            problems.add(where, f"the contract of `{node['tool']}` names no compensation", "Name the `tool` here.")
        _check_tool(declared.get("tool", by_contract), known, f"{where}/tool", "write", problems)
        if "verify" in declared:
            _check_tool(declared["verify"]["tool"], known, f"{where}/verify/tool", "read", problems)


def _check_tool(
    reference: str | None, known: Callable[[str], Any], where: str, wanted: str, problems: Problems
) -> None:
    if reference is None:
        return
    contract = known(reference)
    if contract is None:
        mend = "Register the tool, or refer to a registered version."
        problems.add(where, f"the tool `{reference}` is not registered", mend)
    elif getattr(contract, "retired", False):
        problems.add(where, f"the tool `{reference}` was retired", RETIRED)
    elif (getattr(contract, "side_effect", wanted) == "write") != (wanted == "write"):
        detail = f"`{reference}` {'reads' if wanted == 'write' else 'writes'}"
        mend = "What undoes an effect has one." if wanted == "write" else "What asks for a fact has no effect."
        problems.add(where, detail, mend)


def _undone(document: Mapping[str, Any], edges: list[Edge]) -> set[str]:
    """Return the nodes whose effects a bad end may call to be undone: those before it, and it itself."""
    sources: dict[str, list[str]] = {node["id"]: [] for node in document["nodes"]}
    ends = {node["id"] for node in document["nodes"]}
    found: set[str] = set()
    for edge in edges:
        sources[edge.target].append(edge.source)
        ends.discard(edge.source)
        if edge.on_failure == "compensate" and not edge.optional:
            found.add(edge.source)
    if (document.get("defaults") or {}).get("on_failure") == "compensate":
        found |= ends
    stack = list(found)
    while stack:
        for source in sources[stack.pop()]:
            if source not in found:
                found.add(source)
                stack.append(source)
    return found
