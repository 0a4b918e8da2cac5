"""Every connection to the database asks over TCP whether its host is still there (C2.9)."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from django.db import connections
from psycopg.conninfo import make_conninfo

from runtime.store.listen import listening
from runtime.store.tx import plain_tx
from tests.support import db as support
from tests.support.web import Web
from tests.support.wire import Wire, through_a_wire
from tests.support.workers import Stack, until

pytestmark = pytest.mark.req("C2.9")
KEEPALIVE_TIMER, HERTZ = 2, 100  # as /proc/net/tcp counts


def asked(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Return what the operating system holds for a connection's own end; times in seconds, the last in ms."""
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        assert end.family == socket.AF_INET
        found = {name: end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}
        return {"SO_KEEPALIVE": end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), **found}


WANTED = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}


@pytest.mark.parametrize("role", ["web", "worker"])
def test_a_connection_of_each_role_and_one_that_listens_are_kept_alive(db, as_role, role):
    with through_a_wire(db), as_role(role):
        with plain_tx() as tx:
            assert asked(tx.conn) == WANTED
        with listening("qd_work") as connection:
            assert asked(connection) == WANTED


def test_so_is_the_one_that_migrates(db):
    wire = Wire(db.url)
    try:
        with support.switched("owner", HOST="127.0.0.1", PORT=str(wire.port)):
            connections["owner"].ensure_connection()
            assert asked(connections["owner"].connection) == WANTED
    finally:
        wire.close()


def ends(process: psutil.Process, port: int) -> list[tuple[int, float]]:
    """Return (timer, seconds until it goes off) of a process's connections to ``port`` on this machine."""
    inodes = set()
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(link)))
    found = []
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _number, _near, far, state, _queues, timer, _retransmits, _user, _probes, inode, *_more = row.split()
        if inode in inodes and state == "01" and int(far.partition(":")[2], 16) == port:
            kind, _, left = timer.partition(":")
            found.append((int(kind, 16), int(left, 16) / HERTZ))
    return found


def kept(process: psutil.Process, port: int, least: int) -> bool:
    """Return whether a process has ``least`` connections at least, and a probe of each is at most 5 s away."""
    found = ends(process, port)
    return len(found) >= least and all(timer == KEEPALIVE_TIMER and left <= 5.0 for timer, left in found)


@contextmanager
def processes(database: support.Database, port: int) -> Iterator[dict[str, tuple[psutil.Process, int]]]:
    """Run every kind of process over ``port``; yield name → process and how many connections it has at least."""
    address = make_conninfo(database.url, host="127.0.0.1", port=port)
    with (
        Stack(database, workers=1, environment={"DATABASE_URL": address}) as stack,
        Web(database, DATABASE_URL=address) as web,
    ):
        stack.wait_ready()
        assert stack.heartbeat is not None
        assert stack.scheduler is not None
        assert web.process is not None
        assert web.get("/readyz")[0] == 200, "it has looked into the database"
        (worker,) = stack.sessions().values()
        yield {
            "worker": (psutil.Process(worker), 2),
            "heartbeat": (psutil.Process(stack.heartbeat.pid), 1),
            "scheduler": (psutil.Process(stack.scheduler.pid), 1),
            "web": (psutil.Process(web.process.pid), 1),
            **{
                f"pump {one.pid}": (one, 0)
                for one in psutil.Process(stack.clusters[0].pid).children(recursive=True)
                if one.pid != worker
            },
        }


@pytest.mark.proof
def test_every_process_of_the_console_keeps_all_its_connections_alive(fresh_db):
    wire = Wire(fresh_db.url)
    try:
        with processes(fresh_db, wire.port) as running:
            for name, (process, least) in running.items():
                until(lambda one=process, n=least: kept(one, wire.port, n), 20, f"{name} is kept alive")
            pumps = [one for name, (one, _least) in running.items() if name.startswith("pump")]
            assert sum(len(ends(one, wire.port)) for one in pumps) >= 1, "the doorbell listens on one of its own"
    finally:
        wire.close()
