"""Reads of what bounds the work: limits with the tokens held, breakers, the tenant's policy, the backlog."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.base import parsed, reading

# A list holds so many; who wants to know whether there are more asks for one more.
MOST_LIMITS, MOST_BREAKERS = 1000, 500


def list_limits(*, actor: Actor, limit: int = MOST_LIMITS) -> list[dict[str, Any]]:
    """Return the limits that stand, by scope and name, the first ``limit`` of them.

    An item: {id, scope, name, origin, most, calls, per_s, used, waiting, reason, set_by, set_at, version}. ``used`` are
    the tokens held now, ``waiting`` the parked steps (up to 1000) of this tenant. How much of a global limit is used is
    told to operators only. Verb ``limit.read``.
    """
    with reading(actor, v.LIMIT_READ) as tx:
        rows = tx.dicts("read_limits", {"all": may(actor, v.STOP_GLOBAL), "limit": limit})
    for row in rows:
        if row["scope"] == "global" and not may(actor, v.STOP_GLOBAL):
            row.update(set_by="the installation's operators", reason="")
    return rows


def list_breakers(*, actor: Actor, limit: int = MOST_BREAKERS) -> list[dict[str, Any]]:
    """Return breakers that have seen failures, the open ones first: {id, tool, error_class, state, failures,
    last_failure_at, opened_at, open_until, opens, waiting}. Verb ``limit.read``."""
    with reading(actor, v.LIMIT_READ) as tx:
        return tx.dicts("read_breakers", {"limit": limit})


def list_held_by_own(*, actor: Actor) -> list[dict[str, Any]]:
    """Return what waits for a bound that is no limit: {run_id, node, kind, waiting, since}, longest first, at most 100.

    ``kind`` is run (its workflow's max_parallel) or state (its tool's serial: another call writes it). Verb
    ``limit.read``.
    """
    with reading(actor, v.LIMIT_READ) as tx:
        return tx.dicts("held_by_their_own")


def read_policy(*, actor: Actor) -> dict[str, Any]:
    """Return {data_regions, scopes, set_by, set_at}, null where nothing is bounded. Verb ``limit.read``."""
    with reading(actor, v.LIMIT_READ) as tx:
        rows = tx.dicts("read_policy")
    if not rows:
        return {"data_regions": None, "scopes": None, "set_by": None, "set_at": None}
    return {**rows[0], "data_regions": parsed(rows[0]["data_regions"]), "scopes": parsed(rows[0]["scopes"])}
