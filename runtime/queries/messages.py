"""Reads of what leaves the system: the outbox in numbers, the messages in quarantine."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.models import Quarantined
from runtime.queries.base import reading

STATES = ("open", "closed", "all")
_FIELDS = (
    "id", "event_id", "topic", "schema_version", "payload", "reason", "attempts", "created_at", "quarantined_at",
    "resolution", "closed_at", "closed_by", "close_reason",
)  # fmt: skip
MOST = 500


def list_quarantined(*, actor: Actor, state: str = "open", limit: int = MOST) -> list[dict[str, Any]]:
    """Return messages in quarantine, the newest first, the first ``limit`` of them; ``state`` is open, closed or all.

    An item: {id, event_id, topic, schema_version, payload, reason, attempts, created_at, quarantined_at, resolution,
    closed_at, closed_by, close_reason}. Verb ``message.read``.
    """
    with reading(actor, v.MESSAGE_READ):
        rows = Quarantined.objects.all()
        if state != "all":
            rows = rows.filter(closed_at__isnull=state == "open")
        return [dict(row) for row in rows.order_by("-quarantined_at", "-id").values(*_FIELDS)[:limit]]


def outbox_numbers(*, actor: Actor) -> dict[str, Any]:
    """Return {unsent, oldest_unsent_seconds (null: none), retrying, quarantined}. Verb ``message.read``."""
    with reading(actor, v.MESSAGE_READ) as tx:
        unsent, oldest, retrying, quarantined = tx.rows("outbox_numbers")[0]
    return {"unsent": unsent, "oldest_unsent_seconds": oldest, "retrying": retrying, "quarantined": quarantined}
