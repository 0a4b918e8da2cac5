"""Giving back what a lost worker held, by hand: holds are honoured, bad rows keep nobody waiting (C4.4)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from runtime.access import verbs as v
from runtime.actions.hold import hold_step
from runtime.actions.limits import set_limit
from runtime.graph import plans
from runtime.models import Run
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.claim import Claimer
from runtime.worker.drain import Drain
from runtime.worker.gates import let_go
from runtime.worker.maintenance import each, lost, timers
from runtime.worker.maintenance.gates import Turnstile
from runtime.worker.session import Session
from tests.support import db as support
from tests.support.engine import Engine, force_columns, refuse_writes
from tests.support.factories import make_tenant
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.faults, pytest.mark.req("C4.4")]


@pytest.fixture
def engine(fresh_db: support.Database, tenant) -> Engine:
    each.forget()
    return Engine(tenant)


@pytest.fixture
def broken(fresh_db: support.Database) -> Iterator[Engine]:
    """Another tenant, whose workflow cannot be read any more once :func:`spoil` was called."""
    plans._by_version.clear()
    each.forget()
    yield Engine(make_tenant())
    plans._by_version.clear()


def spoil(database: support.Database, engine: Engine, run_id: uuid.UUID) -> None:
    """Make the run's workflow unreadable, as a faulty migration would."""
    with tenant_tx(engine.tenant.id):
        version = Run.objects.get(id=run_id).workflow_version_id
    force_columns(database, "qd_workflow_version", version, spec=b"{}")
    plans._by_version.clear()


def end(engine: Engine) -> None:
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))


def test_a_lost_step_that_was_to_be_held_is_held(engine):
    run_id = engine.submit(workflow(tool("a"), tool("b")))
    engine.claim()
    engine.act(hold_step, run_id, "a")
    end(engine)
    assert lost.return_orphans()["replayed"] == 2
    assert engine.statuses(run_id) == {"a": "hold(pause)", "b": "queued"}
    engine.check(run_id)


def test_retries_do_not_count_as_lost_workers(engine):
    """Five attempts that ended with a report are no sign that the step kills its workers."""
    run_id = engine.submit(workflow(tool("a")))
    for _ in range(6):
        engine.claim()
        engine.report(engine.claimed[engine.step(run_id, "a").id], "yielded", cause="timer")
        timers.fire_timers()
    engine.claim()
    end(engine)
    lost.return_orphans()
    assert engine.step(run_id, "a").status == "queued"


def test_a_broken_tenant_keeps_no_other_from_its_steps(fresh_db, engine, broken):
    ours, theirs = engine.submit(workflow(tool("a"))), broken.submit(workflow(tool("a")))
    for one in (engine, broken):
        one.claim()
        end(one)
    spoil(fresh_db, broken, theirs)
    lost.return_orphans()
    assert engine.step(ours, "a").status == "queued"
    assert broken.step(theirs, "a").status == "running"


def test_a_broken_tenant_keeps_no_other_from_its_timers(fresh_db, engine, broken, clock):
    wait = workflow({"id": "t", "kind": "wait", "seconds": 60})
    ours, theirs = engine.submit(wait), broken.submit(wait)
    spoil(fresh_db, broken, theirs)
    clock.advance(61)
    assert timers.fire_timers() == 1
    assert engine.step(ours, "t").status == "queued"


@pytest.mark.req("C5.2")
def test_a_broken_run_keeps_no_other_run_of_its_tenant_from_its_turn(fresh_db, engine, clock):
    """Neither from its timer nor from the return of its lost step; the broken one is tried again later."""
    wait = {"id": "t", "kind": "wait", "seconds": 60}
    bad = engine.submit(workflow(wait, tool("a"), name="bad"))
    good = [engine.submit(workflow(wait, tool("a"), name="good")) for _ in range(5)]
    engine.claim()
    end(engine)
    spoil(fresh_db, engine, bad)
    clock.advance(61)
    assert timers.fire_timers() == 5
    assert lost.return_orphans()["replayed"] == 5
    assert all(engine.statuses(run_id) == {"t": "queued", "a": "queued"} for run_id in good)
    assert engine.statuses(bad) == {"t": "waiting(timer)", "a": "running"}
    assert (timers.fire_timers(), lost.return_orphans()["replayed"]) == (0, 0)


@pytest.mark.req("C5.2")
def test_more_broken_runs_than_a_page_keep_no_other_from_its_turn(fresh_db, engine, broken, clock, monkeypatch):
    monkeypatch.setattr(timers, "_BATCH", 4)
    wait = workflow({"id": "t", "kind": "wait", "seconds": 60})
    theirs = [broken.submit(wait) for _ in range(9)]
    ours = engine.submit(workflow({"id": "t", "kind": "wait", "seconds": 61}, name="ours"))
    spoil(fresh_db, broken, theirs[0])
    clock.advance(62)
    fired = [timers.fire_timers() for _ in range(4)]
    assert sum(fired) == 1
    assert engine.statuses(ours) == {"t": "queued"}


