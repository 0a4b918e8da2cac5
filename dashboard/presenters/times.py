"""Durations and distances in time as people read them. Pure: now is always given."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

URGENT, SOON = timedelta(minutes=5), timedelta(minutes=15)


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from ``start`` to ``end``, never below 0; None when one is missing."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds())


def duration(seconds: float | None) -> str:
    """Return a length of time: ``0.4 s``, ``12 s``, ``9:41``, ``2 h 10``, ``3 d 4 h``; an en dash for none."""
    if seconds is None:
        return "–"
    if seconds < 0.095:
        return _("%(n)d ms") % {"n": round(seconds * 1000)}
    if seconds < 10:
        return _("%(n)s s") % {"n": f"{seconds:.1f}"}
    if seconds < 60:
        return _("%(n)d s") % {"n": int(seconds)}
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return _("%(h)d h %(m)02d") % {"h": whole // 3600, "m": whole % 3600 // 60}
    return _("%(d)d d %(h)d h") % {"d": whole // 86400, "h": whole % 86400 // 3600}


def between(low: float, high: float | None) -> str:
    """Return a class of durations by its ends in seconds: ``under 1 min``, ``1 min – 5 min``, ``7 d or longer``."""
    if high is None:
        return _("%(time)s or longer") % {"time": _round(low)}
    if low <= 0:
        return _("under %(time)s") % {"time": _round(high)}
    return f"{_round(low)} – {_round(high)}"


def _round(seconds: float) -> str:
    """Return a round time in its largest whole unit."""
    units = ((86400, _("%(n)d d")), (3600, _("%(n)d h")), (60, _("%(n)d min")), (1, _("%(n)d s")))
    size, word = next(one for one in units if seconds % one[0] == 0 or one[0] == 1)
    return word % {"n": int(seconds) // size}


def left(seconds: float) -> str:
    """Return a countdown: ``9:42`` under 15 minutes, ``39 min`` under an hour, then hours and days."""
    if seconds <= 0:
        return _("over")
    if seconds < SOON.total_seconds():
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
    if seconds < 3600:
        return _("%(n)d min") % {"n": int(seconds) // 60}
    return duration(seconds)


def tone(seconds: float | None) -> str:
    """Return the class of a countdown: calm, amber under 15 minutes, red under 5."""
    if seconds is None or seconds >= SOON.total_seconds():
        return ""
    return "tone st-failed" if seconds < URGENT.total_seconds() else "tone st-hold"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago or how far ahead a moment is."""
    if moment is None:
        return "–"
    seconds = (now - moment).total_seconds()
    if seconds < -1:
        return _("in %(time)s") % {"time": left(-seconds)}
    if seconds < 1:
        return _("just now")
    if seconds < 60:
        return _("%(n)d s ago") % {"n": int(seconds)}
    if seconds < 3600:
        return _("%(n)d min ago") % {"n": int(seconds) // 60}
    if seconds < 86400:
        return _("%(n)d h ago") % {"n": int(seconds) // 3600}
    return _("%(n)d d ago") % {"n": int(seconds) // 86400}


def clock(moment: datetime, now: datetime, *, exact: bool = False) -> str:
    """Return a moment in the active zone: the time today, with its date on other days."""
    local, today = timezone.localtime(moment), timezone.localtime(now)
    time = local.strftime("%H:%M:%S.%f")[:-3] if exact else local.strftime("%H:%M:%S")
    if local.date() == today.date():
        return time
    day = local.strftime("%m-%d") if local.year == today.year else local.strftime("%Y-%m-%d")
    return f"{day} {time if exact else local.strftime('%H:%M')}"


def axis(span: float, wanted: int = 9) -> list[float]:
    """Return round marks (seconds) from 0 that cut ``span`` into at most ``wanted`` parts."""
    if span <= 0:
        return [0.0]
    steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800]
    steps += [3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]
    step = next((one for one in steps if span / one <= wanted), span / wanted)
    return [index * step for index in range(int(span / step) + 1)]


def axis_label(seconds: float, step: float) -> str:
    """Return what stands at a mark of the axis."""
    if seconds == 0:
        return "0"
    if step < 1:
        return _("%(n)s s") % {"n": f"{seconds:.3f}".rstrip("0").rstrip(".")}
    if seconds < 60:
        return _("%(n)d s") % {"n": int(seconds)}
    return duration(seconds)
