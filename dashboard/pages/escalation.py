"""The chain that overdue repair cases go up: what counts, its versions, and the form that sets the next."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import page, show
from dashboard.presenters.repair_chain import links
from repair.actions.chain import MOST_CHARACTERS, MOST_LINKS, MOST_MINUTES, set_chain
from repair.chains import OWNER, PERSON, chain_versions, read_chain
from repair.verbs import READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.access.roles import ROLES
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.queries.people import list_members

# Rows beyond those that are filled; more come when these are set.
MOST_BLANK = 3


@page(READ, section="repairs", methods=("GET", "HEAD", "POST"))
def escalation(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the tenant's chain and set it; every version is kept."""
    problem: QuarterdeckError | None = None
    asked: list[dict[str, Any]] | None = None
    if request.method == "POST":
        try:
            asked = [] if "default" in request.POST else _asked(request)
            return _set(request, actor, asked)
        except (BadInput, Conflict, PermissionDenied) as refused:
            problem = refused
    chain = read_chain(actor=actor)
    rows = asked if asked else chain["links"]
    blank = {"to": "", "after_minutes": ""}
    context = {
        "crumbs": [(_("Repairs"), reverse("repairs")), (_("Escalation"), None)],
        "chain": chain,
        "links": links(chain["links"]),
        "rows": [*rows, *[blank] * min(MOST_BLANK, MOST_LINKS - len(rows))],
        "versions": [{**one, "links": links(one["links"])} for one in chain_versions(actor=actor)],
        "names": _names(actor),
        "problem": problem,
        "reason": request.POST.get("reason", ""),
        "may_set": may(actor, v.TENANT_SET),
        "most_minutes": MOST_MINUTES,
        "most_characters": MOST_CHARACTERS,
    }
    return show(request, "pages/escalation.html", context, status=problem.http_status if problem else 200)


def _asked(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the links of the form; a row without a name is left out, and what is no number is told by the action."""
    found = []
    for to, minutes in zip(request.POST.getlist("to"), request.POST.getlist("after_minutes"), strict=False):
        if to.strip():
            number = minutes.isascii() and minutes.isdecimal() and len(minutes) < 10
            found.append({"to": to.strip(), "after_minutes": int(minutes) if number else minutes})
    if not found:
        raise BadInput(
            _("The chain names nobody."), where="/links", remediation=_("Name somebody, or take the default.")
        )
    return found


def _set(request: HttpRequest, actor: Actor, asked: list[dict[str, Any]]) -> HttpResponse:
    version = request.POST.get("expected_version", "")
    answer = set_chain(
        actor=actor,
        links=asked,
        expected_version=int(version) if version.isascii() and version.isdecimal() and len(version) < 10 else 0,
        reason=request.POST.get("reason", ""),
    )
    text = (
        _("The default counts again.") if answer["default"] else _("Set as version %(n)d.") % {"n": answer["version"]}
    )
    messages.success(request, text, extra_tags="succeeded")
    return HttpResponseRedirect(reverse("escalation"))


def _names(actor: Actor) -> list[str]:
    people = [one["username"] for one in list_members(actor=actor)] if may(actor, v.MEMBER_READ) else []
    return [*sorted(ROLES), OWNER, *(f"{PERSON}{name}" for name in sorted(people))]
