"""Who may decide: a person with the verb, in the role that the request names. Programs never decide."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from django.db.models import Q

from approvals.asked import Asked
from approvals.errors import HandedOver, OwnRequest
from approvals.groups import asked_besides, in_words, members_asked, named
from approvals.verbs import ANSWER, DECIDE
from runtime.access.authorize import may
from runtime.access.identity import actor_in_tenant, role_in
from runtime.access.roles import ROLES, effective, verbs_of_role
from runtime.access.verbs import RUN_CREATE, TASK_SUBMIT
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotAuthenticated, NotFound, PermissionDenied
from runtime.queries.base import parsed
from runtime.store import directory
from runtime.store.tx import Tx

ADMIN = "admin"


def role_of(actor: Actor) -> str | None:
    """Return the actor's role in their tenant as the database has it now; None for whoever is no member."""
    if actor.kind != "user" or actor.user_id is None:
        return None
    try:
        return role_in(actor.tenant_id, actor.user_id)
    except NotFound:
        return None


def deciding_role(tx: Tx, user_id: int, verb: str = DECIDE) -> str | None:
    """Return in which role of the transaction's tenant a user decides now, None when they decide nothing there.

    ``verb`` is another where they answer. Nobody does whose account is closed: a membership outlives that.
    """
    mine = [one for one in directory.memberships_of(user_id) if one.tenant_id == tx.tenant_id]
    role = next((one.role for one in mine if verb in effective(one.role, one.extra_verbs)), None)
    return role if role is not None and tx.one("active_user", (user_id,)) is not None else None


