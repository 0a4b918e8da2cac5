"""Parked steps whose turn has come and whom no completion let go: the floor below what workers do themselves (C2.7).

A worker lost a wake-up, a limit was raised, calls became allowed with the passing of time, a breaker's time is over.
"""

from __future__ import annotations

import random
import uuid
from functools import partial

from runtime.actions.base import WORK_CHANNEL
from runtime.graph.plans import plan_of
from runtime.store.tx import Tx, plain_tx, tenant_tx
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt

_GATES, _AT_ONCE = 500, 500


class Turnstile:
    """Looks at what steps are parked for, so many gates a turn, each of them in time."""

    def __init__(self) -> None:
        self._after = uuid.UUID(int=0)

    def run_once(self) -> int:
        """Return how many steps went back into the ready index."""
        with plain_tx() as tx:
            rows = tx.rows("blocked_gates", (self._after, _GATES))
        self._after = rows[-1][0] if len(rows) == _GATES else uuid.UUID(int=0)
        return sum(attempt("gates", tenant_id, partial(_let_go, tenant_id, gate)) for gate, tenant_id in rows)


def _let_go(tenant_id: uuid.UUID, gate: uuid.UUID) -> int:
    """Let as many go on as there is room for behind one gate; of a global limit each tenant gets its share."""
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        kind, count = _room(tx, gate)
        if kind != "global":
            return _unpark(tx, gate, count)
        waiting = [row[0] for row in tx.rows("blocked_tenants", (gate,))]
    if count < len(waiting):  # who gets none would only be parked again, which is told each time
        waiting = random.sample(waiting, count)
    went = 0
    for one in waiting:
        went += attempt("gates", one, partial(_unpark_in, one, gate, -(-count // len(waiting))))
    return went


def _unpark_in(tenant_id: uuid.UUID, gate: uuid.UUID, count: int) -> int:
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        return _unpark(tx, gate, count)


def _room(tx: Tx, gate: uuid.UUID) -> tuple[str, int]:
    """Return what kind of gate it is and for how many there is room; one that is no row is a state with one writer."""
    row = tx.one("gate_by_id", {"id": gate})
    if row is None:
        busy = tx.rows("busy_serials", {"ids": [gate]})
        return "state", 0 if busy else 1
    kind, number, version = row
    if kind == "run":
        most = plan_of(tx, version).max_parallel
        return kind, _AT_ONCE if most is None else max(0, most - number)
    return kind, _AT_ONCE if number is None else max(0, number)


def _unpark(tx: Tx, gate: uuid.UUID, count: int) -> int:
    if count <= 0:
        return 0
    went = len(tx.rows("unpark", (gate, min(count, _AT_ONCE))))
    if went:
        tx.notify(WORK_CHANNEL)
    return went
