"""Errors of steps as the API tells them: the same six members that a refusal has (C6.1), made from what is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runtime.kernel.errors import TRANSIENT_CLASSES

_MENDS = {
    "network": "Look whether the tool can be reached, then run the step again.",
    "timeout": "Look whether the tool answers in time, then run the step again.",
    "rate_limited": "Wait until the tool takes calls again, then run the step again.",
    "server_error": "Look what is wrong at the tool, then run the step again.",
    "validation": "Correct the arguments, by the workflow or the task's input, and start a new run.",
    "permission": "Give the tool's credential the right it lacks, then run the step again.",
    "not_found": "Look whether what the arguments name is there, then run the step again.",
    "business": "The tool refuses this as it is: change what is asked for, or decide otherwise.",
    "policy": "Ask for what the policy and the people who decide allow.",
    "cancelled": "It was stopped on purpose: start a new run if it is still wanted.",
    "budget": "Raise the limit that was reached, or wait, then run the step again.",
    "protocol": "Make tool and contract agree, then run the step again.",
    "internal": "Look into the log of the worker, then run the step again.",
    "oversize": "Let the tool answer with less, or by reference to an artifact.",
}
_UNKNOWN = "Nothing is sent again before it is known what happened: wait for the query, or settle its repair case."
_WAITS = "Nothing is to be done: it is tried again by itself."


def told(
    error: Any, *, run_id: Any, step_id: Any, status: str = "", until: datetime | None = None, now: Any = None
) -> Any:
    """Return a step's stored ``error`` with code, retryable, retry_after, run_id, step_id and remediation; None stays.

    ``status`` is the step's; ``until`` when it is tried again by itself, from ``now`` on: ``retry_after`` are seconds.
    """
    if not isinstance(error, dict):
        return error
    name = str(error.get("class") or "internal")
    waits = until is not None and now is not None
    mend = _WAITS if waits else _UNKNOWN if status == "unknown" else _MENDS.get(name, _MENDS["internal"])
    return {
        **error,
        "code": error.get("code") or name,
        "retryable": status != "unknown" and (waits or name in TRANSIENT_CLASSES),
        "retry_after": max(0.0, round((until - now).total_seconds(), 3)) if until and now else None,
        "run_id": run_id,
        "step_id": step_id,
        "remediation": mend,
    }


def of_step(row: dict[str, Any], error: Any, now: datetime | None) -> Any:
    """Return the error of a step's row, parsed before, as of ``now``."""
    until = row["not_before"] if row["status"] == "waiting" and row["cause"] == "retry_scheduled" else None
    place = {"run_id": row["run_id"], "step_id": row["id"], "status": row["status"]}
    return told(error, **place, until=until, now=now)
