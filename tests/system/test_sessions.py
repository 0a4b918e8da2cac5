"""Worker sessions: whose processes a heartbeat may judge, and what it makes of them (engine.md 4)."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from runtime.kernel.conf import conf
from runtime.kernel.ids import uuid7
from runtime.queries.people import list_workers
from runtime.store.tx import plain_tx
from runtime.worker import session as sessions
from runtime.worker.drain import Drain
from runtime.worker.lease import write_deadline
from runtime.worker.session import Session, dead_on_host, host_name, process_start, renew_host
from tests.support.actors import member
from tests.support.engine import Engine
from tests.support.nodes import sleeping
from tests.support.race import Contender
from tests.support.specs import tool, workflow
from tests.support.workers import until

pytestmark = pytest.mark.req("C2.9")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Some process."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def insert(pid: int, host: str, start: str | None = None) -> object:
    """Insert a session row for a process."""
    session_id = uuid7()
    with plain_tx() as tx:
        tx.send("insert_session", (session_id, host, pid, start or process_start(pid) or "", "[]", 1, "test", 60.0))
    return session_id


def test_a_session_lives_with_its_process(fresh_db, sleeper):
    mine = insert(sleeper.pid, host_name())
    assert renew_host(host_name()) == (1, [])
    known = {mine: (sleeper.pid, process_start(sleeper.pid))}
    assert dead_on_host(host_name(), known) == []
    sleeper.kill()
    sleeper.wait()
    assert dead_on_host(host_name(), known) == [mine]
    assert renew_host(host_name()) == (0, [mine])


def test_a_zombie_is_dead(fresh_db, sleeper):
    mine = insert(sleeper.pid, host_name())
    sleeper.kill()
    until(lambda: process_start(sleeper.pid) is None, 5, "it is a zombie")
    assert renew_host(host_name()) == (0, [mine])


def test_a_process_id_that_was_used_again_is_another_process(fresh_db, sleeper):
    mine = insert(sleeper.pid, host_name(), start="12345")
    assert renew_host(host_name()) == (0, [mine])


def test_a_stopped_process_is_left_to_its_lease(fresh_db, sleeper):
    insert(sleeper.pid, host_name())
    os.kill(sleeper.pid, signal.SIGSTOP)
    until(lambda: sessions._stat(sleeper.pid)[0] == "T", 5, "it is stopped")
    assert renew_host(host_name()) == (0, [])
    os.kill(sleeper.pid, signal.SIGCONT)
    until(lambda: sessions._stat(sleeper.pid)[0] != "T", 5, "it goes on")
    assert renew_host(host_name()) == (1, [])


def test_another_hosts_processes_are_not_judged(fresh_db):
    """Not even when it has the same name: its process ids are others."""
    insert(999_999_999, "elsewhere", start="1")
    insert(999_999_999, socket.gethostname(), start="1")
    assert renew_host(host_name()) == (0, [])


def test_a_busy_session_without_progress_is_not_renewed(fresh_db):
    session = Session()
    assert renew_host(host_name()) == (1, [])
    session.lease.beat()
    assert renew_host(host_name()) == (1, [])
    sessions.lease_path(session.id).write_bytes(_stalled(session))
    assert renew_host(host_name()) == (0, [])
    assert _reason(fresh_db, session) == "no_progress", "told apart from one that is lost"
    session.lease.rest()
    assert renew_host(host_name()) == (1, [])
    assert _reason(fresh_db, session) is None
    session.end()
    assert renew_host(host_name()) == (0, [])
    assert not session.lease.held()


def test_a_worker_whose_lease_is_over_by_its_own_clock_starts_nothing(fresh_db, tenant):
    engine = Engine(tenant)
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    session = Session()
    write_deadline(session.id, time.monotonic() - 1)
    drain = Drain(session)
    assert drain.run() == 0
    assert drain.over
    assert engine.statuses(run_id) == {"a": "queued", "b": "waiting"}
    session.end()
    fresh = Session()
    assert Drain(fresh).run() == 2
    fresh.end()


@pytest.mark.req("A2.2")
def test_a_session_shows_how_many_steps_are_in_its_hands_and_how_many_it_has_written(fresh_db, tenant):
    engine, drain = Engine(tenant), Drain(Session())
    for number in range(3):
        engine.submit(workflow(sleeping("s", 4), tool("a", "s"), name=f"w{number}"))
    worker = Contender(drain.run)
    until(lambda: shown(tenant)["busy"] == 3, 10, "three calls are in its slots")
    assert worker.outcome() == 6
    after = shown(tenant)
    assert (after["busy"], after["alive"]) == (0, True)
    with plain_tx() as tx:
        query = "SELECT progress_seq FROM qd_worker_session WHERE id = %s"
        assert tx.conn.execute(query, [drain.session.id]).fetchone() == (6,)
    drain.session.end()


def shown(tenant) -> dict[str, object]:
    """Renew the only session of this host and return what is told of it."""
    assert renew_host(host_name()) == (1, [])
    (one,) = [one for one in list_workers(actor=member(tenant, "admin")) if one["host"] == host_name()]
    return one


def _reason(database, session: Session) -> str | None:
    with database.connect() as connection:
        return connection.execute("SELECT end_reason FROM qd_worker_session WHERE id = %s", [session.id]).fetchone()[0]


def _stalled(session: Session) -> bytes:
    return struct.pack("<dd", time.monotonic() + 60, time.monotonic() - conf().stall_seconds - 1)
