"""The 44 graphs of others: compiled or refused, and counted as networkx counted them (A9.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.graph.plan import Plan
from runtime.graph.readiness import Counters, contribution, decide
from runtime.graph.validate import check_workflow
from runtime.kernel.errors import InvalidWorkflow
from runtime.tools.builtin import BUILTIN_CONTRACTS
from tests.support import dags

pytestmark = [
    pytest.mark.req("A9.1"),
    pytest.mark.skipif(not dags.names(), reason=f"QUARTERDECK_INPUTS: no graphs in {dags.inputs() / 'dags'}"),
]

TOOLS = {contract.reference: contract for contract in BUILTIN_CONTRACTS}
LOOPS = ("asl-account-vending-machine", "asl-idempotent-workflow")


def compiled(name: str, *, features: bool = False) -> Plan:
    return check_workflow(json.dumps(dags.to_workflow(dags.load(name), features=features)), known_tools=TOOLS.get)


def test_all_are_there() -> None:
    assert len(dags.names()) == 44
    assert tuple(n for n in dags.names() if not dags.load(n)["truth"]["is_dag"]) == LOOPS


@pytest.mark.parametrize("name", [n for n in dags.names() if n not in LOOPS])
@pytest.mark.parametrize("features", [False, True], ids=["plain", "features"])
def test_counts_equal_the_truth(name: str, features: bool) -> None:
    graph = dags.load(name)
    truth, plan = graph["truth"], compiled(name, features=features)
    assert len(plan.nodes) == truth["n_nodes"]
    assert plan.n_edges == truth["n_edges"]
    assert len(plan.roots) == truth["n_roots"]
    assert len(plan.sinks) == truth["n_leaves"]
    assert plan.depth == truth["depth_levels"]
    assert len(set(plan.roots) & set(plan.sinks)) == truth["n_isolated"]
    edges = {(e.source, e.target) for n in plan.nodes.values() for _, e in n.successors}
    assert edges == {tuple(edge) for edge in graph["edges"]}
    assert all(plan.nodes[a].index < plan.nodes[b].index for a, b in graph["edges"])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("features", [False, True], ids=["plain", "features"])
def test_loops_are_refused_with_their_nodes(name: str, features: bool) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        compiled(name, features=features)
    truth = dags.load(name)["truth"]["cycles_scc"]
    assert [sorted(loop) for loop in caught.value.extra["cycles"]] == [sorted(loop) for loop in truth]
    assert all(f"`{node}`" in caught.value.detail for node in truth[0])
    edges = {tuple(edge) for edge in dags.load(name)["edges"]}
    (loop,) = caught.value.extra["cycles"]
    assert all(pair in edges for pair in zip(loop, [*loop[1:], loop[0]], strict=True))


def walk(plan: Plan) -> dict[str, int]:
    """Run ``plan`` with every step succeeding; return the round in which each step ended."""
    counts: dict[str, list[int]] = {i: list(Counters(n.n_deps)) for i, n in plan.nodes.items()}
    ended: dict[str, int] = {}
    ready, number = list(plan.roots), 0
    while ready:
        number += 1
        following: list[str] = []
        for node_id in ready:
            ended[node_id] = number
        for node_id in ready:
            for target, edge in plan.nodes[node_id].successors:
                counts[target][0] -= 1
                assert contribution("succeeded", None, edge) == "ok"
                counts[target][1] += 1
                if target not in ended and target not in following:
                    decision: Any = decide(plan.nodes[target], *counts[target])
                    if decision == "ready":
                        following.append(target)
        ready = following
    return ended


@pytest.mark.parametrize("name", [n for n in dags.names() if n not in LOOPS])
def test_every_node_becomes_ready_in_its_level(name: str) -> None:
    graph, plan = dags.load(name), compiled(name)
    ended = walk(plan)
    assert len(ended) == graph["truth"]["n_nodes"]
    assert max(ended.values()) == graph["truth"]["depth_levels"]
    levels = list(ended.values())
    assert max(levels.count(level) for level in set(levels)) == graph["truth"]["widest_level"]
    started = {node: level - 0.5 for node, level in ended.items()}
    assert dags.order_violations(map(tuple, graph["edges"]), started, ended) == []
    assert len(walk(compiled(name, features=True))) == graph["truth"]["n_nodes"]
