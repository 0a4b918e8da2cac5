"""Breaches of invariants open their cases by themselves: the cheap searches, a few tenants a turn (C8.4, C1.9).

Cheap is what looks at rows that are under way, and the fold of the newest runs. The whole search is the command
``manage.py invariants``: it reads ledgers from end to end, which no duty does behind everybody's back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import structlog

from runtime.actions.breaches import need_breach_case
from runtime.queries.invariants import INVARIANTS, cheap_searches
from runtime.store import directory
from runtime.store.tx import is_away
from runtime.worker.maintenance.each import attempt

log = structlog.get_logger(__name__)

TENANTS_A_TURN = 50
_NAMES = {one.number: one.name for one in INVARIANTS}


class Searcher:
    """Searches the tenants by turns, each next time after the one that was searched last."""

    def __init__(self) -> None:
        self.last = ""

    def run_once(self) -> int:
        """Search the next tenants and ask for a person about what is found; returns how many invariants are broken."""
        tenants = sorted(directory.all_tenants(), key=lambda one: one.slug)
        after = [one for one in tenants if one.slug > self.last]
        turn = (after + [one for one in tenants if one.slug <= self.last])[:TENANTS_A_TURN]
        found = 0
        for one in turn:
            found += attempt("breaches", one.id, partial(_search, one.id))
            self.last = one.slug
        return found


def _search(tenant_id: uuid.UUID) -> int:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for number, search in cheap_searches(tenant_id):
        if rows := _rows(tenant_id, search):
            found.setdefault(number, []).extend(rows)
    for number, rows in found.items():
        log.error("an invariant is broken", tenant=str(tenant_id), invariant=number, breaches=len(rows))
        need_breach_case(tenant_id, number, _NAMES[number], rows)
    return len(found)


def _rows(tenant_id: uuid.UUID, search: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Return what a search found; one that takes too long here says nothing, and the others go on."""
    try:
        return search()
    except psycopg.errors.QueryCanceled as problem:
        if is_away(problem):
            raise
        log.warning("a search for breaches was given up", tenant=str(tenant_id), problem=str(problem)[:200])
        return []
