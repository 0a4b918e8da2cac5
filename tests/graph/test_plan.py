"""The compiled plan: order, edges, what is inherited (A9.1, A9.3, A9.4)."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from runtime.graph.plan import Plan, edges_of
from runtime.graph.validate import check_workflow
from tests.support.specs import refund, tool, workflow

pytestmark = pytest.mark.req("A9.1")


def test_topological_order_is_stable_and_respects_every_edge() -> None:
    rng = random.Random(7)
    nodes = [tool(f"n{i}", *{f"n{rng.randrange(i)}" for _ in range(3) if i}) for i in range(300)]
    rng.shuffle(nodes)
    plan = Plan.from_spec(workflow(*nodes))
    assert len(plan.order) == 300
    assert [n.index for n in plan.nodes.values()] == list(range(300))
    assert all(plan.nodes[e.source].index < plan.nodes[e.target].index for e in edges_of(workflow(*nodes)))
    assert Plan.from_spec(workflow(*nodes)).order == plan.order
    independent = [tool(f"n{i}") for i in rng.sample(range(20), 20)]
    assert Plan.from_spec(workflow(*independent)).order == tuple(n["id"] for n in independent)


def test_roots_sinks_counters_and_tools() -> None:
    plan = Plan.from_spec(refund())
    assert plan.roots == ("load",)
    assert plan.sinks == ("pay",)
    assert {i: n.n_deps for i, n in plan.nodes.items()} == {"load": 0, "route": 1, "ask": 1, "pay": 2}
    assert plan.tools == {"core.noop@1"}
    assert plan.n_edges == 4
    assert plan.depth == 4


@pytest.mark.req("A9.3")
def test_a_switch_chooses_the_first_true_case() -> None:
    route = Plan.from_spec(refund()).nodes["route"]
    assert route.choose({"nodes": {"load": {"output": {"amount": 101}}}}) == ("ask",)
    assert route.choose({"nodes": {"load": {"output": {"amount": 100}}}}) == ("pay",)
    assert route.refs == {"load"}


def test_what_a_node_reads_is_known() -> None:
    spec = workflow(
        tool("a"),
        tool("b"),
        tool("c", "a", "b", input={"x": [{"$": "nodes.a.output"}]}, business_key='"k" + nodes.b.output.id'),
        {"id": "v", "kind": "verifier", "verifier": "ok@1", "after": ["c"], "criterion": "output.x == nodes.c.output"},
        {"id": "w", "kind": "wait", "until": "nodes.v.output.when", "after": ["v"]},
    )
    plan = check_workflow(spec)
    assert plan.nodes["c"].refs == {"a", "b"}
    assert plan.nodes["v"].refs == {"c"}
    assert plan.nodes["w"].refs == {"v"}
    assert plan.nodes["w"].wait_until is not None


def test_defaults_are_inherited_member_by_member() -> None:
    spec = workflow(
        tool("a", retry={"max_attempts": 9}, timeout_s=5),
        tool("b", "a", {"node": "c", "on_failure": "fail_fast", "optional": True}),
        tool("c"),
        defaults={"retry": {"max_attempts": 2, "initial_s": 7}, "timeout_s": 60, "on_failure": "continue_on_error"},
    )
    plan = check_workflow(spec)
    assert dict(plan.nodes["a"].retry) == {"max_attempts": 9, "initial_s": 7}
    assert dict(plan.nodes["b"].retry) == {"max_attempts": 2, "initial_s": 7}
    assert plan.nodes["a"].timeout_s == 5
    assert plan.nodes["c"].timeout_s == 60
    edges = dict(plan.nodes["b"].predecessors)
    assert edges["a"].on_failure == "continue_on_error"
    assert edges["c"].on_failure == "fail_fast"
    assert edges["a"].forgiving
    assert edges["c"].forgiving
    assert dict(check_workflow(workflow(tool("x"))).nodes["x"].retry) == {}


def test_an_edge_listed_and_implied_is_one_edge() -> None:
    spec = refund()
    assert [(e.source, e.target) for e in edges_of(spec)].count(("route", "pay")) == 1
    spec["nodes"][3]["after"][0] = {"node": "route", "on_failure": "continue_on_error"}
    (edge,) = [e for e in edges_of(spec) if (e.source, e.target) == ("route", "pay")]
    assert edge.case
    assert edge.forgiving


def test_plans_do_not_change_and_are_told_apart_by_identity() -> None:
    plan = Plan.from_spec(refund())
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.nodes["load"].pool = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        plan.nodes["new"] = plan.nodes["load"]  # type: ignore[index]
    assert len({plan, Plan.from_spec(refund())}) == 2
    assert not hasattr(plan.nodes["load"], "__dict__")


@pytest.mark.req("A4.1", "C3.2")
def test_what_a_switch_a_fallback_or_an_or_join_decides_is_not_certain_to_be_called():
    def call(name: str, *after: Any, **more: Any) -> dict[str, Any]:
        return {"id": name, "kind": "tool", "tool": f"t.{name}@1", "after": list(after), **more}

    route = {"id": "r", "kind": "switch", "after": ["a"], "cases": [{"when": "input.x", "to": ["b"]}], "default": ["c"]}
    nodes = [
        call("a"),
        route,
        call("b", "r"),
        call("c", "r"),
        call("after-c", "c"),
        call("spare", {"node": "a", "on_failure": "fallback"}),
        call("left", "a"),
        call("right", "a"),
        call("first", "left", "right", join={"mode": "any"}),
        call("apart"),
        call("end", "apart"),
    ]
    plan = Plan.from_spec({"format": "quarterdeck/1", "name": "w", "nodes": nodes})
    assert plan.certain_tools == {"t.apart@1", "t.end@1"}, "a may be ended by the join behind it"
    plan = Plan.from_spec({"format": "quarterdeck/1", "name": "w", "nodes": nodes[:6]})
    assert plan.certain_tools == {"t.a@1"}
