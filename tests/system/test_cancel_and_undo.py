"""A cancel reaches calls that are under way, and effects are undone, with real workers and a shop of its own books."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.actions.compensation import compensate_operation
from runtime.actions.runs import cancel_run
from tests.support.nodes import failing, node
from tests.support.shop import Shop
from tests.support.workers import alive, python_tool, told, until


@pytest.fixture(scope="module")
def outside(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def order(outside) -> Iterator[str]:
    yield f"O-{uuid.uuid4().hex[:8]}"
    outside.behave()


def sent(desk: Any, run_id: uuid.UUID) -> bool:
    return any(one.status == "sent" for one in desk.operations(run_id))


@pytest.mark.req("C5.5", "C1.4")
@pytest.mark.parametrize("runs", ["thread", "process"])
def test_a_tool_that_listens_puts_things_in_order_and_the_run_is_cancelled(stack, desk, tmp_path, runs):
    log = tmp_path / "log"
    config = {"entry_point": "test.listening", "kill_grace_s": 20}
    reference = desk.tool(python_tool("listening", runs=runs, writes=True, config=config))
    run_id = desk.submit(desk.workflow(node("a", reference, input={"log": str(log)}), node("b", "core.noop@1", "a")))
    until(lambda: log.exists() and "started" in log.read_text(), 20, "a call under way")
    assert cancel_run(actor=desk.actor, run_id=run_id, reason="stop")["status"] == "cancelling"
    assert desk.wait(run_id, seconds=10).status == "cancelled"
    assert log.read_text().split("\n")[:2] == ["started", "tidied up"]
    assert told(desk, run_id) == {"a": "killed(cancelled)", "b": "skipped(cancelled)"}
    assert [one.status for one in desk.operations(run_id)] == ["refused"]


@pytest.mark.req("C5.5")
def test_a_process_that_hears_nothing_is_killed_and_its_effect_is_verified_by_a_person(stack, desk, tmp_path):
    log = tmp_path / "log"
    reference = desk.tool(python_tool("deaf", runs="process", writes=True))
    run_id = desk.submit(desk.workflow(node("a", reference, input={"log": str(log)})))
    pid = int(until(lambda: log.exists() and log.read_text(), 20, "a call under way"))
    cancel_run(actor=desk.actor, run_id=run_id, reason="stop")
    row = desk.wait(run_id, "needs_attention", seconds=10)
    until(lambda: not alive(pid), 5, "the end of the process")
    assert row.cancel_requested
    assert set(row.attention) == {"owner", "evidence", "due"}
    assert told(desk, run_id) == {"a": "killed(cancelled)"}
    assert [one.status for one in desk.operations(run_id)] == ["unknown"]


@pytest.mark.req("C5.5")
def test_an_http_call_is_aborted_and_its_effect_stays_open(stack, desk, outside, order):
    rule = outside.tell("pickup", order, before="hang")
    reference = desk.tool(outside.contract("pickup"))
    run_id = desk.submit(desk.workflow(node("a", reference, input={"order_id": order})))
    until(lambda: outside.hits(rule), 20, "a call under way")
    cancel_run(actor=desk.actor, run_id=run_id, reason="stop")
    assert desk.wait(run_id, "needs_attention", seconds=10).cancel_requested
    assert [one.status for one in desk.operations(run_id)] == ["unknown"]
    assert told(desk, run_id) == {"a": "killed(cancelled)"}


def refunding(desk: Any, shop: Shop, *after: dict[str, Any], on_failure: str = "compensate") -> str:
    """Register a workflow that pays back, then goes on; its refund is undone and looked up in the shop's books."""
    for name in ("undo_refund", "find_refund"):
        desk.tool(shop.contract(name))
    return desk.workflow(
        node(
            "pay",
            desk.tool(shop.contract("refund")),
            business_key="'pay/' + input.order",
            input={"order_id": {"$": "input.order"}, "amount": "10.00"},
            compensation={
                "input": {"refund_id": {"$": "operation.output.refund_id"}},
                "retry": {"max_attempts": 2, "initial_s": 0.1},
                "deadline_s": 60,
                "verify": {
                    "tool": desk.tool(shop.contract("refund_state")),
                    "input": {"refund_id": {"$": "operation.output.refund_id"}},
                    "criterion": "output.status == 'undone'",
                },
            },
        ),
        *after,
        defaults={"on_failure": on_failure},
    )


