"""The status of a Run follows from its steps (A2.1, B8.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.graph.derive import RunCounts, derive_run, final_status, is_bad
from runtime.graph.plan import Plan
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("A2.1", "B8.1")

OPEN = {"open_steps": 1}


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({"open_steps": 3}, "accepted"),
        ({"open_steps": 3, "live": 1}, "queued"),
        ({"open_steps": 3, "live": 1, "started": True}, "running"),
        ({"open_steps": 1, "started": True}, "running"),
        ({"open_steps": 2, "timers": 1, "hold_approval": 1, "started": True}, "waiting_tool"),
        ({"open_steps": 1, "unknown": 1, "open_operations": 1, "started": True}, "waiting_tool"),
        ({"open_steps": 2, "hold_approval": 1, "hold_external": 1, "started": True}, "waiting_approval"),
        ({"open_steps": 1, "hold_external": 1, "started": True}, "waiting_external"),
        ({"open_steps": 2, "live": 1, "hold_approval": 1, "started": True}, "running"),
        ({"open_steps": 2, "live": 1, "started": True, "paused": True}, "paused"),
        ({"open_steps": 2, "live": 1, "attention": True, "paused": True}, "needs_attention"),
        ({"open_steps": 2, "live": 1, "attention": True, "compensating": True}, "compensating"),
        ({"open_steps": 2, "live": 1, "attention": True, "compensating": True, "cancelling": True}, "cancelling"),
        ({"cancelling": True}, "cancelled"),
        ({"cancelling": True, "compensating": True}, "compensating"),
        ({"cancelling": True, "open_operations": 1}, "needs_attention"),
        ({"cancelling": True, "unknown": 1, "open_steps": 1}, "needs_attention"),
        ({"cancelling": True, "attention": True}, "needs_attention"),
        ({"started": True}, "completed"),
        ({"started": True, "paused": True}, "completed"),
        ({"started": True, "open_operations": 1}, "waiting_tool"),
        ({"started": True, "troubled": 1}, "failed"),
        ({"open_steps": 1, "live": 1, "troubled": 2, "started": True}, "running"),
    ],
)
def test_derivation(counts: dict[str, Any], status: str) -> None:
    assert derive_run(RunCounts(**counts), lambda: "failed") == status


FINAL = {"completed", "partially_completed", "failed", "cancelled"}
COUNTS = st.builds(
    RunCounts,
    **{
        name: st.integers(0, 2)
        for name in ("live", "timers", "hold_approval", "hold_external", "unknown", "open_operations", "troubled")
    },
    open_steps=st.just(0),
    **{name: st.booleans() for name in ("started", "cancelling", "compensating", "attention", "paused")},
)


@given(COUNTS, st.integers(0, 2))
def test_nothing_open_hides_behind_a_final_status(base: RunCounts, waiting: int) -> None:
    from dataclasses import replace

    steps = base.live + base.timers + base.hold_approval + base.hold_external + base.unknown + waiting
    counts = replace(base, open_steps=steps)
    status = derive_run(counts, lambda: "partially_completed")
    if status in FINAL:
        assert steps == counts.unknown == counts.open_operations == 0
        assert not counts.attention
        assert not counts.compensating
    if status == "completed":
        assert counts.troubled == 0


def test_the_answer_of_a_troubled_run_is_asked_for() -> None:
    assert derive_run(RunCounts(troubled=1, started=True), lambda: "failed") == "failed"
    assert derive_run(RunCounts(started=True), lambda: pytest.fail("asked without need")) == "completed"


@pytest.mark.parametrize("cause", ["rejected", "upstream_failed", "cancelled", "deadline"])
def test_bad_ends(cause: str) -> None:
    assert is_bad("skipped", cause)
    assert is_bad("failed", None)
    assert is_bad("killed", "operator")


def test_benign_ends() -> None:
    assert not any(is_bad("skipped", cause) for cause in ("user", "branch", "or_lost"))
    assert not is_bad("killed", "or_lost")
    assert not is_bad("succeeded", None)
    assert not is_bad("mark_successed", None)


def final(spec: dict[str, Any], ends: dict[str, str]) -> str:
    plan = Plan.from_spec(spec)
    statuses = {n: ends.get(n, "succeeded").split(":")[0] for n in plan.nodes}
    causes = {n: [*end.split(":"), None][1] for n, end in ends.items()}
    return final_status(plan, statuses, causes)


FORGIVE = {"node": "a", "on_failure": "continue_on_error"}


@pytest.mark.parametrize(
    ("nodes", "ends", "status"),
    [
        ([tool("a"), tool("b", "a")], {}, "completed"),
        ([tool("a"), tool("b", "a")], {"a": "skipped:user", "b": "skipped:branch"}, "completed"),
        ([tool("a"), tool("b", "a")], {"a": "failed", "b": "skipped:upstream_failed"}, "failed"),
        ([tool("a"), tool("b", "a")], {"b": "failed"}, "failed"),
        ([tool("a"), tool("b", "a")], {"b": "killed"}, "failed"),
        ([tool("a"), tool("b", FORGIVE)], {"a": "failed"}, "partially_completed"),
        ([tool("a"), tool("b", {"node": "a", "optional": True})], {"a": "killed"}, "partially_completed"),
        ([tool("a"), tool("b", FORGIVE), tool("c", "a")], {"a": "failed", "c": "skipped:upstream_failed"}, "failed"),
        ([tool("a"), tool("b", FORGIVE)], {"a": "skipped:rejected"}, "partially_completed"),
        ([tool("a"), tool("z"), tool("j", "a", "z", join={"mode": "any"})], {"a": "failed"}, "partially_completed"),
        ([tool("a"), tool("z"), tool("j", "a", "z", join={"mode": "any"})], {"a": "killed:or_lost"}, "completed"),
        (
            [tool("a"), tool("z"), tool("j", "a", "z", join={"policy": "at_least", "n": 1})],
            {"a": "failed"},
            "partially_completed",
        ),
        (
            [tool("a"), tool("z"), tool("j", "a", "z", join={"policy": "at_least", "n": 1})],
            {"a": "failed", "z": "failed", "j": "skipped:upstream_failed"},
            "failed",
        ),
        ([tool("a"), tool("j", "a", join={"policy": "all_done"})], {"a": "failed"}, "partially_completed"),
        ([tool("a")], {"a": "failed"}, "failed"),
        ([tool("a")], {"a": "skipped:deadline"}, "failed"),
    ],
)
def test_final_status(nodes: list[dict[str, Any]], ends: dict[str, str], status: str) -> None:
    assert final(workflow(*nodes), ends) == status


def test_final_status_needs_terminal_steps() -> None:
    with pytest.raises(ValueError, match="unknown, not terminal"):
        final(workflow(tool("a")), {"a": "unknown"})
