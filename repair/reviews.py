"""What waits for a second person: proposals and bulk repairs under review, for those who may decide them (C8.4).

They are decided where they always were; here is only who is asked, and how they learn of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Count, Exists, Min, OuterRef, QuerySet

from repair.law import BULK_REVIEWING, NOT_BEGUN, RESOLVED, REVIEWING, WRITE_OFF
from repair.models import BulkItem, BulkRepair, Case, Proposal
from repair.policy import RISKS
from repair.verbs import READ, REVIEW
from repair.verbs import WRITE_OFF as MAY_WRITE_OFF
from repair.wiring import REVIEW_ASKED
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.ids import uuid7
from runtime.queries.base import reading
from runtime.store.tx import Tx

_OF_CASE = ("id", "kind", "title", "recovery", "risk", "tool", "node", "workflow", "opened_at", "due_at", "proposal_id")
_OF_PROPOSAL = ("id", "resolution", "proposed_by", "proposed_at")


def needed(resolution: str) -> frozenset[str]:
    """Return the permissions that deciding such a proposal takes."""
    return frozenset({REVIEW, MAY_WRITE_OFF} if resolution == WRITE_OFF else {REVIEW})


def cases_to_review(actor: Actor, rows: QuerySet[Case]) -> QuerySet[Case]:
    """Return those of ``rows`` whose proposal waits for a decision that this actor may take."""
    if actor.user_id is None or not _reviews(actor):
        return rows.none()
    waits = Proposal.objects.filter(id=OuterRef("proposal_id"), decision__isnull=True)
    waits = _permitted(actor, waits.exclude(proposed_user_id=actor.user_id))
    return rows.filter(Exists(waits), state=REVIEWING).exclude(owner_user_id=actor.user_id)


def bulks_to_review(actor: Actor, rows: QuerySet[BulkRepair]) -> QuerySet[BulkRepair]:
    """Return those of ``rows`` that are ordered and wait for a decision that this actor may take."""
    if actor.user_id is None or not _reviews(actor):
        return rows.none()
    return _permitted(actor, rows.filter(state=BULK_REVIEWING).exclude(created_user_id=actor.user_id))


def proposals_of(case_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return case → its current proposal {repair_id, resolution, proposed_by, proposed_at}, in one query."""
    current = Case.objects.filter(id__in=list(case_ids)).values("proposal_id")
    rows = Proposal.objects.filter(id__in=current).values("case_id", *_OF_PROPOSAL)
    return {row.pop("case_id"): {"repair_id": row.pop("id"), **row} for row in map(dict, rows)}


def waiting_reviews(*, actor: Actor, limit: int = 50) -> list[dict[str, Any]]:
    """Return what waits for this actor's review, the soonest due first; nothing for who may review nothing.

    An item: {about ("case" or "bulk"), id, kind, title, recovery, tool, node, workflow, risk, cases (a number),
    resolution, proposed_by, proposed_at, opened_at, due_at}. Of a bulk repair risk and due date are the highest and the
    soonest of its cases; kind and title are empty. Verb ``repair.read``.
    """
    if not _reviews(actor):
        return []
    with reading(actor, READ):
        cases = cases_to_review(actor, Case.objects.exclude(state=RESOLVED)).order_by("due_at", "id")
        found = [{"about": "case", "cases": 1, **row} for row in cases.values(*_OF_CASE)[:limit]]
        proposals = proposals_of(one["id"] for one in found)
        # The rows are read one after the other: what was decided between the two waits no more.
        found = [{**one, **proposals[one["id"]]} for one in found if one["id"] in proposals]
        found += _bulks(actor, limit)
    return sorted(found, key=lambda one: (one["due_at"], one["id"]))[:limit]


def count_reviews(*, actor: Actor, bound: int = 100, bulks: bool = True) -> int:
    """Return how many reviews wait for this actor, of ``bulks`` too, at most ``bound``. Verb ``repair.read``."""
    if not _reviews(actor):
        return 0
    with reading(actor, READ):
        found = len(cases_to_review(actor, Case.objects.exclude(state=RESOLVED)).values_list("id")[:bound])
        if bulks:
            found += len(bulks_to_review(actor, BulkRepair.objects.all()).values_list("id")[:bound])
        return min(bound, found)


def tell_reviewers(tx: Tx, now: datetime, **about: uuid.UUID) -> None:
    """Leave word in the outbox that something waits for a review: once, in the transaction that asks for it."""
    note = orjson.dumps({name: str(value) for name, value in about.items()}).decode()
    tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), REVIEW_ASKED, note, now))


def reviewed_in_bulk(repair_id: uuid.UUID) -> bool:
    """Return whether the proposal is an item of a bulk repair that another person has approved as a whole."""
    return BulkItem.objects.filter(id=repair_id, bulk__reviewed_user_id__isnull=False).exists()


def _reviews(actor: Actor) -> bool:
    return actor.kind == "user" and actor.user_id is not None and may(actor, REVIEW)


def _permitted(actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows if may(actor, MAY_WRITE_OFF) else rows.exclude(resolution=WRITE_OFF)


def _bulks(actor: Actor, limit: int) -> list[dict[str, Any]]:
    rows = bulks_to_review(actor, BulkRepair.objects.order_by("id"))
    bulks = list(rows.values("id", "resolution", "created_by", "created_at")[:limit])
    items = BulkItem.objects.filter(bulk_id__in=[one["id"] for one in bulks], state=NOT_BEGUN)
    sums: dict[uuid.UUID, list[tuple[str, int, datetime]]] = {}
    for bulk_id, *rest in items.values_list("bulk_id", "case__risk").annotate(n=Count("id"), due=Min("case__due_at")):
        sums.setdefault(bulk_id, []).append(tuple(rest))
    return [
        {
            "about": "bulk",
            "id": one["id"],
            **dict.fromkeys(("kind", "title", "tool", "node", "workflow"), ""),
            "recovery": None,
            "risk": min((risk for risk, _n, _due in sums[one["id"]]), key=RISKS.index),
            "cases": sum(n for _risk, n, _due in sums[one["id"]]),
            "resolution": one["resolution"],
            "proposed_by": one["created_by"],
            "proposed_at": one["created_at"],
            "opened_at": one["created_at"],
            "due_at": min(due for _risk, _n, due in sums[one["id"]]),
        }
        for one in bulks
        if one["id"] in sums
    ]
