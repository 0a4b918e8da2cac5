"""Accepted work that nothing would ever move: found after a while, put back on its way, told, owned if need be."""

from __future__ import annotations

import pytest
from psycopg import sql

from runtime.actions.limits import set_limit
from runtime.actions.runs import pause_run
from runtime.queries.alerts import list_alerts
from runtime.worker.maintenance import stranded
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.stranded import mend_stranded
from tests.support.engine import Engine, force_columns, past_every_guard, refuse_writes
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.6", "C2.1"), pytest.mark.django_db(transaction=True)]
LONG = 61


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database, since the duty looks at every tenant."""
    return Engine(tenant)


@pytest.fixture
def run_id(engine):
    return engine.submit(workflow(tool("a"), tool("b", "a")))


def work(engine):
    for _ in range(3):
        for claimed in engine.claim():
            engine.report(claimed, "succeeded")


def test_what_is_on_its_way_is_left_alone(engine, run_id, clock):
    clock.advance(LONG)
    assert mend_stranded() == 0
    engine.claim()
    assert mend_stranded() == 0
    later = engine.submit(workflow(tool("c"), name="later"))
    pause_run(actor=engine.actor, run_id=later, reason="not now", expected_version=None)
    clock.advance(LONG)
    assert mend_stranded() == 0


def test_a_run_that_waits_for_a_token_is_left_alone(engine, run_id, clock):
    set_limit(actor=engine.actor, scope="tool", name="core.noop", most=1)
    [first] = engine.claim()
    waits = engine.submit(workflow(tool("c"), name="later"))
    assert engine.claim() == []
    clock.advance(LONG)
    engine.renew()
    assert mend_stranded() == 0
    assert [e for e in engine.events(waits) if e.type == "SCHEDULE_MENDED"] == []
    engine.report(first, "succeeded")


def test_a_parked_step_that_nobody_parked_is_claimed_again(engine, run_id, fresh_db, clock):
    force_columns(fresh_db, "qd_step", engine.step(run_id, "a").id, claimable=False)
    assert mend_stranded() == 0  # too young: another transaction may be about to do it
    clock.advance(LONG)
    assert mend_stranded() == 1
    assert mend_stranded() == 0
    [event] = [e for e in engine.events(run_id) if e.type == "SCHEDULE_MENDED"]
    assert event.payload["found"] == ["step a was parked without a reason"]
    engine.check(run_id)
    engine.renew()
    work(engine)
    assert engine.run(run_id).status == "completed"


def test_an_end_that_was_not_followed_is_followed(engine, run_id, fresh_db, clock):
    engine.finish("a")
    step = engine.step(run_id, "b")
    force_columns(fresh_db, "qd_step", step.id, status="waiting", deps_left=1, deps_ok=0, queued_at=None)
    clock.advance(LONG)
    assert mend_stranded() == 1
    engine.renew()
    work(engine)
    assert engine.run(run_id).status == "completed"


def test_a_run_without_its_steps_gets_them(engine, run_id, fresh_db, clock):
    with past_every_guard(fresh_db) as connection:
        connection.execute(sql.SQL("DELETE FROM qd_step WHERE run_id = %s"), [run_id])
    force_columns(fresh_db, "qd_run", run_id, n_live=0)
    clock.advance(LONG)
    assert mend_stranded() == 1
    engine.renew()
    work(engine)
    assert engine.run(run_id).status == "completed"


def test_more_broken_runs_than_a_page_keep_no_other_from_being_mended(engine, fresh_db, clock, monkeypatch):
    monkeypatch.setattr(stranded, "_BATCH", 2)
    runs = [engine.submit(workflow(tool("a"))) for _ in range(6)]
    for one in runs:
        force_columns(fresh_db, "qd_step", engine.step(one, "a").id, claimable=False)
    for one in runs[:5]:
        refuse_writes(fresh_db, "qd_run", "id", one)
    clock.advance(LONG)
    assert sum(mend_stranded() for _ in range(4)) == 1
    assert engine.step(runs[5], "a").claimable


def test_it_is_told_although_nothing_is_wrong_any_more(engine, run_id, fresh_db, clock):
    force_columns(fresh_db, "qd_step", engine.step(run_id, "a").id, claimable=False)
    clock.advance(LONG)
    mend_stranded()
    evaluate()
    [alert] = list_alerts(actor=engine.actor, rule="stranded_runs").items
    assert (alert["subjects"][0]["run_id"], alert["severity"]) == (str(run_id), "critical")
    clock.advance(901)
    evaluate()
    assert list_alerts(actor=engine.actor, rule="stranded_runs").items == []
