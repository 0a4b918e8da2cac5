"""One duty over many rows: what is wrong with one of them must not keep the others waiting.

Most duties look after runs; what is said of a run here holds of whatever a duty's query names by its id.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import psycopg
import structlog

from runtime.kernel.errors import Unavailable
from runtime.store.tx import RETRYABLE, is_away, plain_tx

log = structlog.get_logger(__name__)

# A duty that finds a run locked comes back at a later turn.
LOCK_TIMEOUT_MS = 1000
# How long a duty leaves a run alone that it could not help, and one that somebody else holds.
_BROKEN_SECONDS, _LOCKED_SECONDS = 30.0, 2.0
_WIDEST = 64

# By duty: runs that are left alone, and until when.
_left_alone: dict[str, dict[uuid.UUID, float]] = defaultdict(dict)


def due(
    duty: str,
    query: str,
    most: int,
    params: tuple[Any, ...] = (),
    using: str = "default",
    *,
    skip: Collection[uuid.UUID] = (),
) -> list[tuple[Any, ...]]:
    """Return about ``most`` rows (tenant, run, …) of a duty's query, without the runs it leaves alone for now
    and those to ``skip``.

    However many rows those have, what lies behind them gets its turn. The query takes ``params``, then how many rows.
    """
    now, apart = time.monotonic(), _left_alone[duty]
    for run_id in [run_id for run_id, until in list(apart.items()) if until <= now]:
        apart.pop(run_id, None)
    limit = most
    while True:
        with plain_tx(using=using) as tx:
            rows = tx.rows(query, (*params, limit))
        found = [row for row in rows if row[1] not in apart and row[1] not in skip]
        if len(rows) < limit or len(found) >= max(1, most // 2) or limit >= most * _WIDEST:
            return found[:most]
        limit *= 4


def by_tenant(rows: Iterable[tuple[Any, ...]]) -> dict[uuid.UUID, list[tuple[Any, ...]]]:
    """Group rows by their first column; the rest of each row is kept."""
    groups: dict[uuid.UUID, list[tuple[Any, ...]]] = defaultdict(list)
    for tenant_id, *rest in rows:
        groups[tenant_id].append(tuple(rest))
    return groups


def attempt(duty: str, tenant_id: uuid.UUID, work: Callable[[], int]) -> int:
    """Do ``work`` for a tenant and return its count, 0 when it failed. Raises only what says the database is away."""
    try:
        return work()
    except Unavailable:
        raise
    except RETRYABLE:
        log.info("others hold the rows", duty=duty, tenant=str(tenant_id))
    except Exception as problem:
        if isinstance(problem, psycopg.Error) and is_away(problem):
            raise
        log.exception("duty failed for a tenant", duty=duty, tenant=str(tenant_id))
    return 0


def attempt_runs(
    duty: str, tenant_id: uuid.UUID, rows: list[tuple[Any, ...]], work: Callable[[list[tuple[Any, ...]]], int]
) -> int:
    """Do ``work`` on rows (run, …) of a tenant and return its count; what fails is cut in halves.

    So a broken run fails alone; it is logged and left alone for a while. Raises only what says that the database is
    away.
    """
    runs = list(dict.fromkeys(row[0] for row in rows))
    try:
        return work(rows)
    except Unavailable:
        raise
    except RETRYABLE:
        if len(runs) == 1:
            log.info("others hold the run", duty=duty, run=str(runs[0]))
            _left_alone[duty][runs[0]] = time.monotonic() + _LOCKED_SECONDS
            return 0
    except Exception as problem:
        if isinstance(problem, psycopg.Error) and is_away(problem):
            raise
        if len(runs) == 1:
            log.exception("duty failed for a run", duty=duty, tenant=str(tenant_id), run=str(runs[0]))
            _left_alone[duty][runs[0]] = time.monotonic() + _BROKEN_SECONDS
            return 0
    first = set(runs[: len(runs) // 2])
    halves = [row for row in rows if row[0] in first], [row for row in rows if row[0] not in first]
    return sum(attempt_runs(duty, tenant_id, half, work) for half in halves)


def attempt_due(
    duty: str, query: str, most: int, work: Callable[[uuid.UUID, uuid.UUID], int], params: tuple[Any, ...] = ()
) -> int:
    """Do ``work`` (tenant, id) for each of about ``most`` rows of a duty's query and return its count.

    Each is done by itself; one that fails is logged and left alone for a while. Raises only what says that the database
    is away.
    """

    def alone(tenant_id: uuid.UUID, rows: list[tuple[Any, ...]]) -> int:
        return work(tenant_id, rows[0][0])

    rows = due(duty, query, most, params)
    return sum(attempt_runs(duty, tenant, [(row_id,)], partial(alone, tenant)) for tenant, row_id, *_ in rows)


def forget() -> None:
    """Leave no run alone any more: a fresh process begins so."""
    _left_alone.clear()
