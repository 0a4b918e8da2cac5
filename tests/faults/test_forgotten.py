"""Steps that run by the rows while their living worker knows nothing of them: found and given back (C2.8, C4.4).

Their session is renewed for as long as the process lives, so neither its end nor its lease would ever free them.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connections

from runtime.actions.steps import kill_step
from runtime.graph import plans
from runtime.kernel.canonical import digest
from runtime.kernel.conf import conf
from runtime.models import Attempt, WorkflowVersion
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import RegisteredTool, tool_of
from runtime.worker import session as sessions
from runtime.worker.claim import Claimer
from runtime.worker.complete import complete
from runtime.worker.drain import Drain
from runtime.worker.execute import Prepared, begin
from runtime.worker.held import compare
from runtime.worker.lease import lease_path, look_at
from runtime.worker.maintenance import each, lost
from runtime.worker.session import Session, host_name, kill_stalled, process_start, renew_host
from runtime.worker.work import Claimed, Report
from tests.support import db as support
from tests.support.engine import Engine, force_columns
from tests.support.nodes import sleeping
from tests.support.specs import tool, workflow
from tests.support.wire import through_a_wire
from tests.support.workers import until

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.8", "C4.4")]


@pytest.fixture
def engine(fresh_db: support.Database, tenant) -> Engine:
    each.forget()
    return Engine(tenant)


@pytest.fixture
def session(fresh_db: support.Database) -> Iterator[Session]:
    """A session that this process stands behind."""
    session = Session()
    yield session
    with plain_tx() as tx:
        tx.send("end_sessions", ("test", [session.id]))
    session.lease.forget()


def ended(session_id: uuid.UUID) -> str | None:
    with plain_tx() as tx:
        return tx.conn.execute("SELECT end_reason FROM qd_worker_session WHERE id = %s", [session_id]).fetchone()[0]


def outcomes(engine: Engine, run_id: uuid.UUID) -> list[str | None]:
    with tenant_tx(engine.tenant.id):
        return list(Attempt.objects.filter(run_id=run_id).order_by("started_at").values_list("outcome", flat=True))


def test_a_claim_that_the_server_commits_late_is_taken_up(fresh_db, desk):
    """The connection is cut in the claim's COMMIT, and the server sees it only after the worker has looked."""
    run_id = desk.submit(desk.workflow(tool("a"), tool("b", "a")))
    with support.switched("default", role="worker"), through_a_wire(fresh_db) as wire:
        drain = Drain(Session())
        looks = []
        recover = drain.claimer.recover

        def look(*arguments):
            found = recover(*arguments)
            looks.append(found)
            if len(looks) == 2:
                wire.deliver()
            return found

        drain.claimer.recover = look
        wire.cut(1, "late")
        drain.run()
        assert wire.cuts == 1
        drain.session.end()
    assert looks[:2] == [None, None], "it does not believe the rows while the claim may still commit"
    assert [[one.node.id for one in found] for found in looks if found] == [["a"]]
    assert desk.run(run_id).status == "completed"
    assert [a.outcome for a in desk.attempts(run_id)] == ["succeeded", "succeeded"]


def test_a_completion_that_the_server_commits_late_loses_no_successor(fresh_db, desk):
    """The completion has started the successor; its worker hears neither of the one nor of the other at first."""
    run_id = desk.submit(desk.workflow(tool("a"), tool("b", "a"), sleeping("c", 0.2)))
    with support.switched("default", role="worker"), through_a_wire(fresh_db) as wire:
        drain = Drain(Session())
        recover = drain.claimer.recover

        def look(*arguments):
            wire.deliver()
            return recover(*arguments)

        drain.claimer.recover = look
        wire.cut(2, "late")
        drain.run()
        assert wire.cuts == 1
        drain.session.end()
    assert desk.run(run_id).status == "completed"
    assert {a.outcome for a in desk.attempts(run_id)} == {"succeeded"}


