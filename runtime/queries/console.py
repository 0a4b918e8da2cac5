"""Reads that serve an operator's overview: the state of the tenant now, and what lists divide into. All are bounded."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.base import parsed, reading
from runtime.queries.classes import MOST_LATE, classes_in, late_steps

STATE_BOUND = 50_000
FACET_BOUND = 10_000
ATTENTION_LIMIT = 20


def read_now(*, actor: Actor, failures_within: timedelta = timedelta(hours=12)) -> dict[str, Any]:
    """Return the tenant's present: states, failures, attention, effects, oldest_queued, late. Verb ``run.read``.

    ``states`` has one row per run status with h1, h12, h24, counted by start over the newest STATE_BOUND runs;
    ``cut`` says whether there were more. ``failures`` are the newest failed steps within ``failures_within`` by error
    class; ``late`` are the steps past the start their class aims at, up to one more than MOST_LATE. ``at`` is the
    database's time of all of it.
    """
    with reading(actor, v.RUN_READ) as tx:
        at = tx.now()
        states = tx.dicts("runs_by_state", {"now": at, "bound": STATE_BOUND})
        failures = tx.dicts("failures_by_class", {"now": at, "span": failures_within})
        attention = tx.dicts("runs_in_attention", (ATTENTION_LIMIT,))
        effects = {row["status"]: row["count"] for row in tx.dicts("effects_by_state")}
        oldest = tx.dicts("oldest_queued")
        late = late_steps(tx, classes_in(tx), MOST_LATE + 1)
    for row in attention:
        row["attention"] = parsed(row["attention"])
    return {
        "at": at,
        "states": {row.pop("status"): row for row in states},
        "cut": sum(row["h24"] for row in states) >= STATE_BOUND,
        "failures": failures,
        "attention": attention,
        "effects": effects,
        "oldest_queued": oldest[0] if oldest else None,
        "late": late,
    }


def run_facets(*, actor: Actor, created_from: datetime, created_before: datetime) -> dict[str, Any]:
    """Return {status, workflow, pools, total, cut, any}: how the window's runs divide, over the newest FACET_BOUND.

    ``pools`` are those in which steps wait for a worker now. ``any`` says whether the tenant has any run at all, in
    or outside the window. Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("run_facets", {"from": created_from, "before": created_before, "bound": FACET_BOUND})
        some = bool(rows) or bool(tx.rows("any_run"))
        pools = [row["pool"] for row in tx.dicts("queue_by_pool")]
    status: dict[str, int] = {}
    workflow: dict[str, int] = {}
    for row in rows:
        status[row["status"]] = status.get(row["status"], 0) + row["count"]
        workflow[row["workflow"]] = workflow.get(row["workflow"], 0) + row["count"]
    total = sum(status.values())
    cut = total >= FACET_BOUND
    return {"status": status, "workflow": workflow, "pools": pools, "total": total, "cut": cut, "any": some}


def read_queues(*, actor: Actor) -> dict[str, Any]:
    """Return {at, pools, running}: ready and parked steps by pool, running ones of the tenant. Verb ``worker.read``."""
    with reading(actor, v.WORKER_READ) as tx:
        at = tx.now()
        pools = {row["pool"]: {**row, "parked": 0} for row in tx.dicts("queue_by_pool")}
        for row in tx.dicts("parked_by_pool"):
            empty = {"pool": row["pool"], "ready": 0, "oldest": None, "priority": 0}
            pools.setdefault(row["pool"], empty)["parked"] = row["parked"]
        running = tx.dicts("running_by_worker")
    return {"at": at, "pools": sorted(pools.values(), key=lambda one: one["pool"]), "running": running}


def use_of_workflows(*, actor: Actor) -> dict[tuple[str, int], dict[str, Any]]:
    """Return (workflow, version) → {status: count, "newest": time} over the newest 5,000 runs. Verb ``run.read``."""
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("workflow_use")
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault((row["name"], row["number"]), {"newest": row["newest"]})
        one[row["status"]] = row["count"]
        one["newest"] = max(one["newest"], row["newest"])
    return found


def use_of_tools(*, actor: Actor) -> dict[tuple[str, int], dict[str, int]]:
    """Return (tool, version) → {operation status: count} over the newest 5,000 operations. Verb ``operation.read``."""
    with reading(actor, v.OPERATION_READ) as tx:
        rows = tx.dicts("tool_use")
    found: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows:
        found.setdefault((row["name"], row["number"]), {})[row["status"]] = row["count"]
    return found
