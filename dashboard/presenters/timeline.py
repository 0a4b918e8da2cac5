"""The Gantt of a run as drawable rows: places in percent of the axis, words beside the bars. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from dashboard.presenters import states, times
from dashboard.presenters.critical import (
    HOLD,
    QUEUE,
    RETRY,
    STOPPED,
    THROTTLED,
    TIMER,
    UNKNOWN,
    WORK,
    Path,
    critical_path,
)
from dashboard.presenters.spans import BAD, RUN, Span, spans_of
from dashboard.presenters.terms import term
from dashboard.presenters.undoing import all_steps

MAX_ROWS = 300
SORTS = ("started", "longest", "critical")
# The axis ends a little after now or the end, so that the last bar and its word have room.
_ROOM = 1.04


@dataclass(frozen=True, slots=True)
class Bar:
    """A span on the axis; ``x`` and ``width`` in percent of it, ``title`` its words on hover."""

    kind: str
    x: float
    width: float
    title: str
    live: bool


@dataclass(slots=True)
class Row:
    """A step's line: its bars, and a note placed after the last of them, or before the axis' end."""

    node: str
    title: str
    status: str
    critical: bool
    bars: list[Bar] = field(default_factory=list)
    note: str = ""
    note_x: float = 0.0
    note_anchor: str = "start"
    total: float | None = None
    started: datetime | None = None


@dataclass(slots=True)
class Timeline:
    """Everything the page draws. ``ticks`` are (percent, label); ``now_x`` is None once the run has ended."""

    rows: list[Row]
    hidden: int
    ticks: list[tuple[float, str]]
    now_x: float | None
    elapsed: float
    path: Path
    shares: list[dict[str, Any]]
    sentence: str


def build(
    graph: dict[str, Any], events: list[dict[str, Any]], run: dict[str, Any], now: datetime, sort: str = "started"
) -> Timeline:
    """Return the timeline of a run from its graph and its events up to one moment."""
    spans, start = spans_of(events), run["created_at"]
    end = run["finished_at"] or now
    elapsed = max(0.001, (end - start).total_seconds())
    path = critical_path(graph, spans, start, now)
    # A run that ended long before a late fact was appended is not stretched by it.
    scale = 100 / (elapsed * _ROOM)
    on_path = set(path.nodes)
    lines = all_steps(graph)
    titles = {node["id"]: node["title"] for node in lines}
    waits = _waits(graph, titles)
    rows = _sorted(
        [_row(one, spans.get(one["id"], []), one["id"] in on_path, start, end, scale, waits) for one in lines],
        sort,
    )
    marks = times.axis(elapsed)
    step = marks[1] if len(marks) > 1 else 1.0
    return Timeline(
        rows=rows[:MAX_ROWS],
        hidden=max(0, len(rows) - MAX_ROWS),
        ticks=[(one * scale, times.axis_label(one, step)) for one in marks if _clear(one, run, elapsed)],
        now_x=None if run["finished_at"] else elapsed * scale,
        elapsed=elapsed,
        path=path,
        shares=_shares(path),
        sentence=_sentence(path, titles),
    )


def _clear(mark: float, run: dict[str, Any], elapsed: float) -> bool:
    """Return whether a mark of the axis keeps clear of the flag that says now."""
    return mark == 0 or run["finished_at"] is not None or mark < 0.93 * elapsed


def _waits(graph: dict[str, Any], titles: dict[str, str]) -> dict[str, list[str]]:
    steps = {node["id"]: node["step"] for node in graph["nodes"]}
    found: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        source = steps.get(edge["source"])
        if edge["taken"] is not False and source and source["status"] not in states.ENDED_STEPS:
            found.setdefault(edge["target"], []).append(titles[edge["source"]])
    return found


def _row(
    node: dict[str, Any], spans: list[Span], critical: bool, start: datetime, end: datetime, scale: float,
    waits: dict[str, list[str]],
) -> Row:  # fmt: skip
    step = node["step"]
    row = Row(node["id"], node["title"], step["status"] if step else "waiting", critical)
    for span in spans:
        stop = span.end or end
        begun = (span.start - start).total_seconds()
        length = max(0.0, (stop - span.start).total_seconds())
        title = f"{_word(span, step)} {times.duration(length)}"
        row.bars.append(Bar(span.kind, begun * scale, max(0.12, length * scale), title, span.end is None))
    if spans:
        row.started = spans[0].start
        row.total = max(0.0, ((spans[-1].end or end) - spans[0].start).total_seconds())
        right = row.bars[-1].x + row.bars[-1].width
        row.note_x, row.note_anchor = (right, "start") if right < 72 else (row.bars[0].x, "end")
        if row.note_anchor == "end" and row.note_x < 28:
            row.note_x, row.note_anchor = 50.0, "middle"
    row.note = _note(node, step, spans, end, waits)
    return row


def _word(span: Span, step: dict[str, Any] | None) -> str:
    words = {
        QUEUE: _("queued"), RUN: _("ran"), BAD: _("failed attempt"), RETRY: _("retry pause"), HOLD: _("held"),
        UNKNOWN: _("result unknown"), TIMER: _("timer"), THROTTLED: _throttled(span), STOPPED: _("emergency stop"),
    }  # fmt: skip
    return words[span.kind]


def _throttled(span: Span) -> str:
    """Return what a throttled step waits for."""
    kind, name = span.gate or ("", "")
    words = {
        "tool": _("throttled by the limit of %(name)s"),
        "workflow": _("throttled by the workflow's limit"),
        "tenant": _("throttled by the tenant's limit"),
        "global": _("throttled by the installation's limit"),
        "breaker": _("throttled: %(name)s keeps failing"),
        "run": _("throttled by the run's own bound"),
        "state": _("throttled: another writes the same state"),
    }
    return words[kind] % {"name": name} if kind in words else _("throttled")


def _note(
    node: dict[str, Any], step: dict[str, Any] | None, spans: list[Span], end: datetime, waits: dict[str, list[str]]
) -> str:
    """Return the words beside a line: what it waits for, how often it failed, how long it ran, who decided."""
    status = step["status"] if step else "waiting"
    if status == "waiting" and not spans:
        names = waits.get(node["id"], [])
        more = len(names) - 2
        text = ", ".join(names[:2]) + (f" +{more}" if more > 0 else "")
        return _("waits for %(names)s") % {"names": text} if names else ""
    if status == "skipped":
        return _("skipped: %(cause)s") % {"cause": states.cause_word(step["cause"]) if step else ""}
    if not spans:
        return ""
    bad = sum(span.kind == BAD for span in spans)
    error = (step or {}).get("error") or {}
    last, length = spans[-1], times.duration(spans[-1].seconds(end))
    parts = []
    if bad:
        name = term(error.get("class"), "error") if isinstance(error, dict) else None
        parts.append(f"{bad} × {name}" if name and bad > 1 else (name or _("%(n)d failed") % {"n": bad}))
    if status == "mark_successed":
        parts.append(_("succeeded by hand"))
    elif last.kind == HOLD:
        parts.append(_("held %(time)s") % {"time": length})
    elif last.kind == UNKNOWN:
        parts.append(_("result unknown %(time)s") % {"time": length})
    elif last.kind == QUEUE:
        parts.append(_("queued %(time)s") % {"time": length})
    elif last.kind == THROTTLED:
        parts.append(f"{_throttled(last)} {length}")
    elif last.kind == STOPPED:
        parts.append(_("stopped %(time)s") % {"time": length})
    elif last.kind == RETRY:
        parts.append(_("next try after %(time)s") % {"time": length})
    elif last.kind in (RUN, TIMER):
        held = sum(span.seconds(end) for span in spans if span.kind == HOLD)
        if held > last.seconds(end):  # else the short time would stand in the middle of a long bar that is no work
            parts.append(_("held %(time)s") % {"time": times.duration(held)})
        parts.append(length)
    return ", ".join(parts)


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    if sort == "longest":
        return sorted(rows, key=lambda row: -(row.total or 0.0))
    if sort == "critical":
        return sorted(rows, key=lambda row: not row.critical)
    begun = [row for row in rows if row.started is not None]
    rest = [row for row in rows if row.started is None]
    return sorted(begun, key=lambda row: row.started) + rest  # type: ignore[arg-type, return-value]


def _shares(path: Path) -> list[dict[str, Any]]:
    """Return where the time of the path went, in percent from left to right."""
    words = {
        WORK: _("work"), QUEUE: _("queue"), RETRY: _("failed attempt and retry"), HOLD: _("hold"),
        UNKNOWN: _("result unknown"), TIMER: _("timer"), THROTTLED: _("throttled"), STOPPED: _("emergency stop"),
        "other": _("between steps"),
    }  # fmt: skip
    shares, at = [], 0.0
    for role, seconds in path.parts.items():
        width = 100 * seconds / path.seconds if path.seconds else 0.0
        shares.append(
            {"role": role, "word": words[role], "seconds": seconds, "x": at, "width": width, "percent": round(width)}
        )
        at += width
    return shares


def _sentence(path: Path, titles: dict[str, str]) -> str:
    if not path.nodes:
        return _("Nothing has started yet.")
    least = _("With these steps it can't be shorter than %(time)s.") % {"time": times.duration(path.minimum)}
    if path.worst is None:
        return least
    role, node = path.worst
    lost = {
        QUEUE: _("Queueing for %(node)s costs the most."),
        RETRY: _("Failed attempts of %(node)s cost the most."),
        HOLD: _("Holding %(node)s costs the most."),
        UNKNOWN: _("The unknown result of %(node)s costs the most."),
        TIMER: _("The timer of %(node)s costs the most."),
        THROTTLED: _("Throttling %(node)s costs the most."),
        STOPPED: _("The emergency stop of %(node)s costs the most."),
    }[role]
    return f"{least} {lost % {'node': titles.get(node, node)}}"
