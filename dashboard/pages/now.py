"""Now: what needs this reader first, whether the machinery is well, and how the runs stand. Every number is a link."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.pages import requests
from dashboard.pages.console import page, show
from dashboard.presenters import states, times
from dashboard.presenters.alerts import row as alert_row
from dashboard.presenters.now import health
from dashboard.presenters.repairs import row as case_row
from dashboard.templatetags.qd import bounded
from repair.queries import list_cases
from repair.verbs import READ as REPAIR_READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries import health as health_queries
from runtime.queries.alerts import list_alerts
from runtime.queries.attention import BOUND, count_attention
from runtime.queries.console import read_now
from runtime.queries.people import list_workers
from runtime.queries.stops import list_stops

# So many stops are shown whole; who sets more of them reads the list.
MOST_STOPS = 5
ALERTS = 6
WINDOWS = {"1": timedelta(hours=1), "12": timedelta(hours=12), "24": timedelta(hours=24)}


@page(v.RUN_READ, section="now")
def now(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the first screen."""
    window = request.GET.get("within", "12")
    window = window if window in WINDOWS else "12"
    picture = read_now(actor=actor, failures_within=WINDOWS[window])
    asked, reviews = requests.mine(actor), requests.reviews(actor)
    cases = list_cases(actor=actor, limit=8).items if may(actor, REPAIR_READ) else []
    told = {one["run_id"] for one in cases}
    reviewed = {one["id"] for one in reviews}
    stops = list_stops(actor=actor, standing=True, limit=100) if may(actor, v.STOP_READ) else []
    alerts = list_alerts(actor=actor, limit=ALERTS, count=True) if may(actor, v.ALERT_READ) else None
    context = {
        "now": picture["at"],
        "crumbs": [(_("Now"), None)],
        "picture": picture,
        "stops": stops[:MOST_STOPS],
        "more_stops": len(stops) > MOST_STOPS,
        "may_lift": may(actor, v.STOP_LIFT),
        "lead": _lead(actor, picture, asked, reviews),
        "requests": asked,
        "reviews": reviews,
        "cases": [case_row(one) for one in cases if one["id"] not in reviewed],
        "attention": [one for one in picture["attention"] if one["id"] not in told],
        "alerts": [alert_row(one, partial(may, actor)) for one in alerts.items] if alerts else [],
        "alert_count": alerts.count if alerts else 0,
        "health": _health(actor, picture),
        "states": [(name, picture["states"][name]) for name in states.RUN_ORDER if name in picture["states"]],
        "window": window,
        "windows": list(WINDOWS),
        "failures": [{**one, "bars": _bars(one["slices"])} for one in picture["failures"]],
    }
    return show(request, "pages/now.html", context)


def _health(actor: Actor, picture: dict[str, Any]) -> list[dict[str, Any]]:
    workers = list_workers(actor=actor) if may(actor, v.WORKER_READ) else []
    waits = picture["oldest_queued"], picture["late"]
    return health(health_queries.readiness(), workers, *waits, picture["effects"], picture["at"])


def _lead(
    actor: Actor, picture: dict[str, Any], asked: list[dict[str, Any]], reviews: list[dict[str, Any]]
) -> SafeString:
    """Return the sentence that names today's duty; its numbers are the sidebar's, and lead to what they count."""
    parts = []
    if attention := count_attention(actor=actor):
        text = ngettext("%(n)s run needs a person.", "%(n)s runs need a person.", attention)
        url = f"{reverse('runs')}?status=needs_attention&within=all"
        parts.append(_linked(text, "n", bounded(attention, BOUND - 1), url))
    first = asked[0]["deadline"] if asked else None
    if reviews or (asked and first is None):
        waiting = requests.count_decisions(actor)
        text = ngettext("%(n)s decision waits for you.", "%(n)s decisions wait for you.", waiting)
        parts.append(_linked(text, "n", bounded(waiting, requests.BOUND - 1), reverse("inbox")))
    if first is not None:
        time, url = times.left((first - picture["at"]).total_seconds()), reverse("approval", args=[asked[0]["id"]])
        parts.append(_linked(_("The next approval is due in %(time)s."), "time", time, url))
    if parts:
        return mark_safe(" ".join(parts))
    running = picture["states"].get("running", {}).get("h24", 0)
    if running:
        text = ngettext("Nothing needs you. %(n)s run works.", "Nothing needs you. %(n)s runs work.", running)
        return _linked(text, "n", str(running), f"{reverse('runs')}?status=running&within=24h")
    return escape(_("Nothing needs you."))


def _linked(text: str, name: str, number: str, url: str) -> SafeString:
    """Return ``text`` with its placeholder ``name`` as a link."""
    return mark_safe(escape(text) % {name: format_html('<a class="link" href="{}">{}</a>', url, number)})


def _bars(slices: list[int]) -> list[dict[str, float]]:
    """Return twelve bars of 72 × 20 px from the slices (1 to 12) that failures fell into."""
    counts = [slices.count(one) for one in range(1, 13)]
    top = max(counts) or 1
    heights = [max(1.0, round(20 * one / top, 1)) for one in counts]
    return [{"x": 6 * index, "y": 20 - height, "h": height} for index, height in enumerate(heights)]
