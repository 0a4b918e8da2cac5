"""On which terms a request is decided: by whom, how many, until when, and what time does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, Protocol

from approvals.gating import asked_before
from approvals.law import SEPARATIONS
from approvals.people import ADMIN
from runtime.graph.plan import NodePlan
from runtime.machine.rows import RunState
from runtime.store.tx import Tx

EXPIRES_SECONDS = 3 * 86_400.0
START_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in seconds; ``ladder`` are the roles asked one after the other: {role, expires_s?}.

    ``silent``: nobody said any of it, so that a rule's own terms hold as they are.
    """

    role: str = ""
    quorum: int = 1
    separation: str = "requester"
    expires_s: float = EXPIRES_SECONDS
    start_within_s: float | None = START_SECONDS
    on_timeout: str = "reject"
    ladder: list[Mapping[str, Any]] = field(default_factory=list)
    silent: bool = False

    def deadline(self, now: datetime) -> datetime:
        """Return until when a request made ``now`` is to be decided."""
        return now + timedelta(seconds=self.expires_s)


def terms_of(tx: Tx, run: RunState, node: NodePlan) -> Terms:
    """Return the terms of an approval node, or those that meet every approval that gates a call in this run.

    What such a call is granted stands for all of them, so that none is left out: where they name different roles an
    admin decides.
    """
    if node.kind in ("approval", "input"):
        return _terms(node)
    asked = [_terms(run.plan.nodes[name]) for name in asked_before(tx, run.plan, run.id, node.id)]
    return reduce(stricter, asked) if asked else Terms(silent=True)


def _terms(node: NodePlan) -> Terms:
    return Terms(
        role=node.role,
        quorum=node.quorum,
        separation=node.separation if node.kind != "input" else "none",
        expires_s=node.expires_s or EXPIRES_SECONDS,
        start_within_s=node.start_within_s or START_SECONDS,
        on_timeout=node.on_timeout,
        ladder=[dict(rung) for rung in node.escalation],
    )


def half_time(now: datetime, deadline: datetime | None) -> datetime | None:
    """Return when those who decide are warned: half of the time is over."""
    return None if deadline is None else now + (deadline - now) / 2


def last_call(now: datetime, deadline: datetime) -> datetime:
    """Return when they are reminded for the last time, as seen ``now``, at half of it: a tenth of the time is left."""
    return deadline - (deadline - now) / 5


class Given(Protocol):
    """On which terms something was granted."""

    @property
    def role(self) -> str: ...

    @property
    def quorum(self) -> int: ...

    @property
    def separation(self) -> str: ...


def meets(given: Given, wanted: Terms) -> bool:
    """Say whether it was granted on terms at least as strict as a rule's."""
    return (
        given.quorum >= wanted.quorum
        and (not wanted.role or given.role in (wanted.role, ADMIN))
        and SEPARATIONS.index(given.separation) >= SEPARATIONS.index(wanted.separation)
    )


def in_time(decided_at: datetime | None, wanted: Terms, now: datetime) -> bool:
    """Say whether what was decided then may still be begun by a rule's ``start_within_s``."""
    if decided_at is None or wanted.start_within_s is None:
        return True
    return now <= decided_at + timedelta(seconds=wanted.start_within_s)


def stricter(terms: Terms, other: Terms) -> Terms:
    """Return terms that meet both: the larger quorum, the stricter separation, the shorter times.

    Where they name different roles an admin decides. Where nobody said anything the other's hold as they are.
    """
    if terms.silent:
        return other
    roles = {terms.role, other.role} - {""}
    within = [one for one in (terms.start_within_s, other.start_within_s) if one is not None]
    return replace(
        terms,
        role=ADMIN if len(roles) > 1 else "".join(roles),
        quorum=max(terms.quorum, other.quorum),
        separation=max(terms.separation, other.separation, key=SEPARATIONS.index),
        expires_s=min(terms.expires_s, other.expires_s),
        start_within_s=min(within) if within else None,
    )
