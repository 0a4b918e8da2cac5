"""The mail that says a case is overdue. Its link opens a page; nothing is ever decided by following one."""

from __future__ import annotations

import uuid
from typing import Any

from django.utils.translation import gettext as _

from repair.addressee import addresses_of, tool_owner
from repair.chains import OWNER, PERSON
from repair.law import RESOLVED
from repair.models import Case
from runtime.kernel.messages import Mail
from runtime.store.links import page_link
from runtime.store.tx import Tx


def overdue(tx: Tx, payload: dict[str, Any]) -> Mail | None:
    """Compose the mail to whom a case was escalated to, and to its tool's owner.

    None when it is resolved or nobody has an address. Where a person of the chain is gone or has no address, the
    administrators are told.
    """
    case = Case.objects.filter(id=uuid.UUID(payload["case_id"])).first()
    if case is None or case.state == RESOLVED:
        return None
    to = list(dict.fromkeys([*_addresses(tx, case), *addresses_of(tx, case.tool)]))
    if not to:
        return None
    title, answers = " ".join(case.title.split()), tool_owner(tx, case.tool)
    lines = [
        _("A repair is overdue: %(title)s") % {"title": title},
        "",
        _("Owner: %(owner)s") % {"owner": case.owner or _("nobody yet")},
        *([_("The tool belongs to: %(owner)s") % {"owner": answers}] if answers else []),
        _("It was due at %(time)s UTC") % {"time": case.due_at.strftime("%Y-%m-%d %H:%M")},
        "",
        page_link(tx, f"/repairs/{case.id}/"),
    ]
    return Mail(to=to, subject=_("Repair overdue: %(title)s") % {"title": title[:120]}, text="\n".join(lines))


def _addresses(tx: Tx, case: Case) -> list[str]:
    link = case.escalated_to or "oncall"
    if link == OWNER:
        link = case.owner or "oncall"
    if not link.startswith(PERSON):
        return [address for (address,) in tx.rows("addresses_of_role", (link,))]
    found = [address for (address,) in tx.rows("addresses_of_member", (link.removeprefix(PERSON),))]
    return found or [address for (address,) in tx.rows("addresses_of_role", ("admin",))]
