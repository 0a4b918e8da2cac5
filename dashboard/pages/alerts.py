"""Alerts: what needs a person, open or healed, with what each is about; and where they are sent, set by POST."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.forms.notices import TargetForm
from dashboard.pages.console import moment, page, show
from dashboard.pages.runs import window_word
from dashboard.presenters.alerts import RULES, row
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.actions.notices import add_target, remove_target
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, QuarterdeckError
from runtime.models.watch import ALERT_RULES
from runtime.queries.alerts import STATES, list_alerts, list_targets

PAGE = 50
# Healed ones of so long are listed; open ones always.
WINDOWS = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30), "all": None}
DEFAULT_WINDOW = "7d"


@page(v.ALERT_READ, section="alerts", methods=("GET", "HEAD", "POST"))
def alerts(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show alerts and their targets; a POST adds a target, whose secret is on the answer alone."""
    form, problem, made = TargetForm(), None, None
    if request.method == "POST":
        authorize(actor, v.NOTICE_MANAGE)
        form = TargetForm(request.POST)
        if form.is_valid():
            try:
                made = add_target(actor=actor, **form.cleaned_data)
                form = TargetForm()
            except (BadInput, Conflict) as refused:
                problem = refused
        if made is None:
            return _show(request, actor, form, problem=problem, status=problem.http_status if problem else 400)
        if made["secret"] is None:
            messages.success(request, _("Added. New alerts are sent there."))
            return HttpResponseRedirect(reverse("alerts"))
    return _show(request, actor, form, made=made)


@page(v.NOTICE_MANAGE, section="alerts", methods=("POST",))
def remove(request: HttpRequest, actor: Actor, target_id: uuid.UUID) -> HttpResponse:
    """Send no more alerts there."""
    remove_target(actor=actor, target_id=target_id)
    messages.success(request, _("Removed. No more alerts are sent there."))
    return HttpResponseRedirect(reverse("alerts"))


def _show(
    request: HttpRequest,
    actor: Actor,
    form: TargetForm,
    *,
    made: dict[str, Any] | None = None,
    problem: QuarterdeckError | None = None,
    status: int = 200,
) -> HttpResponse:
    now, reads = moment(actor), partial(may, actor)
    state = asked if (asked := request.GET.get("state", "")) in STATES else "open"
    rule = asked if (asked := request.GET.get("rule", "")) in ALERT_RULES else ""
    within = asked if (asked := request.GET.get("within", "")) in WINDOWS else DEFAULT_WINDOW
    span, cursor = WINDOWS[within], request.GET.get("cursor")
    since = now - span if span is not None else None
    found = list_alerts(
        actor=actor, state=state, rule=rule or None, closed_since=since, cursor=cursor, limit=PAGE, count=True
    )
    managed = may(actor, v.NOTICE_MANAGE)
    targets = list_targets(actor=actor) if managed else []
    for one in targets:
        one["words"] = None if one["rules"] is None else [RULES.get(name, name) for name in one["rules"]]
    context = {
        "now": now,
        "crumbs": [(_("Alerts"), None)],
        "page": found,
        "rows": [row(one, reads) for one in found.items],
        "state": state,
        "rule": rule,
        "within": within,
        "windows": [(name, window_word(name)) for name in WINDOWS],
        "rules": [(name, RULES[name]) for name in ALERT_RULES],
        "managed": managed,
        "targets": targets,
        "form": form,
        "made": made,
        "problem": problem,
    }
    return show(request, "pages/alerts.html", context, status=status)
