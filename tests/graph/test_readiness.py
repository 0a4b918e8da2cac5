"""When a step may start: joins, edges, skip causes, losers (A9.1, A9.4)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.graph.plan import Edge, Plan
from runtime.graph.readiness import (
    TERMINAL,
    Counters,
    ancestors,
    contribution,
    counters_from,
    decide,
    descendants,
    or_losers,
)
from tests.support.specs import refund, tool, workflow

pytestmark = pytest.mark.req("A9.4")

PLAIN, FORGIVING, OPTIONAL = Edge("a", "b"), Edge("a", "b", "continue_on_error"), Edge("a", "b", optional=True)
CASE = Edge("a", "b", case=True)
BRANCH, UPSTREAM = ("skip", "branch"), ("skip", "upstream_failed")
CAUSES = ("user", "branch", "rejected", "upstream_failed", "or_lost", "cancelled", "deadline")


@pytest.mark.parametrize(
    ("status", "cause", "plain", "forgiving"),
    [
        ("succeeded", None, "ok", "ok"),
        ("mark_successed", None, "ok", "ok"),
        ("skipped", "user", "ok", "ok"),
        ("skipped", "branch", "bskip", "bskip"),
        ("failed", None, "bad", "err"),
        ("killed", None, "bad", "err"),
        *(("skipped", cause, "bad", "err") for cause in CAUSES if cause not in ("user", "branch")),
    ],
)
def test_contribution(status: str, cause: str | None, plain: str, forgiving: str) -> None:
    assert contribution(status, cause, PLAIN) == plain
    assert contribution(status, cause, FORGIVING) == forgiving
    assert contribution(status, cause, OPTIONAL) == forgiving


def test_an_edge_that_was_not_chosen_is_branch_skipped() -> None:
    assert contribution("succeeded", None, CASE, chosen=True) == "ok"
    assert contribution("succeeded", None, CASE, chosen=False) == "bskip"
    assert contribution("succeeded", None, PLAIN, chosen=False) == "ok"
    assert contribution("failed", None, CASE, chosen=False) == "bad"


@pytest.mark.parametrize("status", ["waiting", "queued", "running", "hold", "unknown"])
def test_open_and_unknown_steps_contribute_nothing(status: str) -> None:
    with pytest.raises(ValueError, match="not terminal"):
        contribution(status, None, PLAIN)


def node(inputs: int, join: dict[str, Any]) -> Any:
    sources = [tool(f"s{i}") for i in range(inputs)]
    more = {"join": join} if join else {}
    return Plan.from_spec(workflow(*sources, tool("j", *(s["id"] for s in sources), **more))).nodes["j"]


def expected(join: dict[str, Any], n: int, counts: Counters) -> object:
    """The rules once more, as a table in words, to check ``decide`` against."""
    left, ok, bskip, err, bad = counts
    if join.get("mode") == "any":
        if ok:
            return "ready"
        if left:
            return None
        return BRANCH if bskip == n else "ready" if err else UPSTREAM
    if left:
        return None
    if n and bskip == n:
        return BRANCH
    policy = join.get("policy", "all_succeeded")
    if policy == "all_succeeded":
        return UPSTREAM if bad else "ready"
    if policy == "at_least":
        return "ready" if ok >= join["n"] else UPSTREAM
    return "ready"


JOINS: list[dict[str, Any]] = [
    {},
    {"mode": "all", "policy": "all_succeeded"},
    {"policy": "all_done"},
    {"policy": "at_least", "n": 1},
    {"policy": "at_least", "n": 2},
    {"policy": "at_least", "n": 3},
    {"mode": "any"},
]


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_decide_over_every_combination_of_three_inputs(join: dict[str, Any]) -> None:
    plan_node = node(3, join)
    seen = 0
    for counts in itertools.product(range(4), repeat=5):
        if sum(counts) == 3:
            seen += 1
            assert decide(plan_node, *counts) == expected(join, 3, Counters(*counts)), counts
    assert seen == 35


@pytest.mark.req("A9.1")
def test_a_root_is_ready_at_once() -> None:
    assert decide(node(0, {}), 0, 0, 0, 0, 0) == "ready"


def test_counters_of_the_refund() -> None:
    plan = Plan.from_spec(refund())
    done = {"load": "succeeded", "route": "succeeded"}
    assert counters_from(plan, "ask", done, {}, {"route": ["pay"]}) == Counters(0, bskip=1)
    assert counters_from(plan, "pay", done, {}, {"route": ["pay"]}) == Counters(1, ok=1)
    rejected = {**done, "ask": "skipped"}
    counts = counters_from(plan, "pay", rejected, {"ask": "rejected"}, {"route": ["ask"]})
    assert counts == Counters(0, bskip=1, bad=1)
    assert decide(plan.nodes["pay"], *counts) == UPSTREAM


def test_a_switch_that_never_decided_takes_its_default() -> None:
    plan = Plan.from_spec(refund())
    forced = {"load": "succeeded", "route": "mark_successed"}
    assert counters_from(plan, "ask", forced, {}, {}) == Counters(0, bskip=1)
    assert counters_from(plan, "pay", forced, {}, {}) == Counters(1, ok=1)


def random_plan(rng: random.Random, n: int) -> Plan:
    nodes = []
    for i in range(n):
        sources = rng.sample(range(i), min(i, rng.randint(0, 3)))
        after = [
            {
                "node": f"n{s}",
                "on_failure": rng.choice(["fail_fast", "continue_on_error"]),
                "optional": rng.random() < 0.2,
            }
            for s in sources
        ]
        joins = [{}, {"policy": "all_done"}]
        if sources:
            joins += [{"mode": "any"}, {"policy": "at_least", "n": rng.randint(1, len(sources))}]
        nodes.append(tool(f"n{i}", *after, join=rng.choice(joins)))
    rng.shuffle(nodes)
    return Plan.from_spec(workflow(*nodes))


@given(st.integers(0, 10**9), st.integers(1, 25))
def test_every_step_ends_and_counting_step_by_step_equals_counting_anew(seed: int, n: int) -> None:
    """Run random graphs in random order with random outcomes: no step waits for ever, no counter drifts."""
    rng = random.Random(seed)
    plan = random_plan(rng, n)
    statuses = dict.fromkeys(plan.nodes, "waiting")
    causes: dict[str, str | None] = {}
    counts = {i: [p.n_deps, 0, 0, 0, 0] for i, p in plan.nodes.items()}
    running: set[str] = set()
    changed = list(plan.nodes)

    def end(node_id: str, status: str, cause: str | None = None) -> None:
        statuses[node_id], causes[node_id] = status, cause
        running.discard(node_id)
        for target, edge in plan.nodes[node_id].successors:
            at = ("ok", "bskip", "err", "bad").index(contribution(status, cause, edge)) + 1
            counts[target][0] -= 1
            counts[target][at] += 1
            changed.append(target)

    while True:
        while changed:
            node_id = changed.pop(rng.randrange(len(changed)))
            if statuses[node_id] != "waiting":
                continue
            decision = decide(plan.nodes[node_id], *counts[node_id])
            if decision == "ready":
                statuses[node_id] = "running"
                running.add(node_id)
                if plan.nodes[node_id].join_mode == "any":
                    for loser in or_losers(plan, node_id, statuses):
                        end(loser, "killed" if statuses[loser] == "running" else "skipped", "or_lost")
            elif decision is not None:
                end(node_id, "skipped", decision[1])
        if not running:
            break
        node_id = rng.choice(sorted(running))
        outcomes = [("succeeded", None), ("failed", None), ("killed", None), ("skipped", "user"), ("skipped", "branch")]
        end(node_id, *rng.choice(outcomes))

    assert set(statuses.values()) <= TERMINAL
    for node_id in plan.nodes:
        assert counters_from(plan, node_id, statuses, causes, {}) == tuple(counts[node_id])


def test_losers_are_the_exclusive_ancestors_nearest_first() -> None:
    plan = Plan.from_spec(
        workflow(
            tool("root"),
            tool("fast", "root"),
            tool("slow1", "root"),
            tool("slow2", "slow1"),
            tool("shared", "root"),
            tool("other", "shared"),
            tool("j", "fast", "slow2", "shared", join={"mode": "any"}),
        )
    )
    statuses = {"root": "succeeded", "fast": "succeeded", "slow1": "running", "slow2": "waiting", "shared": "running"}
    assert or_losers(plan, "j", statuses) == ["slow2", "slow1"]


def test_losers_leave_unknown_and_finished_steps_alone() -> None:
    plan = Plan.from_spec(workflow(*(tool(x) for x in "abcd"), tool("j", *"abcd", join={"mode": "any"})))
    statuses = {"a": "succeeded", "b": "unknown", "c": "failed", "d": "hold"}
    assert or_losers(plan, "j", statuses) == ["d"]


def test_a_source_of_two_or_joins_is_lost_only_with_both() -> None:
    plan = Plan.from_spec(
        workflow(tool("a"), tool("b"), tool("j", "a", "b", join={"mode": "any"}), tool("k", "b", join={"mode": "any"}))
    )
    assert or_losers(plan, "j", {"a": "succeeded", "b": "queued"}) == []
    assert or_losers(plan, "j", {"a": "succeeded", "b": "queued", "k": "skipped"}) == ["b"]


def test_descendants_and_ancestors_are_in_topological_order() -> None:
    plan = Plan.from_spec(workflow(tool("d", "b", "c"), tool("c", "a"), tool("b", "a"), tool("a"), tool("x")))
    assert descendants(plan, "a") == ("c", "b", "d")
    assert ancestors(plan, "d") == ("a", "c", "b")
    assert descendants(plan, "d") == descendants(plan, "x") == ()
