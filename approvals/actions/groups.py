"""Who is in a group that decides, and who is whose manager; an admin says so, and the audit keeps it (C5.3, C8.5)."""

from __future__ import annotations

import uuid
from typing import Any

import orjson

from approvals.groups import NAME, asked_of_group
from approvals.people import member_named
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, Stale
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx

MOST_MEMBERS = 100


def put_group(
    *, actor: Actor, name: str, members: list[str], reason: str = "", expected_members: list[str] | None = None
) -> dict[str, Any]:
    """Say who is in a group, and make it where there is none; whoever is not named is in it no more.

    Requests that ask it already are decided by who is in it when they decide. ``expected_members`` are those that were
    shown, none for a new group: who was added or ended since is neither ended nor added again unseen. Returns {name,
    members, created, added, ended}; the same again changes nothing. Raises BadInput for a name that cannot be used, or
    no active member, Stale when others are in it. Verb ``member.manage``.
    """
    authorize(actor, v.MEMBER_MANAGE)
    text = check_reason(reason)
    if NAME.fullmatch(name) is None:
        mend = "Use small letters, digits, dots, dashes and underscores, 60 at most."
        raise BadInput("A group cannot be called that.", where="/name", remediation=mend)
    if len(members) > MOST_MEMBERS:
        raise BadInput(f"A group has at most {MOST_MEMBERS} members.", where="/members", remediation="Name fewer.")

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            return _put(unit.tx, actor, name, members, text, expected_members)

    answer: dict[str, Any] = insist(once)
    return answer


def _put(
    tx: Tx, actor: Actor, name: str, members: list[str], reason: str, expected: list[str] | None
) -> dict[str, Any]:
    tx.send("group_serial", (tx.tenant_id,))
    wanted = {_member(tx, one, f"/members/{i}"): one for i, one in enumerate(members)}
    row = tx.one("group_named", (name,))
    group_id = row[0] if row is not None else uuid7()
    if row is None:
        tx.send("group_insert", (group_id, tx.tenant_id, name, actor.label))
    there = dict[int, str](tx.rows("group_members", (group_id,)))
    if expected is not None and set(expected) != set(there.values()) and set(wanted) != set(there):
        now = ", ".join(sorted(there.values())) or "nobody"
        raise Stale(f"Others are in the group {name} than you were shown. In it now: {now}.")
    added = [user_id for user_id in wanted if user_id not in there]
    ended = [user_id for user_id in there if user_id not in wanted]
    for user_id in added:
        tx.send("group_member_insert", (uuid7(), tx.tenant_id, group_id, user_id, actor.label))
    if ended:
        tx.send("group_member_end", (group_id, ended))
    answer = {
        "name": name,
        "members": sorted(wanted.values()),
        "created": row is None,
        "added": sorted(wanted[one] for one in added),
        "ended": sorted(there[one] for one in ended),
    }
    if row is None or added or ended:
        _record(tx, actor, "approval.group", group_id, reason, answer)
    return answer


def remove_group(*, actor: Actor, name: str, reason: str = "") -> dict[str, Any]:
    """Remove a group that nothing names. Returns {name, removed}.

    Raises NotFound, Conflict while an active or proposed policy or the newest version of a workflow names it, or a
    request waits for it or would ask it on its way up: nobody but an admin could decide then. Verb ``member.manage``.
    """
    authorize(actor, v.MEMBER_MANAGE)
    text = check_reason(reason)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            return _remove(unit.tx, actor, name, text)

    answer: dict[str, Any] = insist(once)
    return answer


def _remove(tx: Tx, actor: Actor, name: str, reason: str) -> dict[str, Any]:
    tx.send("group_serial", (tx.tenant_id,))
    tx.send("policy_serial", (tx.tenant_id,))
    row = tx.one("group_named", (name,))
    if row is None:
        raise NotFound("There is no group of that name in this tenant.")
    _refuse_named(tx, name)
    ended = tx.rows("group_members", (row[0],))
    tx.send("group_member_end", (row[0], [one[0] for one in ended]))
    tx.send("group_remove", (row[0],))
    _record(tx, actor, "approval.group_remove", row[0], reason, {"name": name, "ended": [one[1] for one in ended]})
    return {"name": name, "removed": True}


def _refuse_named(tx: Tx, name: str) -> None:
    """Raise Conflict while a policy, a workflow or a waiting request names the group."""
    for version, rules in tx.rows("policies_in_use"):
        if any(rule.get("group") == name for rule in orjson.loads(bytes(rules))):
            mend = "Activate a policy that does not name it, or withdraw the proposal, first."
            raise Conflict(f"Policy {version} names the group {name}.", remediation=mend)
    asked = asked_of_group(name)
    # As a workflow's specification writes a text: names of groups have nothing that is escaped.
    naming = tx.one("workflow_naming", (f'"{asked}"'.encode(),))
    if naming is not None:
        mend = "Register a version of it that asks others first."
        raise Conflict(f"The workflow {naming[0]} names the group {name}.", remediation=mend)
    waiting = tx.one("requests_asking", {"tenant": tx.tenant_id, "asked": asked})
    if waiting is not None and waiting[0]:
        mend = "Decide them, or escalate them to others, first."
        raise Conflict(f"{waiting[0]} requests wait for the group {name}, or would ask it next.", remediation=mend)


def set_manager(*, actor: Actor, username: str, manager: str | None, reason: str = "") -> dict[str, Any]:
    """Say who a member's manager is: the rung ``manager`` of a ladder asks them. None: nobody any more.

    Returns {user, manager, before}. Raises BadInput for no active member, for oneself, and for a ring, in which
    everybody would stand above themselves. Verb ``member.manage``.
    """
    authorize(actor, v.MEMBER_MANAGE)
    text = check_reason(reason)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            return _set_manager(unit.tx, actor, username, manager, text)

    answer: dict[str, Any] = insist(once)
    return answer


def _set_manager(tx: Tx, actor: Actor, username: str, manager: str | None, reason: str) -> dict[str, Any]:
    tx.send("group_serial", (tx.tenant_id,))
    user_id = _member(tx, username, "/user")
    manager_id = None if manager is None else _member(tx, manager, "/manager")
    _refuse_ring(tx, user_id, manager_id, username)
    row = tx.one("manager_of_user", (user_id,))
    before = None if row is None else row[1]
    answer = {"user": username, "manager": manager, "before": before}
    if before != manager:
        words = {"id": uuid7(), "tenant": tx.tenant_id, "user": user_id, "manager": manager_id, "by": actor.label}
        tx.send("manager_put", words)
        _record(tx, actor, "approval.manager", tx.tenant_id, reason, answer)
    return answer


def _refuse_ring(tx: Tx, user_id: int, manager_id: int | None, username: str) -> None:
    above, seen = manager_id, set[int]()
    while above is not None and above not in seen:
        if above == user_id:
            mend = "Name somebody who does not report to them."
            raise BadInput(f"{username} would stand above themselves.", where="/manager", remediation=mend)
        seen.add(above)
        row = tx.one("manager_of_user", (above,))
        above = None if row is None else row[0]


def _member(tx: Tx, username: str, where: str) -> int:
    found = member_named(tx, username)
    if found is None:
        mend = "Name a member, as the page Members lists them."
        raise BadInput(f"{username[:150]!r} is no active member of this tenant.", where=where, remediation=mend)
    return found[0]


def _record(tx: Tx, actor: Actor, verb: str, subject: uuid.UUID | None, reason: str, details: dict[str, Any]) -> None:
    audit.record(
        tx, actor=actor, verb=verb, subject_kind="group", subject_id=subject, reason=reason, details=details,
    )  # fmt: skip
