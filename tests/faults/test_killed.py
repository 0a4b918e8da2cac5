"""Kill -9 of workers, of the cluster's parent, of scheduler and heartbeat; clean stops (A6.2, C4.4)."""

from __future__ import annotations

import os
import signal

import pytest

from runtime.models import Run
from runtime.store.tx import tenant_tx
from tests.faults.conftest import SHORT_LEASE
from tests.support.nodes import echo, node, sleeping
from tests.support.specs import tool
from tests.support.workers import alive, python_tool, told, until

pytestmark = pytest.mark.faults


def owner_of(desk, stack, run_id, name: str) -> int:
    """Return the process that runs a step."""
    return stack.pid_of(desk.wait_step(run_id, name, "running").worker_session_id)


def reason_of(stack, session_id) -> str | None:
    """Return why a session is over."""
    with stack.database.connect() as connection:
        row = connection.execute("SELECT end_reason FROM qd_worker_session WHERE id = %s", [session_id]).fetchone()
    return row[0]


@pytest.mark.req("C4.4", "A1.3", "C1.2")
def test_a_read_goes_on_elsewhere_when_its_worker_dies(stack_of, desk):
    stack = stack_of(workers=2)
    run_id = desk.submit(desk.workflow(tool("a"), sleeping("b", 2, "a"), tool("c", "b")))
    first = desk.wait_step(run_id, "b", "running")
    os.kill(stack.pid_of(first.worker_session_id), signal.SIGKILL)
    assert desk.wait(run_id).status == "completed"
    lost = desk.events(run_id, "STEP_UNKNOWN")
    assert [e.node for e in lost] == ["b"]
    assert reason_of(stack, first.worker_session_id) == "process_died", "the heartbeat saw it: no lease had to end"
    assert [a.outcome for a in desk.attempts(run_id) if a.step_id == first.id] == ["lost", "succeeded"]
    epochs = [e.owner_epoch for e in desk.events(run_id, "STEP_STARTED") if e.node == "b"]
    assert epochs == sorted(set(epochs))


@pytest.mark.req("C3.3", "A6.2")
@pytest.mark.parametrize(("path", "effects"), [("/hang_before", 0), ("/hang_after", 1)])
def test_a_write_in_flight_is_unknown_when_its_worker_dies(stack_of, desk, shop, path, effects):
    stack = stack_of(workers=2)
    slow = desk.tool(shop.contract(path, timeout_s=25))
    run_id = desk.submit(desk.workflow(node("pay", slow), tool("next", "pay"), tool("apart")))
    pid = owner_of(desk, stack, run_id, "pay")
    until(lambda: desk.operations(run_id), 10, "the intent is committed")
    until(lambda: len(shop.effects()) == effects, 10, "the effect")
    os.kill(pid, signal.SIGKILL)
    run = desk.wait(run_id)
    assert run.status == "needs_attention"
    assert set(run.attention) >= {"owner", "evidence", "due"}
    desk.wait_step(run_id, "apart", "succeeded")
    assert told(desk, run_id) == {"pay": "unknown(lease_lost)", "next": "waiting", "apart": "succeeded"}
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("unknown", 1)
    # Everything else goes on, and nobody sends it again.
    other = desk.submit(desk.workflow(tool("x"), name="other"))
    assert desk.wait(other).status == "completed"
    assert len(shop.effects()) == effects


@pytest.mark.req("C3.3")
def test_an_operation_that_can_be_asked_for_gets_a_query_time(stack_of, desk, shop):
    stack = stack_of(workers=2)
    lookup = desk.tool(shop.contract("/ok", writes=False) | {"name": "shop.lookup"})
    contract = shop.contract("/hang_after", timeout_s=25, recovery="query", idempotency="key", query=lookup)
    run_id = desk.submit(desk.workflow(node("pay", desk.tool(contract))))
    pid = owner_of(desk, stack, run_id, "pay")
    until(shop.effects, 10, "the effect")
    os.kill(pid, signal.SIGKILL)
    desk.wait_step(run_id, "pay", "unknown")
    (operation,) = desk.operations(run_id)
    assert operation.status == "unknown"
    assert operation.next_query_at is not None
    assert desk.run(run_id).status in ("waiting_tool", "needs_attention")


@pytest.mark.slow
@pytest.mark.req("C2.9")
def test_the_clusters_processes_die_with_its_parent_and_another_goes_on(stack_of, desk):
    stack = stack_of(workers=2)
    parent = stack.clusters[0]
    run_ids = desk.bulk(desk.workflow(sleeping("a", 1), tool("b", "a")), [{}] * 40)
    desk.wait_step(run_ids[0], "a", "running")
    family = parent.tree()
    os.kill(parent.pid, signal.SIGKILL)
    parent.process.wait()
    until(lambda: not any(alive(pid) for pid in family), 5, "the children are gone")
    stack.clusters.append(stack.start("worker"))
    assert set(desk.wait_all(run_ids).values()) == {"completed"}


