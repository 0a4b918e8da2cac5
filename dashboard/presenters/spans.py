"""From a run's events to spans of time per step: queue, throttled, run, failed attempt, retry pause, hold … Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

QUEUE, RUN, BAD, RETRY, HOLD, UNKNOWN, TIMER = "queue", "run", "bad", "retry", "hold", "unknown", "timer"
THROTTLED, STOPPED = "throttled", "stopped"
# What a waiting step waits for once it has begun; waiting for its inputs is no span of the step.
_WAITS = {
    "retry_scheduled": RETRY, "timer": TIMER, "yielded": TIMER, "given_back": QUEUE, "granted": QUEUE,
    "stopped": STOPPED, "reconciled": QUEUE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one step's time in one role; ``end`` None while it goes on. ``to`` is the status it ended in.

    ``gate`` is what a throttled step waits for, (kind, name), as ``worker/gates.py`` names it.
    """

    kind: str
    start: datetime
    end: datetime | None
    attempt: int
    to: str | None
    event: int
    gate: tuple[str, str] | None = None

    def seconds(self, now: datetime) -> float:
        """Return its length so far."""
        return max(0.0, ((self.end or now) - self.start).total_seconds())


def spans_of(events: Iterable[dict[str, Any]]) -> dict[str, list[Span]]:
    """Return node → its spans in order, over all its execution versions; ``events`` are in the order of their seq."""
    found: dict[str, list[Span]] = {}
    open_at: dict[tuple[str, int], tuple[str, str | None, dict[str, Any]]] = {}
    for event in events:
        node, to = event.get("node"), event.get("to_status")
        if node is None or to is None:
            if (split := _parked(open_at, event)) is not None:
                found.setdefault(node or "", []).append(split)
            _remember_cause(open_at, event)
            continue
        key = (node, event.get("execution_version") or 1)
        before = open_at.get(key)
        if before is not None and (kind := _kind(before[0], before[1], to, event)) is not None:
            found.setdefault(node, []).append(_span(kind, before[2], event))
        open_at[key] = (to, event.get("cause"), event)
    for (node, _version), (status, cause, event) in open_at.items():
        if (kind := _kind(status, cause, None, None)) is not None:
            found.setdefault(node, []).append(_span(kind, event, None))
    return found


def _remember_cause(open_at: dict[tuple[str, int], Any], event: dict[str, Any]) -> None:
    """A timer is set on a step that waits without changing its status."""
    key = (event.get("node"), event.get("execution_version") or 1)
    if event.get("type") == "TIMER_SET" and key in open_at:
        status, _cause, begun = open_at[key]
        # What a stop keeps back is looked at by a timer, and waits for the stop all the same.
        open_at[key] = (status, "stopped" if event.get("cause") == "stopped" else "timer", begun)


def _parked(open_at: dict[tuple[str, int], Any], event: dict[str, Any]) -> Span | None:
    """From here on a queued step waits for a limit, a breaker or a state; returns how it waited before."""
    key = (event.get("node") or "", event.get("execution_version") or 1)
    before = open_at.get(key)
    if event.get("type") != "STEP_PARKED" or before is None or before[0] != "queued":
        return None
    span = _span(_kind(before[0], before[1], None, None) or QUEUE, before[2], event)
    open_at[key] = ("queued", THROTTLED, event)
    return span


def _kind(status: str, cause: str | None, to: str | None, event: dict[str, Any] | None) -> str | None:
    if status == "queued":
        return THROTTLED if cause == THROTTLED else QUEUE
    if status == "running":
        retried = to == "waiting" and event is not None and event.get("cause") == "retry_scheduled"
        return BAD if to == "failed" or retried else RUN
    if status in (HOLD, UNKNOWN):
        return status
    return _WAITS.get(cause or "") if status == "waiting" else None


def _span(kind: str, begun: dict[str, Any], ended: dict[str, Any] | None) -> Span:
    return Span(
        kind,
        begun["occurred_at"],
        ended["occurred_at"] if ended else None,
        begun.get("attempt") or 0,
        ended.get("to_status") if ended else None,
        begun["seq"],
        _gate(begun) if kind == THROTTLED else None,
    )


def _gate(event: dict[str, Any]) -> tuple[str, str] | None:
    told = event.get("payload") or {}
    return (told["kind"], told.get("name", "")) if "kind" in told else None
