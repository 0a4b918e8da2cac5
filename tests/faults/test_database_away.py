"""PostgreSQL is stopped, killed and started again under load: the processes stay, reconnect, finish (invariant 6)."""

from __future__ import annotations

import os
import signal
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.support import invariants
from tests.support.factories import make_tenant
from tests.support.nodes import echo, flaky, node, sleeping
from tests.support.own_server import own_server
from tests.support.specs import tool
from tests.support.workers import Desk, Stack, until

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.9", "A6.2")]


@pytest.fixture
def place(database: Any) -> Iterator[Any]:
    """A server of its own, migrated; (server, database)."""
    with own_server(Path(tempfile.mkdtemp(prefix="qd-own-", dir="/tmp"))) as both:
        yield both


def restart(server: Any, how: str) -> None:
    if how == "stop":
        server.stop()
    else:
        pid = server.pid()
        os.kill(pid, signal.SIGKILL)
        until(lambda: server.pid() is None, 10, "the postmaster is gone")
    back(server)


def back(server: Any) -> None:
    """Start the server again; this process's own connections are dead."""
    server.start()
    connections.close_all()


@pytest.mark.parametrize("how", ["stop", pytest.param("kill", marks=pytest.mark.proof)])
def test_nothing_is_lost_when_the_database_restarts_under_load(place, shop, how):
    server, database = place
    tenant = make_tenant()
    desk = Desk(tenant)
    pay = desk.tool(shop.contract("/ok"))
    flow = desk.workflow(
        echo("a", input={"n": {"$": "input.n"}}),
        node("pay", pay, "a", input={"n": {"$": "input.n"}}),
        sleeping("rest", 0.2, "a"),
        flaky("again", "rest", succeed_from=2, retry={"max_attempts": 3, "initial_s": 0.2}),
        tool("end", "pay", "again"),
    )
    # Each run's first try fails, all with one input: breaker and budget would rightly keep the rest from such a tool.
    # A lease outlives what a busy machine needs to bring PostgreSQL back.
    limits = {"breaker_failures": 100_000, "retries_per_input": 100_000, "lease_seconds": 120}
    with Stack(database, workers=2, slots=8, **limits) as stack:
        stack.wait_ready()
        sessions = set(stack.sessions())
        processes = [program.tree() for program in stack.programs]
        run_ids = desk.bulk(flow, [{"n": n} for n in range(150)])
        for rests in (5, 40, 90):
            until(lambda rests=rests: _ended(database, tenant) >= rests, 60, f"{rests} runs")
            restart(server, how)
        statuses = desk.wait_all(run_ids, seconds=120)
        assert set(statuses.values()) == {"completed"}
        now = [program.tree() for program in stack.programs]
        lost = [set(old) - set(new) for old, new in zip(processes, now, strict=True)]
        assert not any(lost), "the processes stay"
        assert set(stack.sessions()) == sessions, "nor a session: it was shorter than a lease"
    assert sorted(effect["body"]["n"] for effect in shop.effects()) == list(range(150))
    invariants.check(tenant.id)


def _ended(database: Any, tenant: Any) -> int:
    with database.connect() as connection:
        connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(tenant.id)])
        return connection.execute("SELECT count(*) FROM qd_run WHERE finished_at IS NOT NULL").fetchone()[0]


def mapped_deadline(path: Path) -> float:
    """Return when a worker's lease ends, as its heartbeat last told it (monotonic seconds)."""
    return float(struct.unpack_from("<d", path.read_bytes())[0])


@pytest.mark.slow
def test_what_ran_while_it_was_away_longer_than_a_lease_is_settled_by_the_rows(place, shop, tmp_path):
    """Reads are made again; a write whose report came too late is unknown, though its worker lives and knows better."""
    server, database = place
    tenant = make_tenant()
    desk = Desk(tenant)
    reading = desk.submit(desk.workflow(sleeping("a", 6), tool("b", "a"), name="reading"))
    slow = desk.tool(shop.contract("/hang_after", timeout_s=8))
    writing = desk.submit(desk.workflow(node("pay", slow), name="writing"))
    with Stack(database, workers=1, lease_seconds=3, slots=8) as stack:
        stack.wait_ready()
        old = set(stack.sessions())
        desk.wait_step(reading, "a", "running")
        until(shop.effects, 20, "the effect")
        ended = time.monotonic() + 8  # by then both calls are over, while nobody can be told
        over = {path: mapped_deadline(path) for path in (stack.folder / "run").glob("lease-*")}
        server.stop()
        until(lambda: time.monotonic() > max(ended, *over.values()) + 1, 20, "every lease has run out, every call too")
        back(server)
        assert desk.wait(reading, seconds=60).status == "completed"
        assert desk.wait(writing, seconds=60).status == "needs_attention"
        assert not old & set(stack.sessions())
        assert desk.operations(writing)[0].status == "unknown"
        later = desk.submit(desk.workflow(tool("x"), name="later"))
        assert desk.wait(later).status == "completed"
    assert len(shop.effects()) == 1
    invariants.check(tenant.id)