def test_a_broken_tenant_keeps_no_other_from_a_worker(fresh_db, engine, broken):
    runs = [engine.submit(workflow(tool("a"), tool("b", "a"))) for _ in range(3)]
    theirs = broken.submit(workflow(tool("a")))
    spoil(fresh_db, broken, theirs)
    session = Session()
    Drain(session).run()
    session.end()
    assert {engine.run(run_id).status for run_id in runs} == {"completed"}
    assert broken.step(theirs, "a").status == "queued"


@pytest.mark.req("A3.1")
def test_a_claimed_step_that_cannot_be_taken_up_ends_no_session(fresh_db, engine, broken):
    """Nobody confirmed its claim, and by the time the worker looks for it its workflow cannot be read."""
    session = Session()
    theirs = broken.submit(workflow(tool("a")))
    assert len(Claimer(session.id).claim(broken.tenant.id, "default", 5)) == 1
    spoil(fresh_db, broken, theirs)
    ours = engine.submit(workflow(tool("a")))
    drain = Drain(session)
    drain.doubtful.add(broken.tenant.id)
    drain.run()
    assert not drain.over
    assert drain.doubtful == set()
    assert engine.run(ours).status == "completed"
    session.end()


@pytest.mark.req("C2.7")
def test_parked_steps_that_cannot_be_written_end_no_workers_turn(fresh_db, engine):
    bound = set_limit(actor=engine.actor, scope="tool", name="core.noop", most=1)["limit_id"]
    engine.submit(workflow(tool("a"), tool("b")))
    assert len(engine.claim()) == 1
    assert engine.claim() == []
    refuse_writes(fresh_db, "qd_step", "tenant_id", engine.tenant.id)
    assert let_go(engine.tenant.id, {uuid.UUID(bound): 1}) == 0


@pytest.mark.req("C2.7")
def test_a_broken_tenant_keeps_no_other_from_what_a_global_limit_frees(fresh_db, engine, broken):
    verbs = engine.actor.verbs | {v.STOP_GLOBAL}
    set_limit(actor=replace(engine.actor, verbs=verbs), scope="global", name="", most=2)
    for one in (engine, broken):
        one.submit(workflow(*(tool(f"n{i}") for i in range(5))))
    mine = engine.claim()
    assert (len(mine), broken.claim()) == (2, [])
    for claimed in mine:
        engine.report(claimed, "succeeded")
    refuse_writes(fresh_db, "qd_step", "tenant_id", broken.tenant.id)
    assert Turnstile().run_once() == 1
    assert len(engine.claim()) == 1


def test_a_step_that_was_alone_is_blamed_and_one_in_company_is_not(engine, clock):
    company = engine.submit(workflow(tool("a"), tool("b")))
    for _ in range(6):
        lose(engine, clock, expected=2)
    assert {status.partition("(")[0] for status in engine.statuses(company).values()} == {"waiting"}
    finish(engine, clock)
    assert engine.run(company).status == "completed"
    single = engine.submit(workflow(tool("a")))
    for _ in range(5):
        lose(engine, clock, expected=1)
    assert engine.statuses(single) == {"a": "failed"}
    assert engine.step(single, "a").error["code"] == "worker_lost"
    engine.check(single)


def test_what_was_lost_together_twice_is_tried_again_at_different_times(engine, clock):
    run_id = engine.submit(workflow(*[tool(f"n{i}") for i in range(6)]))
    lose(engine, clock, expected=6)
    assert set(engine.statuses(run_id).values()) == {"queued"}, "once is bad luck: at once"
    lose(engine, clock, expected=6)
    times = [engine.step(run_id, f"n{i}").not_before for i in range(6)]
    assert len(set(times)) == 6
    assert all(at < clock.now() + timedelta(seconds=2.1) for at in times)
    engine.check(run_id)


def lose(engine: Engine, clock, *, expected: int) -> None:
    """Let every waiting step's time come, claim all in one session, and lose that session's worker."""
    clock.advance(lost.LONGEST_APART_SECONDS + 1)
    timers.fire_timers()
    engine.renew()
    assert len(engine.claim()) == expected
    end(engine)
    lost.return_orphans()


def finish(engine: Engine, clock) -> None:
    clock.advance(lost.LONGEST_APART_SECONDS + 1)
    timers.fire_timers()
    engine.renew()
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
