"""What is foreseen of a resume is what the graph then does: what runs, what may run, what is reused (C8.4)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.graph.foresee import AGAIN, GOES_ON, NEW_RUN, NOTHING, UNDOING, foresee, foresee_forced
from runtime.graph.plan import Plan
from runtime.machine.rows import RunState, StepState
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C8.4", "A9.6")
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def step(node: str, status: str = "waiting", cause: str | None = None, kind: str = "tool", **more: Any) -> StepState:
    row = StepState(
        uuid.uuid4(), uuid.UUID(int=0), node, kind, 1, False, status, cause, 1, 1, 1, 0, "default", True, None, None,
        0, 0, 0, 0, 0, False, False, None, None, NOW, None, None, None,
    )  # fmt: skip
    for name, value in more.items():
        setattr(row, name, value)
    return row


def run(document: dict[str, Any], *steps: StepState, status: str = "needs_attention") -> RunState:
    """Return a run whose steps stand as given, the others waiting."""
    plan = Plan.from_spec(document)
    uid = uuid.UUID(int=0)
    row = RunState(
        uid, uid, uid, uid, status, "", 1, 1, 0, None, False, False, None, len(plan.nodes), 0, 0, 0, 0, 0, 0, 0, 0,
        NOW, None, None,
    )  # fmt: skip
    row.plan, row.now = plan, NOW
    row.finished_at = NOW if status == "failed" else None
    row.steps = {name: step(name, kind=node.kind) for name, node in plan.nodes.items()}
    row.steps |= {one.node: one for one in steps}
    return row


def line() -> dict[str, Any]:
    return workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("beside"), name="line")


def test_an_unknown_step_goes_on_and_what_waits_behind_it_follows():
    here = run(line(), step("a", "succeeded"), step("b", "unknown"), step("beside", "running"))
    ahead = foresee(here, here.steps["b"], same_execution=True)
    assert (ahead.how, ahead.runs, ahead.reused) == (GOES_ON, ("b", "c"), ("a",))
    assert (ahead.perhaps, ahead.ended) == ((), ())


def test_a_step_that_ended_is_run_again_with_all_that_depends_on_it():
    here = run(line(), step("a", "succeeded"), step("b", "failed"), step("c", "skipped", "upstream_failed"))
    ahead = foresee(here, here.steps["b"], same_execution=True)
    assert (ahead.how, ahead.runs, ahead.reused) == (AGAIN, ("b", "c"), ("a",))
    here = run(line(), step("a", "succeeded"), step("b", "succeeded"), step("c", "running"))
    assert foresee(here, here.steps["b"], same_execution=True).ended == ("c",)


def test_a_key_that_its_tool_cannot_tell_again_gets_a_new_execution():
    here = run(line(), step("a", "succeeded"), step("b", "unknown"))
    assert foresee(here, here.steps["b"], same_execution=False).how == AGAIN


def test_an_ended_run_leads_to_a_new_one_that_adopts_what_does_not_depend_on_it():
    here = run(line(), step("a", "succeeded"), step("b", "failed"), step("beside", "succeeded"), status="failed")
    ahead = foresee(here, here.steps["b"], same_execution=True)
    assert (ahead.how, ahead.runs, set(ahead.reused)) == (NEW_RUN, ("b", "c"), {"a", "beside"})


def _branches(choice: list[str] | None) -> RunState:
    switch = {
        "id": "which", "kind": "switch", "after": ["a"],
        "cases": [{"when": "true", "to": ["left"]}], "default": ["right"],
    }  # fmt: skip
    document = workflow(tool("a"), switch, tool("left"), tool("right"), tool("end", "left", "right"), name="forks")
    steps = [step("a", "unknown")]
    if choice is not None:
        steps.append(step("which", "succeeded", kind="switch", choice=choice))
    return run(document, *steps)


def test_what_stands_behind_an_undecided_switch_may_run():
    here = _branches(None)
    ahead = foresee(here, here.steps["a"], same_execution=True)
    assert (ahead.runs, ahead.perhaps) == (("a", "which"), ("left", "right", "end"))


def test_what_undoes_an_effect_goes_on_or_only_fails():
    here = run(line(), step("b", "succeeded"), step("undo:b", "unknown", kind="compensation"))
    assert foresee(here, here.steps["undo:b"], same_execution=True).how == UNDOING
    assert foresee(here, here.steps["undo:b"], same_execution=False).how == NOTHING


def test_of_a_join_the_decided_branch_counts():
    here = _branches(["left"])
    ahead = foresee(here, here.steps["which"], same_execution=True)
    assert ahead.how == AGAIN
    assert ahead.runs == ("which",)


@pytest.mark.req("A2.6")
def test_forcing_starts_what_waits_for_the_step_and_revives_what_was_skipped_because_of_it():
    document = workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("d"))
    here = run(document, status="running")
    here.steps["a"] = step("a", "failed")
    here.steps["b"] = step("b", "skipped", "upstream_failed")
    here.steps["c"] = step("c", "skipped", "upstream_failed")
    ahead = foresee_forced(here, here.steps["a"])
    assert (ahead.runs, ahead.perhaps) == (("b", "c"), ())
    here.steps["b"] = step("b", "skipped", "user")
    assert foresee_forced(here, here.steps["a"]).runs == ("c",), "what a person skipped stays skipped"
    here.finished_at = NOW
    assert foresee_forced(here, here.steps["a"]).how == NOTHING, "in a finished run nothing follows"
