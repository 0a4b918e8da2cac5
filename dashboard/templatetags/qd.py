"""Parts of pages as tags: icons, marks, chips, times, countdowns, names, links that keep the rest of the address."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import lucide
from django import template
from django.template.context import Context
from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from dashboard.presenters import addresses, states, times
from dashboard.templatetags import qd_words

register = template.Library()
register.filters.update(qd_words.register.filters)


@cache
def _strokes(name: str) -> str:
    """Return what is drawn of a lucide icon, without its own size and colours."""
    svg = ElementTree.fromstring(lucide._render_icon(name, None))
    return "".join(ElementTree.tostring(node, encoding="unicode") for node in svg)


@register.simple_tag
def icon(name: str, more: str = "") -> SafeString:
    """Draw an icon; it is decoration, the word stands beside it or in the control's label."""
    head = format_html('<svg class="i {}" viewBox="0 0 24 24" aria-hidden="true">', more)
    return mark_safe(f"{head}{_strokes(name)}</svg>")


@register.simple_tag
def mark(state: str, more: str = "", label: str = "") -> SafeString:
    """Draw a state's mark; with ``label`` it stands alone and says its name."""
    name = states.mark_name(state)
    words = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="mark st-{} {}" viewBox="0 0 16 16" {}><use href="#m-{}"/></svg>', state, more, words, name
    )


@register.simple_tag
def chip(state: str, of: str = "step", more: str = "", badge: str = "", initials: str = "") -> SafeString:
    """Draw mark and word of a state; ``of`` is step, run, operation or approval."""
    size = "" if "plain" in more else "mark-14"
    tail = format_html('<span class="badge">{}</span>', badge) if badge else mark_safe("")
    if initials:
        tail = format_html('{}<span class="av av-18">{}</span>', tail, initials)
    return format_html(
        '<span class="chip st-{} {}">{}{}{}</span>', state, more, mark(state, size), states.word(state, of), tail
    )


@register.filter
def step_badges(step: dict[str, Any]) -> list[str]:
    """Return the facts beside a step's state."""
    return states.badges(step)


@register.simple_tag
def risk(level: str, calls: Any = None) -> SafeString:
    """Draw one to four bars and the word; of ``calls`` without a risk each can be undone and looked up."""
    levels = ("low", "medium", "high", "critical")
    if level == "none":
        return format_html('<span class="faint">{}</span>', _("Can be undone") if calls else _("No effect"))
    names = {"low": _("Low"), "medium": _("Medium"), "high": _("High"), "critical": _("Critical")}
    on = ' class="on"'
    filled = levels.index(level) + 1 if level in levels else 1
    bars = "".join(
        f'<rect x="{3.6 * n:.1f}" y="{10 - 3 * n}" width="2.6" height="{4 + 3 * n}" rx=".8"{on if n < filled else ""}/>'
        for n in range(4)
    )
    return format_html(
        '<span class="risk risk-{}"><svg viewBox="0 0 14 14" aria-hidden="true">{}</svg>{}</span>',
        level,
        mark_safe(bars),
        names.get(level, level),
    )


@register.simple_tag
def quorum(said: int, wanted: int) -> SafeString:
    """Draw how many of those who have to approve have done so."""
    bars = mark_safe("".join('<i class="on"></i>' if n < said else "<i></i>" for n in range(min(wanted, 8))))
    words = _("%(said)d of %(wanted)d") % {"said": said, "wanted": wanted}
    return format_html('<span class="quorum">{}<span>{}</span></span>', bars, words)


@register.simple_tag(takes_context=True)
def who(context: Context, label: str | None, size: str = "") -> SafeString:
    """Draw a person's or a service's sign and name."""
    one = states.person(label)
    shell = context.get("shell")
    you = shell is not None and label == shell.actor.label
    if one["kind"] == "user":
        sign = format_html('<span class="av {}" aria-hidden="true">{}</span>', size, one["initials"])
    else:
        sign = format_html(
            '<span class="av av-svc {}">{}</span>', size, icon("bot" if one["kind"] == "service" else "cog")
        )
    name = format_html("{} <span class=faint>{}</span>", one["name"], _("you")) if you else one["name"]
    return format_html('<span class="who">{}<span class="trunc">{}</span></span>', sign, name)


def _now(context: Context) -> datetime:
    return context.get("now") or timezone.now()


