"""Reads of bulk repairs: the list, and one with what became of each item."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Count, F

from repair.law import ITEM_STATES
from repair.models import BulkItem, BulkRepair
from repair.reviews import bulks_to_review
from repair.verbs import READ
from runtime.kernel.actor import Actor
from runtime.queries.base import Page, found, page, reading

LISTED = [
    "id", "resolution", "filter", "reason", "hours", "per_minute", "state", "version", "why_state", "needs_review",
    "why_review", "created_by", "created_user_id", "created_at", "reviewed_by", "reviewed_at", "started_at",
    "finished_at", "watch",
]  # fmt: skip
MOST_ITEMS = 1_000


def list_bulks(*, actor: Actor, cursor: str | None = None, limit: int = 50, review: bool = False) -> Page:
    """Return bulk repairs, newest first: LISTED and ``counts`` {item state: number}. Verb ``repair.read``.

    ``review``: only what waits for the actor's review.
    """
    with reading(actor, READ):
        wanted = BulkRepair.objects.all()
        rows = (bulks_to_review(actor, wanted) if review else wanted).values(*LISTED)
        answer = page(rows, name="bulk_repairs", actor=actor, cursor=cursor, limit=limit, count=False, present=dict)
        counts = _counts([one["id"] for one in answer.items])
        for one in answer.items:
            _present(one, counts)
    return answer


def get_bulk(*, actor: Actor, bulk_id: uuid.UUID) -> dict[str, Any]:
    """Return one bulk repair as the list does, with ``items`` in their order, ``mine`` and ``now``.

    An item: {id, position, case_id, case_version, state, result, finished_at, title, node, tool, workflow, case_state,
    run_id}. Raises NotFound. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        bulk = dict(found(BulkRepair.objects.filter(id=bulk_id).values(*LISTED).first(), "bulk repair"))
        bulk["mine"] = bulk["created_user_id"] == actor.user_id
        _present(bulk, _counts([bulk_id]))
        rows = BulkItem.objects.filter(bulk_id=bulk_id).order_by("position")
        named = {"title": "title", "node": "node", "tool": "tool", "workflow": "workflow", "case_state": "state"}
        about = {name: F(f"case__{column}") for name, column in named.items()}
        fields = ("id", "position", "case_id", "case_version", "state", "result", "finished_at")
        bulk["items"] = list(rows.values(*fields, **about, run_id=F("case__run_id"))[:MOST_ITEMS])
        bulk["now"] = tx.now()
    return bulk


def _present(bulk: dict[str, Any], counts: dict[uuid.UUID, dict[str, int]]) -> None:
    mine = counts.get(bulk["id"], {})
    bulk["counts"] = {state: mine.get(state, 0) for state in ITEM_STATES}
    bulk["total"] = sum(mine.values())
    # Whose account it is stays inside; pages ask whether it is the reader's.
    bulk.pop("created_user_id")


def _counts(ids: list[uuid.UUID]) -> dict[uuid.UUID, dict[str, int]]:
    found_counts: dict[uuid.UUID, dict[str, int]] = {}
    rows = BulkItem.objects.filter(bulk_id__in=ids).values_list("bulk_id", "state").annotate(n=Count("id"))
    for bulk_id, state, number in rows:
        found_counts.setdefault(bulk_id, {})[state] = number
    return found_counts
