"""Reads of alerts and of where they are sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.models.watch import Alert, NoticeTarget
from runtime.queries.base import COUNT_BOUND, Page, cursor_of, position_of, reading

STATES = ("open", "closed", "all")


def list_alerts(
    *,
    actor: Actor,
    state: str = "open",
    rule: str | None = None,
    closed_since: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
) -> Page:
    """Return alerts, the one that happened last first.

    An item: {id, rule, severity, title, state, count, subjects [{kind, id, run_id, label}], first_at, last_at,
    notified_at, closed_at}. ``state`` is open, closed or all; ``closed_since`` leaves out what was closed
    before. Verb ``alert.read``.
    """
    with reading(actor, v.ALERT_READ):
        rows = Alert.objects.all()
        if state != "all":
            rows = rows.filter(closed_at__isnull=state == "open")
        if closed_since is not None:
            rows = rows.filter(Q(closed_at__isnull=True) | Q(closed_at__gte=closed_since))
        if rule is not None:
            rows = rows.filter(rule=rule)
        counted = len(rows[: COUNT_BOUND + 1].values_list("id")) if count else None
        if (position := position_of("alerts", actor, cursor)) is not None:
            at = datetime.fromisoformat(position[0])
            rows = rows.filter(last_at__lte=at).filter(Q(last_at__lt=at) | Q(id__lt=position[1]))
        listed: list[Any] = list(rows.order_by("-last_at", "-id").values()[: limit + 1])
    following = None
    if len(listed) > limit:
        listed = listed[:limit]
        following = cursor_of("alerts", actor, [listed[-1]["last_at"].isoformat(), str(listed[-1]["id"])])
    return Page([_present(row) for row in listed], following, counted)


def _present(row: dict[str, Any]) -> dict[str, Any]:
    del row["tenant_id"], row["fingerprint"]
    row["state"] = "open" if row["closed_at"] is None else "closed"
    return row


def list_targets(*, actor: Actor) -> list[dict[str, Any]]:
    """Return where alerts are sent: {id, kind, address, rules, created_by, created_at}. Verb ``notice.manage``."""
    with reading(actor, v.NOTICE_MANAGE):
        rows = NoticeTarget.objects.filter(removed_at__isnull=True).order_by("id")
        return [dict(row) for row in rows.values("id", "kind", "address", "rules", "created_by", "created_at")]