@pytest.mark.req("C4.5", "B9.2")
def test_a_cancelled_run_ends_cancelled_with_its_effect_undone(stack, desk, outside, order):
    flow = refunding(desk, outside, {"id": "rest", "kind": "wait", "seconds": 600, "after": ["pay"]})
    run_id = desk.submit(flow, {"order": order})
    desk.wait_step(run_id, "pay", "succeeded")
    cancel_run(actor=desk.actor, run_id=run_id, reason="wrong order")
    row = desk.wait(run_id, seconds=20)
    assert (row.status, row.reason) == ("cancelled", "wrong order"), desk.story(run_id)
    assert told(desk, run_id) == {
        "pay": "succeeded",
        "rest": "skipped(cancelled)",
        "undo:pay": "succeeded",
        "undo-check:pay": "succeeded",
    }
    assert sorted(one.status for one in desk.operations(run_id)) == ["compensated", "succeeded"]
    kinds = [one["kind"] for one in outside.effects(order)]
    assert sorted(kinds) == ["refunds", "undo"], "the shop's own books"


@pytest.mark.req("C4.5", "B9.1")
def test_a_failure_behind_an_effect_undoes_it(stack, desk, outside, order):
    run_id = desk.submit(refunding(desk, outside, failing("mail", "pay")), {"order": order})
    assert desk.wait(run_id, seconds=20).status == "failed"
    assert [one["kind"] for one in outside.effects(order)].count("undo") == 1


@pytest.mark.req("C4.5", "C8.5")
def test_a_compensation_that_fails_is_a_persons_and_done_again_by_their_order(stack, desk, outside, order):
    outside.tell("undo", order, times=None, before="answer", status=409)
    run_id = desk.submit(refunding(desk, outside, failing("mail", "pay")), {"order": order})
    row = desk.wait(run_id, "needs_attention", seconds=20)
    assert set(row.attention) == {"owner", "evidence", "due"}
    pay = next(one for one in desk.operations(run_id) if one.business_key == f"pay/{order}")
    assert pay.status == "compensation_failed"
    assert not [one for one in outside.effects(order) if one["kind"] == "undo"]
    outside.behave()
    compensate_operation(actor=desk.actor, operation_id=pay.id, reason="the shop is well again")
    until(lambda: {o.id: o.status for o in desk.operations(run_id)}[pay.id] == "compensated", 20, "compensated")
    assert [one["kind"] for one in outside.effects(order)].count("undo") == 1


@pytest.mark.req("B9.1", "A9.4")
def test_a_fallback_stands_in_and_is_left_out_where_it_is_not_needed(stack, desk):
    spare = {"id": "spare", "kind": "tool", "tool": "core.echo@1", "after": [{"node": "a", "on_failure": "fallback"}]}
    end = {"id": "end", "kind": "tool", "tool": "core.noop@1", "after": ["a", "spare"], "join": {"mode": "any"}}
    failed = desk.submit(desk.workflow(failing("a"), spare, end, name="falls"))
    fine = desk.submit(desk.workflow(node("a", "core.noop@1"), spare, end, name="stands"))
    assert desk.wait(failed).status == "partially_completed"
    assert told(desk, failed) == {"a": "failed", "spare": "succeeded", "end": "succeeded"}
    assert desk.wait(fine).status == "completed"
    assert told(desk, fine)["spare"] == "skipped(branch)"
