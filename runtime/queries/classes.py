"""Reads of the classes of work: what they aim at in a tenant, what of each waits, and what waits too long (C7.2)."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.kernel.classes import CLASSES, WorkClass
from runtime.queries.base import parsed, reading
from runtime.queries.settings import stored_value
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

# So many late steps are named. The counts are exact up to 5,000 steps that are ready and as many that are parked.
MOST_LATE = 100


def classes_of(settings: Any) -> dict[str, WorkClass]:
    """Return the classes by name, most urgent first, with what the JSON of a tenant says of them."""
    found = {}
    for name, one in CLASSES.items():
        start_s, end_s = (stored_value(settings, f"classes.{name}.{part}") for part in ("start_s", "end_s"))
        found[name] = WorkClass(
            one.least, one.start_s if start_s is None else start_s, one.end_s if end_s is None else end_s
        )
    return found


def classes_in(tx: Tx) -> dict[str, WorkClass]:
    """Return the classes of the open transaction's tenant."""
    row = tx.one("read_settings", (tx.tenant_id,))
    return classes_of(parsed(row[0]) if row is not None else {})


def bounds(classes: dict[str, WorkClass]) -> list[Any]:
    """Return the classes as arrays for SQL: names, least and greatest priorities, seconds to start."""
    rows, above = [], 101
    for name, one in classes.items():
        # What lies below the lowest class belongs to it.
        least = -100 if name == "experiment" else one.least
        rows.append((name, least, above - 1, one.start_s))
        above = one.least
    return arrays("tiif", rows)


def late_steps(tx: Tx, classes: dict[str, WorkClass], limit: int = MOST_LATE) -> list[dict[str, Any]]:
    """Return steps that wait longer than their class aims at, the longest beyond it first.

    An item: {step_id, run_id, node, class, queued_at, start_by, parked}. ``parked``: it waits for a limit, a breaker or
    another call. What people hold back (a pause, a stop) is not late. Looked for among as many steps as are counted.
    """
    return tx.dicts("late_steps", (*bounds(classes), limit))


def list_classes(*, actor: Actor) -> dict[str, Any]:
    """Return {items, late}: the classes, most urgent first, and the steps that wait too long (:func:`late_steps`).

    An item: {class, priority, start_s, end_s (None: no certain time), waiting, late, oldest}: the least priority, what
    it aims at, how many steps wait to start, how many of them for too long, and since when the oldest. Verb
    ``worker.read``.
    """
    with reading(actor, v.WORKER_READ) as tx:
        classes = classes_in(tx)
        waiting = {row.pop("class"): row for row in tx.dicts("class_queues", (*bounds(classes),))}
        late = late_steps(tx, classes) if any(row["late"] for row in waiting.values()) else []
    items = [
        {"class": name, "priority": one.least, "start_s": one.start_s, "end_s": one.end_s or None, **waiting[name]}
        for name, one in classes.items()
    ]
    return {"items": items, "late": late}