def test_a_step_that_an_idle_worker_has_forgotten_ends_its_session(engine, session):
    run_id = engine.submit(workflow(tool("a")))
    assert renew_host(host_name()) == (1, [])
    assert len(Claimer(session.id).claim(engine.tenant.id, "default", 5)) == 1
    session.lease.beat()
    assert renew_host(host_name()) == (1, []), "a busy worker may well run it"
    session.lease.rest()
    assert renew_host(host_name()) == (0, [session.id])
    assert ended(session.id) == "steps_forgotten"
    assert lost.return_orphans()["replayed"] == 1
    assert engine.statuses(run_id) == {"a": "queued"}
    engine.check(run_id)


def test_an_idle_worker_without_steps_keeps_its_session(engine, session):
    engine.submit(workflow(tool("a")))
    engine.claim()
    assert renew_host(host_name()) == (1, [])
    assert ended(session.id) is None


def test_a_session_that_its_worker_could_not_end_is_ended_by_the_heartbeat(engine):
    run_id = engine.submit(workflow(tool("a")))
    session = Session()
    Claimer(session.id).claim(engine.tenant.id, "default", 5)
    session.lease.beat()
    with database_away(), pytest.raises(psycopg.OperationalError):
        session.end("drain_broke")
    assert look_at(session.id).given_up
    assert renew_host(host_name()) == (0, [session.id])
    assert ended(session.id) == "given_up"
    assert not lease_path(session.id).exists()
    lost.return_orphans()
    assert engine.statuses(run_id) == {"a": "queued"}


@contextmanager
def database_away() -> Iterator[None]:
    """Let no new connection of this process through, and close the one there is."""
    settings = connections.databases["default"]
    port = settings["PORT"]
    connections["default"].close()
    settings["PORT"] = "1"
    try:
        yield
    finally:
        settings["PORT"] = port


def test_a_busy_worker_gives_back_what_it_does_not_know_and_keeps_the_rest(engine, session):
    run_id = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a", "b")))
    claimed = {one.node.id: one for one in Claimer(session.id).claim(engine.tenant.id, "default", 5)}
    assert compare(session.id, {}, {claimed["a"].step_id}, set()) == 1
    assert engine.statuses(run_id) == {"a": "running", "b": "queued", "c": "waiting"}
    assert compare(session.id, {}, {claimed["a"].step_id}, set()) == 0
    assert sorted(map(str, outcomes(engine, run_id))) == ["None", "lost"]
    assert ended(session.id) is None
    engine.check(run_id)


def test_what_is_in_doubt_is_not_given_back(engine, session):
    engine.submit(workflow(tool("a")))
    Claimer(session.id).claim(engine.tenant.id, "default", 5)
    assert compare(session.id, {}, set(), {engine.tenant.id}) == 0


def test_a_worker_compares_while_it_is_busy(engine):
    """A step that it never heard of is done all the same, by itself, while another one runs."""
    other = engine.submit(workflow(tool("a")))
    session = Session()
    Claimer(session.id).claim(engine.tenant.id, "default", 5)
    engine.submit(workflow(sleeping("s", 0.5), name="busy"))
    drain = Drain(session)
    drain.next_compare = 0.0
    drain.run()
    session.end()
    assert engine.statuses(other) == {"a": "succeeded"}
    assert outcomes(engine, other) == ["lost", "succeeded"]


def test_a_call_whose_kill_was_not_heard_is_told_to_end(engine, session):
    run_id = engine.submit(workflow(sleeping("s", 0.1)))
    [claimed] = Claimer(session.id).claim(engine.tenant.id, "default", 5)

    ours = begin(claimed, lambda reference: tool_of_tenant(engine, reference))
    assert isinstance(ours, Prepared)
    compare(session.id, {claimed.step_id: ours}, {claimed.step_id}, set())
    assert not ours.cancel.is_set()
    engine.act(kill_step, run_id, "s")
    compare(session.id, {claimed.step_id: ours}, {claimed.step_id}, set())
    assert ours.cancel.is_set()


