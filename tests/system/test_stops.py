"""Emergency stops with real workers: nothing new goes out while one stands, and all goes on when it is lifted."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from runtime.actions.stops import lift_stop, set_stop
from tests.support.office import writing
from tests.support.workers import until

pytestmark = [pytest.mark.req("C1.4", "C5.5"), pytest.mark.django_db(transaction=True)]


def stopped(desk, run_id, node):
    return until(
        lambda: (step := desk.step(run_id, node)).status == "waiting" and step.cause == "stopped" and step,
        20,
        f"{node} held back",
    )


@pytest.mark.parametrize(
    ("scope", "name"), [("tool", "t.write"), ("tool", "t.write@1"), ("workflow", "w"), ("tenant", "")]
)
def test_a_writing_call_is_held_back_and_goes_on(stack, desk, scope, name):
    tool = desk.tool(writing("t.write"))
    desk.workflow({"id": "a", "kind": "tool", "tool": tool, "input": {"x": 1}})
    stop = set_stop(actor=desk.actor, scope=scope, name=name, reason="test")
    run_id = desk.submit("w")
    step = stopped(desk, run_id, "a")
    assert desk.operations(run_id) == []
    assert desk.run(run_id).status == "waiting_tool"
    assert step.not_before is not None
    lift_stop(actor=desk.actor, stop_id=uuid.UUID(stop["stop_id"]))
    desk.wait(run_id, "completed", seconds=20)
    assert [operation.sends for operation in desk.operations(run_id)] == [1]


def test_a_reading_call_is_held_back_too(stack, desk):
    desk.workflow(
        {"id": "first", "kind": "tool", "tool": "core.echo@1", "input": {}},
        {"id": "then", "kind": "tool", "tool": "core.sleep@1", "input": {"seconds": 0}, "after": ["first"]},
    )
    stop = set_stop(actor=desk.actor, scope="tool", name="core.sleep", reason="test")
    run_id = desk.submit("w")
    stopped(desk, run_id, "then")
    assert desk.step(run_id, "first").status == "succeeded"
    lift_stop(actor=desk.actor, stop_id=uuid.UUID(stop["stop_id"]))
    desk.wait(run_id, "completed", seconds=20)


def test_another_tool_and_another_tenant_go_on(stack, desk, other_tenant):
    from tests.support.actors import member

    set_stop(actor=desk.actor, scope="tool", name="core.sleep", reason="test")
    set_stop(actor=member(other_tenant, "admin"), scope="tenant", reason="theirs")
    desk.workflow({"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}})
    desk.wait(desk.submit("w"), "completed", seconds=20)


def test_a_stop_with_an_end_ends(stack, desk, clock):
    desk.workflow({"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}})
    until_time = clock.now() + timedelta(seconds=15)
    set_stop(actor=desk.actor, scope="workflow", name="w", reason="test", until=until_time)
    run_id = desk.submit("w")
    stopped(desk, run_id, "a")
    assert desk.wait(run_id, "completed", seconds=40).finished_at >= until_time


def test_a_held_back_step_can_still_be_cancelled(stack, desk):
    from runtime.actions.runs import cancel_run

    desk.workflow({"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}})
    set_stop(actor=desk.actor, scope="tenant", reason="test")
    run_id = desk.submit("w")
    stopped(desk, run_id, "a")
    cancel_run(actor=desk.actor, run_id=run_id, reason="no")
    assert desk.run(run_id).status == "cancelled"
