"""What kind of output something is (C6.1), told from what is stored; nothing is written for it.

final: what a run that ended came to. tool_result: what a tool answered. human_decision: what a person decided, answered
or set by hand. failure: that it did not succeed, and why. compensation: what undid an effect, or was found of that.
partial: everything before an end: progress that was reported, a part of an effect, what a switch chose or a wait
received, and a run that goes on. None: nothing was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FINAL, PARTIAL, TOOL_RESULT = "final", "partial", "tool_result"
HUMAN_DECISION, FAILURE, COMPENSATION = "human_decision", "failure", "compensation"
OUTPUT_KINDS = (FINAL, PARTIAL, TOOL_RESULT, HUMAN_DECISION, FAILURE, COMPENSATION)

_OF_NODE = {
    "tool": TOOL_RESULT,
    "verifier": TOOL_RESULT,
    "approval": HUMAN_DECISION,
    "input": HUMAN_DECISION,
    "compensation": COMPENSATION,
    "compensation_check": COMPENSATION,
}
_OF_RUN = {"completed": FINAL, "partially_completed": FINAL, "failed": FAILURE, "cancelled": None}
_OF_OPERATION = {
    "partially_applied": PARTIAL,
    "refused": FAILURE,
    "absent": FAILURE,
    "compensation_failed": FAILURE,
    "compensating": COMPENSATION,
    "compensated": COMPENSATION,
    "written_off": HUMAN_DECISION,
}
_OF_REPORT = {"in_progress": PARTIAL, "partially_applied": PARTIAL, "succeeded": TOOL_RESULT, "failed": FAILURE}
_DECISIONS = frozenset(
    "STEP_GRANTED STEP_FORCED STEP_RELEASED STEP_UNSKIPPED STEP_RERUN HOLD_REQUESTED HOLD_WITHDRAWN CANCEL_REQUESTED "
    "PAUSE_REQUESTED RESUME_REQUESTED".split()
)


def of_node(kind: str) -> str:
    """Return the kind of what a node of this kind gives when it succeeds."""
    return _OF_NODE.get(kind, PARTIAL)


def of_run(status: str) -> str | None:
    """Return the kind of what a run in this status has given."""
    return _OF_RUN.get(status, PARTIAL)


def of_step(kind: str, status: str, cause: str | None = None, error: Any = None) -> str | None:
    """Return the kind of what a step of a node of ``kind`` has given; None until it has ended, or of a way not taken.

    ``error`` tells a rejection by a person from one by the clock, which is a failure.
    """
    if status == "succeeded":
        return of_node(kind)
    if status == "failed" or (status == "killed" and cause != "or_lost"):
        return FAILURE
    if status == "mark_successed" or (status == "skipped" and cause == "user"):
        return HUMAN_DECISION
    if status == "skipped" and cause == "rejected":
        by = error.get("by") if isinstance(error, Mapping) else None
        return FAILURE if by == "engine" else HUMAN_DECISION
    return None


def of_attempt(kind: str, outcome: str | None) -> str | None:
    """Return the kind of what an attempt gave; None while it is under way, and where nobody knows what it did."""
    if outcome == "succeeded":
        return of_node(kind)
    return FAILURE if outcome in ("failed", "retry", "killed") else None


def of_operation(step_kind: str, status: str) -> str | None:
    """Return the kind of what is known of an effect of a step of ``step_kind``; None while that is open."""
    return of_node(step_kind) if status == "succeeded" else _OF_OPERATION.get(status)


def of_event(event: Mapping[str, Any], kind: str | None) -> str | None:
    """Return the kind of what an event tells of; ``kind`` is that of its node. None: it moves, and gives nothing."""
    type, to = event["type"], event["to_status"]
    payload = event["payload"] or {}
    if type in _DECISIONS:
        return HUMAN_DECISION if event["actor"] not in (None, "engine") else None
    if type == "CALLBACK_RECEIVED":
        return _OF_REPORT.get(str(payload.get("status")))
    if type == "EVENT_RECEIVED":
        return PARTIAL
    if type == "COMPENSATION_PLANNED":
        return COMPENSATION
    if type == "RETRY_SCHEDULED":
        return FAILURE
    if to is None:
        return None
    if type.startswith("OPERATION_"):
        return of_operation(kind or "tool", to)
    if event["node"] is None:
        return _OF_RUN.get(to)
    return of_step(kind or "", to, event["cause"], payload.get("error"))
