"""The list of runs: facets, search, saved views, keyset pages inside a time window, export."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.pages import bulk, export, hands, views
from dashboard.pages.console import moment, page, show
from dashboard.pages.search import found as search
from dashboard.presenters import states
from dashboard.presenters.kept import criterion
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.models.effects import OPERATION_OPEN
from runtime.models.work import RUN_STATUSES
from runtime.queries.console import FACET_BOUND, run_facets
from runtime.queries.runs import list_runs, success_of_runs
from runtime.queries.tasks import SEARCH_LIMIT, SEARCH_WINDOW

WINDOWS: dict[str, timedelta | None] = {
    "1h": timedelta(hours=1),
    "12h": timedelta(hours=12),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "all": None,
}
DEFAULT_WINDOW = "24h"
# How long a run that is not at an end has been open.
AGES = {"10m": timedelta(minutes=10), "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
PAGE = 50
# Shorter ones mean everything: the search refuses them, so they are no filter.
SHORTEST_TEXT = 2
GROUPS = {"open": states.RUN_OPEN, "ended": ["completed", "partially_completed", "failed", "cancelled"]}


@dataclass
class Filters:
    """What the address asks for; what it does not understand is left out and not shown as a filter."""

    status: list[str] = field(default_factory=list)
    workflow: str = ""
    error: str = ""
    text: str = ""
    pool: str = ""
    age: str = ""
    effect: list[str] = field(default_factory=list)
    within: str = DEFAULT_WINDOW

    @classmethod
    def of(cls, request: HttpRequest) -> Filters:
        """Read the query string."""
        asked = request.GET
        within = asked.get("within", DEFAULT_WINDOW)
        return cls(
            [one for one in asked.getlist("status") if one in RUN_STATUSES],
            asked.get("workflow", "")[:200].replace("\x00", ""),
            asked.get("error", "")[:60].replace("\x00", ""),
            text if len(text := asked.get("q", "").strip()[:200].replace("\x00", "")) >= SHORTEST_TEXT else "",
            asked.get("pool", "")[:64].replace("\x00", ""),
            age if (age := asked.get("age", "")) in AGES else "",
            [one for one in asked.getlist("effect") if one in OPERATION_OPEN],
            within if within in WINDOWS else DEFAULT_WINDOW,
        )

    @property
    def hides(self) -> bool:
        """Return whether anything but time narrows the list."""
        return bool(self.status or self.workflow or self.error or self.text or self.pool or self.age or self.effect)

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Return the window's ends; without a bound it begins at the beginning of time."""
        span = WINDOWS[self.within]
        later = now + timedelta(days=1)
        return (now - span if span else datetime.fromisoformat("2000-01-01T00:00:00+00:00")), later

    def query(self) -> str:
        """Return the query string that says the same."""
        pairs = [("status", one) for one in self.status]
        single = {"workflow": self.workflow, "error": self.error, "q": self.text, "pool": self.pool, "age": self.age}
        pairs += [(name, value) for name, value in single.items() if value]
        pairs += [("effect", one) for one in self.effect]
        return urlencode([*pairs, ("within", self.within)])


def _found(actor: Actor, filters: Filters) -> list[Any] | None:
    """Return the runs that a text means, None without a text."""
    if not filters.text:
        return None
    return list(dict.fromkeys(one["run_id"] for one in search(actor, filters.text) if one["run_id"]))


def _list(
    actor: Actor,
    filters: Filters,
    bounds: tuple[datetime, datetime],
    now: datetime,
    among: list[Any] | None,
    *,
    cursor: str | None = None,
    limit: int,
    count: bool = False,
) -> Any:
    """Return a page of what the filters leave between ``bounds``; ``among`` is what :func:`_found` gave for them."""
    return list_runs(
        actor=actor,
        status=filters.status,
        workflow=filters.workflow or None,
        error_class=filters.error or None,
        queued_in=filters.pool or None,
        open_since=now - AGES[filters.age] if filters.age else None,
        effects=filters.effect,
        among=among,
        created_from=bounds[0],
        created_before=bounds[1],
        cursor=cursor,
        limit=limit,
        count=count,
    )


