"""A process that stands still in the middle of a transaction: the database gives the transaction up (C2.9, A3.1)."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.actions.runs import pause_run
from tests.faults.test_frozen import frozen
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.9", "A3.1")]
ROOT = Path(__file__).resolve().parents[2]

# Locks a run, and goes on when it is told to: first in that transaction, then in another.
HOLDER = """
import sys, uuid
import django
django.setup()
from runtime.kernel.errors import Unavailable
from runtime.store.locks import run_rows
from runtime.store.tx import tenant_tx
tenant, run = map(uuid.UUID, sys.argv[1:])
try:
    with tenant_tx(tenant) as tx:
        print(len(run_rows(tx, [run])), flush=True)
        sys.stdin.readline()
        with tx.pipeline():
            tx.send("now")
            run_rows(tx, [run])
    print("went on", flush=True)
except Unavailable:
    print("away", flush=True)
with tenant_tx(tenant) as tx:
    print(len(run_rows(tx, [run])), flush=True)
"""


@contextmanager
def holder(environment: dict[str, str], *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds a run's row, and yield it when it does."""
    command = [sys.executable, "-c", HOLDER, *map(str, arguments)]
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "1\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("role", ["web", "worker"])
def test_others_go_on_when_a_process_freezes_with_a_run_in_its_hands(fresh_db, tenant, role):
    engine = Engine(tenant)
    run_id: uuid.UUID = engine.submit(workflow(tool("a"), name="w"))
    environment = fresh_db.environ(role, QUARTERDECK_IDLE_TRANSACTION_SECONDS="3")
    with holder(environment, tenant.id, run_id) as process:
        with frozen(process.pid):
            assert pause_run(actor=engine.actor, run_id=run_id, reason="look")["status"] == "paused"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        # It is told that its transaction is lost, and works on under a new connection.
        assert [process.stdout.readline(), process.stdout.readline()] == ["away\n", "1\n"]
    engine.check(run_id)