def test_a_report_that_cannot_be_written_at_all_takes_no_other_along(fresh_db, engine, session):
    """Neither it nor a failure in its place goes in: its step is given back later, its neighbours are written."""
    bad = engine.submit(workflow(tool("a"), name="bad"))
    good = engine.submit(workflow(tool("a"), name="good"))
    claimed = Claimer(session.id).claim(engine.tenant.id, "default", 5)
    with unreadable(fresh_db, engine, bad):
        complete(engine.tenant.id, [done(one) for one in claimed])
        assert (engine.statuses(bad), engine.statuses(good)) == ({"a": "running"}, {"a": "succeeded"})
        assert compare(session.id, {}, set(), set()) == 0
    each.forget()
    assert compare(session.id, {}, set(), set()) == 1
    assert engine.statuses(bad) == {"a": "queued"}


@pytest.mark.req("C8.6")
def test_a_run_that_cannot_be_claimed_keeps_no_other_of_its_tenant_waiting(fresh_db, engine):
    """It stands first in the queue, and its workflow cannot be read."""
    bad = engine.submit(workflow(tool("a"), tool("b"), name="bad"), priority=50)
    good = [engine.submit(workflow(tool("a"), tool("b", "a"), name="good")) for _ in range(3)]
    with unreadable(fresh_db, engine, bad):
        session = Session()
        Drain(session).run()
        session.end()
        assert {engine.run(run_id).status for run_id in good} == {"completed"}
        assert engine.statuses(bad) == {"a": "queued", "b": "queued"}
    fresh = Session()
    Drain(fresh).run()
    fresh.end()
    assert engine.run(bad).status == "completed"


def tool_of_tenant(engine: Engine, reference: str) -> RegisteredTool:
    with tenant_tx(engine.tenant.id) as tx:
        return tool_of(tx, reference)


@contextmanager
def unreadable(database: support.Database, engine: Engine, run_id: uuid.UUID) -> Iterator[None]:
    """Make the run's workflow unreadable for the block, as a faulty migration would."""
    with tenant_tx(engine.tenant.id):
        version = WorkflowVersion.objects.get(id=engine.run(run_id).workflow_version_id)
    force_columns(database, "qd_workflow_version", version.id, spec=b"{}")
    plans._by_version.clear()
    try:
        yield
    finally:
        force_columns(database, "qd_workflow_version", version.id, spec=bytes(version.spec))
        plans._by_version.clear()


def done(claimed: Claimed) -> Report:
    """Return the report of a success."""
    report = Report(claimed, "succeeded", output=b"{}", output_sha256=digest(b"{}"))
    report.input_sha256 = digest(b"{}")
    return report


def test_a_hanging_process_whose_lease_is_over_is_killed(fresh_db):
    """Else a tool that hangs in the worker's own thread takes one process after the other, until none is left."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        session = Session()
        stalled = struct.pack("<dd", time.monotonic() + 60, time.monotonic() - conf().stall_seconds - 1)
        lease_path(session.id).write_bytes(stalled)
        known = {session.id: (sleeper.pid, process_start(sleeper.pid) or "")}
        assert kill_stalled(known) == [], "its lease still stands: it may be about to send"
        with plain_tx() as tx:
            tx.send("end_sessions", ("lease_lost", [session.id]))
        os.kill(sleeper.pid, signal.SIGSTOP)
        until(lambda: sessions._stopped(sleeper.pid), 5, "it is stopped")
        assert kill_stalled(known) == [], "one that somebody stopped may go on"
        os.kill(sleeper.pid, signal.SIGCONT)
        until(lambda: kill_stalled(known) == [sleeper.pid], 5, "it is killed")
        assert sleeper.wait(5) == -signal.SIGKILL
        session.lease.forget()
    finally:
        sleeper.kill()
        sleeper.wait()
