"""Workers that are stopped and go on later: their lease ends, others take over, what they still say is stale (C2.9)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults.conftest import SHORT_LEASE
from tests.support.nodes import node, sleeping
from tests.support.shop import Shop
from tests.support.specs import tool
from tests.support.workers import frozen, python_tool, told, until

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.9")]
SERVER = Path(__file__).resolve().parents[1] / "support" / "mcp_tool.py"


@pytest.mark.slow
def test_a_late_submit_changes_nothing(stack_of, desk):
    stack = stack_of(workers=1, clusters=2, lease_seconds=SHORT_LEASE)
    run_id = desk.submit(desk.workflow(sleeping("a", 4), tool("b", "a")))
    first = desk.wait_step(run_id, "a", "running")
    with frozen(stack.pid_of(first.worker_session_id)):
        desk.wait_step(run_id, "a", "succeeded", seconds=SHORT_LEASE * 4 + 10)
        assert desk.wait(run_id).status == "completed"
    before = desk.events(run_id)
    (late,) = until(lambda: desk.events(run_id, "STALE_SUBMIT"), 15, "the frozen worker reports")
    assert late.payload["submitted_epoch"] == first.owner_epoch
    assert late.to_status is None
    after = desk.step(run_id, "a")
    assert (after.status, after.attempt) == ("succeeded", 2)
    assert after.owner_epoch > first.owner_epoch
    assert desk.events(run_id)[: len(before)] == before
    assert desk.run(run_id).status == "completed"


@pytest.mark.req("A6.3", "C3.3")
def test_a_late_answer_to_a_write_leaves_it_unknown_and_is_kept(stack_of, desk, tmp_path):
    """The effect was made, then the worker froze; its answer comes when nobody waits for it any more."""
    stack = stack_of(workers=1, clusters=2, lease_seconds=SHORT_LEASE)
    log = tmp_path / "effects"
    log.touch()
    slow = desk.tool(python_tool("effect", runs="thread", writes=True))
    flow = desk.workflow(node("pay", slow, input={"log": str(log), "then_wait_s": 4}))
    run_id = desk.submit(flow)
    pid = stack.pid_of(desk.wait_step(run_id, "pay", "running").worker_session_id)
    until(log.read_text, 10, "the effect")
    with frozen(pid):
        assert desk.wait(run_id).status == "needs_attention"
        assert told(desk, run_id) == {"pay": "unknown(lease_lost)"}
    (late,) = until(lambda: desk.events(run_id, "STALE_SUBMIT"), 15, "the frozen worker reports")
    assert late.payload["operation_status"] == "succeeded"
    assert late.output_sha256 is not None
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("unknown", 1)
    assert told(desk, run_id) == {"pay": "unknown(lease_lost)"}
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.req("C3.3", "C2.9")
def test_nothing_is_sent_after_the_lease_is_over(stack_of, desk, tmp_path):
    """Frozen between the committed intent and the send: the tool's server takes seconds to start."""
    stack = stack_of(workers=1, clusters=2, lease_seconds=SHORT_LEASE)
    log = tmp_path / "mcp"
    log.touch()
    late = (
        f"import time, runpy, sys; time.sleep(4); sys.argv = ['s', {str(log)!r}]; "
        f"runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    )
    contract = {
        "name": "slow.add",
        "version": 1,
        "adapter": "mcp",
        "config": {"tool": "add", "command": sys.executable, "args": ["-c", late], "session": "call"},
        "input_schema": {"type": "object"},
        "side_effect": "write",
        "recovery": "human",
        "timeout_s": 60,
    }
    run_id = desk.submit(desk.workflow(node("pay", desk.tool(contract))))
    pid = stack.pid_of(desk.wait_step(run_id, "pay", "running").worker_session_id)
    until(lambda: [o for o in desk.operations(run_id) if o.status == "sent"], 10, "the intent")
    with frozen(pid):
        assert desk.wait(run_id).status == "needs_attention"
    (stale,) = until(lambda: desk.events(run_id, "STALE_SUBMIT"), 20, "the frozen worker reports")
    assert stale.payload["operation_status"] == "absent", "it knows that it sent nothing"
    assert "effect" not in log.read_text()
    (operation,) = desk.operations(run_id)
    assert operation.status == "unknown", "the engine believes the rows, not a worker whose lease was over"


@pytest.mark.slow
@pytest.mark.req("C3.3", "C2.9", "B4.4")
def test_a_tool_that_fences_refuses_the_old_owner(stack_of, desk, tmp_path):
    """Its request is on the way when its worker freezes; the tool that is asked by the newer epoch refuses it then.

    The shop keeps no key from a second effect here: what holds is the epoch alone.
    """
    stack = stack_of(workers=1, clusters=2, lease_seconds=SHORT_LEASE)
    with Shop(tmp_path) as shop:
        for name in ("find_refund", "undo_refund"):
            desk.tool(shop.contract(name))
        contract = shop.contract("refund", idempotency="epoch", timeout_s=60, retry={"max_attempts": 3})
        call = {"order_id": "E-1", "amount": "10.00"}
        desk.workflow(node("pay", desk.tool(contract), input=call))
        shop.tell("*", None, times=None, check_epoch=True, deduplicate=False)
        late = shop.tell("refund", "E-1", before="hang", seconds=600)
        run_id = desk.submit("w")
        first = desk.wait_step(run_id, "pay", "running")
        until(lambda: shop.hits(late), 20, "the first owner's request")
        with frozen(stack.pid_of(first.worker_session_id)):
            assert desk.wait(run_id, seconds=SHORT_LEASE * 4 + 40).status == "completed"
            assert len(shop.effects("E-1")) == 1
            shop.release(late)
        (stale,) = until(lambda: desk.events(run_id, "STALE_SUBMIT"), 20, "the frozen worker reports")
        assert stale.payload["operation_status"] == "refused"
        assert len(shop.effects("E-1")) == 1, "the old owner's call came to nothing"
        epochs = [call["epoch"] for call in shop.calls("E-1", "refund")]
        assert epochs[0] == first.owner_epoch < epochs[1]
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("succeeded", 2)
    asked = desk.events(run_id, "OPERATION_QUERIED")
    assert asked[-1].payload["proves_absence"] is True


@pytest.mark.slow
@pytest.mark.req("C2.9")
def test_a_busy_worker_without_progress_loses_its_lease(stack_of, desk, tmp_path):
    """Its process lives, its loop does not: an inline tool hangs in it."""
    stack = stack_of(workers=1, clusters=2, lease_seconds=SHORT_LEASE, stall_seconds=2)
    log = tmp_path / "pids"
    log.touch()
    deaf = desk.tool(python_tool("deaf_once", runs="inline"))
    run_id = desk.submit(desk.workflow(node("a", deaf, input={"log": str(log)}), tool("b", "a")))
    first = desk.wait_step(run_id, "a", "running")
    assert desk.wait(run_id, seconds=40).status == "completed"
    assert [a.outcome for a in desk.attempts(run_id)][:2] == ["lost", "succeeded"]
    assert first.worker_session_id not in stack.sessions()
