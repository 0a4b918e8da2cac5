"""Whom requests would find if they were asked today (C5.3, A7.3).

Groups and members may be made after what names them, so a workflow or a policy that asks nobody is no mistake by
itself: it is told, and never refused for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from approvals.groups import MANAGER, asked_of_group, named
from approvals.people import ADMIN, Standing, deciding_role, verb_for
from approvals.verbs import DECIDE
from runtime.access.roles import ROLES, effective, verbs_of_role
from runtime.graph.problems import nearest
from runtime.store.tx import Tx

# Who could still decide a pending request: somebody it asks, nobody of those but admins, or fewer than it needs.
LEFT_TO = ("asked", "admins", "too_few")


@dataclass(frozen=True, slots=True)
class Ask:
    """One place in a document that asks people: ``where`` says whom, ``counted`` how many of them (JSON pointers)."""

    where: str
    wanted: str
    verb: str = DECIDE
    quorum: int = 1
    counted: str = ""
    rung: bool = False


def workflow_warnings(tx: Tx, document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return where a checked workflow would find nobody today, or too few people: {where, detail, remediation}."""
    nodes = enumerate(document["nodes"])
    return _told(tx, [ask for i, node in nodes if node["kind"] in ("approval", "input") for ask in _of_node(i, node)])


def rule_warnings(tx: Tx, rules: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the same of the rules of a policy; a group that is not there is refused before."""
    return _told(tx, [_of_rule(i, rule) for i, rule in enumerate(rules) if rule["decide"] == "approval"])


def _of_node(i: int, node: Mapping[str, Any]) -> Iterator[Ask]:
    there, verb, quorum = f"/nodes/{i}", verb_for(node["kind"]), node.get("quorum", 1)
    where = f"{there}/role" if "role" in node else there
    yield Ask(where, node.get("role", ""), verb, quorum, f"{there}/quorum")
    for j, rung in enumerate(node.get("escalation", ())):
        where = f"{there}/escalation/{j}/role"
        yield Ask(where, rung["role"], verb, quorum, where, rung=True)


def _of_rule(i: int, rule: Mapping[str, Any]) -> Ask:
    there = f"/rules/{i}"
    name = next((one for one in ("group", "role") if one in rule), "")
    wanted = asked_of_group(rule["group"]) if name == "group" else rule.get("role", "")
    where = f"{there}/{name}" if name else there
    return Ask(where, wanted, quorum=rule.get("quorum", 1), counted=f"{there}/quorum")


def _told(tx: Tx, asks: Sequence[Ask]) -> list[dict[str, str]]:
    if not asks:
        return []
    today = _Today(tx, {ask.wanted for ask in asks})
    found = ((where, said) for ask in asks for where, said in today.lacking(ask))
    return [{"where": where, "detail": detail, "remediation": mend} for where, (detail, mend) in found]


class _Today:
    """The active members of the transaction's tenant, counted by what a request may name and by what they may."""

    def __init__(self, tx: Tx, wanted: Iterable[str]) -> None:
        self.tx = tx
        self._counts: dict[str, list[tuple[str, frozenset[str], int]]] = {}
        for asked, role, extra, count in tx.rows("askable", {"asked": sorted(wanted)}):
            # Django leaves jsonb as text on its connections.
            verbs = effective(role, orjson.loads(extra) if isinstance(extra, str | bytes) else extra)
            self._counts.setdefault(asked, []).append((role, verbs, count))
        self.admins = sum(count for role, _verbs, count in self._everybody if role == ADMIN)

    @property
    def _everybody(self) -> list[tuple[str, frozenset[str], int]]:
        return self._counts.get("", [])

    @cached_property
    def groups(self) -> frozenset[str]:
        return frozenset(row[0] for row in self.tx.rows("group_names"))

    def lacking(self, ask: Ask) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield (where, (what is wrong, how to mend it))."""
        unasked = self._unasked(ask)
        if unasked is not None:
            yield ask.where, unasked
        could = self._could(ask)
        if 0 < could < ask.quorum and not (unasked and ask.rung):
            mend = f"Ask for fewer people, or give `{ask.verb}` to more."
            yield ask.counted, (f"{ask.quorum} people have to approve, and {could} could now.", mend)

    def _asked(self, ask: Ask) -> list[tuple[str, int]]:
        """Return (role, how many) of those it names who have the permission; without a name that is everybody."""
        if named(ask.wanted) is not None or (ask.rung and ask.wanted == MANAGER):
            rows = self._counts.get(ask.wanted, [])
        else:
            rows = [row for row in self._everybody if ask.wanted in ("", row[0])]
        return [(role, count) for role, verbs, count in rows if ask.verb in verbs]

    def _could(self, ask: Ask) -> int:
        """Return how many could decide one request: those it names, and admins, who decide every one."""
        others = sum(count for role, count in self._asked(ask) if role != ADMIN)
        # A rung asks one manager, whoever's it is.
        return self.admins + (min(others, 1) if ask.wanted == MANAGER else others)

    def _unasked(self, ask: Ask) -> tuple[str, str] | None:
        """Return why nobody would be asked, and what mends it; None where somebody would."""
        if self._asked(ask):
            return None
        found, verb = named(ask.wanted), f"`{ask.verb}`"
        waits = f"a request would wait for {'an admin' if self.admins else 'nobody'}."
        if ask.rung and ask.wanted == MANAGER:
            mend = "Say who is whose manager, or ask a role or a group."
            return f"Nobody with {verb} is anybody's manager now: this rung would be passed over.", mend
        if found is None:
            return self._unasked_role(ask, waits)
        kind, name = found
        if kind == MANAGER:
            mend = "Say who is whose manager, or ask a role or a group."
            return f"Nobody with {verb} is the manager of {name[:60]!r} now: {waits}", mend
        if name not in self.groups:
            return f"There is no group {name[:60]!r} now: {waits}", "Make the group, or name another one."
        return f"Nobody in the group {name!r} has {verb} now: {waits}", f"Put somebody into it who has {verb}."

    def _unasked_role(self, ask: Ask, waits: str) -> tuple[str, str]:
        role, verb = ask.wanted, f"`{ask.verb}`"
        held = sorted({one for one, verbs, _count in self._everybody if one in ROLES and ask.verb in verbs})
        choose = f"Use one of: {', '.join(held or [ADMIN])}."
        if not role:
            return f"Nobody has {verb} now: {waits}", "Make a member an admin."
        if role == MANAGER:
            mend = f"Only a rung of `escalation` asks it. {choose}"
            return f"There is no role {role!r}: {waits}", mend
        if role not in ROLES:
            return f"There is no role {role[:60]!r}: {waits}", choose + nearest(role, ROLES)
        if ask.verb not in verbs_of_role(role):
            return f"The role {role} does not carry {verb}: {waits}", choose
        return f"Nobody has the role {role} now: {waits}", f"Give somebody the role. {choose}"


def left_to(tx: Tx, asked: Mapping[str, Any], voices: Sequence[Mapping[str, Any]], approved: int) -> str | None:
    """Return who could decide a request today, one of ``LEFT_TO``; None where it waits no more.

    ``asked`` is its row, ``voices`` are those of people so far, of which ``approved`` count. Whoever it was handed over
    to decides it alone. Stand-ins are not looked for: where one could decide, whoever they stand in for could.
    """
    if asked["state"] != "pending":
        return None
    verb, wanted = verb_for(asked["kind"]), asked["role"]
    if _held(tx, asked, verb):
        return "asked"
    spent = [one[name] for one in voices for name in ("user_id", "for_user_id") if one[name] is not None]
    if asked["separation"] == "two_people" and asked["editor_id"] is not None:
        spent.append(asked["editor_id"])
    kind, name = named(wanted) or ("role", wanted)
    words = {
        "kind": kind,
        "name": name,
        "verb": verb,
        "roles": [role for role in ROLES if verb in verbs_of_role(role)],
        "spent": spent,
        "requester": "" if asked["separation"] == "none" else asked["requested_by"],
    }
    row = tx.one("left_to_decide", words)
    assert row is not None
    others, admins = row
    if others + admins < max(1, asked["quorum"] - approved):
        return "too_few"
    return "asked" if others or wanted == ADMIN else "admins"


def _held(tx: Tx, asked: Mapping[str, Any], verb: str) -> bool:
    """Say whether somebody has it who may decide it, by their own right or by that of whoever handed it over."""
    holder = asked["assignee_id"]
    if holder is None or deciding_role(tx, holder, verb) is None:
        return False
    people = Standing(tx)
    return any(people.decides(one, asked["role"]) for one in (holder, asked["assigned_by_id"]))


__all__ = ["LEFT_TO", "left_to", "rule_warnings", "workflow_warnings"]
