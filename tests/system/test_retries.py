"""Failures under real workers: what is tried again, when, and what never is (B4)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from runtime.actions.steps import hold_step, release_step
from tests.support.nodes import failing, flaky, node
from tests.support.specs import tool
from tests.support.workers import told


@pytest.mark.req("B4.1", "B4.2")
def test_a_passing_failure_is_tried_again_after_a_delay(stack, desk):
    flow = desk.workflow(
        flaky("a", succeed_from=3, retry={"max_attempts": 5, "initial_s": 0.1}),
    )
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "completed"
    assert desk.step(run_id, "a").attempt == 3
    waits = [event.payload for event in desk.events(run_id, "RETRY_SCHEDULED")]
    assert len(waits) == 2
    assert all(wait["error"]["class"] == "network" and wait["not_before"] for wait in waits)
    attempts = desk.attempts(run_id)
    assert [a.outcome for a in attempts] == ["retry", "retry", "succeeded"]
    first, second = (b.started_at - a.finished_at for a, b in pairwise(attempts))
    assert first >= timedelta(seconds=0.09)
    assert second >= timedelta(seconds=0.18), "the delay doubles"


@pytest.mark.req("B4.1")
@pytest.mark.parametrize("error_class", ["validation", "permission", "not_found", "business", "policy"])
def test_a_final_failure_is_never_tried_again(stack, desk, error_class):
    flow = desk.workflow(failing("a", error_class=error_class, retry={"max_attempts": 5, "initial_s": 0.01}))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    assert desk.step(run_id, "a").attempt == 1


@pytest.mark.req("B4.2")
def test_attempts_are_bounded(stack, desk):
    flow = desk.workflow(failing("a", error_class="server_error", retry={"max_attempts": 3, "initial_s": 0.02}))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    assert [a.outcome for a in desk.attempts(run_id)] == ["retry", "retry", "failed"]


@pytest.mark.slow
@pytest.mark.req("B4.2", "A9.3")
def test_what_the_task_says_of_retries_is_laid_over_the_workflow_and_that_over_the_tool(stack, desk, shop):
    """Member by member: what the upper one leaves out is the lower one's."""
    tool = {"max_attempts": 1, "initial_s": 0.01, "max_s": 0.02, "retry_on": ["server_error"]}
    broken = desk.tool(shop.contract("/status/500", writes=False, retry=tool))
    plain, refined = (
        desk.workflow(node("a", broken), name="plain"),
        desk.workflow(node("a", broken, retry={"max_attempts": 2}), name="refined"),
    )
    for flow, task, tries in (
        (plain, {}, 1),
        (refined, {}, 2),
        (plain, {"max_attempts": 3}, 3),
        (refined, {"max_attempts": 3}, 3),
        (refined, {"max_attempts": 1}, 1),
        (refined, {"max_attempts": 3, "retry_on": ["network"]}, 1),
    ):
        run_id = desk.submit(flow, retry=task)
        assert desk.wait(run_id, seconds=20).status == "failed"
        attempts = desk.attempts(run_id)
        assert len(attempts) == tries, (flow, task)
        waited = [later.started_at - one.finished_at for one, later in pairwise(attempts)]
        assert all(wait < timedelta(seconds=5) for wait in waited), "the tool's own first delay, not the default"


@pytest.mark.req("B4.2")
def test_no_try_is_planned_for_after_the_runs_deadline(stack, desk, clock):
    """It fails with its own error at once: waiting for a try that may not start helps nobody."""
    flow = desk.workflow(
        failing("a", error_class="server_error", retry={"max_attempts": 5, "initial_s": 600, "max_s": 600})
    )
    run_id = desk.submit(flow, deadline=clock.now() + timedelta(seconds=300))
    run = desk.wait(run_id)
    assert (run.status, run.reason) != ("failed", "deadline")
    assert run.status == "failed"
    error = desk.step(run_id, "a").error
    assert error["class"] == "server_error"
    assert error["retry"] == "The run's deadline comes before the next try."
    assert [one.outcome for one in desk.attempts(run_id)] == ["failed"]


