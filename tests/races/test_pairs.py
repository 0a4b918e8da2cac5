"""Two who want the same run, in either order: each waits behind a held row, so that the order is the test's (C2.9)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections

from runtime.actions.finish import force_step, kill_step
from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.skip import skip_step
from runtime.kernel.errors import Conflict, QuarterdeckError
from runtime.store.tx import plain_tx
from runtime.worker.maintenance import each, lost, timers
from runtime.worker.session import mark_of
from tests.support.engine import Engine
from tests.support.patience import patient
from tests.support.race import held, together
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.9", "A6.3", "C8.2")
BOTH = pytest.mark.parametrize("first", [0, 1], ids=["report-first", "other-first"])
# How often a race is run: a dozen times each time somebody tests, and many more in the proof.
OFTEN = pytest.mark.parametrize(
    "rounds", [pytest.param(12, id="short"), pytest.param(150, id="long", marks=pytest.mark.proof)]
)


def in_order(database: Any, run_id: uuid.UUID, first: int, *works: Callable[[], Any]) -> list[Any]:
    """Let both works wait for the run's row, ``works[first]`` in front, then let them go; return results or errors."""
    order = works if first == 0 else works[::-1]
    with held(database, "qd_run", run_id) as row:
        contenders = [row.queue(work) for work in order]
    for contender in contenders:
        contender.join(patient(30))
        assert not contender.is_alive()
    found = [contender.error or contender.result for contender in contenders]
    return found if first == 0 else found[::-1]


def started(engine: Engine, *nodes: dict[str, Any]) -> tuple[uuid.UUID, dict[str, Any]]:
    """Submit a workflow, claim its roots, and return the run and the claims by node."""
    run_id = engine.submit(workflow(*nodes))
    return run_id, {claimed.node.id: claimed for claimed in engine.claim()}


@BOTH
def test_completion_against_cancel(fresh_db, engine, first):
    run_id, claimed = started(engine, tool("a"), tool("b", "a"))
    in_order(
        fresh_db,
        run_id,
        first,
        lambda: engine.report(claimed["a"], "succeeded"),
        lambda: cancel_run(actor=engine.actor, run_id=run_id, reason="stop"),
    )
    assert engine.run(run_id).status == "cancelled"
    steps = engine.statuses(run_id)
    assert steps["a"] == ("succeeded" if first == 0 else "killed(cancelled)")
    assert steps["b"] == "skipped(cancelled)"
    assert engine.types(run_id).count("STALE_SUBMIT") == first
    engine.check(run_id)


@BOTH
def test_completion_against_kill(fresh_db, engine, first):
    run_id, claimed = started(engine, tool("a"), tool("b", {"node": "a", "on_failure": "continue_on_error"}))
    step = engine.step(run_id, "a")
    _, killed = in_order(
        fresh_db,
        run_id,
        first,
        lambda: engine.report(claimed["a"], "succeeded"),
        lambda: kill_step(actor=engine.actor, step_id=step.id, expected_version=step.version, reason="stop"),
    )
    if first == 0:
        assert isinstance(killed, Conflict), "the kill saw another version"
        assert engine.statuses(run_id)["a"] == "succeeded"
    else:
        assert engine.statuses(run_id)["a"] == "killed"
        assert engine.types(run_id).count("STALE_SUBMIT") == 1
    assert engine.statuses(run_id)["b"] == "queued"
    engine.check(run_id)


@BOTH
def test_completion_against_force(fresh_db, engine, first):
    run_id, claimed = started(engine, tool("a"), tool("b", "a"))
    step = engine.step(run_id, "a")
    in_order(
        fresh_db,
        run_id,
        first,
        lambda: engine.report(claimed["a"], "failed"),
        lambda: force_step(actor=engine.actor, step_id=step.id, expected_version=None, reason="it was done by hand"),
    )
    if first == 0:
        assert engine.run(run_id).status == "failed", "the run had ended: the mark changes no more than the step"
    else:
        assert engine.statuses(run_id) == {"a": "mark_successed", "b": "queued"}
        assert engine.types(run_id).count("STALE_SUBMIT") == 1
    engine.check(run_id)


@BOTH
@OFTEN
def test_a_stale_worker_after_the_loss_of_its_lease(fresh_db, engine, first, rounds):
    for _ in range(rounds):
        run_id, claimed = started(engine, tool("a"), tool("b", "a"))
        mine = partial(engine.report, claimed["a"], "succeeded")
        with plain_tx() as tx:
            tx.send("end_sessions", ("lease_lost", [engine.session_id]))
        in_order(fresh_db, run_id, first, mine, lost.return_orphans)
        if first == 0:
            assert engine.statuses(run_id) == {"a": "succeeded", "b": "queued"}, "who came first in time counts"
        else:
            assert engine.statuses(run_id) == {"a": "queued", "b": "waiting"}
            assert engine.types(run_id).count("STALE_SUBMIT") == 1
        engine.check(run_id)
        cancel_run(actor=engine.actor, run_id=run_id, reason="seen")
        engine.renew()


