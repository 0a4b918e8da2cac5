"""Emergency stops with real workers: nothing new goes out while one stands, and all goes on when it is lifted."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from runtime.access.verbs import STOP_GLOBAL
from runtime.actions.stops import lift_stop, set_stop
from tests.support.office import writing
from tests.support.shop import Shop
from tests.support.workers import Desk, until

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


def test_a_stop_of_everybody_holds_everybodys_calls_back(stack, desk, other_tenant):
    """A writing call and a reading one, in the operators' own tenant and in another's."""
    theirs, operator = Desk(other_tenant), replace(desk.actor, verbs=desk.actor.verbs | {STOP_GLOBAL})
    runs = []
    stop = set_stop(actor=operator, scope="global", reason="the network burns")
    try:
        for one in (desk, theirs):
            tool = one.tool(writing("t.write"))
            one.workflow(
                {"id": "writes", "kind": "tool", "tool": tool, "input": {"x": 1}},
                {"id": "reads", "kind": "tool", "tool": "core.sleep@1", "input": {"seconds": 0}},
            )
            runs.append((one, one.submit("w")))
        for one, run_id in runs:
            stopped(one, run_id, "writes")
            stopped(one, run_id, "reads")
            assert one.operations(run_id) == []
    finally:
        lift_stop(actor=operator, stop_id=uuid.UUID(stop["stop_id"]))
    for one, run_id in runs:
        one.wait(run_id, "completed", seconds=20)


@pytest.mark.req("C3.6", "B4.4")
def test_a_question_about_an_effect_is_held_back_too_and_is_seen_to_be(stack, desk, tmp_path):
    with Shop(tmp_path) as shop:
        for name in ("find_refund", "undo_refund", "refund"):
            reference = desk.tool(shop.contract(name))
        desk.workflow({"id": "pay", "kind": "tool", "tool": reference, "input": {"order_id": "S-1", "amount": "10.00"}})
        shop.tell("refund", "S-1", after="drop")
        stop = set_stop(actor=desk.actor, scope="tool", name="shop.find_refund", reason="test")
        run_id = desk.submit("w")
        until(lambda: desk.events(run_id, "QUERY_HELD"), 20, "the question held back")
        [operation] = desk.operations(run_id)
        assert (operation.status, operation.finding, operation.queries) == ("unknown", "held", None)
        assert [call["to"] for call in shop.ask("/control/calls")["items"]] == ["refund"]
        lift_stop(actor=desk.actor, stop_id=uuid.UUID(stop["stop_id"]))
        desk.wait(run_id, "completed", seconds=20)
        assert len(shop.effects("S-1")) == 1
        assert len(desk.events(run_id, "QUERY_HELD")) == 1


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


@pytest.mark.slow
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
