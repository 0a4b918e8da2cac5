"""Alerts in words, and where each thing that one is about is seen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from runtime.access import verbs as v

# Says whether the reader has a verb: what they may not open is named, not linked.
Reads = Callable[[str], bool]
RULES: dict[str, Promise] = {
    "unknown_operations": gettext_lazy("effects of unknown outcome"),
    "needs_attention": gettext_lazy("runs that need a person"),
    "failed_runs": gettext_lazy("failed runs"),
    "worker_lost": gettext_lazy("lost workers"),
    "worker_stalled": gettext_lazy("workers without progress"),
    "queue_old": gettext_lazy("steps that wait too long"),
    "class_late": gettext_lazy("steps past the start of their class"),
    "queue_full": gettext_lazy("a queue that refuses"),
    "outbox_old": gettext_lazy("messages that do not leave"),
    "quarantined": gettext_lazy("messages in quarantine"),
    "circuit_open": gettext_lazy("tools that keep failing"),
    "recovery_point": gettext_lazy("more work lost than allowed"),
    "stranded_runs": gettext_lazy("runs that stood still"),
    "subscriber_stuck": gettext_lazy("subscribers that stand still"),
    "long_write": gettext_lazy("transactions that stay open"),
}
# The states of effects that nobody is certain of, as the rule `unknown_operations` has them.
DOUBTFUL = ("unknown", "needs_human", "partially_applied", "compensation_failed")
_SHOWN = 4
# Kind of subject → its page, the verb that opens it, and what the page calls its row.
_PLACES = {
    "worker": ("workers", v.WORKER_READ, "worker-"),
    "message": ("messages", v.MESSAGE_READ, "message-"),
    "breaker": ("limits", v.LIMIT_READ, "breaker-"),
}


def subject_url(subject: dict[str, Any], reads: Reads) -> str:
    """Return where one thing that an alert is about is seen; "" where the reader may not look."""
    if subject["kind"] in _PLACES:
        page, verb, row = _PLACES[subject["kind"]]
        return f"{reverse(page)}#{row}{subject['id']}" if reads(verb) else ""
    if subject["kind"] == "queue":
        return f"{reverse('workers')}#queues" if reads(v.WORKER_READ) else ""
    if not subject["run_id"] or not reads(v.RUN_READ):
        return ""
    run = reverse("run", args=[subject["run_id"]])
    if subject["kind"] == "step":
        return f"{run}?step={quote(subject['label'])}"
    return f"{run}operations/" if subject["kind"] == "operation" and reads(v.OPERATION_READ) else run


def alert_url(alert: dict[str, Any], reads: Reads) -> str:
    """Return where what an alert counts is seen: the one thing, the page that lists all of its kind, or the alert."""
    first = alert["subjects"][0] if alert["subjects"] else None
    if first is not None and (alert["count"] == 1 or first["kind"] in (*_PLACES, "queue")):
        url = subject_url(first, reads)
        if url:
            return url if alert["count"] == 1 else url.partition("#")[0]
    return f"{reverse('alerts')}?{urlencode({'state': alert['state']})}#alert-{alert['id']}"


def row(alert: dict[str, Any], reads: Reads) -> dict[str, Any]:
    """Return an alert with ``url``, ``about`` (its subjects with their urls; the first few), ``rest`` (the others),
    ``beyond`` (how many are counted and not listed) and ``beyond_url``, where they are seen."""
    about = [{**one, "url": subject_url(one, reads)} for one in alert["subjects"]]
    return {
        **alert,
        "url": alert_url(alert, reads),
        "word": RULES.get(alert["rule"], alert["rule"].replace("_", " ")),
        "about": about[:_SHOWN],
        "rest": about[_SHOWN:],
        "beyond": max(0, alert["count"] - len(about)),
        "beyond_url": _beyond(alert["rule"], reads),
    }


def _beyond(rule: str, reads: Reads) -> str:
    """Return the list in which more than an alert names are found; "" where none is or the reader may not look."""
    lists = {
        "unknown_operations": [("effect", one) for one in DOUBTFUL],
        "needs_attention": [("status", "needs_attention")],
        "failed_runs": [("status", "failed")],
        "queue_old": [("status", "queued"), ("status", "running")],
        "class_late": [("status", "queued"), ("status", "running")],
    }
    if rule in lists:
        return f"{reverse('runs')}?{urlencode([*lists[rule], ('within', 'all')])}" if reads(v.RUN_READ) else ""
    pages = {"worker_lost": "worker", "worker_stalled": "worker", "circuit_open": "breaker"}
    kind = pages.get(rule, "message" if rule in ("outbox_old", "quarantined") else "")
    if kind not in _PLACES:
        return ""
    page, verb, _row = _PLACES[kind]
    return reverse(page) if reads(verb) else ""
