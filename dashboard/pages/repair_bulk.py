"""Many repair cases at once: what fits is frozen and shown, ordered, reviewed by another person, watched, stopped."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import page, show
from dashboard.presenters import repair_bulk as words
from dashboard.presenters.repairs import MOVE
from dashboard.presenters.repairs import row as case_row
from repair.actions import bulk as actions
from repair.bulks import get_bulk, list_bulks
from repair.law import IN_BULK
from repair.queries import list_cases
from repair.verbs import READ, REVIEW, WORK
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError

_NAMED = ("kind", "tool", "risk", "alike")
_FLAGS = ("mine", "unowned", "overdue")
SHOWN = 8
RATES = (6, 30, 60, 120, 300, 600)


@page(READ, section="repairs", methods=("GET", "HEAD", "POST"))
def several(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show what fits and the form that freezes it; POST freezes it and shows the preview. Bulk repairs so far below."""
    asked = request.POST if request.method == "POST" else request.GET
    wanted = _wanted(asked)
    problem: QuarterdeckError | None = None
    if request.method == "POST":
        try:
            answer = _prepare(request, actor, wanted)
        except (BadInput, PermissionDenied) as refused:
            problem = refused
        else:
            return HttpResponseRedirect(reverse("repairs-bulk", args=[answer["bulk_id"]]))
    fitting = list_cases(actor=actor, limit=SHOWN, count=True, **wanted)
    context = {
        "crumbs": [(_("Repairs"), reverse("repairs")), (_("Several cases"), None)],
        "wanted": wanted,
        "fits": words.fits(wanted),
        "count": fitting.count,
        "cases": [case_row(one) for one in fitting.items],
        "most": actions.MOST_CASES,
        "choices": [(name, *MOVE[name]) for name in IN_BULK],
        "rates": RATES,
        "typed": request.POST if problem else {},
        "problem": problem,
        "rows": [words.row(one) for one in list_bulks(actor=actor, limit=30).items],
        "may_work": may(actor, WORK),
    }
    return show(request, "pages/repairs_several.html", context, status=problem.http_status if problem else 200)


def _wanted(asked: Any) -> dict[str, Any]:
    """Return the filter in a query or form; a view of the list of repairs is one of its flags."""
    wanted: dict[str, Any] = {name: asked[name][:220] for name in _NAMED if asked.get(name)}
    return wanted | {name: True for name in _FLAGS if asked.get(name) or asked.get("view") == name}


def _prepare(request: HttpRequest, actor: Actor, wanted: dict[str, Any]) -> dict[str, Any]:
    resolution, rate = request.POST.get("resolution", ""), request.POST.get("per_minute", "60")
    hours = request.POST.get("hours", "4")
    return actions.prepare_bulk(
        actor=actor,
        resolution=resolution,
        filter=wanted,
        reason=request.POST.get("reason", ""),
        per_minute=int(rate) if rate.isdecimal() and len(rate) < 6 else 0,
        hours=(float(hours) if hours.isdecimal() and len(hours) < 5 else 4.0) if resolution == "keep_pending" else None,
    )


@page(READ, section="repairs")
def bulk(request: HttpRequest, actor: Actor, bulk_id: uuid.UUID) -> HttpResponse:
    """Show one bulk repair, item by item. Opening it changes nothing."""
    return _show(request, actor, bulk_id)


def _show(
    request: HttpRequest, actor: Actor, bulk_id: uuid.UUID, problem: QuarterdeckError | None = None
) -> HttpResponse:
    found = get_bulk(actor=actor, bulk_id=bulk_id)
    works = may(actor, WORK)
    context = {
        "now": found["now"],
        "crumbs": [
            (_("Repairs"), reverse("repairs")),
            (_("Several cases"), reverse("repairs-several")),
            (str(bulk_id)[-8:], None),
        ],
        "bulk": words.row(found),
        "items": [words.item(one) for one in found["items"]],
        "may_order": found["state"] == "draft" and found["mine"] and works and found["counts"]["todo"],
        "may_review": found["state"] == "reviewing" and not found["mine"] and may(actor, REVIEW),
        "may_pause": found["state"] == "running" and works,
        "may_go_on": found["state"] == "paused" and works,
        "may_abort": found["state"] in ("draft", "reviewing", "running", "paused") and works,
        "live": found["state"] in ("running", "reviewing"),
        "problem": problem,
    }
    return show(request, "pages/repairs_bulk.html", context, status=problem.http_status if problem else 200)


@page(READ, section="repairs", methods=("POST",))
def act(request: HttpRequest, actor: Actor, bulk_id: uuid.UUID, verb: str) -> HttpResponse:
    """Do one verb on a bulk repair as it was shown; a refusal is told on its page."""
    if verb not in _VERBS:
        raise Http404
    try:
        _VERBS[verb](actor, bulk_id, request)
    except (Conflict, BadInput, PermissionDenied) as problem:
        return _show(request, actor, bulk_id, problem)
    messages.success(request, _("Done. The page follows it."), extra_tags="succeeded")
    return HttpResponseRedirect(reverse("repairs-bulk", args=[bulk_id]))


def _version(request: HttpRequest) -> int:
    value = request.POST.get("version", "")
    return int(value) if value.isdecimal() and len(value) < 10 else 0


def _reason(request: HttpRequest) -> str:
    return request.POST.get("reason", "")


_VERBS: dict[str, Callable[[Actor, uuid.UUID, HttpRequest], Any]] = {
    "order": lambda actor, one, asked: actions.order_bulk(actor=actor, bulk_id=one, expected_version=_version(asked)),
    "review": lambda actor, one, asked: actions.review_bulk(
        actor=actor,
        bulk_id=one,
        decision=asked.POST.get("decision", ""),
        comment=_reason(asked),
        expected_version=_version(asked),
    ),
    "pause": lambda actor, one, asked: actions.pause_bulk(actor=actor, bulk_id=one, reason=_reason(asked)),
    "resume": lambda actor, one, asked: actions.go_on_with_bulk(actor=actor, bulk_id=one, reason=_reason(asked)),
    "abort": lambda actor, one, asked: actions.abort_bulk(actor=actor, bulk_id=one, reason=_reason(asked)),
}
