"""What a worker must not miss: a stop it could not ask for, an ask to end that came too early or to nobody (C5.5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import psycopg
import pytest
from django.db import connections

from runtime.actions.runs import cancel_run
from runtime.actions.stops import set_stop
from runtime.worker.claim import Claimer
from runtime.worker.drain import Drain
from runtime.worker.execute import Prepared, begin
from runtime.worker.listener import Listener
from runtime.worker.session import Session
from runtime.worker.stops import Remembered
from tests.faults.test_forgotten import database_away, tool_of_tenant
from tests.support.actors import member
from tests.support.engine import Engine
from tests.support.nodes import node, sleeping
from tests.support.specs import tool, workflow
from tests.support.workers import Desk, python_tool, until

pytestmark = [pytest.mark.faults, pytest.mark.req("C5.5")]


@pytest.fixture
def drain(fresh_db) -> Iterator[Drain]:
    """A drain under a session of its own."""
    drain = Drain(Session())
    yield drain
    drain.session.end()


def test_a_notice_that_nobody_understands_makes_no_listener_deaf(fresh_db, tenant, drain):
    """Every login of the database may notify."""
    engine = Engine(tenant)
    run_id = engine.submit(workflow(sleeping("s", 0.5)))
    asked = engine.step(run_id, "s").id
    process = SimpleNamespace(drain=drain, stop=threading.Event())
    listener = Listener(process)
    listener.start()
    try:
        until(lambda: drain.running.missed, 10, "it listens")
        with fresh_db.connect() as connection:
            for payload in ("", "kill", "kill:nobody:1", f"kill:{asked}:first", f"kill:{asked}", "kill:::", "x" * 500):
                connection.execute("SELECT pg_notify('qd_control', %s)", [payload])
            connection.execute("SELECT pg_notify('qd_control', %s)", [f"kill:{asked}:1"])
        until(lambda: asked in drain.running._asked or not listener.is_alive(), 10, "the ask is heard")
        assert listener.is_alive()
        drain.run()
        assert engine.statuses(run_id)["s"] == "killed"
    finally:
        process.stop.set()


@pytest.mark.req("A10.1")
def test_a_stop_is_not_missed_because_the_database_was_away(fresh_db, tenant, drain):
    engine = Engine(tenant)
    engine.submit(workflow(tool("a")))
    [claimed] = Claimer(drain.session.id).claim(tenant.id, "default", 5)
    call = begin(claimed, lambda reference: tool_of_tenant(engine, reference))
    assert isinstance(call, Prepared)
    set_stop(actor=member(tenant, "oncall"), scope="tenant", reason="fire")
    remembered = Remembered()
    with database_away(), pytest.raises(psycopg.OperationalError):
        remembered.of(call)
    assert remembered.of(call) is not None, "what could not be read is not known"


def test_an_ask_that_comes_before_the_call_is_heard(fresh_db, tenant, drain):
    engine = Engine(tenant)
    early, older = (engine.submit(workflow(sleeping("s", 0.5), name=name)) for name in ("early", "older"))
    drain.running.ask(engine.step(early, "s").id, 1)
    drain.running.ask(engine.step(older, "s").id, 0)
    drain.run()
    assert engine.statuses(early)["s"] == "killed"
    assert engine.statuses(older)["s"] == "succeeded", "that was asked of an older epoch"


def test_an_ask_that_nobody_listened_to_is_found_when_somebody_listens_again(
    fresh_db, tenant, drain, toolpack, tmp_path
):
    """The call has an effect on its way: the step stays its worker's, only the ask tells it to end."""
    desk, log = Desk(tenant), tmp_path / "log"
    log.touch()
    patient = desk.tool(python_tool("listening", runs="thread", writes=True, timeout_s=100))
    run_id = desk.submit(desk.workflow(node("pay", patient, input={"log": str(log)})))

    def work() -> None:
        drain.run()
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: "started" in log.read_text(), 10, "the call")
    cancel_run(actor=desk.actor, run_id=run_id, reason="ordered twice")
    assert desk.step(run_id, "pay").status == "running"
    process = SimpleNamespace(drain=drain, stop=threading.Event())
    Listener(process).start()
    try:
        assert desk.wait(run_id).status == "cancelled"
        assert "tidied up" in log.read_text()
    finally:
        process.stop.set()
        drain.over = True
        thread.join(70)
