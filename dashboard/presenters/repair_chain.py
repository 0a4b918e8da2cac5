"""The words of the chain that overdue repair cases go up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.presenters import states
from repair.chains import OWNER, PERSON


def link_word(to: str) -> str:
    """Return who a link of the chain is: a role's name, a person's, or whoever holds the case."""
    if to == OWNER:
        return _("who holds the case")
    return to.removeprefix(PERSON) if to.startswith(PERSON) else states.role_word(to)


def after_word(minutes: int) -> str:
    """Return when a link is told, after the due date."""
    if minutes == 0:
        return _("when it is due")
    hours, rest = divmod(minutes, 60)
    told = []
    if hours:
        told.append(ngettext("%(n)d hour", "%(n)d hours", hours) % {"n": hours})
    if rest:
        told.append(ngettext("%(n)d minute", "%(n)d minutes", rest) % {"n": rest})
    return _("%(time)s after it is due") % {"time": " ".join(told)}


def links(rows: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the links of a chain as {who, when}."""
    return [{"who": link_word(one["to"]), "when": after_word(one["after_minutes"])} for one in rows]


def escalation(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whom a case goes up to: {who, at, state}."""
    return [{**one, "who": link_word(one["to"])} for one in case["escalation"]]
