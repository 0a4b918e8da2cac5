"""Setting the chain that a tenant's overdue cases go up, each time as a new version."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from repair.chains import OWNER, PERSON
from repair.law import RESOLVED
from repair.models import Case, Chain
from runtime.access.authorize import authorize
from runtime.access.roles import ROLES
from runtime.access.verbs import TENANT_SET
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Stale
from runtime.kernel.ids import uuid7
from runtime.models import Membership

MOST_LINKS = 8
# A week: what nobody has looked at by then is no question of whom to tell.
MOST_MINUTES = 7 * 24 * 60
# What a case keeps of whom it was told to.
MOST_CHARACTERS = 40
_WHO = "Name a role, `user:NAME` of a member, or `owner`."


def set_chain(*, actor: Actor, links: list[dict[str, Any]], expected_version: int, reason: str = "") -> dict[str, Any]:
    """Set whom the tenant's overdue cases are told to; no links at all: the default counts again.

    A link is {to, after_minutes}: a role, ``user:NAME`` or ``owner`` (who holds the case), and how many whole minutes
    after the due date, each later than the one before. What is open is told by it from now on; links that were told
    stay told. ``expected_version`` is the version that was shown, 0 for none. The same again is answered as it stands.
    Returns {version, links, default, replayed}. Raises BadInput saying which link, Stale when somebody else set it
    first, PermissionDenied. Verb ``tenant.set``.
    """
    said = check_reason(reason)
    authorize(actor, TENANT_SET)
    told, minutes = _checked(links)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            _insist_on_members(told)
            newest = Chain.objects.order_by("-version").values_list("version", "told", "after_minutes").first()
            version, *stands = newest or (0, None, None)
            if stands == [told, minutes]:
                return _answer(version, told, minutes, replayed=True)
            if version != expected_version:
                raise _stale(version)
            row = Chain(
                id=uuid7(), tenant_id=actor.tenant_id, version=version + 1, told=told, after_minutes=minutes,
                set_by=actor.label, set_at=unit.tx.now(), reason=said,
            )  # fmt: skip
            # Of two that write the same version at once the key lets one through.
            Chain.objects.bulk_create([row], ignore_conflicts=True)
            if not Chain.objects.filter(id=row.id).exists():
                raise _stale(version + 1)
            # What is overdue begins at the new chain's first link again; who was told is told no second time.
            overdue = Case.objects.exclude(state=RESOLVED).filter(due_at__lte=unit.tx.now())
            overdue.update(escalations=0, version=F("version") + 1)
            audit.record(
                unit.tx,
                actor=actor,
                verb=TENANT_SET,
                subject_kind="escalation_chain",
                subject_id=actor.tenant_id,
                result="set" if told else "unset",
                reason=said,
                details={"version": version + 1, "told": told, "after_minutes": minutes},
            )
            return _answer(version + 1, told, minutes, replayed=False)

    answer: dict[str, Any] = insist(once)
    return answer


def _answer(version: int, told: list[str], minutes: list[int], *, replayed: bool) -> dict[str, Any]:
    links = [{"to": to, "after_minutes": after} for to, after in zip(told, minutes, strict=True)]
    return {"version": version, "links": links, "default": not told, "replayed": replayed}


def _stale(version: int) -> Stale:
    return Stale(
        f"The chain is in version {version}.",
        remediation="Read it again, and say what you want to change of that.",
        current_version=version,
    )


def _checked(links: list[dict[str, Any]]) -> tuple[list[str], list[int]]:
    if len(links) > MOST_LINKS:
        raise BadInput(f"A chain has at most {MOST_LINKS} links.", where="/links", remediation="Leave some out.")
    told: list[str] = []
    minutes: list[int] = []
    for index, link in enumerate(links):
        to, after = link.get("to"), link.get("after_minutes")
        where = f"/links/{index}"
        if not isinstance(to, str) or (to not in ROLES and to != OWNER and not to.startswith(PERSON)):
            raise BadInput(f"There is no role {str(to)[:40]!r}.", where=f"{where}/to", remediation=_WHO)
        if len(to) > MOST_CHARACTERS:
            raise BadInput(
                f"At most {MOST_CHARACTERS} characters.", where=f"{where}/to", remediation="Name a role instead."
            )
        if not isinstance(after, int) or isinstance(after, bool) or not 0 <= after <= MOST_MINUTES:
            mend = f"Say whole minutes after the due date, 0 to {MOST_MINUTES}."
            raise BadInput("That is no time.", where=f"{where}/after_minutes", remediation=mend)
        if minutes and after <= minutes[-1]:
            mend = f"Say more than {minutes[-1]} minutes."
            raise BadInput(
                "A link is told later than the one before.", where=f"{where}/after_minutes", remediation=mend
            )
        told.append(to)
        minutes.append(after)
    return told, minutes


def _insist_on_members(told: list[str]) -> None:
    """Raise BadInput for a person who is no member: nobody would be told."""
    people = {to: to.removeprefix(PERSON) for to in told if to.startswith(PERSON)}
    rows = Membership.objects.filter(user__username__in=people.values(), ended_at=None, user__is_active=True)
    known = set(rows.values_list("user__username", flat=True))
    for index, to in enumerate(told):
        if to in people and people[to] not in known:
            raise BadInput(
                f"There is no member {people[to]!r} in this tenant.", where=f"/links/{index}/to", remediation=_WHO
            )