@register.simple_tag(takes_context=True)
def when(context: Context, moment: datetime | None, style: str = "clock") -> SafeString:
    """Write a moment: ``clock`` (time, the distance on hover), ``ago`` (distance, the time on hover), ``exact``."""
    if moment is None:
        return mark_safe('<span class="faint none">–</span>')
    now, absolute = _now(context), full(moment)
    if style == "ago":
        return format_html(
            '<time datetime="{}" title="{}" data-ago>{}</time>', _iso(moment), absolute, times.ago(moment, now)
        )
    shown = times.clock(moment, now, exact=style == "exact")
    return format_html('<time datetime="{}" title="{}">{}</time>', _iso(moment), absolute, shown)


def full(moment: datetime) -> str:
    """Return a moment with date and zone, as on hover."""
    local = timezone.localtime(moment)
    return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}"


def _iso(moment: datetime) -> str:
    return moment.astimezone(timezone.get_default_timezone()).isoformat()


@register.simple_tag(takes_context=True)
def elapsed(context: Context, start: datetime | None, end: datetime | None = None) -> SafeString:
    """Write how long something took, or has been going on while ``end`` is None; that one ticks."""
    if start is None:
        return mark_safe('<span class="faint none">–</span>')
    seconds = times.seconds_between(start, end or _now(context))
    if end is not None:
        return format_html("<span>{}</span>", times.duration(seconds))
    return format_html('<span data-since="{}">{}</span>', _iso(start), times.duration(seconds))


@register.filter
def dur(seconds: float | None) -> str:
    """Return a length of time."""
    return times.duration(seconds)


@register.simple_tag(takes_context=True)
def due(context: Context, moment: datetime | None, since: datetime | None = None) -> SafeString:
    """Draw the ring of a deadline: how much of the time from ``since`` is left, and the countdown."""
    if moment is None:
        return format_html('<span class="due faint">{}</span>', _("no deadline"))
    now = _now(context)
    seconds = (moment - now).total_seconds()
    whole = max(1.0, (moment - since).total_seconds()) if since else max(seconds, 3600.0)
    part = round(100 * min(1.0, max(0.0, seconds / whole)))
    return format_html(
        '<span class="due {}" title="{}" data-due="{}"><svg viewBox="0 0 14 14" aria-hidden="true"><circle class="bg"'
        ' cx="7" cy="7" r="5.4"/><circle class="fg" cx="7" cy="7" r="5.4" pathLength="100"'
        ' stroke-dasharray="{} 100"/></svg><span>{}</span></span>',
        times.tone(seconds),
        full(moment),
        _iso(moment),
        part,
        times.left(seconds),
    )


@register.filter
def short(value: Any, length: int = 8) -> str:
    """Return the end of an id, which is what tells UUIDv7 apart; or the ends of a hash."""
    text = str(value or "")
    if len(text) == 36:
        return text[-length:]
    return text if len(text) <= 2 * length else f"{text[:length]}…{text[-4:]}"


@register.filter
def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


@register.filter
def line(value: Any) -> str:
    """Return a value as one line of JSON, a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def get(mapping: Any, key: Any) -> Any:
    """Return ``mapping[key]``, None when it is not there."""
    return mapping.get(key) if hasattr(mapping, "get") else None


@register.filter
def bounded(count: int, bound: int = 1000) -> str:
    """Return a count that was cut at ``bound``: 1,000+."""
    return f"{min(count, bound):,}{'+' if count > bound else ''}"


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """Return the present query string with ``changes``; None takes a parameter away, and a change the cursor too."""
    values = context["request"].GET.copy()
    for name in ("cursor", "format"):
        values.pop(name, None)
    for name, value in changes.items():
        values.pop(name, None)
        for one in value if isinstance(value, list | tuple) else [value]:
            if one not in (None, ""):
                values.appendlist(name, str(one))
    return conditional_escape("?" + urlencode([(k, v) for k in values for v in values.getlist(k)]))


@register.inclusion_tag("components/field.html")
def field(one: Any, more: str = "") -> dict[str, Any]:
    """Draw a form field with its label, hint and errors, under the ids by which Django's widget names them."""
    return {"field": one, "more": more}


@register.filter
def words(text: str) -> list[str]:
    """Return a text's words."""
    return text.split()


