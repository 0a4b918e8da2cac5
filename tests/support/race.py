"""Races with real connections: threads from one barrier, and locks that hold contenders until they stand in a queue."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.support import db as support
from tests.support.patience import patient
from tests.support.workers import until


class Contender(threading.Thread):
    """A callable in a thread with connections of its own; ``result`` or ``error`` tells what came of it."""

    def __init__(self, work: Callable[[], Any], barrier: threading.Barrier | None = None) -> None:
        super().__init__(daemon=True)
        self.work, self.barrier = work, barrier
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        from django.db import connections

        try:
            if self.barrier is not None:
                self.barrier.wait(patient(30))
            self.result = self.work()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    def outcome(self, seconds: float = 60.0) -> Any:
        """Wait for the end and return the result; raises the error."""
        self.join(patient(seconds))
        assert not self.is_alive(), "still blocked"
        if self.error is not None:
            raise self.error
        return self.result


def together(*works: Callable[[], Any], seconds: float = 60.0) -> list[Any]:
    """Run all at once from one barrier; return results in order. The first error is raised."""
    barrier = threading.Barrier(len(works))
    return [contender.outcome(seconds) for contender in [Contender(work, barrier) for work in works]]


@contextmanager
def _waiting_for_long() -> Iterator[None]:
    """Let whoever comes to a lock meanwhile wait for the test.

    Who gave up after a second or two, because the next contender is slow to come, would stand behind it then.
    """
    ours = ("runtime.", "approvals.", "repair.")
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith(ours) and "LOCK_TIMEOUT_MS" in vars(module):
                patch.setattr(module, "LOCK_TIMEOUT_MS", round(1_000 * patient(60)))
        yield


class Held:
    """A locked row: contenders pile up behind it in the order in which they came."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.contenders: list[Contender] = []

    def queue(self, work: Callable[[], Any]) -> Contender:
        """Start ``work`` and return when it waits for the lock, behind those that came before."""
        with _waiting_for_long():
            contender = Contender(work)
            self.contenders.append(contender)
            until(lambda: self._waiting() >= len(self.contenders), 20, f"{len(self.contenders)} wait for the lock")
        return contender

    def _waiting(self) -> int:
        if any(contender.error for contender in self.contenders):
            raise AssertionError(f"a contender failed: {[c.error for c in self.contenders]}")
        with support.admin() as admin:
            row = admin.execute(
                "WITH RECURSIVE behind(pid) AS (SELECT %s::int UNION SELECT a.pid FROM pg_stat_activity a, behind b"
                " WHERE b.pid = ANY(pg_blocking_pids(a.pid))) SELECT count(*) - 1 FROM behind",
                [self.connection.info.backend_pid],
            ).fetchone()
        return int(row[0]) if row else 0


@contextmanager
def held(database: support.Database, table: str, row_id: uuid.UUID) -> Iterator[Held]:
    """Lock a row as a superuser for the block; at its end whoever waits goes on, first come first served."""
    with psycopg.connect(support.server().admin_url(database.name)) as connection:
        found = connection.execute(f"SELECT id FROM {table} WHERE id = %s FOR UPDATE", [row_id]).fetchone()
        assert found is not None
        yield Held(connection)
        connection.rollback()


def deadlocks(database: support.Database) -> int:
    """Return how many deadlocks the server has seen in this database."""
    with support.admin() as admin:
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", [database.name]).fetchone()
    return int(row[0]) if row else 0
