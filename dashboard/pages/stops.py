"""Emergency stops: what is stopped, by whom, why, until when; set and lifted by POST."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.forms.stops import StopForm
from dashboard.pages.console import moment, page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.actions.stops import lift_stop, set_stop
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, PermissionDenied, QuarterdeckError, StopStands
from runtime.queries.definitions import list_tools, list_workflows
from runtime.queries.stops import MOST, list_stops, page_past_stops

PAGE = 50


@page(v.STOP_READ, section="stops", methods=("GET", "HEAD", "POST"))
def stops(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the stops that stand and those that were, and the form that sets one."""
    now = moment(actor)
    preset = {"scope": request.GET.get("scope", "tool"), "name": request.GET.get("name", "")}
    form, problem = StopForm(initial=preset), None
    if request.method == "POST":
        form = StopForm(request.POST)
        if form.is_valid():
            asked = form.cleaned_data
            try:
                answer = set_stop(
                    actor=actor,
                    scope=asked["scope"],
                    name=asked["name"],
                    reason=asked["reason"],
                    until=form.until(now),
                    replaces=asked["replaces"],
                )
            except (BadInput, PermissionDenied, StopStands) as refused:
                problem = refused
            else:
                _tell(request, answer)
                return HttpResponseRedirect(reverse("stops"))
    past = page_past_stops(actor=actor, cursor=request.GET.get("cursor"), limit=PAGE)
    context = {
        "now": now,
        "crumbs": [(_("Stops"), None)],
        "standing": list_stops(actor=actor, standing=True),
        "most": MOST,
        "page": past,
        "past": past.items,
        "form": form,
        "problem": problem,
        "stands": problem.extra["standing"] if isinstance(problem, StopStands) else None,
        "may_set": may(actor, v.STOP_SET),
        "may_lift": may(actor, v.STOP_LIFT),
        "names": named(actor),
    }
    return show(request, "pages/stops.html", context, status=_status(request, problem))


def _tell(request: HttpRequest, answer: dict[str, Any]) -> None:
    """Say what the stop holds back; of a name that nobody has registered that it holds nothing yet."""
    if "warning" not in answer:
        messages.success(request, _("Stopped. No new call starts; what was sent goes on to its end."))
        return
    text = _("No tool is registered as %(name)s: nothing that runs today is stopped. Look at the name.")
    if answer["scope"] == "workflow":
        text = _("No workflow is registered as %(name)s: nothing that runs today is stopped. Look at the name.")
    messages.warning(request, text % {"name": answer["name"]}, extra_tags="hold")


def named(actor: Actor) -> list[str]:
    """Return what may be named, as suggestions."""
    names = []
    if may(actor, v.TOOL_READ):
        names += sorted({one["name"] for one in list_tools(actor=actor, limit=500).items})
    if may(actor, v.WORKFLOW_READ):
        names += [one["name"] for one in list_workflows(actor=actor, limit=200).items]
    return names


def _status(request: HttpRequest, problem: QuarterdeckError | None) -> int:
    if problem is not None:
        return problem.http_status
    return 400 if request.method == "POST" else 200


@page(v.STOP_READ, section="stops", methods=("POST",))
def lift(request: HttpRequest, actor: Actor, stop_id: uuid.UUID) -> HttpResponse:
    """Lift a stop: what it held back goes on within a second."""
    answer = lift_stop(actor=actor, stop_id=stop_id, reason=request.POST.get("reason", ""))
    if still := len(answer["still"]):
        text = ngettext(
            "Lifted. %(n)d other stop still holds it back.", "Lifted. %(n)d other stops still hold it back.", still
        )
        messages.warning(request, text % {"n": still}, extra_tags="hold")
    else:
        messages.success(request, _("Lifted. What it held back goes on."))
    return HttpResponseRedirect(reverse("stops"))
