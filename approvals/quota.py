"""How much one person reviews: requests held at once and decisions in an hour, where the tenant bounds it (C7.1).

Whoever is asked too much approves without looking; what is over the bound is another person's.
"""

from __future__ import annotations

from dataclasses import dataclass

from approvals.asked import Asked
from approvals.errors import ReviewLimitReached
from runtime.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Load:
    """A person's load beside the tenant's limits; None: no limit."""

    held: int
    decided: int
    most_held: int | None
    most_decided: int | None

    @property
    def full(self) -> bool:
        """Whether this person may take no more on."""
        return self.most_held is not None and self.held >= self.most_held

    @property
    def spent(self) -> bool:
        """Whether this person may decide nothing more within this hour."""
        return self.most_decided is not None and self.decided >= self.most_decided


def load_of(tx: Tx, user_id: int | None) -> Load:
    """Return what a person holds and has decided within the last hour, in the transaction's tenant."""
    row = tx.one("review_limits")
    most_held, most_decided = (None, None) if row is None else row[:2]
    counts = tx.one("review_load", {"tenant": tx.tenant_id, "user": user_id})
    assert counts is not None
    return Load(counts[0], counts[1], most_held, most_decided)


def refuse_full(tx: Tx, user_id: int | None, label: str, asked: Asked, where: str | None = None) -> None:
    """Raise ReviewLimitReached when a person holds as many requests as one person may."""
    load = _counted(tx, user_id)
    if load is not None and load.full:
        detail = f"{label} holds {load.held} requests; one person holds at most {load.most_held}."
        raise ReviewLimitReached(detail, where=where, **asked.there())


def refuse_spent(tx: Tx, user_id: int | None, label: str, asked: Asked) -> None:
    """Raise ReviewLimitReached when a person has decided as much within the hour as one person may."""
    load = _counted(tx, user_id)
    if load is not None and load.spent:
        detail = (
            f"{label} decided {load.decided} requests within the hour; one person decides at most {load.most_decided}."
        )
        raise ReviewLimitReached(detail, **asked.there())


def _counted(tx: Tx, user_id: int | None) -> Load | None:
    """Return a person's load, nobody else of theirs being counted meanwhile; None where nothing is bounded."""
    if tx.one("review_limits") is None:
        return None
    tx.send("review_serial", (tx.tenant_id, user_id))
    return load_of(tx, user_id)
