"""Which steps of a run explain where it is, and the sentence that says so. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.presenters import states, times
from dashboard.presenters.told import told
from dashboard.presenters.undoing import all_steps

# A step explains the more, the earlier its state stands here: what holds an open run, or what ended one badly.
_TELLING = ("unknown", "hold", "running", "queued", "waiting", "failed", "killed", "skipped")
_ENDED_BY = ("unknown", "failed", "killed", "skipped", "hold", "running", "queued", "waiting")
_TWO_ENDS = re.compile(r"(?<![.。])([?!.？！。])[.。](?![.。])")


@dataclass(frozen=True, slots=True)
class Blocker:
    """A step that explains where the run is, with how long it has been so."""

    node: str
    title: str
    status: str
    text: str


def blockers(graph: dict[str, Any], now: datetime) -> list[Blocker]:
    """Return the steps that explain the run's state, the most telling first."""
    found = []
    open_ = any(one["step"] and one["step"]["status"] not in states.ENDED_STEPS for one in all_steps(graph))
    for node in all_steps(graph):
        step = node["step"]
        if step is None or step["status"] not in _TELLING or not _telling(step):
            continue
        found.append(Blocker(node["id"], node["title"], step["status"], _text(step, now)))
    order = _TELLING if open_ else _ENDED_BY
    return sorted(found, key=lambda one: order.index(one.status))[:50]


def _telling(step: dict[str, Any]) -> bool:
    if step["status"] == "waiting":
        return step["cause"] is not None
    return step["status"] != "skipped" or step["cause"] in ("upstream_failed", "rejected", "deadline")


def _text(step: dict[str, Any], now: datetime) -> str:
    since = step["started_at"] if step["status"] in ("running", "unknown") else step["queued_at"] or step["created_at"]
    if step["status"] in ("failed", "killed"):
        error = step["error"] if isinstance(step["error"], dict) else {}
        return str(told(error.get("message")) or states.cause_word(step["cause"]) or states.word(step["status"]))
    if step["status"] == "skipped":
        return states.cause_word(step["cause"])
    if step["not_before"] and step["status"] == "waiting":
        return f"{states.cause_word(step['cause'])}, {times.ago(step['not_before'], now)}"
    words = states.cause_word(step["cause"]) or states.word(step["status"])
    return f"{words}, {times.duration(times.seconds_between(since, now))}"


def headline(run: dict[str, Any], found: list[Blocker]) -> str:
    """Return the one sentence that answers why the run is where it is."""
    # A title or a reason may end in a mark of its own.
    return _TWO_ENDS.sub(r"\1", _headline(run, found))


def _headline(run: dict[str, Any], found: list[Blocker]) -> str:
    status = run["status"]
    if status == "completed":
        return _("Nothing holds this run: it completed, and its success condition was checked.")
    if status in states.ENDED_RUNS:
        text = _("It ended %(word)s.") % {"word": states.word(status, "run")}
        return f"{text} {told(run['reason'])}" if run["reason"] else text
    if run["cancel_requested"]:
        return _("It is being cancelled: running steps stop at their safe point.")
    if run["paused"]:
        return _("An operator paused it: nothing new is claimed.")
    doubt = [one for one in found if one.status == "unknown"]
    if doubt:
        return _("The result of %(title)s is not known, and nothing is sent again before it is.") % {
            "title": doubt[0].title
        }
    if status == "needs_attention":
        return _("It needs a person: %(reason)s") % {
            "reason": told((run["attention"] or {}).get("evidence") or run["reason"])
        }
    held = [one for one in found if one.status == "hold"]
    if held and not any(one.status in ("running", "queued") for one in found):
        return ngettext(
            "It waits for one step that is held: %(title)s.",
            "It waits for %(n)d held steps, first %(title)s.",
            len(held),
        ) % {"n": len(held), "title": held[0].title}
    running = [one for one in found if one.status == "running"]
    if running:
        return ngettext(
            "It works: %(title)s is running.", "It works: %(n)d steps are running, first %(title)s.", len(running)
        ) % {"n": len(running), "title": running[0].title}
    queued = [one for one in found if one.status == "queued"]
    if queued:
        return _("%(title)s is ready and waits for a worker.") % {"title": queued[0].title}
    if found:
        return _("It waits: %(title)s, %(text)s.") % {"title": found[0].title, "text": found[0].text}
    return _("Nothing of it is under way.")
