"""How approvals go, in numbers: outcomes and waiting times of a time, by tool, by role and by period."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from approvals.statistics import read_statistics
from approvals.verbs import READ
from dashboard.pages.console import moment, page, show
from dashboard.presenters import states, times
from runtime.kernel.actor import Actor

# Days that may be looked back.
SPANS = {
    "7": gettext_lazy("7 days"),
    "30": gettext_lazy("30 days"),
    "90": gettext_lazy("90 days"),
    "365": gettext_lazy("365 days"),
}
DEFAULT = "30"


@page(READ, section="inbox")
def statistics(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show what became of what was asked in the last days, and how long people were waited for."""
    span = request.GET.get("days", DEFAULT)
    span = span if span in SPANS else DEFAULT
    now = moment(actor)
    # Requests of this very moment count too.
    until = now + timedelta(seconds=1)
    found = read_statistics(actor=actor, since=now - timedelta(days=int(span)), until=until)
    groups = [
        (_("By tool"), _("Tool"), found["by_tool"]),
        (_("By who decides"), _("Role"), [{**one, "name": _role(one["name"])} for one in found["by_role"]]),
        (_("By day, in UTC") if found["unit"] == "day" else _("By week, in UTC"), _("From"), found["by_period"][::-1]),
    ]
    context = {
        "now": now,
        "crumbs": [(_("Inbox"), reverse("inbox")), (_("Statistics"), None)],
        "spans": list(SPANS.items()),
        "span": span,
        "whole": found["all"],
        "ends": _ends(found["all"]),
        "bars": _bars(found["all"]["histogram"]),
        "groups": [one for one in groups if one[2]],
        "cut": found["cut"],
    }
    return show(request, "pages/ask_statistics.html", context)


def _role(name: str) -> str:
    return str(states.role_word(name or "admin"))


def _bars(histogram: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the classes with their word and the part, in percent of the fullest, that their bar takes."""
    most = max(one["n"] for one in histogram) or 1
    return [
        {**one, "word": times.between(one["from_s"], one["to_s"]), "part": round(100 * one["n"] / most)}
        for one in histogram
    ]


def _ends(whole: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return what became of the requests: word, number, and percent of all that were asked."""
    words = {
        "approved": _("Approved"), "rejected": _("Rejected"), "expired": _("Expired"), "cancelled": _("Cancelled"),
        "superseded": _("Superseded"), "pending": _("Still pending"),
    }  # fmt: skip
    asked = whole["asked"] or 1
    return [(word, n := whole["outcomes"][name], round(100 * n / asked)) for name, word in words.items()]
