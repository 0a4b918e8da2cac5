"""What bounds the work: limits and breakers as they stand, changed by POST with the version that was shown."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.forms.limits import SPANS, LimitForm
from dashboard.pages.console import moment, page, show
from dashboard.pages.stops import named
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.actions.limits import close_breaker, open_breaker, remove_limit, set_limit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, PermissionDenied, QuarterdeckError, Stale
from runtime.queries.limits import MOST_BREAKERS, MOST_LIMITS, list_breakers, list_held_by_own, list_limits

_REFUSALS = (BadInput, PermissionDenied, Stale)


@page(v.LIMIT_READ, section="limits", methods=("GET", "HEAD", "POST"))
def limits(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the limits, the breakers and what waits for them; set, raise or lower a limit."""
    if request.method != "POST":
        return _show(request, actor)
    form = LimitForm(request.POST)
    if not form.is_valid():
        return _show(request, actor, form=form, status=400)
    try:
        answer = set_limit(actor=actor, **form.asked())
    except _REFUSALS as problem:
        if isinstance(problem, Stale):
            # What was typed is kept, on top of what stands now: sent again it changes that.
            typed = request.POST.copy()
            typed["version"] = str(problem.extra["current_version"])
            form = LimitForm(typed)
        return _show(request, actor, form=form, problem=problem)
    if "warning" in answer:
        kept = _("Set, but nothing is registered as %(name)s: nothing that runs today is limited. Look at the name.")
        messages.warning(request, kept % {"name": answer["name"]}, extra_tags="hold")
        return HttpResponseRedirect(reverse("limits"))
    text = _("Set as version %(n)d. It holds from the next start on; what runs goes on to its end.")
    messages.success(request, text % {"n": answer["version"]}, extra_tags="succeeded")
    return HttpResponseRedirect(reverse("limits"))


@page(v.LIMIT_READ, section="limits", methods=("POST",))
def lift(request: HttpRequest, actor: Actor, limit_id: uuid.UUID) -> HttpResponse:
    """Take a limit away: what it held back goes on within a second."""
    try:
        version, reason = _shown(request), request.POST.get("reason", "")
        remove_limit(actor=actor, limit_id=limit_id, reason=reason, expected_version=version)
    except _REFUSALS as problem:
        return _show(request, actor, problem=problem)
    messages.success(request, _("Lifted. What it held back goes on."))
    return HttpResponseRedirect(reverse("limits"))


@page(v.LIMIT_READ, section="limits", methods=("POST",))
def breaker(request: HttpRequest, actor: Actor, breaker_id: uuid.UUID, verb: str) -> HttpResponse:
    """Open or close a breaker by hand."""
    if verb not in ("open", "close"):
        raise Http404
    asked: dict[str, Any] = {"actor": actor, "breaker_id": breaker_id, "reason": request.POST.get("reason", "")}
    asked["expected_state"] = request.POST.get("state") or None
    try:
        if verb == "close":
            close_breaker(**asked)
            messages.success(request, _("Closed. Calls of the tool go on."))
        else:
            span = request.POST.get("seconds", "")
            open_breaker(**asked, seconds=float(span) if span and span in SPANS else None)
            messages.success(request, _("Open. No call of the tool starts until one is the probe."))
    except _REFUSALS as problem:
        return _show(request, actor, problem=problem)
    return HttpResponseRedirect(reverse("limits"))


def _shown(request: HttpRequest) -> int:
    """Return the version that a form was shown in. Raises BadInput for a form without one."""
    value = request.POST.get("version", "")
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        mend = _("Load the page again and repeat the act.")
        raise BadInput(_("The form does not say which version it was shown."), where="/version", remediation=mend)
    return int(value)


def _show(
    request: HttpRequest,
    actor: Actor,
    *,
    form: LimitForm | None = None,
    problem: QuarterdeckError | None = None,
    status: int | None = None,
) -> HttpResponse:
    rows, breakers = (
        list_limits(actor=actor, limit=MOST_LIMITS + 1),
        list_breakers(actor=actor, limit=MOST_BREAKERS + 1),
    )
    context = {
        "now": moment(actor),
        "crumbs": [(_("Limits"), None)],
        "rows": rows[:MOST_LIMITS],
        "cut": MOST_LIMITS if len(rows) > MOST_LIMITS else 0,
        "breakers": breakers[:MOST_BREAKERS],
        "breakers_cut": MOST_BREAKERS if len(breakers) > MOST_BREAKERS else 0,
        "held": list_held_by_own(actor=actor),
        "form": form or _form(request, rows),
        "problem": problem,
        "current": _current(problem),
        "may_set": may(actor, v.LIMIT_SET),
        "names": named(actor),
        "spans": list(SPANS.items()),
    }
    return show(request, "pages/limits.html", context, status=status or (problem.http_status if problem else 200))


def _form(request: HttpRequest, rows: list[dict[str, Any]]) -> LimitForm:
    """Return the form of the limit that the address names, with what stands, or an empty one."""
    scope, name = request.GET.get("scope", "tool"), request.GET.get("name", "")
    fits = (one for one in rows if (one["scope"], one["name"], one["origin"]) == (scope, name, "settings"))
    stands = next(fits, {})
    fields = {field: stands.get(field) for field in ("most", "calls", "per_s")}
    return LimitForm(initial={"scope": scope, "name": name, **fields, "version": stands.get("version", 0)})


def _current(problem: QuarterdeckError | None) -> dict[str, Any] | None:
    """Return what a stale form would have changed, as it stands now."""
    found = problem.extra.get("current") if isinstance(problem, Stale) else None
    if not found:
        return None
    times = {name: datetime.fromisoformat(found[name]) for name in ("set_at", "open_until") if found.get(name)}
    return {**found, **times}
