"""Reads of delegations: who stands in for whom, who does now, and who could."""

from __future__ import annotations

from typing import Any

from approvals.people import ADMIN, role_of
from approvals.verbs import ANSWER, DECIDE, READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.access.roles import effective
from runtime.kernel.actor import Actor
from runtime.queries.base import Page, cursor_of, parsed, position_of, reading

# A delegation begins, lasts and is over by the database's clock; ``open`` is what begins or lasts.
COMING, ACTIVE, ENDED, OPEN = "coming", "active", "ended", "open"
DELEGATION_STATES = (ACTIVE, COMING, ENDED)
# So many names are suggested.
MOST_NAMES = 1000


def sees_all(actor: Actor) -> bool:
    """Return whether an actor sees and sets delegations of others: an admin, or the command line acting as one."""
    return role_of(actor) == ADMIN or (actor.kind == "service" and may(actor, v.MEMBER_MANAGE))


def page_delegations(
    *,
    actor: Actor,
    state: str | None = None,
    member: str | None = None,
    own: bool = False,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return delegations from or to the actor, the newest first; an admin sees all. Verb ``approval.read``.

    {delegation_id, from, to, starts_at, ends_at, reason, created_by, created_at, ended_at, ended_by, state, active}.
    ``state`` is one of DELEGATION_STATES or OPEN; ``member`` is the user name of one of the two; ``own`` keeps an admin
    to their own. Raises BadInput for a cursor of another list.
    """
    states = [ACTIVE, COMING] if state == OPEN else None if state is None else [state]
    with reading(actor, READ) as tx:
        position = position_of("delegations", actor, cursor)
        wanted = {"all": not own and sees_all(actor), "user": actor.user_id, "member": member, "states": states}
        rows = tx.dicts("delegations", {**wanted, "before": position[0] if position else None, "limit": limit + 1})
    following = cursor_of("delegations", actor, [str(rows[limit - 1]["id"])]) if len(rows) > limit else None
    return Page([_present(row) for row in rows[:limit]], following)


def _present(row: dict[str, Any]) -> dict[str, Any]:
    row["delegation_id"], row["from"], row["to"] = row.pop("id"), row.pop("from_actor"), row.pop("to_actor")
    row["active"] = row["state"] == ACTIVE
    return row


def list_delegations(*, actor: Actor, limit: int = 200) -> list[dict[str, Any]]:
    """Return the first items of :func:`page_delegations`."""
    return page_delegations(actor=actor, limit=limit).items


def standing_now(*, actor: Actor) -> dict[str, list[dict[str, Any]]]:
    """Return the actor's delegations that last now: ``given`` to others, and ``taken`` from them. ``approval.read``."""
    rows = page_delegations(actor=actor, state=ACTIVE, own=True, limit=MOST_NAMES).items
    mine = [one for one in rows if one["from"] == actor.label]
    return {"given": mine, "taken": [one for one in rows if one["to"] == actor.label]}


def names_to_ask(*, actor: Actor) -> list[str]:
    """Return the user names of the members who decide or answer requests, at most MOST_NAMES. ``approval.decide``."""
    with reading(actor, DECIDE) as tx:
        rows = tx.rows("standing_members", (MOST_NAMES,))
    wanted = frozenset({DECIDE, ANSWER})
    return [name for name, role, extra in rows if wanted & frozenset(effective(role, parsed(extra)))]
