"""The inbox: what would be allowed, by whom it was asked, until when, how risky; one request is on its own page."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.actions.quota import set_review_limits
from approvals.law import RISKS, STATES
from approvals.queries import SORTS, list_requests, review_load
from approvals.records import RECORD_SCHEMA, export_requests
from approvals.standing import standing_now
from approvals.verbs import DECIDE, READ
from dashboard.forms.asks import ReviewLimitsForm
from dashboard.pages import export, requests, views
from dashboard.pages.console import moment, page, show
from dashboard.presenters import times
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.api.http import rfc3339
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.queries.definitions import list_workflows

VIEWS = ("mine", "all", "decided")
# So many repairs under review are listed here; the list of repairs has them all.
MOST_REVIEWS = 50
SAVED = views.Kind("inbox", frozenset({"view", "risk", "workflow", "sort"}))


@page(READ, section="inbox")
def inbox(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show what waits for a decision, the soonest first, in groups of urgency, and what was decided lately."""
    now = moment(actor)
    view, _risk, sort = (_one_of(request, *one) for one in _CHOICES)
    decided = view == "decided"
    state = None if decided else "pending"
    narrowed = {**_narrowed(request), "decided": decided}
    risk, workflow = narrowed["risk"] or "", narrowed["workflow"] or ""
    cursor = request.GET.get("cursor")
    found = list_requests(
        actor=actor, state=state, mine=view == "mine", sort=sort, cursor=cursor, limit=50, count=True, **narrowed
    )
    rows = requests.named(actor, found.items)
    lately = [] if decided else list_requests(actor=actor, state=None, decided=True, limit=8).items
    by_time = sort == "deadline"
    mine, waiting = requests.count_mine(actor), requests.reviews_waiting(actor)
    # Cases know no filter of requests: they stand above the reader's own list as it is without any.
    shown = view == "mine" and not (risk or workflow or cursor) and waiting
    context = {
        "now": now,
        "crumbs": [(_("Inbox"), None)],
        "view": view,
        "risk": risk,
        "sort": sort,
        "workflow": workflow,
        "workflows": [one["name"] for one in list_workflows(actor=actor, limit=200).items]
        if may(actor, v.WORKFLOW_READ)
        else [],
        "narrowed": bool(risk or workflow),
        "mine": mine,
        "waiting": min(requests.BOUND, mine + waiting),
        "reviews": requests.reviews(actor, limit=MOST_REVIEWS) if shown else [],
        "review_count": waiting,
        "page": found,
        "groups": (_groups(rows, now) if by_time else [("", rows)] if rows else []) if state else [],
        "rows": rows,
        "may_decide": may(actor, DECIDE) and any(one["may_decide"] for one in rows),
        "lately": requests.named(actor, lately),
        "next": next((one["deadline"] for one in rows if one["deadline"]), None) if state and by_time else None,
        "saved": views.saved(actor, SAVED),
        "asked": request.GET.urlencode(),
        "load": review_load(actor=actor),
        **standing_now(actor=actor),
        "may_limit": may(actor, v.LIMIT_SET),
    }
    return show(request, "pages/inbox.html", context)


_CHOICES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("view", VIEWS, "mine"),
    ("risk", RISKS, ""),
    ("sort", tuple(SORTS), "deadline"),
)


def _narrowed(request: HttpRequest) -> dict[str, Any]:
    """Return what the address narrows the list to, however it is shown."""
    workflow = request.GET.get("workflow", "")[:200].replace("\x00", "")
    return {"risk": _one_of(request, *_CHOICES[1]) or None, "workflow": workflow or None}


def _one_of(request: HttpRequest, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = request.GET.get(name, default)
    return value if value in allowed else default


@page(READ, section="inbox", methods=("POST",))
def save_view(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Keep or forget a view of the inbox."""
    if name := request.POST.get("forget"):
        views.forget(actor, SAVED, name)
        return HttpResponseRedirect(reverse("inbox"))
    query = request.POST.get("query", "")[:2000]
    views.save(actor, SAVED, request.POST.get("name", ""), query)
    return HttpResponseRedirect(f"{reverse('inbox')}?{query}")


@page(v.LIMIT_SET, section="inbox", methods=("POST",))
def set_limits(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Bound what one person holds at once and decides within an hour; an empty field bounds nothing."""
    form = ReviewLimitsForm(request.POST)
    if not form.is_valid():
        raise BadInput(_("A review limit is a whole number from 1 to 10,000."), where="/most_held")
    set_review_limits(actor=actor, **form.cleaned_data)
    messages.success(request, _("Set. It holds from the next act on."))
    return HttpResponseRedirect(reverse("inbox"))


def _groups(rows: list[dict[str, Any]], now: datetime) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the pending requests by how soon they have to be decided."""
    soon, today, later, never = (_("Due within 15 minutes"), _("Due within a day"), _("Later"), _("Without a deadline"))
    found: dict[str, list[dict[str, Any]]] = {soon: [], today: [], later: [], never: []}
    for one in rows:
        left = one["deadline"] - now if one["deadline"] else None
        if left is None:
            found[never].append(one)
        else:
            found[soon if left < times.SOON else today if left < timedelta(days=1) else later].append(one)
    return [(name, group) for name, group in found.items() if group]


@page(READ)
def download(request: HttpRequest, actor: Actor, kind: str) -> HttpResponseBase:
    """Send the requests as the inbox is filtered, as CSV or JSON; payloads are not in it.

    Without a ``view`` those of one ``state``, or of all.
    """
    view, state = _one_of(request, "view", VIEWS, ""), _one_of(request, "state", STATES, "") or None
    state = "pending" if view in ("mine", "all") else state
    narrowed = {**_narrowed(request), "decided": view == "decided", "mine": view == "mine"}
    sort = _one_of(request, *_CHOICES[2])

    def chunk(cursor: str | None) -> Any:
        return list_requests(actor=actor, state=state, sort=sort, cursor=cursor, limit=export.PAGE, **narrowed)

    names = "id title state role workflow run_id node version payload_hash requested_by created_at deadline".split()
    names += ["decided_at", "decided_by", "outcome_reason"]
    return export.stream(kind, "approvals", {name: _reader(name) for name in names}, chunk)


@page(READ)
def records(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Send requests with their decisions as typed JSON (``approvals/schema/``), ``since`` and ``until`` a time."""
    since, until = (
        rfc3339(text, f"query {name}") if (text := request.GET.get(name)) else None for name in ("since", "until")
    )

    def chunk(cursor: str | None) -> Any:
        return export_requests(actor=actor, since=since, until=until, cursor=cursor, limit=export.PAGE)

    return export.stream("json", "approval-records", {name: _kept(name) for name in RECORD_SCHEMA["properties"]}, chunk)


def _kept(name: str) -> Any:
    return lambda row: row.get(name)


def _reader(name: str) -> Any:
    return lambda row: row[name]


def summary(count: int) -> str:
    """Return how many decisions wait, as a sentence."""
    return ngettext("%(n)d decision waits for you", "%(n)d decisions wait for you", count) % {"n": count}
