"""`manage.py up` with idle workers killed again and again: a cluster may go deaf by that, the console must not."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import invariants
from tests.support.console import Console
from tests.support.factories import make_tenant
from tests.support.own_server import aliases_on
from tests.support.specs import tool
from tests.support.workers import Desk, until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.req("C2.9"),
    pytest.mark.proof,
    pytest.mark.timeout(600),
]
ROUNDS = 10


@pytest.fixture
def console(database) -> Iterator[Console]:
    folder = Path(tempfile.mkdtemp(prefix="qd-deaf-", dir="/tmp"))
    folder.chmod(0o755)
    running = Console(folder / "data").start()
    running.wait_ready(90)
    yield running
    running.kill_everything()
    shutil.rmtree(running.postgres.layout.place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def test_killing_idle_workers_makes_nobody_deaf(console):
    """An idle worker holds the lock of the queue it waits at; killed with it in its hands, it blocks all others."""
    with aliases_on(console.postgres.url()) as database:
        tenant = make_tenant()
        desk = Desk(tenant)
        flow = desk.workflow(tool("a"), tool("b", "a"))
        waits = []
        for _ in range(ROUNDS):
            desk.wait(desk.submit(flow), seconds=60)
            pids = until(lambda: _workers(database), 30, "a worker is there")
            time.sleep(0.3)  # idle again, as a worker mostly is
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            begun = time.monotonic()
            desk.wait(desk.submit(flow), seconds=60)
            waits.append(time.monotonic() - begun)
        assert max(waits) < 45, waits
        invariants.check(tenant.id)


def _workers(database) -> list[int]:
    with database.connect() as connection:
        rows = connection.execute("SELECT pid FROM qd_worker_session WHERE ended_at IS NULL").fetchall()
    return [row[0] for row in rows]
