"""Reads of groups that decide, and of who is whose manager."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.base import reading


def list_groups(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the tenant's groups by name: {name, members, created_by, created_at}. Verb ``member.read``."""
    with reading(actor, v.MEMBER_READ) as tx:
        return tx.dicts("groups")


def list_managers(*, actor: Actor) -> list[dict[str, Any]]:
    """Return who has a manager, by name: {user, manager, set_by, set_at}. Verb ``member.read``."""
    with reading(actor, v.MEMBER_READ) as tx:
        return tx.dicts("managers")