@register.filter
def moment(value: Any) -> datetime | None:
    """Return a time that a JSON column keeps as text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


@register.simple_tag
def progress(counts: dict[str, int], status: str) -> SafeString:
    """Draw how many steps of a run are at an end; of a run that went well in part, which part did not.

    No template of its own: a list draws fifty.
    """
    every, done = counts["steps"], counts["steps"] - counts["open"]
    bad = counts["bad"] if status == "partially_completed" else 0
    width = round(64 * (done - bad) / max(1, every))
    return format_html(
        '<span class="prog" title="{}"><svg width="64" height="6" viewBox="0 0 64 6" aria-hidden="true" class="st-{}">'
        '<rect class="bg" width="64" height="6" rx="3"/><rect class="fg" width="{}" height="6" rx="3"/>{}</svg>'
        '<span>{}<span class="faint">/{}</span></span></span>',
        _("%(open)s of %(all)s steps open") % {"open": counts["open"], "all": every},
        status,
        width,
        format_html('<rect class="fg st-failed" x="{}" width="{}" height="6" rx="3"/>', width, max(4, 64 - width))
        if bad
        else "",
        done,
        every,
    )


@register.simple_tag
def share(told: dict[str, Any]) -> SafeString:
    """Draw how far a call says it is: a bar where it knows of how many, and its own count."""
    done, total = (None if one is None else f"{one:.10g}" for one in (told["done"], told["total"]))
    bar = ""
    if told["share"] is not None:
        bar = format_html(
            '<svg width="64" height="6" viewBox="0 0 64 6" aria-hidden="true" class="st-running">'
            '<rect class="bg" width="64" height="6" rx="3"/><rect class="fg" width="{}" height="6" rx="3"/></svg>',
            round(64 * told["share"]),
        )
    of = format_html('<span class="faint">/{}</span>', total) if total else ""
    return format_html('<span class="prog">{}<span>{}{}</span></span>', bar, done, of)


@register.filter
def f(value: float) -> str:
    """Return a number for an SVG attribute, with a point in every language."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


@register.filter
def plus(value: float, more: float) -> float:
    """Return a sum."""
    return value + more


@register.filter
def rail(level: int, middle: int = 0) -> int:
    """Return how far a node of this level is indented in the list of lanes (px)."""
    return 14 * min(level, 8) + (7 if middle else 14)


@register.filter
def floor0(value: int) -> int:
    """Return a number, never below 0."""
    return max(0, value)


@register.filter
def spaced(text: str) -> str:
    """Return a name of the machine as words."""
    return str(text).replace("_", " ")


@register.filter
def only_state(kind: str) -> str:
    """Return whose words a state of an audit subject has."""
    return kind if kind in states.WORDS else "step"


@register.simple_tag(takes_context=True)
def step_url(context: Context, step: str = "", part: str = "") -> str:
    """Return the address of this page with a step's drawer open, or with none."""
    return addresses.beside(context["request"], step, part)


@register.simple_tag(takes_context=True)
def countdown(context: Context, moment: datetime | None, since: datetime) -> SafeString:
    """Draw a deadline large: what is left, a track of how much of it is gone, the moment itself."""
    if moment is None:
        words = _("any time"), _("no deadline is set")
        return format_html('<span class="v">{}</span><span class="cap">{}</span>', *words)
    now = _now(context)
    seconds = (moment - now).total_seconds()
    part = 100 * min(1.0, max(0.0, seconds / max(1.0, (moment - since).total_seconds())))
    return format_html(
        '<span class="v {}" data-due="{}" data-announce="{}">{}</span><svg class="{}" aria-hidden="true">'
        '<rect class="bg" width="100%" height="4"/><rect class="fg" width="{}%" height="4"/></svg>'
        '<span class="cap">{}</span>',
        times.tone(seconds),
        _iso(moment),
        _("Left to decide:"),
        times.left(seconds),
        times.tone(seconds).replace("tone ", ""),
        f"{part:.1f}",
        times.clock(moment, now),
    )


@register.filter
def cut_at(text: str, sign: str) -> str:
    """Return what stands before a sign."""
    return text.partition(sign)[0]


@register.filter
def back_of(crumbs: list[tuple[str, str | None]] | None) -> tuple[str, str] | None:
    """Return the crumb before the last: where a phone's back arrow leads."""
    found = [crumb for crumb in (crumbs or [])[:-1] if crumb[1]]
    return found[-1] if found else None  # type: ignore[return-value]


@register.filter
def severity_mark(severity: str) -> str:
    """Return the state whose mark an alert of this severity wears."""
    return {"critical": "failed", "error": "failed", "warning": "hold"}.get(severity, "waiting")
