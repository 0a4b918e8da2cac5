"""The health strip: five parts of the machinery, each fine or strained with its reason; numbers are links. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.presenters import times
from dashboard.presenters.alerts import DOUBTFUL
from runtime.queries.classes import MOST_LATE

OLD_QUEUE_SECONDS = 120.0
LATE_BEAT_SECONDS = 10.0


def health(
    checks: dict[str, dict[str, Any]],
    workers: list[dict[str, Any]],
    oldest: dict[str, Any] | None,
    late: list[dict[str, Any]],
    effects: dict[str, int],
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the strip's cells: {key, label, value, detail, fine, url, more}.

    ``url`` is the list that the value counts, ``more`` the one of the detail; "" for what counts nothing.
    """
    return [
        _scheduler(checks),
        _workers(workers, now),
        _database(checks),
        _oldest(oldest, late, now),
        _effects(effects),
    ]


def _cell(key: str, label: str, value: str, detail: str, fine: bool, url: str = "", more: str = "") -> dict[str, Any]:
    return {"key": key, "label": label, "value": value, "detail": detail, "fine": fine, "url": url, "more": more}


def _runs(**wanted: Any) -> str:
    """Return the address of the list of runs of any time that ``wanted`` narrows."""
    return f"{reverse('runs')}?{urlencode({**wanted, 'within': 'all'}, doseq=True)}"


def _scheduler(checks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    check = checks.get("scheduler", {"ok": False, "detail": ""})
    value = _("leads") if check["ok"] else _("not connected")
    detail = _("timers and deadlines fire") if check["ok"] else _("timers and deadlines wait")
    return _cell("scheduler", _("Scheduler"), value, detail, check["ok"])


def _workers(workers: list[dict[str, Any]], now: datetime) -> dict[str, Any]:
    """A worker that misses beats is suspected, never called dead while its lease holds."""
    there = [one for one in workers if one["ended_at"] is None]
    alive = [one for one in there if one["alive"]]
    late = [one for one in alive if (now - one["beat_at"]).total_seconds() > LATE_BEAT_SECONDS]
    slots = sum(one["slots"] for one in alive)
    if late:
        names = f"{late[0]['host']}:{late[0]['pid']}"
        until = times.clock(late[0]["lease_until"], now)
        detail = _("%(name)s suspected, lease to %(until)s") % {"name": names, "until": until}
    elif len(alive) < len(there):
        lost = len(there) - len(alive)
        detail = ngettext("%(n)d lost its lease", "%(n)d lost their leases", lost) % {"n": lost}
    else:
        beat = max((one["beat_at"] for one in there), default=None)
        detail = _("last beat %(ago)s, %(slots)d slots") % {"ago": times.ago(beat, now), "slots": slots}
    value = _("%(n)d of %(all)d") % {"n": len(alive) - len(late), "all": len(there)} if there else _("none")
    detail = detail if there else _("nothing is executed")
    where = reverse("workers") if there else ""
    return _cell("workers", _("Workers"), value, detail, bool(alive) and not late, where, where)


def _database(checks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    check = checks.get("database", {"ok": False, "detail": ""})
    migrated = checks.get("migrations", {"ok": True, "detail": ""})
    fine = check["ok"] and migrated["ok"]
    detail = _("migrated") if fine else (migrated["detail"] or check["detail"])
    return _cell("database", _("Database"), _("answers") if check["ok"] else _("away"), detail, fine)


def _oldest(oldest: dict[str, Any] | None, late: list[dict[str, Any]], now: datetime) -> dict[str, Any]:
    """Steps past the start their class aims at strain the queue, however short they have waited."""
    if late:
        first = min([*late, *([oldest] if oldest else [])], key=lambda one: one["queued_at"])
        n, where = len(late), _runs(status=["queued", "running"])
        detail = ngettext("%(n)s past the start of its class", "%(n)s past the start of their class", n)
        age = times.duration((now - first["queued_at"]).total_seconds())
        detail %= {"n": n if n <= MOST_LATE else f"{MOST_LATE}+"}
        return _cell("oldest", _("Oldest queued"), age, detail, False, where, where)
    if oldest is None:
        return _cell("oldest", _("Oldest queued"), _("nothing waits"), _("every ready step is claimed"), True)
    age = (now - oldest["queued_at"]).total_seconds()
    fine = age < OLD_QUEUE_SECONDS
    detail, where = _("in pool %(pool)s") % {"pool": oldest["pool"]}, _runs(pool=oldest["pool"])
    return _cell("oldest", _("Oldest queued"), times.duration(max(0.0, age)), detail, fine, where, where)


def _effects(effects: dict[str, int]) -> dict[str, Any]:
    under_way = ("sent", "intended")
    doubt = sum(effects.get(status, 0) for status in DOUBTFUL)
    going = sum(effects.get(status, 0) for status in under_way)
    detail = ngettext("%(n)d under way", "%(n)d under way", going) % {"n": going}
    value = ngettext("%(n)d in doubt", "%(n)d in doubt", doubt) % {"n": doubt} if doubt else _("none in doubt")
    where = _runs(effect=DOUBTFUL) if doubt else ""
    return _cell("effects", _("Effects outside"), value, detail, not doubt, where, _runs(effect=under_way))
