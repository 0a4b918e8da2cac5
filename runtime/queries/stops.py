"""Reads of emergency stops."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.base import Page, cursor_of, found, position_of, reading

MOST = 500
_ANY: dict[str, Any] = {"id": None, "standing": False, "past": False, "before": None}


def list_stops(*, actor: Actor, standing: bool = False, limit: int = MOST) -> list[dict[str, Any]]:
    """Return stops, those that stand first, then the newest: {id, scope, name, reason, set_by, set_at, until,
    standing, known, lifted_at, lifted_by, lift_reason}; ``known`` is false where nothing of that name is registered.

    A global stop is listed everywhere; who set it and why is told to the tenant it came from only. Verb ``stop.read``.
    """
    with reading(actor, v.STOP_READ) as tx:
        rows = tx.dicts("read_stops", {**_ANY, "standing": standing, "limit": min(limit, MOST)})
    return [_present(row) for row in rows]


def page_past_stops(*, actor: Actor, cursor: str | None = None, limit: int = 50) -> Page:
    """Return a page of the stops that stand no more, the newest first. Verb ``stop.read``. Raises BadInput."""
    with reading(actor, v.STOP_READ) as tx:
        position = position_of("stops", actor, cursor)
        wanted = {**_ANY, "past": True, "before": position[0] if position else None, "limit": limit + 1}
        rows = tx.dicts("read_stops", wanted)
    following = cursor_of("stops", actor, [str(rows[limit - 1]["id"])]) if len(rows) > limit else None
    return Page([_present(row) for row in rows[:limit]], following)


def read_stop(*, actor: Actor, stop_id: uuid.UUID) -> dict[str, Any]:
    """Return one stop. Raises NotFound. Verb ``stop.read``."""
    with reading(actor, v.STOP_READ) as tx:
        rows = tx.dicts("read_stops", {**_ANY, "id": stop_id, "limit": 1})
    return _present(found(rows[0] if rows else None, "stop"))


def _present(row: dict[str, Any]) -> dict[str, Any]:
    if not row.pop("ours"):
        row.update(set_by="the installation's operators", reason="", lift_reason="")
        row["lifted_by"] = row["set_by"] if row["lifted_at"] else None
    return row
