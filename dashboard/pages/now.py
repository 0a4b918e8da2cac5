"""Now: what needs this reader first, whether the machinery is well, and how the runs stand. Every number is a link."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.pages import requests
from dashboard.pages.console import page, show
from dashboard.presenters import states, times
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
WINDOWS = {"1": timedelta(hours=1), "12": timedelta(hours=12), "24": timedelta(hours=24)}


@page(v.RUN_READ, section="now")
def now(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the first screen."""
    window = request.GET.get("within", "12")
    window = window if window in WINDOWS else "12"
    picture = read_now(actor=actor, failures_within=WINDOWS[window])
    asked = requests.mine(actor)
    cases = list_cases(actor=actor, limit=8).items if may(actor, REPAIR_READ) else []
    told = {one["run_id"] for one in cases}
    stops = list_stops(actor=actor, standing=True, limit=100) if may(actor, v.STOP_READ) else []
    context = {
        "now": picture["at"],
        "crumbs": [(_("Now"), None)],
        "picture": picture,
        "stops": stops[:MOST_STOPS],
        "more_stops": len(stops) > MOST_STOPS,
        "may_lift": may(actor, v.STOP_LIFT),
        "lead": _lead(actor, picture, asked),
        "requests": asked,
        "cases": [case_row(one) for one in cases],
        "attention": [one for one in picture["attention"] if one["id"] not in told],
        "alerts": list_alerts(actor=actor, limit=6).items if may(actor, v.ALERT_READ) else [],
        "health": _health(actor, picture),
        "states": [(name, picture["states"][name]) for name in states.RUN_ORDER if name in picture["states"]],
        "window": window,
        "windows": list(WINDOWS),
        "failures": [{**one, "bars": _bars(one["slices"])} for one in picture["failures"]],
    }
    return show(request, "pages/now.html", context)


def _health(actor: Actor, picture: dict[str, Any]) -> list[dict[str, Any]]:
    workers = list_workers(actor=actor) if may(actor, v.WORKER_READ) else []
    return health(health_queries.readiness(), workers, picture["oldest_queued"], picture["effects"], picture["at"])


def _lead(actor: Actor, picture: dict[str, Any], asked: list[dict[str, Any]]) -> str:
    """Return the sentence that names today's duty; its numbers are those of the sidebar, not of the lists below it."""
    parts = []
    if attention := count_attention(actor=actor):
        text = ngettext("%(n)s run needs a person.", "%(n)s runs need a person.", attention)
        parts.append(text % {"n": bounded(attention, BOUND - 1)})
    if asked:
        first = asked[0]["deadline"]
        if first is None:
            waiting = requests.count_mine(actor)
            text = ngettext("%(n)s decision waits for you.", "%(n)s decisions wait for you.", waiting)
            parts.append(text % {"n": bounded(waiting, requests.BOUND - 1)})
        else:
            time = times.left((first - picture["at"]).total_seconds())
            parts.append(_("The next approval is due in %(time)s.") % {"time": time})
    if parts:
        return " ".join(parts)
    running = picture["states"].get("running", {}).get("h24", 0)
    if running:
        return ngettext("Nothing needs you. %(n)d run works.", "Nothing needs you. %(n)d runs work.", running) % {
            "n": running
        }
    return _("Nothing needs you.")


def _bars(slices: list[int]) -> list[dict[str, float]]:
    """Return twelve bars of 72 × 20 px from the slices (1 to 12) that failures fell into."""
    counts = [slices.count(one) for one in range(1, 13)]
    top = max(counts) or 1
    heights = [max(1.0, round(20 * one / top, 1)) for one in counts]
    return [{"x": 6 * index, "y": 20 - height, "h": height} for index, height in enumerate(heights)]
