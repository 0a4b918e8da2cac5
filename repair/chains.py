"""Whom an overdue case is told to, one link after the other: a tenant's own chain, or everybody's default (C8.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from repair.law import RESOLVED
from repair.models import Case, Chain, Entry
from repair.verbs import READ
from runtime.kernel.actor import Actor
from runtime.queries.base import reading

# Who holds the case; whoever is on call where nobody does.
OWNER = "owner"
PERSON = "user:"
MOST_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Link:
    """Who is told, and how many minutes after the due date: a role, ``user:NAME`` or ``owner``."""

    to: str
    after_minutes: int


# The schema's qd_overdue_cases knows its length and its times.
DEFAULT = (Link("oncall", 0), Link("admin", 30), Link("admin", 60))


def chain_now() -> tuple[Link, ...]:
    """Return the chain of the tenant whose transaction is open."""
    row = Chain.objects.order_by("-version").values_list("told", "after_minutes").first()
    return _links(*row) if row is not None else DEFAULT


def _links(told: list[str], minutes: list[int]) -> tuple[Link, ...]:
    return tuple(Link(*pair) for pair in zip(told, minutes, strict=True)) or DEFAULT


def untold(told: list[str], chain: tuple[Link, ...]) -> list[int]:
    """Return the places of the links that nobody of ``told`` stands for: a name is told as often as a chain has it."""
    left, places = list(told), []
    for place, link in enumerate(chain):
        if link.to in left:
            left.remove(link.to)
        else:
            places.append(place)
    return places


def _told(entries: Iterable[Any], due_at: datetime) -> list[dict[str, Any]]:
    """Return who was told, and when, since the case is due at this date, whatever the chain was then."""
    due = due_at.isoformat()
    return [
        {"to": one["data"]["to"], "at": one["at"], "state": "told"}
        for one in entries
        if one["type"] == "escalated" and one["data"].get("due_at") == due
    ]


def escalation_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whom a case was told to, then the other links: {to, at, state}; in the tenant's transaction.

    ``state`` is ``told``, ``next`` or ``later``; of a resolved case there is no next. ``at`` is when it was told,
    or is to be.
    """
    rows, chain = _told(case["entries"], case["due_at"]), chain_now()
    if case["state"] == RESOLVED:
        return rows
    for number, place in enumerate(untold([one["to"] for one in rows], chain)):
        at = case["due_at"] + timedelta(minutes=chain[place].after_minutes)
        rows.append({"to": chain[place].to, "at": at, "state": "later" if number else "next"})
    return rows


def due_place(case: Case, now: datetime) -> tuple[int, Link | None]:
    """Return how many links the case has behind it and the link to be told now, None for none; in the tenant's tx.

    A link of a newer chain that is due is told, unless who it names was told by an older one.
    """
    chain = chain_now()
    if case.state == RESOLVED or case.escalations >= len(chain):
        return case.escalations, None
    entries = Entry.objects.filter(case_id=case.id, type="escalated").order_by("id").values("type", "data", "at")
    told = [one["to"] for one in _told(entries, case.due_at)]
    place = next((one for one in untold(told, chain) if one >= case.escalations), len(chain))
    if place == len(chain) or now < case.due_at + timedelta(minutes=chain[place].after_minutes):
        return place, None
    return place + 1, chain[place]


def read_chain(*, actor: Actor) -> dict[str, Any]:
    """Return {version, links [{to, after_minutes}], default, set_by, set_at, reason}; version 0: nobody set one.

    ``default``: the links are everybody's. Verb ``repair.read``.
    """
    newest = chain_versions(actor=actor)
    if newest:
        return newest[0]
    return _present({"version": 0, "told": [], "after_minutes": [], "set_by": None, "set_at": None, "reason": ""})


def chain_versions(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the newest MOST_VERSIONS versions as :func:`read_chain` does, newest first. Verb ``repair.read``."""
    columns = ("version", "told", "after_minutes", "set_by", "set_at", "reason")
    with reading(actor, READ):
        return [_present(dict(row)) for row in Chain.objects.order_by("-version").values(*columns)[:MOST_VERSIONS]]


def _present(row: dict[str, Any]) -> dict[str, Any]:
    told, minutes = row.pop("told"), row.pop("after_minutes")
    links = [{"to": link.to, "after_minutes": link.after_minutes} for link in _links(told, minutes)]
    return {**row, "links": links, "default": not told}
