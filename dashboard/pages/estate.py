"""What serves the tenant: tools with their contracts, workers with their leases, queues."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import moment, page, show
from dashboard.presenters.now import LATE_BEAT_SECONDS
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, QuarterdeckError
from runtime.queries.classes import list_classes
from runtime.queries.console import read_queues, use_of_tools
from runtime.queries.definitions import list_tools, list_whole_tools
from runtime.queries.limits import list_breakers, list_limits
from runtime.queries.people import list_workers
from runtime.queries.samples import read_samples, unsigned_among
from runtime.queries.stops import list_stops
from runtime.tools.samples import sign_samples

TOOL_PAGE = 100


@page(v.TOOL_READ, section="tools")
def tools(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show every tool, its newest version first."""
    found = list_whole_tools(actor=actor, cursor=request.GET.get("cursor"), limit=TOOL_PAGE)
    use = use_of_tools(actor=actor) if may(actor, v.OPERATION_READ) else {}
    stops, breakers = _stopped(actor), _shut(actor)
    groups: dict[str, list[dict[str, Any]]] = {}
    unsigned = unsigned_among(actor=actor, tools=found.items)
    for one in found.items:
        key = (one["name"], one["version"])
        stop = stops.get(one["name"]) or stops.get(f"{one['name']}@{one['version']}")
        shut = breakers.get(f"{one['name']}@{one['version']}")
        more = {"use": use.get(key, {}), "stop": stop, "breaker": shut, "blocked": one["id"] in unsigned}
        groups.setdefault(one["name"], []).insert(0, {**one, **more})
    context = {
        "crumbs": [(_("Tools"), None)],
        "page": found,
        "groups": list(groups.items()),
        "limits": list_limits(actor=actor) if may(actor, v.LIMIT_READ) else [],
        "now": moment(actor),
    }
    return show(request, "pages/tools.html", context)


@page(v.TOOL_READ, section="tools")
def tool(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """Show one tool in one version, by default the newest."""
    return _tool(request, actor, name, request.GET.get("version", ""))


@page(v.TOOL_REGISTER, section="tools", methods=("POST",))
def sign(request: HttpRequest, actor: Actor, name: str, number: int) -> HttpResponse:
    """Sign a version's samples for its contract; a refusal is told on the page, with what does not fit."""
    try:
        taken_from = request.POST.get("taken_from", "")
        sign_samples(
            actor=actor, name=name, version=number, reason=request.POST.get("reason", ""),
            taken_from=int(taken_from) if taken_from.isascii() and taken_from.isdecimal() else None,
        )  # fmt: skip
    except (Conflict, BadInput) as problem:
        return _tool(request, actor, name, str(number), problem=problem, status=problem.http_status)
    messages.success(request, _("Signed. Calls of this version may start."), extra_tags="succeeded")
    return HttpResponseRedirect(f"{reverse('tool', args=[name])}?version={number}")


def _tool(
    request: HttpRequest,
    actor: Actor,
    name: str,
    asked: str,
    *,
    problem: QuarterdeckError | None = None,
    status: int = 200,
) -> HttpResponse:
    versions = _versions(actor, name)
    if not versions:
        raise NotFound(f"There is no tool {name[:120]!r} in this tenant.")
    one = next((row for row in versions if str(row["version"]) == asked), versions[0])
    use = use_of_tools(actor=actor) if may(actor, v.OPERATION_READ) else {}
    stops = _stopped(actor)
    context = {
        "crumbs": [(_("Tools"), reverse("tools")), (name, None)],
        "versions": versions,
        "one": one,
        "contract": one["contract"],
        "use": use.get((name, one["version"]), {}),
        "stop": stops.get(name) or stops.get(f"{name}@{one['version']}"),
        "may_stop": may(actor, v.STOP_SET),
        "recorded": read_samples(actor=actor, name=name, version=one["version"]),
        "may_sign": may(actor, v.TOOL_REGISTER),
        "others": [row["version"] for row in versions if row["version"] != one["version"]],
        "problem": problem,
        "typed": request.POST,
    }
    return show(request, "pages/tool.html", context, status=status)


def _versions(actor: Actor, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        found = list_tools(actor=actor, cursor=cursor, limit=500)
        rows += [one for one in found.items if one["name"] == name]
        cursor = found.next
        if cursor is None or (found.items and found.items[-1]["name"] > name):
            return list(reversed(rows))


def _shut(actor: Actor) -> dict[str, dict[str, Any]]:
    """Return tool reference → its breaker that is open or half open."""
    if not may(actor, v.LIMIT_READ):
        return {}
    return {one["tool"]: one for one in list_breakers(actor=actor) if one["state"] != "closed"}


def _stopped(actor: Actor) -> dict[str, dict[str, Any]]:
    """Return tool name → the stop that stands on it."""
    if not may(actor, v.STOP_READ):
        return {}
    return {one["name"]: one for one in list_stops(actor=actor, standing=True) if one["scope"] == "tool"}


@page(v.WORKER_READ, section="workers")
def workers(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show worker sessions with their leases, the queues by pool, and what runs now."""
    queues = read_queues(actor=actor)
    now = queues["at"]
    mine = Counter(one["id"] for one in queues["running"])
    # What others run is not this tenant's business: a worker's bar shows the steps of the tenant.
    rows = [{**one, "state": _state(one, now), "mine": mine[one["id"]]} for one in list_workers(actor=actor)]
    names = {one["id"]: f"{one['host']}:{one['pid']}" for one in rows}
    beats = {beat["step_id"]: beat for one in rows for beat in one["attempts"]}
    running = [
        {**one, "worker": names.get(one["id"], ""), "beat": beats.get(one["step_id"])} for one in queues["running"]
    ]
    there = [one for one in rows if one["ended_at"] is None]
    context = {
        "now": now,
        "crumbs": [(_("Workers"), None)],
        "rows": rows,
        "there": there,
        "gone": [one for one in rows if one["ended_at"] is not None],
        "pools": queues["pools"],
        "served": {pool for one in there if one["alive"] for pool in one["pools"]},
        "classes": list_classes(actor=actor),
        "running": running,
        "slots": sum(one["slots"] for one in there),
    }
    return show(request, "pages/workers.html", context)


def _state(one: dict[str, Any], now: Any) -> tuple[str, str]:
    """Return mark and word of a session; nobody is called lost while the lease holds."""
    if one["ended_at"] is not None:
        return "none", _("ended: %(reason)s") % {"reason": (one["end_reason"] or "").replace("_", " ")}
    if not one["alive"]:
        return "broken", _("lease is over")
    if one["end_reason"] == "no_progress":
        return "strained", _("alive without progress")
    if (now - one["beat_at"]).total_seconds() > LATE_BEAT_SECONDS:
        return "strained", _("suspected lost")
    return "fine", _("beats")
