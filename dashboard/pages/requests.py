"""What pages read of approvals and of repairs under review; empty for readers who may not see them."""

from __future__ import annotations

import uuid
from typing import Any

from approvals.queries import count_pending, list_requests
from approvals.verbs import READ
from dashboard.presenters import reviews as review_words
from repair.reviews import count_reviews, waiting_reviews
from repair.verbs import READ as REPAIR_READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.api.base import PREFIX
from runtime.kernel.actor import Actor
from runtime.queries.runs import list_runs

BOUND = RUN_BOUND = 100


def of_run(actor: Actor, run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return the newest requests of one run, at most RUN_BOUND."""
    return list_requests(actor=actor, state=None, run_id=run_id, limit=RUN_BOUND).items if may(actor, READ) else []


def mine(actor: Actor, limit: int = 8) -> list[dict[str, Any]]:
    """Return the pending requests that the reader may decide, the soonest first."""
    return named(actor, list_requests(actor=actor, mine=True, limit=limit).items) if may(actor, READ) else []


def named(actor: Actor, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each request what its run is called: requests of one workflow often have one title."""
    wanted = {one["run_id"] for one in rows}
    if wanted and may(actor, v.RUN_READ):
        names = {one["id"]: one["name"] for one in list_runs(actor=actor, among=list(wanted), limit=500).items}
    else:
        names = {}
    return [{**one, "run_name": names.get(one["run_id"]) or one["target"] or one["workflow"]} for one in rows]


def artifact_url(artifact_id: uuid.UUID | str) -> str:
    """Return where an artifact's content is read; whether this reader may is asked there."""
    return f"{PREFIX}/artifacts/{artifact_id}/content/"


def count_mine(actor: Actor) -> int:
    """Return how many requests the reader may decide, at most BOUND."""
    return count_pending(actor=actor, mine=True, bound=BOUND) if may(actor, READ) else 0


def reviews(actor: Actor, limit: int = 8) -> list[dict[str, Any]]:
    """Return the repairs that wait for the reader's review, in words, the soonest due first."""
    found = waiting_reviews(actor=actor, limit=limit) if may(actor, REPAIR_READ) else []
    return [review_words.row(one) for one in found]


def reviews_waiting(actor: Actor) -> int:
    """Return how many repairs wait for the reader's review, at most BOUND."""
    return count_reviews(actor=actor, bound=BOUND) if may(actor, REPAIR_READ) else 0


def count_decisions(actor: Actor) -> int:
    """Return how many decisions wait for the reader, requests and reviews, at most BOUND."""
    return min(BOUND, count_mine(actor) + reviews_waiting(actor))
