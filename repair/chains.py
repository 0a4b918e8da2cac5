"""Whom an overdue case is told to, one link after the other: a tenant's own chain, or everybody's default (C8.4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from repair.law import RESOLVED
from repair.models import Case, Chain
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


def escalation_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the links of a case's chain as they stand now: {to, at, state}; in the tenant's transaction.

    ``state`` is ``told``, ``next`` or ``later``; of a resolved case there is no next.
    """
    rows, told = [], case["escalations"]
    for index, link in enumerate(chain_now()):
        open_state = "next" if index == told else "later"
        if index >= told and case["state"] == RESOLVED:
            break
        at = case["due_at"] + timedelta(minutes=link.after_minutes)
        rows.append({"to": link.to, "at": at, "state": "told" if index < told else open_state})
    return rows


def due_link(case: Case, now: Any) -> Link | None:
    """Return the link whose time has come, None while there is none; in the tenant's transaction."""
    chain = chain_now()
    if case.state == RESOLVED or case.escalations >= len(chain):
        return None
    link = chain[case.escalations]
    return link if now >= case.due_at + timedelta(minutes=link.after_minutes) else None


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