@page(v.RUN_READ, section="runs")
def runs(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show a page of the list."""
    now, filters = moment(actor), Filters.of(request)
    since, before = filters.bounds(now)
    facets = run_facets(actor=actor, created_from=since, created_before=before)
    among, cursor = _found(actor, filters), request.GET.get("cursor")
    found = _list(actor, filters, (since, before), now, among, cursor=cursor, limit=PAGE, count=True)
    judged = success_of_runs(actor=actor, run_ids=[row["id"] for row in found.items])
    found.items[:] = [
        {**row, "by_hand": hands.words(row["by_hand"]), "criterion": criterion(row, judged.get(row["id"]))}
        for row in hands.marked(actor, found.items)
    ]
    context = {
        "now": now,
        "crumbs": [(_("Runs"), None)],
        "filters": filters,
        "windows": [(name, window_word(name)) for name in WINDOWS],
        "window": window_word(filters.within),
        "facets": _facets(facets, filters),
        "workflows": sorted(facets["workflow"].items(), key=lambda one: (-one[1], one[0]))[:50],
        "pools": sorted({*facets["pools"], *([filters.pool] if filters.pool else [])}),
        "ages": [(name, _age(name)) for name in AGES],
        "cut": facets["cut"],
        "bound": FACET_BOUND,
        "total": facets["total"],
        "page": found,
        "any": facets["any"],
        "saved": [*views.common(), *views.saved(actor, views.RUNS)],
        "may_start": may(actor, v.TASK_SUBMIT),
        "bulk": bulk.offered(actor),
        "first": not request.GET.get("cursor"),
        "hidden": _hidden(facets["total"], filters),
        "looked": {"window": SEARCH_WINDOW, "most": SEARCH_LIMIT} if filters.text else None,
    }
    return show(request, "pages/runs.html", context)


def window_word(name: str) -> str:
    """Return a time window's words."""
    return {
        "1h": _("last hour"),
        "12h": _("last 12 h"),
        "24h": _("last 24 h"),
        "7d": _("last 7 days"),
        "30d": _("last 30 days"),
        "all": _("any time"),
    }[name]


def _age(name: str) -> str:
    return {"10m": _("over 10 min"), "1h": _("over 1 h"), "24h": _("over 24 h"), "7d": _("over 7 days")}[name]


def _facets(facets: dict[str, Any], filters: Filters) -> list[dict[str, Any]]:
    """Return one facet per status that occurs or is chosen, in the reader's order, with the address that toggles it."""
    rows = []
    for name in states.RUN_ORDER:
        count, on = facets["status"].get(name, 0), name in filters.status
        if count or on:
            others = [one for one in filters.status if one != name]
            rows.append({"name": name, "count": count, "on": on, "toggled": others if on else [*others, name]})
    return rows


def _hidden(total: int, filters: Filters) -> str:
    """Return what to say when filters hide every run there is."""
    told = [states.word(one, "run") for one in filters.status]
    told += [one for one in (filters.workflow, filters.error, filters.pool) if one]
    told += [f"“{filters.text}”"] if filters.text else []
    told += [_age(filters.age)] if filters.age else []
    told += [states.word(one, "operation") for one in filters.effect]
    told.append(window_word(filters.within))
    if filters.text:
        # The search looks at the newest only, so it never says that it has seen all.
        return _("Nothing was found for %(what)s") % {"what": ", ".join(told)}
    title = ngettext("Your filters hide the one run", "Your filters hide all %(n)d runs", total) % {"n": total}
    return f"{title}: {', '.join(told)}"


@page(v.RUN_READ)
def fresh(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Answer how many runs of this list are newer than the newest the reader has seen."""
    filters, newest = Filters.of(request), request.GET.get("after", "")
    try:
        after = datetime.fromisoformat(newest)
    except ValueError:
        return JsonResponse({"count": 0})
    if after.tzinfo is None:
        return JsonResponse({"count": 0})
    now = moment(actor)
    bounds = max(filters.bounds(now)[0], after + timedelta(microseconds=1)), filters.bounds(now)[1]
    rows = _list(actor, filters, bounds, now, _found(actor, filters), limit=100)
    return JsonResponse({"count": len(rows.items)})


@page(v.RUN_READ)
def download(request: HttpRequest, actor: Actor, kind: str) -> HttpResponseBase:
    """Send the list as it is filtered, at most export.MAX_ROWS rows, as CSV or JSON."""
    now, filters = moment(actor), Filters.of(request)
    bounds, among = filters.bounds(now), _found(actor, filters)

    def chunk(cursor: str | None) -> Any:
        rows = _list(actor, filters, bounds, now, among, cursor=cursor, limit=export.PAGE)
        rows.items[:] = hands.marked(actor, rows.items)
        return rows

    return export.stream(kind, "runs", COLUMNS, chunk)


COLUMNS = {
    "id": lambda row: row["id"],
    "task_id": lambda row: row["task_id"],
    "name": lambda row: row["name"],
    "workflow": lambda row: row["workflow"],
    "workflow_version": lambda row: row["workflow_version"],
    "status": lambda row: row["status"],
    "output_kind": lambda row: row["output_kind"],
    "reason": lambda row: row["reason"],
    "created_at": lambda row: row["created_at"],
    "started_at": lambda row: row["started_at"],
    "finished_at": lambda row: row["finished_at"],
    "deadline": lambda row: row["deadline"],
    "steps": lambda row: row["counts"]["steps"],
    "open_steps": lambda row: row["counts"]["open"],
    "open_operations": lambda row: row["counts"]["open_operations"],
    "forced_by_hand": lambda row: row["by_hand"].get("forced", 0),
    "skipped_by_hand": lambda row: row["by_hand"].get("skipped", 0),
    "repairs": lambda row: row["by_hand"].get("repaired", 0),
    "version": lambda row: row["version"],
}


@page(v.RUN_READ, methods=("POST",))
def save_view(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Keep the present filters under a name, or forget one; views belong to the reader."""
    if forget := request.POST.get("forget"):
        views.forget(actor, views.RUNS, forget)
        return HttpResponseRedirect(reverse("runs"))
    query = request.POST.get("query", "")[:4000]
    views.save(actor, views.RUNS, request.POST.get("name", ""), query)
    return HttpResponseRedirect(f"{reverse('runs')}?{query}")
