"""Reads of emergency stops."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.base import found, reading

MOST = 500


def list_stops(*, actor: Actor, standing: bool = False, limit: int = MOST) -> list[dict[str, Any]]:
    """Return stops, those that stand first, then the newest: {id, scope, name, reason, set_by, set_at, until,
    standing, known, lifted_at, lifted_by, lift_reason}; ``known`` is false where nothing of that name is registered.

    A global stop is listed everywhere; who set it and why is told to the tenant it came from only. Verb ``stop.read``.
    """
    with reading(actor, v.STOP_READ) as tx:
        rows = tx.dicts("read_stops", {"id": None, "standing": standing, "limit": min(limit, MOST)})
    return [_present(row) for row in rows]


def read_stop(*, actor: Actor, stop_id: uuid.UUID) -> dict[str, Any]:
    """Return one stop. Raises NotFound. Verb ``stop.read``."""
    with reading(actor, v.STOP_READ) as tx:
        rows = tx.dicts("read_stops", {"id": stop_id, "standing": False, "limit": 1})
    return _present(found(rows[0] if rows else None, "stop"))


def _present(row: dict[str, Any]) -> dict[str, Any]:
    if not row.pop("ours"):
        row.update(set_by="the installation's operators", reason="", lift_reason="")
        row["lifted_by"] = row["set_by"] if row["lifted_at"] else None
    return row
