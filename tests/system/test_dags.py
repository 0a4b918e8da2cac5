"""The 44 graphs of others by real workers: every node ends, order respects every edge, loops are refused (A9.1)."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from runtime.kernel.errors import InvalidWorkflow
from tests.support import dags
from tests.support.workers import Desk

pytestmark = [
    pytest.mark.req("A9.1"),
    pytest.mark.skipif(not dags.names(), reason=f"QUARTERDECK_INPUTS: no graphs in {dags.inputs() / 'dags'}"),
]
ACYCLIC = [name for name in dags.names() if dags.load(name)["truth"]["is_dag"]]


def positions(desk: Desk, run_id: uuid.UUID) -> tuple[dict[str, int], dict[str, int]]:
    """Return node → run_seq of its first start, and of its end."""
    started: dict[str, int] = {}
    ended: dict[str, int] = {}
    for event in desk.events(run_id):
        if event.node and event.type in ("STEP_STARTED", "TIMER_SET"):
            started.setdefault(event.node, event.seq)
        if event.node and event.to_status in ("succeeded", "failed", "killed", "skipped"):
            ended[event.node] = event.seq
    return started, ended


def check(desk: Desk, name: str, run_id: uuid.UUID, *, but: set[str]) -> None:
    """Assert that every node succeeded once and that order respects every edge but those into the nodes of ``but``."""
    graph = dags.load(name)
    steps = desk.steps(run_id)
    assert len(steps) == graph["truth"]["n_nodes"]
    assert {step.status for step in steps.values()} == {"succeeded"}, name
    started, ended = positions(desk, run_id)
    assert set(started) == set(ended) == set(steps)
    edges = [(source, target) for source, target in graph["edges"] if target not in but]
    assert edges or graph["truth"]["n_edges"] == 0 or but
    assert dags.order_violations(edges, started, ended) == [], name


@pytest.mark.parametrize("features", [False, True], ids=["plain", "features"])
def test_every_graph_runs_in_order(stack, desk, features):
    runs: dict[str, uuid.UUID] = {}
    racing: dict[str, set[str]] = {}
    for name in ACYCLIC:
        spec: dict[str, Any] = dags.to_workflow(dags.load(name), features=features)
        racing[name] = {node["id"] for node in spec["nodes"] if node.get("join", {}).get("mode") == "any"}
        runs[name] = desk.submit(desk.register(spec), {})
    statuses = desk.wait_all(runs.values(), seconds=200)
    assert set(statuses.values()) == {"completed"}
    for name, run_id in runs.items():
        if racing[name]:
            # Who loses against an OR join is skipped; all others have to run in order.
            check_race(desk, name, run_id, racing[name])
        else:
            check(desk, name, run_id, but=set())


def check_race(desk: Desk, name: str, run_id: uuid.UUID, joins: set[str]) -> None:
    steps = desk.steps(run_id)
    assert all(s.status == "succeeded" or s.cause in ("or_lost", "branch") for s in steps.values()), name
    assert all(steps[join].status == "succeeded" for join in joins)
    started, ended = positions(desk, run_id)
    ran = {node for node, step in steps.items() if step.status == "succeeded"}
    edges = [(a, b) for a, b in dags.load(name)["edges"] if a in ran and b in ran and b not in joins]
    assert dags.order_violations(edges, started, ended) == [], name
    for join in joins:
        sources = [a for a, b in dags.load(name)["edges"] if b == join and a in ran]
        assert any(ended[source] < started[join] for source in sources), (name, join)


@pytest.mark.parametrize("name", sorted(set(dags.names()) - set(ACYCLIC)))
def test_a_graph_with_a_loop_is_refused_with_its_nodes(test_database, desk, name):
    with pytest.raises(InvalidWorkflow) as caught:
        desk.register(json.loads(json.dumps(dags.to_workflow(dags.load(name)))))
    truth = dags.load(name)["truth"]["cycles_scc"]
    assert [sorted(loop) for loop in caught.value.extra["cycles"]] == [sorted(loop) for loop in truth]
    assert all(f"`{node}`" in caught.value.detail for node in truth[0])
