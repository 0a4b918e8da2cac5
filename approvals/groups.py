"""Whom a request asks, beside a role: ``group:NAME``, or ``manager:USER``, the manager of that member (C5.3, A7.3).

Who that is, is asked when they decide, not when they were asked. Being in a group gives no permission: a member of it
decides with the verb ``approval.decide``, as in a role, and an admin decides everything.
"""

from __future__ import annotations

import re
from typing import Any

from runtime.kernel.errors import BadInput
from runtime.store.tx import Tx

GROUP, MANAGER = "group", "manager"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")


def asked_of_group(name: str) -> str:
    """Return how a request names a group."""
    return f"{GROUP}:{name}"


def named(wanted: str) -> tuple[str, str] | None:
    """Return (kind, name) of what a request asks where that is no role: a group's name, or whose manager."""
    kind, found, name = wanted.partition(":")
    return (kind, name) if found and kind in (GROUP, MANAGER) and name else None


def in_words(wanted: str, otherwise: str) -> str:
    """Return whom a request asks, for a sentence; ``otherwise`` is the role where it names none."""
    found = named(wanted)
    if found is None:
        return f"the role {wanted or otherwise}"
    return f"the group {found[1]}" if found[0] == GROUP else f"the manager of {found[1]}"


def asked_besides(tx: Tx, user_id: int) -> frozenset[str]:
    """Return what a member of the transaction's tenant decides for besides their role, now."""
    return frozenset(row[0] for row in tx.rows("groups_asked_of", {"tenant": tx.tenant_id, "user": user_id}))


def members_asked(tx: Tx, wanted: str) -> list[tuple[int, str, str]]:
    """Return (user id, username, address) of who is in the group, or is the manager, that a request asks."""
    kind, name = named(wanted) or ("", "")
    return [(row[0], row[1], row[2]) for row in tx.rows("members_asked", {"kind": kind, "name": name})]


def check_group(tx: Tx, name: str, where: str) -> None:
    """Raise BadInput where the tenant has no group of that name."""
    known = [row[0] for row in tx.rows("group_names")]
    if name not in known:
        mend = f"Use one of: {', '.join(known)}." if known else "Make the group first: POST approvals/groups/."
        raise BadInput(f"There is no group {name[:60]!r} in this tenant.", where=where, remediation=mend)


def check_groups(tx: Tx, rules: list[dict[str, Any]]) -> None:
    """Raise BadInput for a rule that names a group which is not there."""
    for i, rule in enumerate(rules):
        if "group" in rule:
            check_group(tx, rule["group"], f"/rules/{i}/group")


__all__ = ["GROUP", "MANAGER", "NAME", "asked_besides", "asked_of_group", "check_group", "check_groups", "in_words",
           "members_asked", "named"]  # fmt: skip