def _orphaned(engine: Engine, clock: Any) -> tuple[uuid.UUID, Callable[[], Any]]:
    run_id, claimed = started(engine, tool("a"), tool("b", "a"))
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    return run_id, partial(engine.report, claimed["a"], "succeeded")


def _overdue(engine: Engine, clock: Any) -> tuple[uuid.UUID, Callable[[], Any]]:
    run_id = engine.submit(workflow(tool("a")), deadline=clock.now() + timedelta(seconds=30))
    [claimed] = engine.claim()
    clock.advance(31)
    return run_id, partial(engine.report, claimed, "succeeded")


def _timed(engine: Engine, clock: Any) -> tuple[uuid.UUID, Callable[[], Any]]:
    run_id = engine.submit(workflow({"id": "a", "kind": "wait", "seconds": 60}, tool("b", "a")))
    step = engine.step(run_id, "a")
    clock.advance(61)
    return run_id, partial(skip_step, actor=engine.actor, step_id=step.id, expected_version=step.version, reason="no")


@pytest.mark.parametrize(
    ("scene", "duty", "left"),
    [
        (_orphaned, lost.return_orphans, {"a": "succeeded", "b": "queued"}),
        (_overdue, timers.enforce_deadlines, {"a": "succeeded"}),
        (_timed, timers.fire_timers, {"a": "skipped(user)", "b": "queued"}),
    ],
    ids=["orphans", "deadline", "timer"],
)
@OFTEN
def test_a_new_control_plane_that_reads_an_old_snapshot(fresh_db, engine, clock, scene, duty, left, rounds):
    """A scheduler that has just started sees the run as it was, and goes on seeing that after it has changed.

    Its transactions keep the snapshot they began with (repeatable read). What it means to do is compared under the
    run's lock with what is there: nothing is done to the run, and a look at what is there now leaves it so too.
    """

    def of_old() -> Any:
        with connections["default"].cursor() as cursor:
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return duty()

    for _ in range(max(3, rounds // 3)):
        run_id, change = scene(engine, clock)
        with held(fresh_db, "qd_run", run_id) as row:
            changing, acting = row.queue(change), row.queue(of_old)
        changing.outcome()
        done = acting.outcome()
        assert not (any(done.values()) if isinstance(done, dict) else done)
        seen = engine.types(run_id)
        assert engine.statuses(run_id) == left
        each.forget()
        duty()
        assert (engine.statuses(run_id), engine.types(run_id)) == (left, seen)
        engine.check(run_id)
        if not engine.run(run_id).finished_at:
            cancel_run(actor=engine.actor, run_id=run_id, reason="seen")
        engine.renew()


def test_two_completions_of_one_join(fresh_db, engine):
    run_id, claimed = started(engine, tool("a"), tool("b"), tool("j", "a", "b"))
    in_order(
        fresh_db,
        run_id,
        0,
        lambda: engine.report(claimed["a"], "succeeded"),
        lambda: engine.report(claimed["b"], "succeeded"),
    )
    assert engine.statuses(run_id)["j"] == "queued"
    assert engine.types(run_id, "j") == ["STEP_QUEUED"]
    engine.check(run_id)


def test_an_or_join_fires_once(fresh_db, engine):
    run_id, claimed = started(engine, tool("a"), tool("b"), tool("c"), tool("j", "a", "b", "c", join={"mode": "any"}))
    in_order(
        fresh_db,
        run_id,
        0,
        lambda: engine.report(claimed["a"], "succeeded"),
        lambda: engine.report(claimed["b"], "succeeded"),
    )
    assert engine.types(run_id, "j") == ["STEP_QUEUED"]
    assert engine.statuses(run_id) == {
        "a": "succeeded",
        "b": "killed(or_lost)",
        "c": "killed(or_lost)",
        "j": "queued",
    }
    assert "STALE_SUBMIT" in engine.types(run_id, "b")
    engine.check(run_id)


def test_one_report_twice_at_once(fresh_db, engine):
    run_id, claimed = started(engine, tool("a"), tool("b", "a"))
    one = claimed["a"]
    in_order(
        fresh_db,
        run_id,
        0,
        lambda: engine.report(one, "succeeded", {"n": 1}),
        lambda: engine.report(one, "succeeded", {"n": 2}),
    )
    assert engine.types(run_id, "a").count("STEP_SUCCEEDED") == 1
    assert engine.types(run_id, "b") == ["STEP_QUEUED"]
    assert engine.types(run_id, "a").count("STALE_SUBMIT") == 1
    engine.check(run_id)


def test_two_schedulers_fire_a_timer_once(fresh_db, engine, clock):
    run_ids = [engine.submit(workflow({"id": "t", "kind": "wait", "seconds": 60}, tool("b", "t"))) for _ in range(20)]
    clock.advance(61)
    with held(fresh_db, "qd_run", sorted(run_ids)[0]) as row:
        contenders = [row.queue(timers.fire_timers) for _ in range(2)]
    assert sum(contender.outcome() for contender in contenders) == 20
    assert all(engine.types(run_id, "t").count("STEP_QUEUED") == 1 for run_id in run_ids)


@BOTH
def test_a_timer_against_a_skip(fresh_db, engine, clock, first):
    run_id = engine.submit(workflow({"id": "t", "kind": "wait", "seconds": 60}, tool("b", "t")))
    step = engine.step(run_id, "t")
    clock.advance(61)
    _, skipped = in_order(
        fresh_db,
        run_id,
        first,
        timers.fire_timers,
        lambda: skip_step(actor=engine.actor, step_id=step.id, expected_version=step.version, reason="no wait"),
    )
    if first == 0:
        assert isinstance(skipped, QuarterdeckError)
        assert engine.statuses(run_id)["t"] == "queued"
    else:
        assert engine.statuses(run_id) == {"t": "skipped(user)", "b": "queued"}
    engine.check(run_id)


def test_a_deadline_is_enforced_once(fresh_db, engine, clock):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")), deadline=clock.now() + timedelta(seconds=30))
    engine.claim()
    clock.advance(31)
    in_order(fresh_db, run_id, 0, timers.enforce_deadlines, timers.enforce_deadlines)
    assert engine.types(run_id).count("DEADLINE_PASSED") == 1
    assert engine.run(run_id).status == "failed"
    engine.check(run_id)


def test_orphans_are_returned_once(fresh_db, engine):
    run_id, _ = started(engine, tool("a"), tool("b"))
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    in_order(fresh_db, run_id, 0, lost.return_orphans, lost.return_orphans)
    assert engine.types(run_id).count("STEP_UNKNOWN") == 2
    assert set(engine.statuses(run_id).values()) == {"queued"}
    engine.check(run_id)


def renewed(session_id: uuid.UUID) -> int:
    """Renew a session for thirty seconds, as the heartbeat does; returns how many were renewed."""
    with plain_tx() as tx:
        return len(tx.rows("renew_sessions", (30.0, [session_id], [0], [0], [None], [None], [None])))


@pytest.mark.parametrize("renew_first", [True, False])
def test_a_renewal_against_the_end_of_the_lease(fresh_db, engine, renew_first):
    """Whoever comes second sees what the first did: a session is renewed or over, never both."""
    session_id = engine.open_session(lease=30.0)

    def end() -> int:
        with plain_tx() as tx:
            return len(tx.rows("end_sessions", ("lease_lost", [session_id])))

    renew = partial(renewed, session_id)
    works = (renew, end) if renew_first else (end, renew)
    with held(fresh_db, "qd_worker_session", session_id) as row:
        contenders = [row.queue(work) for work in works]
    results = [contender.outcome() for contender in contenders]
    with plain_tx() as tx:
        live = tx.rows("session_is_live", (mark_of(session_id), session_id))[0][0]
    assert live is False
    assert results[0 if renew_first else 1] == (1 if renew_first else 0)


def test_expiry_does_not_end_what_was_just_renewed(fresh_db, engine, clock):
    """It found the lease over and waited behind the renewal: then it looks again."""
    session_id = engine.open_session(lease=300.0)
    with held(fresh_db, "qd_worker_session", session_id) as row:
        clock.advance(280.0)  # twenty seconds are left for the renewal to come
        renewal = row.queue(partial(renewed, session_id))
        clock.advance(25.0)  # less than it was renewed for, more than was left
        expiry = row.queue(lost.end_expired_sessions)
    assert (renewal.outcome(), expiry.outcome()) == (1, 0)
    for _ in range(30):
        assert together(partial(renewed, session_id), lost.end_expired_sessions) == [1, 0]
        clock.advance(15.0)


@BOTH
def test_pause_against_cancel(fresh_db, engine, first):
    run_id, _ = started(engine, tool("a"), tool("b", "a"))
    in_order(
        fresh_db,
        run_id,
        first,
        lambda: pause_run(actor=engine.actor, run_id=run_id, reason="wait"),
        lambda: cancel_run(actor=engine.actor, run_id=run_id, reason="stop"),
    )
    assert engine.run(run_id).status == "cancelled"
    engine.check(run_id)
