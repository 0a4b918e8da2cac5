"""Workflows by real worker processes: edges, joins, branches, wide runs."""

from __future__ import annotations

import pytest

from tests.support.nodes import echo, failing, sleeping
from tests.support.specs import tool
from tests.support.workers import told


def test_a_chain_passes_values_on(stack, desk):
    flow = desk.workflow(
        tool("a"),
        echo("b", "a", input={"n": {"$": "input.n"}}),
        echo("c", "b", input={"doubled": {"$": "nodes.b.output.n * 2"}, "was": {"$": "nodes.a.status"}}),
    )
    run_id = desk.submit(flow, {"n": 7})
    assert desk.wait(run_id).status == "completed"
    assert desk.output(run_id, "c") == {"doubled": 14, "was": "succeeded"}


@pytest.mark.req("A9.2")
def test_a_switch_skips_the_branch_not_taken_and_what_only_follows_it(stack, desk):
    flow = desk.workflow(
        tool("start"),
        {
            "id": "route",
            "kind": "switch",
            "after": ["start"],
            "cases": [{"when": "input.n > 10", "to": ["big"]}, {"when": "input.n > 5", "to": ["middle"]}],
            "default": ["small"],
        },
        tool("big"),
        tool("middle"),
        tool("small"),
        tool("after_big", "big"),
        tool("join", "after_big", "middle", "small"),
    )
    for number, taken in ((11, "big"), (7, "middle"), (1, "small")):
        run_id = desk.submit(flow, {"n": number})
        assert desk.wait(run_id).status == "completed"
        steps = told(desk, run_id)
        assert {n: steps[n] for n in ("big", "middle", "small")} == {
            n: "succeeded" if n == taken else "skipped(branch)" for n in ("big", "middle", "small")
        }
        assert steps["after_big"] == ("succeeded" if taken == "big" else "skipped(branch)")
        assert steps["join"] == "succeeded"
        assert desk.step(run_id, "route").choice == [taken]


@pytest.mark.req("A9.4")
def test_failures_follow_the_policy_of_each_edge(stack, desk):
    flow = desk.workflow(
        failing("bad"),
        tool("strict", "bad"),
        tool("after_strict", "strict"),
        echo(
            "forgiving", {"node": "bad", "on_failure": "continue_on_error"}, input={"e": {"$": "nodes.bad.error.class"}}
        ),
        tool("optional", {"node": "bad", "optional": True}),
    )
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed", "one edge does not forgive"
    assert told(desk, run_id) == {
        "bad": "failed",
        "strict": "skipped(upstream_failed)",
        "after_strict": "skipped(upstream_failed)",
        "forgiving": "succeeded",
        "optional": "succeeded",
    }
    assert desk.output(run_id, "forgiving") == {"e": "business"}


@pytest.mark.req("A9.4")
def test_a_handled_failure_ends_partially_completed(stack, desk):
    flow = desk.workflow(failing("bad"), tool("next", {"node": "bad", "on_failure": "continue_on_error"}))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "partially_completed"


@pytest.mark.req("A9.4")
@pytest.mark.parametrize(
    ("join", "joined", "run"),
    [
        ({"mode": "all"}, "skipped(upstream_failed)", "failed"),
        ({"mode": "all", "policy": "at_least", "n": 2}, "succeeded", "partially_completed"),
        ({"mode": "all", "policy": "at_least", "n": 3}, "skipped(upstream_failed)", "failed"),
        ({"mode": "all", "policy": "all_done"}, "succeeded", "partially_completed"),
    ],
)
def test_and_joins_by_policy(stack, desk, join, joined, run):
    flow = desk.workflow(tool("a"), tool("b"), failing("c"), tool("j", "a", "b", "c", join=join))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == run
    assert told(desk, run_id)["j"] == joined


@pytest.mark.req("A9.4")
def test_an_or_join_starts_at_the_first_and_ends_the_others(stack, desk):
    flow = desk.workflow(
        tool("fast"),
        sleeping("slow", 60),
        tool("before_waiting"),
        sleeping("held_up", 60, "before_waiting"),
        tool("never", "held_up"),
        tool("j", "fast", "slow", "never", join={"mode": "any"}),
        tool("end", "j"),
    )
    run_id = desk.submit(flow)
    assert desk.wait(run_id, seconds=15).status == "completed"
    steps = told(desk, run_id)
    assert steps["j"] == steps["end"] == "succeeded"
    assert steps["slow"] in ("killed(or_lost)", "skipped(or_lost)")
    assert steps["never"] == "skipped(or_lost)"
    assert steps["held_up"] in ("killed(or_lost)", "skipped(or_lost)")


@pytest.mark.req("A9.4")
def test_an_or_join_outlives_failures_until_one_succeeds(stack, desk):
    flow = desk.workflow(failing("a"), failing("b"), sleeping("c", 0.2), tool("j", "a", "b", "c", join={"mode": "any"}))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "partially_completed"
    assert told(desk, run_id)["j"] == "succeeded"
    flow = desk.workflow(failing("a"), failing("b"), tool("j", "a", "b", join={"mode": "any"}), name="none")
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    assert told(desk, run_id)["j"] == "skipped(upstream_failed)"


def test_wide_runs_fan_out_and_in(stack, desk):
    middle = [tool(f"m{i}", "first") for i in range(500)]
    flow = desk.workflow(tool("first"), *middle, tool("last", *[m["id"] for m in middle]))
    run_id = desk.submit(flow)
    run = desk.wait(run_id, seconds=60)
    assert (run.status, run.n_steps, run.n_open) == ("completed", 502, 0)