@pytest.mark.req("B4.1")
def test_http_429_on_a_read_waits_as_long_as_the_tool_says(stack, desk, shop):
    busy = desk.tool(
        shop.contract("/status/429?retry_after=1", writes=False, retry={"max_attempts": 2, "initial_s": 0.01})
    )
    run_id = desk.submit(desk.workflow(node("a", busy)))
    assert desk.wait(run_id).status == "failed"
    first, second = desk.attempts(run_id)
    assert second.started_at - first.finished_at >= timedelta(seconds=0.99)
    assert first.error["class"] == "rate_limited"


@pytest.mark.req("B4.1")
def test_http_500_on_a_read_is_tried_again(stack, desk, shop):
    broken = desk.tool(shop.contract("/status/500", writes=False, retry={"max_attempts": 3, "initial_s": 0.01}))
    run_id = desk.submit(desk.workflow(node("a", broken)))
    assert desk.wait(run_id).status == "failed"
    assert [a.error["class"] for a in desk.attempts(run_id)] == ["server_error"] * 3


@pytest.mark.req("B4.1", "B4.4")
def test_http_500_on_a_write_is_unknown_and_never_sent_again(stack, desk, shop):
    broken = desk.tool(shop.contract("/status/500?apply=1", retry={"max_attempts": 5, "initial_s": 0.01}))
    run_id = desk.submit(desk.workflow(node("a", broken), tool("b", "a")))
    run = desk.wait(run_id)
    assert run.status == "needs_attention"
    assert run.attention["owner"]
    assert told(desk, run_id) == {"a": "unknown(receipt_unknown)", "b": "waiting"}
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("unknown", 1)
    assert len(shop.effects()) == 1


@pytest.mark.req("B4.1", "C3.3")
def test_http_429_on_a_keyed_write_is_sent_again_under_the_same_key(stack, desk, shop):
    contract = shop.contract(
        "/status/429",
        recovery="idempotent",
        idempotency="key",
        retry={"max_attempts": 3, "initial_s": 0.01},
    )
    run_id = desk.submit(desk.workflow(node("a", desk.tool(contract))))
    assert desk.wait(run_id).status == "failed"
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("absent", 3)
    assert len(desk.events(run_id, "OPERATION_ABSENT")) == 3


@pytest.mark.req("B4.1")
def test_http_429_on_a_write_without_idempotency_is_not_sent_again(stack, desk, shop):
    busy = desk.tool(shop.contract("/status/429", retry={"max_attempts": 5, "initial_s": 0.01}))
    run_id = desk.submit(desk.workflow(node("a", busy)))
    assert desk.wait(run_id).status == "failed"
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("absent", 1)


@pytest.mark.req("B4.4")
def test_a_write_that_takes_too_long_is_unknown(stack, desk, shop):
    slow = desk.tool(shop.contract("/hang_after", timeout_s=1))
    run_id = desk.submit(desk.workflow(node("a", slow)))
    assert desk.wait(run_id).status == "needs_attention"
    assert desk.operations(run_id)[0].status == "unknown"
    assert len(shop.effects()) == 1


@pytest.mark.req("C3.2")
def test_an_operators_pause_of_a_running_step_holds_its_retry(stack, desk):
    flow = desk.workflow(flaky("a", succeed_from=2, retry={"max_attempts": 3, "initial_s": 5}))
    run_id = desk.submit(flow)
    step = desk.wait_step(run_id, "a", "waiting")
    hold_step(actor=desk.actor, step_id=step.id, expected_version=step.version, reason="look first")
    assert desk.wait_step(run_id, "a", "hold").cause == "pause"
    step = desk.step(run_id, "a")
    release_step(actor=desk.actor, step_id=step.id, expected_version=step.version, reason="go on")
    assert desk.wait(run_id).status == "completed"
