"""The 44 graphs that others drew, as workflows. They are read from ``QUARTERDECK_INPUTS``, never copied.

Two ways to turn one into a workflow:

- plain: every node is a no-op tool step and every edge a plain edge. Every node ends and the order of the events has to
  respect every edge.
- with features: a choice becomes a switch that by default takes all its branches, a wait a timer of zero seconds,
  retries and timeouts are kept, ``one_success`` becomes an OR join, ``optional`` steps get forgiving edges. The order
  then respects every edge but those into OR joins.

``error_edges`` (catch paths) are left out in both: they lead to a node that runs *only* when its source failed, some of
them back to an earlier node, and the truths count without them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

NOOP = "core.noop@1"

_CHOICES = frozenset({"Choice", "SWITCH", "DECISION", "switch"})
_WAITS = frozenset({"Wait", "WAIT", "suspend"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def inputs() -> Path:
    """Return the folder of real inputs: ``QUARTERDECK_INPUTS``, or ``../shared/inputs`` beside the repository."""
    default = Path(__file__).resolve().parents[2].parent / "shared" / "inputs"
    return Path(os.environ.get("QUARTERDECK_INPUTS") or default)


@cache
def names() -> tuple[str, ...]:
    """Return the ids of all graphs, sorted; empty when the inputs are not there."""
    files = sorted((inputs() / "dags").glob("*.json"))
    return tuple(f.stem for f in files if f.stem not in ("index", "feature_frequency"))


@cache
def load(name: str) -> Mapping[str, Any]:
    """Return one graph: nodes, edges, error_edges, features and ``truth``."""
    with (inputs() / "dags" / f"{name}.json").open(encoding="utf-8") as file:
        graph: Mapping[str, Any] = json.load(file)
        return graph


def to_workflow(graph: Mapping[str, Any], *, features: bool = False) -> dict[str, Any]:
    """Return ``graph`` as a workflow with the same node ids and edges; see the module for what ``features`` adds."""
    before: dict[str, list[str]] = {node["id"]: [] for node in graph["nodes"]}
    after: dict[str, list[str]] = {node["id"]: [] for node in graph["nodes"]}
    for source, target in graph["edges"]:
        before[target].append(source)
        after[source].append(target)
    optional = {n["id"] for n in graph["nodes"] if "optional" in n.get("features", ())} if features else set()
    nodes = []
    for node in graph["nodes"]:
        entries = [{"node": s, "optional": True} if s in optional else s for s in before[node["id"]]]
        mapped: dict[str, Any] = {"id": node["id"], "kind": "tool", "tool": NOOP, "after": entries}
        nodes.append(_with_features(mapped, node, after[node["id"]]) if features else mapped)
    return {"format": "quarterdeck/1", "name": graph["id"].lower(), "description": graph["source"], "nodes": nodes}


def _with_features(mapped: dict[str, Any], node: Mapping[str, Any], targets: list[str]) -> dict[str, Any]:
    has = set(node.get("features", ()))
    base = {"id": mapped["id"], "after": mapped["after"]}
    if "trigger_rule:one_success" in has and mapped["after"]:
        base["join"] = {"mode": "any"}
    if node["kind"] in _CHOICES and targets:
        cases = [{"when": f"has(input.branch) && input.branch == {i}", "to": [t]} for i, t in enumerate(targets)]
        return {**base, "kind": "switch", "cases": cases, "default": targets}
    if node["kind"] in _WAITS:
        return {**base, "kind": "wait", "seconds": 0}
    tool: dict[str, Any] = {**base, "kind": "tool", "tool": NOOP}
    retries = [int(f.split("=")[1]) for f in has if re.fullmatch(r"retry:\w+=\d+", f)]
    if retries:
        tool["retry"] = {"max_attempts": min(100, max(retries) + 1)}
    timeouts = [re.fullmatch(r"timeout:(\d+)([smh]?)", f) for f in has]
    for match in filter(None, timeouts):
        tool["timeout_s"] = int(match[1]) * _UNITS[match[2]]
    return tool


def order_violations(
    edges: Iterable[tuple[str, str]], started: Mapping[str, float], ended: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return the edges whose target started before their source ended; positions may be times or event numbers."""
    return [(source, target) for source, target in edges if started[target] < ended[source]]
