"""The critical path of a run: the chain that decided its length, and where the time on it went (B1.2). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dashboard.presenters.spans import BAD, HOLD, QUEUE, RETRY, RUN, STOPPED, THROTTLED, TIMER, UNKNOWN, Span

SATISFIES = frozenset({"succeeded", "mark_successed", "skipped"})
ACTIVE = frozenset({"queued", "running", "hold", "unknown"})
WORK, OTHER = "work", "other"
_SHARE = {
    RUN: WORK, QUEUE: QUEUE, THROTTLED: THROTTLED, BAD: RETRY, RETRY: RETRY, HOLD: HOLD, STOPPED: STOPPED,
    UNKNOWN: UNKNOWN, TIMER: TIMER,
}  # fmt: skip
ORDER = (WORK, QUEUE, THROTTLED, RETRY, HOLD, STOPPED, UNKNOWN, TIMER, OTHER)


@dataclass(frozen=True, slots=True)
class Path:
    """``nodes`` in order; ``seconds`` of the whole chain; ``parts`` of it by role, which add up to ``seconds``.

    ``minimum`` is what the run could not have been shorter than with these steps: the longest chain of their work
    alone, without queue, retry, hold and doubt. ``worst`` names the node with the most seconds of the largest part
    that is not work.
    """

    nodes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    minimum: float = 0.0
    worst: tuple[str, str] | None = None


def critical_path(graph: dict[str, Any], spans: dict[str, list[Span]], started: datetime, now: datetime) -> Path:
    """Return the critical path of a run; ``graph`` is that of ``queries.steps.read_graph``."""
    steps = {node["id"]: node["step"] for node in graph["nodes"] if node["step"]}
    sources = _sources(graph, steps)
    ends = {name: _end(step, now) for name, step in steps.items() if _counts(step, bool(spans.get(name)))}
    if not ends:
        return Path(minimum=0.0)
    last = max(ends, key=lambda name: (ends[name], -_start(name, spans, ends).timestamp()))
    chain = [last]
    while candidates := [one for one in sources.get(chain[-1], ()) if one in ends and one not in chain]:
        chain.append(_decider(candidates, ends, _start(chain[-1], spans, ends)))
    chain.reverse()
    parts, by_node = _parts(chain, spans, ends, started, now)
    return Path(
        chain, sum(parts.values()), {name: parts[name] for name in ORDER if parts.get(name, 0) > 0},
        _minimum(graph, spans, sources, now), _worst(parts, by_node),
    )  # fmt: skip


def _counts(step: dict[str, Any], begun: bool) -> bool:
    """A step that ran, ran by hand, is under way or was skipped while it was has a place on the path.

    A branch not taken has none.
    """
    return step["status"] in ACTIVE or (step["finished_at"] is not None and (step["status"] != "skipped" or begun))


def _end(step: dict[str, Any], now: datetime) -> datetime:
    return step["finished_at"] or now


def _start(name: str, spans: dict[str, list[Span]], ends: dict[str, datetime]) -> datetime:
    own = spans.get(name)
    return own[0].start if own else ends[name]


def _sources(graph: dict[str, Any], steps: dict[str, Any]) -> dict[str, list[str]]:
    """Return node → the steps before it that satisfied it or may still do; edges not taken lead nowhere."""
    found: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        if edge["taken"] is not False and edge["source"] in steps:
            found.setdefault(edge["target"], []).append(edge["source"])
    return found


def _decider(candidates: list[str], ends: dict[str, datetime], start: datetime) -> str:
    """Return the source that a step waited for: the latest that ended before it began (an OR join begins early)."""
    in_time = [one for one in candidates if ends[one] <= start] or candidates
    return max(in_time, key=lambda one: ends[one])


def _parts(
    chain: list[str], spans: dict[str, list[Span]], ends: dict[str, datetime], started: datetime, now: datetime
) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    parts: dict[str, float] = {}
    by_node: dict[tuple[str, str], float] = {}
    at = started
    for name in chain:
        end = max(at, ends[name])
        for span in spans.get(name, ()):
            begin, stop = max(at, span.start), min(end, span.end or now)
            if stop <= begin:
                continue
            if begin > at:
                _add(parts, by_node, name, OTHER, (begin - at).total_seconds())
            _add(parts, by_node, name, _SHARE[span.kind], (stop - begin).total_seconds())
            at = stop
        if end > at:
            _add(parts, by_node, name, OTHER, (end - at).total_seconds())
            at = end
    return parts, by_node


def _add(parts: dict[str, float], by_node: dict[tuple[str, str], float], node: str, role: str, seconds: float) -> None:
    parts[role] = parts.get(role, 0.0) + seconds
    by_node[role, node] = by_node.get((role, node), 0.0) + seconds


def _worst(parts: dict[str, float], by_node: dict[tuple[str, str], float]) -> tuple[str, str] | None:
    lost = {role: seconds for role, seconds in parts.items() if role not in (WORK, OTHER) and seconds >= 0.05}
    if not lost:
        return None
    role = max(lost, key=lambda one: lost[one])
    return role, max((node for one, node in by_node if one == role), key=lambda node: by_node[role, node])


def _minimum(
    graph: dict[str, Any], spans: dict[str, list[Span]], sources: dict[str, list[str]], now: datetime
) -> float:
    """Return the longest chain of work: an AND join waits for its longest input, an OR join for its shortest."""
    finish: dict[str, float] = {}
    for node in graph["nodes"]:
        name, step = node["id"], node["step"]
        if not step or step["status"] == "killed" or (step["status"] == "skipped" and not spans.get(name)):
            continue
        inputs = [finish[one] for one in sources.get(name, ()) if one in finish]
        before = (min if node["join"]["mode"] == "any" else max)(inputs, default=0.0)
        work = [span.seconds(now) for span in spans.get(name, ()) if span.kind == RUN]
        finish[name] = before + (work[-1] if work else 0.0)
    return max(finish.values(), default=0.0)