@pytest.mark.proof
@pytest.mark.req("C2.9")
def test_the_cluster_replaces_a_killed_worker(stack_of, desk):
    stack = stack_of(workers=1)
    for _ in range(2):
        run_id = desk.submit(desk.workflow(sleeping("a", 0.6)))
        os.kill(owner_of(desk, stack, run_id, "a"), signal.SIGKILL)
        assert desk.wait(run_id).status == "completed"


@pytest.mark.req("C5.2")
def test_timers_outlive_their_scheduler(stack_of, desk):
    stack = stack_of(workers=1)
    run_id = desk.submit(desk.workflow({"id": "pause", "kind": "wait", "seconds": 1}, tool("b", "pause")))
    stack.scheduler.kill()
    due = desk.step(run_id, "pause").not_before
    until(lambda: desk.events(run_id)[-1].occurred_at and clock_of(stack) > due, 10, "the timer is due")
    assert told(desk, run_id)["pause"] == "waiting(timer)"
    stack.start("scheduler")
    stack.start("scheduler")
    assert desk.wait(run_id).status == "completed"
    assert len([e for e in desk.events(run_id, "STEP_QUEUED") if e.node == "pause"]) == 1


def clock_of(stack):
    with stack.database.connect() as connection:
        return connection.execute("SELECT qd_now()").fetchone()[0]


@pytest.mark.proof
@pytest.mark.req("A3.4")
def test_workers_take_new_sessions_after_a_heartbeat_was_away_too_long(stack_of, desk):
    stack = stack_of(workers=2, lease_seconds=SHORT_LEASE)
    old = set(stack.sessions())
    stack.heartbeat.kill()
    until(lambda: not old & set(stack.sessions()), 15, "the leases have run out")
    stack.heartbeat = stack.start("heartbeat")
    run_ids = desk.bulk(desk.workflow(tool("a"), sleeping("b", 0.1, "a")), [{}] * 20)
    assert set(desk.wait_all(run_ids).values()) == {"completed"}


@pytest.mark.req("C2.8")
def test_idle_workers_take_new_sessions_without_work(stack_of):
    stack = stack_of(workers=2, lease_seconds=SHORT_LEASE)
    old = set(stack.sessions())
    stack.heartbeat.kill()
    until(lambda: not old & set(stack.sessions()), 15, "the leases have run out")
    stack.heartbeat = stack.start("heartbeat")
    until(lambda: len(stack.sessions()) == 2, 15, "both idle workers hold a session again")


def under_way(desk, run_ids) -> int:
    """Return how many of the runs run."""
    with tenant_tx(desk.tenant.id):
        return Run.objects.filter(id__in=run_ids, status="running").count()


@pytest.mark.slow
@pytest.mark.req("C2.9")
def test_a_clean_stop_finishes_what_runs_and_takes_no_more(stack_of, desk):
    stack = stack_of(workers=2, slots=4)
    run_ids = desk.bulk(desk.workflow(sleeping("a", 4), echo("b", "a")), [{}] * 20)
    until(lambda: under_way(desk, run_ids) >= 8, 10, "all slots are busy")
    cluster = stack.clusters[0]
    assert cluster.terminate() == 0
    outcomes = [a.outcome for run_id in run_ids for a in desk.attempts(run_id)]
    assert outcomes
    assert set(outcomes) == {"succeeded"}, "what ran was finished"
    assert len(outcomes) <= 16, "nothing more was taken"
    with stack.database.connect() as connection:
        ends = connection.execute("SELECT end_reason, count(*) FROM qd_worker_session GROUP BY 1").fetchall()
    assert ends == [("stopped", 2)]
    stack.clusters.append(stack.start("worker"))
    assert set(desk.wait_all(run_ids).values()) == {"completed"}


@pytest.mark.req("C4.4")
@pytest.mark.proof
def test_a_step_that_takes_its_workers_down_fails_alone(stack_of, desk):
    stack_of(workers=2)
    crash = desk.tool(python_tool("crash"))
    neighbours = [tool("b"), sleeping("c", 1.0), sleeping("d", 0.2)]
    run_id = desk.submit(desk.workflow(node("a", crash), *neighbours))
    assert desk.wait(run_id, seconds=100).status == "failed"
    assert told(desk, run_id) == {"a": "failed", "b": "succeeded", "c": "succeeded", "d": "succeeded"}
    assert desk.step(run_id, "a").error["code"] == "worker_lost"
    outcomes = [a.outcome for a in desk.attempts(run_id) if a.step_id == desk.step(run_id, "a").id]
    assert set(outcomes) == {"lost"}
    assert 5 <= len(outcomes) <= 15
