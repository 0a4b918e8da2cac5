"""The mails that a case is overdue, or waits for a review. Their links open a page; following one decides nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from repair.addressee import addresses_of, tool_owner
from repair.chains import OWNER, PERSON
from repair.law import (
    BULK_REVIEWING,
    COMPENSATE,
    CONFIRM_ABSENT,
    KEEP_PENDING,
    NOT_BEGUN,
    RECORD_SUCCESS,
    RESOLVED,
    RESUME_STEP,
    REVIEWING,
    WRITE_OFF,
)
from repair.models import BulkRepair, Case, Proposal
from repair.reviews import needed
from repair.verbs import REVIEW
from runtime.access.roles import ROLES, effective, verbs_of_role
from runtime.kernel.messages import Mail, subject_of
from runtime.kernel.words import in_words
from runtime.models import Membership, Operation, Task
from runtime.store.languages import in_their_languages
from runtime.store.links import page_link
from runtime.store.tx import Tx

_MOST = 100
_PROPOSED = {
    RECORD_SUCCESS: gettext_noop("Record success"),
    CONFIRM_ABSENT: gettext_noop("Confirm absent"),
    RESUME_STEP: gettext_noop("Resume the step"),
    COMPENSATE: gettext_noop("Compensate"),
    KEEP_PENDING: gettext_noop("Keep pending"),
    WRITE_OFF: gettext_noop("Write off"),
}


def overdue(tx: Tx, payload: dict[str, Any]) -> list[Mail]:
    """Compose the mails to whom a case was escalated to, and to its tool's owner, each in their language.

    None when it is resolved or nobody has an address. Where nobody of a link has one, the administrators are told.
    """
    case = Case.objects.filter(id=uuid.UUID(payload["case_id"])).first()
    if case is None or case.state == RESOLVED:
        return []
    to, answers = [*_addresses(tx, case), *addresses_of(tx, case.tool)], tool_owner(tx, case.tool)
    link = page_link(tx, f"/repairs/{case.id}/")
    return in_their_languages(tx, to, lambda those: _overdue(those, case, answers, link))


def _overdue(to: list[str], case: Case, answers: str | None, link: str) -> Mail:
    title = in_words(" ".join(case.title.split()))
    lines = [
        _("A repair is overdue: %(title)s") % {"title": title},
        "",
        _("Owner: %(owner)s") % {"owner": case.owner or _("nobody yet")},
        *([_("The tool belongs to: %(owner)s") % {"owner": answers}] if answers else []),
        _("It was due at %(time)s UTC") % {"time": case.due_at.strftime("%Y-%m-%d %H:%M")},
        "",
        link,
    ]
    subject = subject_of(_("Repair overdue: %(title)s") % {"title": title[:120]}, case.id, *_pieces(case))
    return Mail(to=to, subject=subject, text="\n".join(lines), thread=_thread(case))


def _pieces(case: Case) -> tuple[str | None, ...]:
    """Return what tells a case from others with the same title: its operation's key and its run's name."""
    key = Operation.objects.filter(id__in=[case.operation_id]).values_list("business_key", flat=True).first()
    return key, Task.objects.filter(id__in=[case.task_id]).values_list("name", flat=True).first()


def _thread(case: Case) -> str:
    return f"case.{case.id}"


def _addresses(tx: Tx, case: Case) -> list[str]:
    link = case.escalated_to or "oncall"
    if link == OWNER:
        link = case.owner or "oncall"
    person = link.startswith(PERSON)
    asked = ("addresses_of_member", link.removeprefix(PERSON)) if person else ("addresses_of_role", link)
    found = [address for (address,) in tx.rows(asked[0], (asked[1],))]
    # The case keeps that it was escalated: a link that reaches nobody must not be silence.
    return found or [address for (address,) in tx.rows("addresses_of_role", ("admin",))]


def review_asked(tx: Tx, payload: dict[str, Any]) -> list[Mail]:
    """Compose the mails about what waits for a second person's review, to all who may decide it but its proposer.

    One for each language of theirs; none when it is decided, withdrawn or replaced by now, or nobody has an address.
    What was proposed to be written is not in it: mail is read by more eyes than the reviewer's.
    """
    asked = _bulk_asked(payload) if "bulk_id" in payload else _case_asked(payload)
    if asked is None:
        return []
    link = page_link(tx, asked.path)
    return in_their_languages(tx, _reviewers(asked), lambda to: _review(to, asked, link))


def _review(to: list[str], asked: _Asked, link: str) -> Mail:
    title = asked.words()
    lines = [
        _("A repair waits for your review: %(title)s") % {"title": title},
        "",
        _("Proposed: %(what)s") % {"what": _(_PROPOSED[asked.resolution])},
        _("Proposed by: %(who)s") % {"who": asked.by},
    ]
    if asked.due is not None:
        lines.append(_("Due at %(time)s UTC") % {"time": asked.due.strftime("%Y-%m-%d %H:%M")})
    lines += ["", link, "", _("The link only opens the page. You decide there, after signing in.")]
    subject = subject_of(_("Review needed: %(title)s") % {"title": title[:120]}, asked.id, *asked.pieces)
    return Mail(to=to, subject=subject, text="\n".join(lines), thread=asked.thread)


@dataclass(frozen=True, slots=True)
class _Asked:
    # In the language that is active: the same is told to several people.
    words: Callable[[], str]
    resolution: str
    by: str
    by_user: tuple[int | None, ...]
    due: datetime | None
    path: str
    id: uuid.UUID
    thread: str
    pieces: tuple[str | None, ...] = ()


def _case_asked(payload: dict[str, Any]) -> _Asked | None:
    case = Case.objects.filter(
        id=uuid.UUID(payload["case_id"]), state=REVIEWING, proposal_id=uuid.UUID(payload["repair_id"])
    ).first()
    if case is None or case.proposal_id is None:
        return None
    proposal = Proposal.objects.filter(id=case.proposal_id, decision__isnull=True).first()
    if proposal is None:
        return None
    by_user = (proposal.proposed_user_id, case.owner_user_id)
    title = " ".join(case.title.split())
    about = (f"/repairs/{case.id}/", case.id, _thread(case), _pieces(case))
    return _Asked(lambda: in_words(title), proposal.resolution, proposal.proposed_by, by_user, case.due_at, *about)


def _bulk_asked(payload: dict[str, Any]) -> _Asked | None:
    bulk = BulkRepair.objects.filter(id=uuid.UUID(payload["bulk_id"]), state=BULK_REVIEWING).first()
    if bulk is None:
        return None
    cases = bulk.items.filter(state=NOT_BEGUN).count()
    path = f"/repairs/several/{bulk.id}/"
    about = (path, bulk.id, f"bulk.{bulk.id}")

    def words() -> str:
        return ngettext("%(n)d repair case at once", "%(n)d repair cases at once", cases) % {"n": cases}

    return _Asked(words, bulk.resolution, bulk.created_by, (bulk.created_user_id,), None, *about)


def _reviewers(asked: _Asked) -> list[str]:
    """Return the addresses of the members who may decide it: by their role, or by what they may besides."""
    verbs = needed(asked.resolution)
    roles = [role for role in ROLES if verbs <= verbs_of_role(role)]
    rows = Membership.objects.filter(ended_at__isnull=True, user__is_active=True).exclude(user__email="")
    rows = rows.exclude(user_id__in=[one for one in asked.by_user if one is not None])
    rows = rows.filter(Q(role__in=roles) | Q(extra_verbs__contains=[REVIEW])).order_by("user__email")
    named = rows.values_list("user__email", "role", "extra_verbs")
    found = (email for email, role, extra in named if verbs <= effective(role, extra))
    return list(dict.fromkeys(found))[:_MOST]
