"""What the heartbeats of workers told of the steps in their hands: how far they are, when they may end (C2.8).

That a worker lives is told by its lease; that a step comes on, by this. A step whose worker beats and which does not
come on is named: it is alive and stuck, or slower than its like.
"""

from __future__ import annotations

import math
import uuid
from datetime import timedelta
from typing import Any

from runtime.queries.base import parsed
from runtime.store.tx import Tx


def steps_in_hand(tx: Tx, step_id: uuid.UUID | None = None) -> list[dict[str, Any]]:
    """Return the tenant's running steps as their workers' last beats told them, oldest first; at most one of a step.

    {worker_session_id, run_id, step_id, node, attempt, started_at, at (of the beat), progress, usual_s, eta,
    checkpoint, cpu_s, rss_bytes, standing}. ``progress`` is None where the tool tells none, else {seq (reports so far),
    done, total, share (0 to 1), stage, at (of the last report)}; ``total`` and ``share`` are None where nobody knows.
    ``usual_s`` is how long the tool's calls took this worker lately, ``eta`` when the call may end; None when unknown.
    ``checkpoint`` is the run_seq up to which everything is kept if the worker is lost: the step itself is then begun
    again. ``cpu_s`` and ``rss_bytes`` are those of a tool's own process. ``standing``: ``quiet`` when nothing was told
    for QUARTERDECK_STALL_SECONDS by a tool that tells its progress, ``slow`` when one that tells none takes three times
    as long as is usual; else None.
    """
    return [_present(row) for row in tx.dicts("steps_in_hand", {"step": step_id})]


def _present(row: dict[str, Any]) -> dict[str, Any]:
    told, at = parsed(row.pop("call")), row.pop("beat_at")
    return {
        "worker_session_id": row.pop("session_id"),
        **row,
        "at": at,
        "progress": _progress(told, at),
        "usual_s": told["usual_s"],
        "eta": None if told["eta_s"] is None else at + timedelta(seconds=told["eta_s"]),
        "checkpoint": told["checkpoint"],
        "cpu_s": told["cpu_s"],
        "rss_bytes": told["rss_bytes"],
        "standing": told["standing"],
    }


def _progress(told: dict[str, Any], at: Any) -> dict[str, Any] | None:
    """Return a report as it is shown; one whose numbers are none, which an older worker may have let in, is none."""
    done, total = _units(told["done"]), _units(told["total"])
    if not told["seq"] or done is None:
        return None
    return {
        "seq": told["seq"],
        "done": done,
        "total": total or None,
        "share": min(1.0, done / total) if total else None,
        "stage": told["stage"],
        "at": at - timedelta(seconds=told["quiet_s"]),
    }


def _units(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and 0 <= value < math.inf else None
