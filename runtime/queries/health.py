"""Whether the parts of the installation are there, and how busy they are. No tenant's rows are read."""

from __future__ import annotations

from functools import cache
from typing import Any

import psycopg
from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from runtime.kernel.conf import conf
from runtime.store.tx import plain_tx

Check = dict[str, Any]


def readiness() -> dict[str, Check]:
    """Return ``{"database", "migrations", "scheduler", "workers"}``, each ``{"ok": bool, "detail": str}``.

    A database that cannot be reached answers for the others too; nothing is raised.
    """
    try:
        missing = sorted(_expected_migrations() - set(MigrationRecorder(connections["default"]).applied_migrations()))
        if missing:
            names = ", ".join(".".join(name) for name in missing[:3])
            return {"database": _check(True), "migrations": _check(False, f"missing: {names}; run `manage.py migrate`")}
        with plain_tx() as tx:
            workers, schedulers, failing = tx.rows("parts_alive")[0]
    except (psycopg.Error, DatabaseError) as error:
        return {"database": _check(False, str(error).strip().splitlines()[0] if str(error).strip() else "")}
    return {
        "database": _check(True),
        "migrations": _check(True),
        "scheduler": _scheduler(schedulers, failing or []),
        "workers": _check(workers > 0, f"{workers} alive" if workers else "no worker holds a lease"),
    }


def engine_numbers() -> dict[str, float]:
    """Return the gauges of the engine: queue_depth (steps), workers, slots, slots_busy, outbox_oldest_seconds.

    The depth is counted to the high-water mark and one beyond; ``slots_busy`` are the steps that run now, at most as
    many a worker as it has slots. Raises psycopg.Error.
    """
    with plain_tx() as tx:
        depth, workers, slots, busy, oldest = tx.rows("engine_numbers", (conf().queue_high_water + 1,))[0]
    return {
        "queue_depth": depth,
        "workers": workers,
        "slots": slots,
        "slots_busy": busy,
        "outbox_oldest_seconds": max(0.0, oldest),
    }


def pool_queues() -> dict[str, tuple[int, float]]:
    """Return pool → (steps that may run now, seconds since the oldest of them was queued), of every tenant together.

    Each pool that a living worker serves is there, an empty one with (0, 0.0); what waits in others is under "". Depths
    are counted to the high-water mark and one beyond. Raises psycopg.Error.
    """
    with plain_tx() as tx:
        rows = tx.rows("pool_queues", (conf().queue_high_water + 1,))
    return {pool: (depth, max(0.0, oldest)) for pool, depth, oldest in rows}


def _scheduler(connected: int, failing: list[str]) -> Check:
    if not connected:
        return _check(False, "no scheduler is connected")
    return _check(not failing, f"duties fail at each turn: {', '.join(sorted(failing))}" if failing else "")


def _check(ok: bool, detail: str = "") -> Check:
    return {"ok": ok, "detail": detail}


@cache
def _expected_migrations() -> frozenset[tuple[str, str]]:
    """Return the migrations this code was made for; they do not change while the process lives."""
    return frozenset(MigrationLoader(None, ignore_no_migrations=True).graph.nodes)