class Standing:
    """Who could decide now, in the transaction's tenant, by one rule wherever it is asked; of each person once."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self._roles: dict[int, str | None] = {}
        self._besides: dict[int, frozenset[str]] = {}

    def decides(self, user_id: int | None, wanted: str) -> bool:
        """Return whether a user could decide a request that names ``wanted``."""
        role = None if user_id is None else self.role(user_id)
        return role is not None and self.asked(user_id, role, wanted)

    def speaks(self, user_id: int, for_user_id: int | None, wanted: str) -> bool:
        """Return whether a voice counts: that of its giver and, where they stood in, of the other one as well."""
        if for_user_id is None:
            return self.decides(user_id, wanted)
        return self.decides(for_user_id, wanted) and self.role(user_id) is not None

    def asked(self, user_id: int | None, role: str, wanted: str) -> bool:
        """Return whether a request for ``wanted`` asks somebody in ``role``: as an admin, by role, group or rank."""
        if role == ADMIN or wanted in ("", role):
            return True
        return named(wanted) is not None and user_id is not None and wanted in self.besides(user_id)

    def role(self, user_id: int) -> str | None:
        """Return what :func:`deciding_role` does."""
        if user_id not in self._roles:
            self._roles[user_id] = deciding_role(self.tx, user_id)
        return self._roles[user_id]

    def besides(self, user_id: int) -> frozenset[str]:
        """Return the groups somebody is in, and whose manager they are, as requests name them."""
        if user_id not in self._besides:
            self._besides[user_id] = asked_besides(self.tx, user_id)
        return self._besides[user_id]


def verb_for(kind: str) -> str:
    """Return which permission a request of this kind needs: an input is answered, all else decided."""
    return ANSWER if kind == "input" else DECIDE


def roles_asked(tx: Tx, kind: str) -> dict[str, bool]:
    """Return the roles of the transaction's tenant that may decide a request of this kind, and whether anybody has it.

    A role counts whose verbs, or one of whose members' own extra verbs, carry it.
    """
    verb = verb_for(kind)
    found = {role: False for role in ROLES if verb in verbs_of_role(role)}
    for role, extra in tx.rows("held_roles"):
        if verb in effective(role, parsed(extra)):
            found[role] = True
    return found


def check_asked(tx: Tx, kind: str, role: str) -> None:
    """Raise BadInput, naming the roles that can, for a role in which nobody could decide a request of this kind."""
    roles = roles_asked(tx, kind)
    if roles.get(role):
        return
    held = ", ".join(sorted(name for name, somebody in roles.items() if somebody))
    why = "Nobody here has it" if role in roles else f"It does not carry `{verb_for(kind)}`"
    detail = f"The role {role} cannot be asked. {why}: the request would wait for nobody."
    raise BadInput(detail, where="/role", remediation=f"Choose one of: {held or ADMIN}.")


def may_decide(tx: Tx, actor: Actor, wanted: str, role: str | None, verb: str = DECIDE) -> bool:
    """Return whether an actor whose role is ``role`` may decide (or answer) a request that names ``wanted``.

    An admin may decide every request; a request that names no role is decided by whoever has the verb.
    """
    return role is not None and may(actor, verb) and Standing(tx).asked(actor.user_id, role, wanted)


@dataclass(frozen=True, slots=True)
class Voice:
    """In whose name a person speaks: their own, or (``for_*``) that of whoever they stand in for."""

    user_id: int
    label: str
    for_user_id: int | None = None
    for_label: str | None = None

    @property
    def people(self) -> set[int]:
        """Return who is used up by this voice: one person has one, however many roles and delegations."""
        return {self.user_id} | ({self.for_user_id} if self.for_user_id is not None else set())


class Question(Protocol):
    """What of a request says who may decide it."""

    @property
    def kind(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def separation(self) -> str: ...
    @property
    def requested_by(self) -> str: ...
    @property
    def assignee_id(self) -> int | None: ...
    @property
    def assigned_by_id(self) -> int | None: ...
    @property
    def assigned_by(self) -> str | None: ...


class Rights:
    """What one person may decide, by one rule for a decision, a page and a list."""

    def __init__(self, tx: Tx, actor: Actor) -> None:
        self.tx, self.actor, self.role, self.people = tx, actor, role_of(actor), Standing(tx)
        self.verbs = {verb for verb in (DECIDE, ANSWER) if self.role is not None and may(actor, verb)}

    def voice(self, asked: Question, heard: Collection[int | None] = ()) -> Voice | None:
        """Return in whose name the actor could speak on a request, None without a right of their own or lent.

        ``heard`` are the people whose voices were given: of those who lent a right one who was not heard comes first.
        """
        actor = self.actor
        if self.role is None or actor.user_id is None or verb_for(asked.kind) not in self.verbs:
            return None
        if self.people.asked(actor.user_id, self.role, asked.role):
            return Voice(actor.user_id, actor.label)
        if asked.assignee_id == actor.user_id and self.people.decides(asked.assigned_by_id, asked.role):
            return Voice(actor.user_id, actor.label, asked.assigned_by_id, asked.assigned_by)
        lent = [one for one in self.lenders if self.people.decides(one[0], asked.role)]
        # Whoever asked for it lends nothing for it; somebody else may.
        lent.sort(key=lambda one: (asked.separation != "none" and one[1] == asked.requested_by, one[0] in heard))
        return Voice(actor.user_id, actor.label, *lent[0]) if lent else None

    def own_request(self, asked: Question, voice: Voice) -> bool:
        """Return whether the actor, or whom they stand in for, asked for it where that must be another person."""
        return asked.separation != "none" and asked.requested_by in (self.actor.label, voice.for_label)

    def may_decide(self, asked: Question) -> bool:
        """Return whether :func:`voice_of` would raise nothing."""
        voice = self.voice(asked)
        if voice is None or self.own_request(asked, voice):
            return False
        return asked.assignee_id is None or asked.assignee_id == self.actor.user_id

    def mine(self) -> Q:
        """Return the condition for requests that are the actor's to decide: free ones of their role, those they have.

        A role lent to them counts. One handed over by somebody who lost the right meanwhile is still theirs to see.
        """
        if not self.verbs:
            return Q(pk__in=[])
        label, both = self.actor.label, len(self.verbs) == 2
        kinds = _ANY if both else Q(kind="input") if ANSWER in self.verbs else ~Q(kind="input")
        free = self._asked(self.actor.user_id, self.role)
        for user_id, name in self.lenders:
            if (role := self.people.role(user_id)) is not None:
                free |= self._asked(user_id, role) & _not_asked_by(name)
        held = Q(assignee_id=self.actor.user_id) | (Q(assignee_id__isnull=True) & free)
        return kinds & _not_asked_by(label) & held

    @cached_property
    def lenders(self) -> list[tuple[int, str]]:
        """In whose place the actor may decide now: (user id, label)."""
        return [(row[0], row[1]) for row in self.tx.rows("delegations_to", (self.actor.user_id,))]

    def _asked(self, user_id: int | None, role: str | None) -> Q:
        """Return the condition for requests that ask somebody: every one an admin, else by role, group or rank."""
        if role == ADMIN:
            return _ANY
        return Q(role__in=("", role or "", *sorted(self.people.besides(user_id) if user_id is not None else ())))


_ANY = ~Q(pk__in=[])


def _not_asked_by(label: str) -> Q:
    return Q(separation="none") | ~Q(requested_by=label)


def voice_of(tx: Tx, actor: Actor, asked: Asked, heard: Collection[int | None] = ()) -> Voice:
    """Return in whose name the actor may speak on a request; ``heard`` are the people who have spoken.

    Raises PermissionDenied without a right of their own or lent to them, HandedOver when it is somebody else's to
    decide, OwnRequest when they, or whom they stand in for, asked for it (separation of duties).
    """
    rights = Rights(tx, actor)
    found = rights.voice(asked, heard)
    if found is None:
        raise PermissionDenied(
            f"{actor.label} may not decide this request: it is for {in_words(asked.role, ADMIN)}.",
            verb=DECIDE,
            remediation="Only a member it asks, or an admin, decides it; programs never do.",
        )
    if rights.own_request(asked, found):
        raise OwnRequest(f"{asked.requested_by} asked for it and does not decide it.", verb=DECIDE)
    if asked.assignee_id is not None and asked.assignee_id != actor.user_id:
        by = "" if asked.assigned_by_id == asked.assignee_id else f", handed over by {asked.assigned_by}"
        raise HandedOver(f"{asked.assignee} decides it{by}.", assignee=asked.assignee, **asked.there())
    return found


# An order to be permitted still: by which verb, of which workflow, by whom.
_Order = tuple[str, uuid.UUID, str, int | None]


class Requesters:
    """Who asked for the calls of some runs, and whether they still might; each is asked of once, when a call is near.

    A program asks by a member's token. Whoever is no member's name (the engine, a command on the host) has no right
    that could be lost.
    """

    def __init__(self, tx: Tx, runs: Sequence[uuid.UUID]) -> None:
        self.tx, self.runs = tx, runs
        self._gone: dict[_Order, bool] = {}

    @cached_property
    def _asked(self) -> dict[uuid.UUID, list[_Order]]:
        rows = self.tx.rows("approval_requesters", (list(self.runs),)) if self.runs else []
        return {row[0]: [(TASK_SUBMIT, row[1], row[2], row[3]), (RUN_CREATE, row[1], row[4], row[5])] for row in rows}

    def gone(self, run_id: uuid.UUID) -> str | None:
        """Return who asked for a run, its submitter or whoever had it run again, and may not any more; else None."""
        return next((order[2] for order in self._asked.get(run_id, ()) if self._is_gone(order)), None)

    def _is_gone(self, order: _Order) -> bool:
        verb, workflow_id, _label, user_id = order
        if user_id is None:
            return False
        if order not in self._gone:
            self._gone[order] = not self._may(user_id, verb, workflow_id)
        return self._gone[order]

    def _may(self, user_id: int, verb: str, workflow_id: uuid.UUID) -> bool:
        assert self.tx.tenant_id is not None
        try:
            return may(actor_in_tenant(self.tx.tenant_id, user_id), verb, workflow_id)
        except (NotAuthenticated, PermissionDenied):
            return False


def counted(tx: Tx, voices: Iterable[dict[str, Any]], wanted: str) -> int:
    """Count who approved and may still decide for ``wanted``, the role that is asked now: an escalation changes it.

    A voice of somebody who left the role in between, or who has no say where the request stands by now, counts no more.
    """
    people = Standing(tx)
    approved = [one for one in voices if one["decision"] == "approve"]
    return sum(people.speaks(one["user_id"], one["for_user_id"], wanted) for one in approved)


def approvals_given(tx: Tx, state: str, wanted: str, voices: Sequence[dict[str, Any]]) -> int:
    """Return how many have approved: of a pending request those whose voice counts now, of a closed one all."""
    if state == "pending":
        return counted(tx, voices, wanted)
    return sum(one["decision"] == "approve" for one in voices)


def deciders_of(tx: Tx, wanted: str) -> list[tuple[str, str]]:
    """Return (username, whom they are asked as) of who a request for ``wanted`` asks, and of admins: fifty at most."""
    members = [(name, wanted) for _id, name, _address in members_asked(tx, wanted)] if named(wanted) else []
    admins = tx.rows("members_of_role", (ADMIN if named(wanted) else wanted or ADMIN,))
    return [*members, *((row[0], row[1]) for row in admins if row[0] not in dict(members))][:50]


def member_named(tx: Tx, username: str) -> tuple[int, str] | None:
    """Return (user id, label) of an active member of the transaction's tenant, None when there is none."""
    row = tx.one("member_named", (username,))
    return None if row is None else (row[0], f"user:{row[1]}")
