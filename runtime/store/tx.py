"""One transaction of one tenant: the only way to tenant rows (engine.md 10).

``tenant_tx`` opens a transaction on a Django connection and sets ``qd.tenant`` for it alone. Queries go to psycopg
directly (server-side binding, prepared after a few uses, pipelined when asked), and are named in ``sql/*.sql``.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any

import psycopg
from django.db import Error as DjangoError
from django.db import connections, transaction
from psycopg import errors as pg_errors
from psycopg.rows import dict_row, tuple_row

from runtime.kernel.errors import Unavailable
from runtime.store.sqlfile import queries

RETRYABLE = (pg_errors.DeadlockDetected, pg_errors.SerializationFailure, pg_errors.LockNotAvailable)


class Tx:
    """A running transaction; ``tenant_id`` is None only in transactions over tables that belong to no tenant."""

    __slots__ = ("conn", "tenant_id", "using", "_notify", "_opening")

    def __init__(self, conn: psycopg.Connection, tenant_id: uuid.UUID | None, using: str) -> None:
        self.conn, self.tenant_id, self.using = conn, tenant_id, using
        self._notify: set[str] = set()
        self._opening = False

    def send(self, name: str, params: Any = None) -> psycopg.Cursor:
        """Execute a named query and return its cursor; inside :meth:`pipeline` nothing is awaited."""
        self._open()
        cursor = psycopg.Cursor(self.conn, row_factory=tuple_row)
        cursor.execute(queries()[name], params, binary=True)
        return cursor

    def _open(self) -> None:
        """Set the tenant before the first query of a deferred transaction: without one it sees no rows."""
        if self._opening:
            self._opening = False
            self.send("set_tenant", (str(self.tenant_id),))

    def rows(self, name: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Execute a named query and return all rows as tuples."""
        return self.send(name, params).fetchall()

    def dicts(self, name: str, params: Any = None) -> list[dict[str, Any]]:
        """Execute a named query and return all rows as dicts."""
        self._open()
        cursor = psycopg.Cursor(self.conn, row_factory=dict_row)
        cursor.execute(queries()[name], params)
        return cursor.fetchall()

    def one(self, name: str, params: Any = None) -> tuple[Any, ...] | None:
        """Execute a named query and return its first row, or None."""
        return self.send(name, params).fetchone()

    def count(self, name: str, params: Any = None) -> int:
        """Execute a named query and return how many rows it changed."""
        return self.send(name, params).rowcount

    def plan(self, name: str, params: Any = None) -> list[str]:
        """Return PostgreSQL's plan of a named query, line by line."""
        self._open()
        cursor = psycopg.Cursor(self.conn, row_factory=tuple_row)
        cursor.execute("EXPLAIN " + queries()[name], params)
        return [row[0] for row in cursor.fetchall()]

    def pipeline(self) -> AbstractContextManager[Any]:
        """Send the queries of a block without waiting for each answer."""
        return self.conn.pipeline()

    def now(self) -> datetime:
        """Return ``qd_now()``; call it after the locks are held (engine.md 6)."""
        row = self.one("now")
        assert row is not None
        return row[0]

    def notify(self, channel: str, payload: str = "") -> None:
        """Ring a channel when this transaction commits, once however often it is asked for (engine.md 8)."""
        if (key := f"{channel}\x00{payload}") not in self._notify:
            self._notify.add(key)
            self.send("notify", (channel, payload))


@contextmanager
def tenant_tx(
    tenant_id: uuid.UUID, *, using: str = "default", lock_timeout_ms: int | None = None, deferred: bool = False
) -> Iterator[Tx]:
    """Open a transaction for ``tenant_id``.

    Raises Unavailable when the database cannot be reached; with it away nothing starts (invariant 6).
    ``deferred`` sets the tenant with the first named query, in one round trip with it; the ORM must not be used then.
    ``lock_timeout_ms`` bounds each wait for a lock: operator verbs set it and are retried by :func:`retrying`.
    """
    try:
        with _transaction(using) as conn:
            tx = Tx(conn, tenant_id, using)
            if deferred:
                tx._opening = True
            else:
                tx.send("set_tenant", (str(tenant_id),))
            if lock_timeout_ms is not None:
                tx.send("set_lock_timeout", (f"{lock_timeout_ms}ms",))
            yield tx
    except psycopg.Error as problem:
        if not is_away(problem):
            raise
        raise Unavailable(str(problem).splitlines()[0] if str(problem) else "") from problem


@contextmanager
def plain_tx(*, using: str = "default") -> Iterator[Tx]:
    """Open a transaction without a tenant: worker sessions, clocks, cursors and the definer functions.

    Raises psycopg's errors as they are.
    """
    with _transaction(using) as conn:
        yield Tx(conn, None, using)


def plain_rows(name: str, params: Any = None, *, using: str = "default") -> list[tuple[Any, ...]]:
    """Return the rows of one query that needs no tenant, in one round trip. Raises psycopg's errors as they are."""
    with _transaction(using, nullcontext()) as conn:
        return Tx(conn, None, using).rows(name, params)


def plain_send(name: str, *, using: str = "default") -> None:
    """Send one statement that no transaction may surround, such as VACUUM. Raises psycopg's errors as they are."""
    with _transaction(using, nullcontext()) as conn:
        Tx(conn, None, using).send(name)


@contextmanager
def _transaction(using: str, block: AbstractContextManager[Any] | None = None) -> Iterator[psycopg.Connection]:
    """Open a transaction (or ``block`` in its place) and yield psycopg's connection.

    Django wraps what goes wrong while it connects or commits; callers see psycopg's own error in both cases. A
    connection that was lost is closed, so that the next transaction opens another.
    """
    connection = connections[using]
    try:
        with block or transaction.atomic(using=using):
            connection.ensure_connection()
            yield connection.connection
    except (psycopg.Error, DjangoError) as problem:
        cause = problem.__cause__ if isinstance(problem, DjangoError) else problem
        if isinstance(cause, pg_errors.IdleInTransactionSessionTimeout):
            # The server hung up while we stood still. psycopg files that elsewhere; here it is a connection lost.
            cause = psycopg.OperationalError(str(cause))
        if isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)):
            if is_away(cause) and not connection.in_atomic_block:
                connection.close()
            raise cause from None
        raise


def is_away(problem: BaseException) -> bool:
    """Return whether an error says that the database is gone or refuses everybody, rather than this statement."""
    if isinstance(problem, psycopg.InterfaceError):
        return True
    if not isinstance(problem, psycopg.OperationalError) or isinstance(problem, pg_errors.PipelineAborted):
        return False
    state = problem.sqlstate
    return state is None or state[:2] in ("08", "53", "58") or state in ("57P01", "57P02", "57P03", "57P05")


def is_guard(problem: BaseException) -> bool:
    """Return whether the law of states in the database refused a statement (``qd_refuse``)."""
    return isinstance(problem, psycopg.Error) and problem.sqlstate == "QD001"


def retrying(work: Callable[[], Any], *, tries: int = 6, base_seconds: float = 0.02) -> Any:
    """Run ``work`` again when a lock timed out or a deadlock chose it; the last failure is raised."""
    for attempt in range(tries):
        try:
            return work()
        except RETRYABLE:
            if attempt == tries - 1:
                raise
            time.sleep(base_seconds * 2**attempt * (0.5 + random.random()))
    raise AssertionError("unreachable")


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Turn rows into columns, as ``unnest`` takes them; ``width`` counts for the empty case."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
