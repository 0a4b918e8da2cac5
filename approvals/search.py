"""Finding requests by what they would change: an order number leads to the decision that it waits for."""

from __future__ import annotations

from typing import Any

from approvals.models import Request
from approvals.verbs import READ
from runtime.kernel.actor import Actor
from runtime.queries.base import reading

SEARCH_LIMIT = 20
# Targets are looked through among so many pending requests, the newest.
SEARCH_WINDOW = 2_000


def search_targets(*, actor: Actor, text: str) -> list[dict[str, Any]]:
    """Return pending requests whose target has ``text`` in it: {id, run_id, target, title}. Verb ``approval.read``."""
    with reading(actor, READ):
        newest = Request.objects.filter(state="pending").order_by("-id")[:SEARCH_WINDOW]
        rows = Request.objects.filter(id__in=newest.values("id"), target__icontains=text).order_by("-id")
        return [dict(row) for row in rows.values("id", "run_id", "target", "title")[:SEARCH_LIMIT]]
