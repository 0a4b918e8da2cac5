"""The mails that say a request is waiting. Their link opens a page; nothing is ever decided by following one."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from approvals.groups import members_asked, named
from approvals.requests import request_of_message
from runtime.kernel.messages import Mail, subject_of
from runtime.store.languages import in_their_languages
from runtime.store.links import page_link
from runtime.store.tx import Tx


def asked(tx: Tx, payload: dict[str, Any]) -> list[Mail]:
    """Compose the mails to those who may decide, each in their language; none when the request is closed by now.

    The payload is not in it: mail is read by more eyes than the approver's.
    """
    rows = tx.dicts("approval_read", (request_of_message(payload),))
    if not rows or rows[0]["state"] != "pending":
        return []
    row, why = rows[0], payload.get("why", "asked")
    link = page_link(tx, f"/inbox/{row['id']}/")
    # An edited proposal is another row and the same request: it keeps the thread of the first.
    [(_id, first)] = tx.rows("approval_roots", ([row["id"]],))
    thread = f"request.{first}"
    return in_their_languages(tx, _receivers(tx, row, why), lambda to: _mail(to, row, why, link, thread))


def _mail(to: list[str], row: dict[str, Any], why: str, link: str, thread: str) -> Mail:
    lines = [
        _("A decision is waiting: %(title)s") % {"title": row["title"]},
        "",
        _("Workflow: %(workflow)s, step: %(node)s") % {"workflow": row["workflow_name"], "node": row["node"]},
        _("Requested by: %(who)s") % {"who": row["requested_by"]},
    ]
    if row["deadline"] is not None:
        lines.append(_("Decide before: %(time)s UTC") % {"time": row["deadline"].strftime("%Y-%m-%d %H:%M")})
    lines += ["", link, "", _("The link only opens the page. You decide there, after signing in.")]
    said = _subject(why) % {"title": " ".join(row["title"].split())[:120]}
    subject = subject_of(said, row["id"], row["task_name"], row["target"])
    return Mail(to=to, subject=subject, text="\n".join(lines), thread=thread)


def _subject(why: str) -> str:
    subjects = {
        "warned": _("Half of the time is over: %(title)s"),
        "reminded": _("Little time left to decide: %(title)s"),
        "overdue": _("Overdue: %(title)s"),
        "escalated": _("Escalated to you: %(title)s"),
        "delegated": _("Handed over to you: %(title)s"),
        "mentioned": _("You are mentioned: %(title)s"),
    }
    return subjects.get(why.partition(":")[0], _("Approval needed: %(title)s"))


def _receivers(tx: Tx, row: dict[str, Any], why: str) -> list[str]:
    """Return the addresses of who is concerned: a mentioned member, the one who has it, or everybody it asks.

    Who stands in for one of those whom it asks is told too: they decide it as well.
    """
    name = why.removeprefix("mentioned:") if why.startswith("mentioned:") else None
    if name is None and row["assignee"] is not None:
        name = row["assignee"].removeprefix("user:")
    if name is not None:
        return [address for (address,) in tx.rows("addresses_of_member", (name,))]
    if named(row["role"]):
        found = sorted({address for _id, _name, address in members_asked(tx, row["role"]) if address})
    else:
        found = [address for (address,) in tx.rows("addresses_of_role", (row["role"] or "admin",))]
    return [*found, *(address for (address,) in tx.rows("addresses_standing_in", (found,)))]
