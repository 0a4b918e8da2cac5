"""Storage duties: partitions in time, statistics of young tables, contents past their time (C2.3, C3.5)."""

from __future__ import annotations

import uuid
from functools import partial

from runtime.kernel.conf import conf
from runtime.store import directory
from runtime.store.tx import plain_rows, plain_tx, retrying, tenant_tx
from runtime.worker.maintenance.each import attempt

_BATCH = 500


def ensure_partitions() -> int:
    """Make the month partitions of this month and the next three; returns how many were made.

    Rows that were written before their month was made are moved into it. Raises psycopg's errors.
    """

    def ensure() -> int:
        with plain_tx() as tx:
            row = tx.one("ensure_partitions", (tx.now().date(), 4))
            return int(row[0]) if row else 0

    # Where writers have to wait for it, it may be chosen to end a deadlock; its next turn is an hour away.
    made: int = retrying(ensure)
    return made


def refresh_statistics() -> int:
    """Renew the planner's statistics of young tables that have doubled; returns of how many."""
    row = plain_rows("refresh_statistics")
    return int(row[0][0])


def purge_artifacts() -> int:
    """Take away the content of expired uploads; returns how many."""

    def purge(tenant_id: uuid.UUID) -> int:
        with tenant_tx(tenant_id) as tx:
            return len(tx.rows("purge_expired_artifacts", (_BATCH,)))

    return sum(attempt("artifacts", one.id, partial(purge, one.id)) for one in directory.all_tenants())


def forget_answers() -> int:
    """Take away the answers of operations settled before the retention; returns how many.

    The row stays with key, hashes and reference: its key is never sent as a new one (C3.6).
    """
    days = conf().operation_retention_days

    def forget(tenant_id: uuid.UUID) -> int:
        with tenant_tx(tenant_id) as tx:
            return tx.count("forget_answers", (days, _BATCH))

    return sum(attempt("answers", one.id, partial(forget, one.id)) for one in directory.all_tenants())
