"""How much work the loss of a worker costs, per workflow version: its recovery point, measured (C4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.base import reading

# Measured over so many of the tenant's newest runs, and told of so many versions, the newest.
BOUND_RUNS = 5_000
MOST_VERSIONS = 200
MOST_DAYS = 365
DEFAULT_DAYS = 30


def recovery_points(*, actor: Actor, workflow: str | None = None, days: int = DEFAULT_DAYS) -> dict[str, Any]:
    """Return {items, days, cut}: what lost workers cost in runs that were started within so many days, by version.

    An item: {workflow, version, objective_s (None: none is declared), runs, lost (attempts whose worker was lost),
    p50_s, p95_s, max_s (None: none was lost), beyond (losses that cost more than the objective), running, at_risk_s}.
    The cost of a loss is counted from the last boundary that was committed (the step's start, an intent, a send, a
    confirmation) to when the worker was given up: it was at most that. ``at_risk_s`` is what losing every worker now
    would cost the worst of the ``running`` steps. ``cut``: there are more runs than the BOUND_RUNS newest that were
    looked at. Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        since = tx.now() - timedelta(days=days)
        wanted = {"since": since, "bound": BOUND_RUNS, "versions": MOST_VERSIONS, "workflow": workflow}
        rows = tx.dicts("recovery_points", wanted)
        risks = {row["id"]: row for row in tx.dicts("work_at_risk")}
    items = [_item(row, _objective(row["spec"]), risks.get(row["id"], {})) for row in rows]
    return {"items": items, "days": days, "cut": any(row["looked_at"] >= BOUND_RUNS for row in rows)}


def _item(row: dict[str, Any], objective: float | None, risk: dict[str, Any]) -> dict[str, Any]:
    costs = sorted(row["costs"] or [])
    return {
        "workflow": row["name"],
        "version": row["number"],
        "objective_s": objective,
        "runs": row["runs"],
        "lost": len(costs),
        "p50_s": _percentile(costs, 0.5),
        "p95_s": _percentile(costs, 0.95),
        "max_s": costs[-1] if costs else None,
        "beyond": 0 if objective is None else sum(cost > objective for cost in costs),
        "running": risk.get("running", 0),
        "at_risk_s": risk.get("seconds"),
    }


def _objective(spec: bytes | None) -> float | None:
    """Return what a specification declares; one that cannot be read declares nothing."""
    try:
        return None if spec is None else orjson.loads(spec).get("recovery_point_s")
    except ValueError:
        return None


def _percentile(costs: Sequence[float], part: float) -> float | None:
    """Return the value below which ``part`` of the sorted ``costs`` lie, between two of them by their distance."""
    if not costs:
        return None
    place = part * (len(costs) - 1)
    low = int(place)
    high = min(low + 1, len(costs) - 1)
    return round(costs[low] + (costs[high] - costs[low]) * (place - low), 3)
