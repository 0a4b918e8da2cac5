"""The reconciler: asks tools about operations nobody knows the outcome of, and settles them by what they say (B4.4).

A batch is claimed with expiry, each question is asked outside of any transaction, and what follows is a compare-and-set
under the run's lock. Any number may run at once; one that dies leaves operations that fall due again by themselves.
"""

from __future__ import annotations

import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import connections

from runtime.kernel.errors import NotFound
from runtime.store.tx import tenant_tx
from runtime.tools.query import QUERY_SECONDS
from runtime.worker.asking import ask_about
from runtime.worker.maintenance.each import attempt, attempt_runs, by_tenant, due
from runtime.worker.verification import put_off, settle_finding

_BATCH = 32
_AT_ONCE = 8
_EXPIRY_SECONDS = 2 * QUERY_SECONDS + 20.0


def reconcile() -> dict[str, int]:
    """Ask about what is due, several at once; returns how many operations are in which status after it."""
    claimed = claim()
    if not claimed:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(claimed)), thread_name_prefix="reconcile") as pool:
        return dict(Counter(status for status in pool.map(_one, claimed) if status))


def claim() -> list[tuple[uuid.UUID, uuid.UUID]]:
    """Take operations that are due, each for one asker; returns (tenant, operation)."""
    found: list[tuple[uuid.UUID, uuid.UUID]] = []
    for tenant_id, operations in by_tenant(due("reconcile", "due_queries", _BATCH)).items():
        attempt_runs("reconcile", tenant_id, operations, partial(_claim, tenant_id, found))
    return found


def _claim(tenant_id: uuid.UUID, found: list[tuple[uuid.UUID, uuid.UUID]], operations: list[tuple[Any, ...]]) -> int:
    with tenant_tx(tenant_id) as tx:
        mine = [row[0] for row in tx.rows("claim_queries", (_EXPIRY_SECONDS, [row[0] for row in operations]))]
    found += [(tenant_id, operation_id) for operation_id in mine]
    return len(mine)


def _one(claimed: tuple[uuid.UUID, uuid.UUID]) -> str:
    """Ask about one operation and settle it; returns its status, empty when others held the rows."""
    status: list[str] = []
    try:
        attempt("reconcile", claimed[0], partial(_ask_and_settle, *claimed, status))
    finally:
        connections.close_all()
    return status[0] if status else ""


def _ask_and_settle(tenant_id: uuid.UUID, operation_id: uuid.UUID, status: list[str]) -> int:
    try:
        question, finding = ask_about(tenant_id, operation_id)
    except NotFound:
        return 0
    if not put_off(question, finding):
        status.append(settle_finding(question, finding))
    return 1
