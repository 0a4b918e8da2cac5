"""The connection to the database is cut at each COMMIT in turn, before or after it counts: nothing is lost or doubled.

A worker cannot tell the two apart. Its claim, intent or completion may have been written or not; what follows has to be
the same: the run completes, each effect is made once, and no step stays behind as running.
"""

from __future__ import annotations

import contextlib
import threading
import uuid

import psycopg
import pytest

from runtime.kernel.errors import Unavailable
from runtime.worker.bell import Flag
from runtime.worker.claim import ready_tenants
from runtime.worker.drain import Drain
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.session import Session
from tests.support import db as support
from tests.support.nodes import echo, flaky, node, sleeping
from tests.support.specs import tool
from tests.support.wire import through_a_wire
from tests.support.workers import RESTING, Desk, until

pytestmark = [pytest.mark.faults, pytest.mark.req("A3.1", "C3.3", "C4.4")]
COMMITS = 16


def work(drain: Drain, database: support.Database, desk: Desk, run_id: uuid.UUID) -> None:
    """Drain in a thread, as a worker process does, until the run rests; timers are fired between drains."""
    stop = Flag()

    def round_after_round() -> None:
        from django.db import connections

        drain.run(stop=stop)
        while not stop.is_set() and not drain.over:
            # As the pump does: only what is ready rings. What the worker holds already it has to know by itself.
            with contextlib.suppress(psycopg.OperationalError, Unavailable):
                fire_timers()
                if ready_tenants(["default"]):
                    drain.run(stop=stop)
            threading.Event().wait(0.01)
        connections.close_all()

    thread = threading.Thread(target=round_after_round)
    thread.start()
    try:
        # Not through the wire: the one who looks must not be counted or cut.
        with database.connect() as connection:
            connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(desk.tenant.id)])
            until(lambda: _rests(connection, run_id), 30, "the run rests")
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    assert not drain.over, "the session was kept"
    drain.session.end()


def _rests(connection: psycopg.Connection, run_id: uuid.UUID) -> bool:
    row = connection.execute("SELECT status FROM qd_run WHERE id = %s", [run_id]).fetchone()
    return row is not None and row[0] in RESTING


@pytest.mark.parametrize("what", ["answer", "request"])
def test_a_session_whose_opening_was_cut_is_none(fresh_db, what):
    with support.switched("default", role="worker"), through_a_wire(fresh_db) as wire:
        wire.cut(1, what)
        with pytest.raises(psycopg.OperationalError):
            Session()
        good = Session()
        with fresh_db.connect() as connection:
            rows = connection.execute("SELECT id FROM qd_worker_session WHERE ended_at IS NULL").fetchall()
        assert rows == [(good.id,)]
        good.end()


@pytest.mark.parametrize("what", ["answer", "request"])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_a_cut_at_a_commit_loses_and_doubles_nothing(fresh_db, desk, shop, what, number):
    pay = desk.tool(shop.contract("/ok"))
    flow = desk.workflow(
        echo("a", input={"n": 1}),
        node("pay", pay, "a", business_key="'pay/' + run.task_id"),
        sleeping("rest", 0.05, "a"),
        flaky("again", "rest", succeed_from=2, retry={"max_attempts": 3, "initial_s": 0.01}),
        tool("end", "pay", "again"),
    )
    run_id = desk.submit(flow)
    with support.switched("default", role="worker"), through_a_wire(fresh_db) as wire:
        drain = Drain(Session())
        wire.cut(number, what)
        work(drain, fresh_db, desk, run_id)
    assert wire.cuts == 1 or wire.commits < number, "the cut happened, or there were not so many commits"
    assert desk.run(run_id).status == "completed"
    assert {s.status for s in desk.steps(run_id).values()} == {"succeeded"}
    assert len(shop.effects()) == 1
    (operation,) = desk.operations(run_id)
    assert (operation.status, operation.sends) == ("succeeded", 1)
    assert [a.outcome for a in desk.attempts(run_id)].count("lost") == 0
    assert not desk.events(run_id, "STALE_SUBMIT")
