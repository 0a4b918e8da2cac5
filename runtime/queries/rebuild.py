"""Rebuild a run from its events and compare with the rows (invariant 3, B11.2, C1.9)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from runtime.graph.plans import plan_of
from runtime.kernel.errors import NotFound
from runtime.queries.base import parsed
from runtime.queries.fold import FoldedRun, FoldedStep
from runtime.store.columns import RUN, STEP
from runtime.store.tx import Tx, tenant_tx

PAGE = 5_000
MOST = 100
_EVENT = (
    "seq type step_id node execution_version attempt owner_epoch version from_status to_status cause reason payload"
    " occurred_at actor"
).split()
_RUN_FIELDS = (
    "status reason version seq cancel_requested paused attention n_open_operations n_compensating cancel_by created_at"
    " started_at finished_at"
).split()
STEP_FIELDS = [name for name in FoldedStep.__dataclass_fields__ if name not in ("id", "node", "execution_version")]


def rebuild_run(run_id: uuid.UUID, tenant_id: uuid.UUID, *, using: str = "default") -> list[str]:
    """Fold a run's events from nothing and return the differences from its rows; [] when there are none.

    The run and all its steps, superseded ones included, are read in one snapshot; events up to the run's seq. Raises
    NotFound.
    """
    with tenant_tx(tenant_id, using=using) as tx:
        return rebuild_in(tx, run_id)


def rebuild_in(tx: Tx, run_id: uuid.UUID) -> list[str]:
    """Do :func:`rebuild_run` inside an open transaction."""
    run, steps = stored_in(tx, run_id)
    folded = FoldedRun(plan_of(tx, run["workflow_version_id"]))
    fold_in(tx, folded, run_id, run["seq"])
    return compare_in(tx, folded, run, steps)


def stored_in(tx: Tx, run_id: uuid.UUID) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the run's row and those of all its steps, superseded ones included, of one moment. Raises NotFound."""
    rows = tx.rows("rebuild_rows", (run_id,))
    if not rows:
        raise NotFound("There is no run of that id in this tenant.")
    run = dict(zip(RUN, rows[0], strict=False))
    steps = [dict(zip(STEP, row[len(RUN) :], strict=True)) for row in rows if row[len(RUN)] is not None]
    # Parking for a limit is no move: the ledger says the step may run, the row says that it has to wait for its turn.
    parked = {row[0] for row in tx.rows("blocked_of_run", (run_id,))}
    for step in steps:
        if step["id"] in parked:
            step["claimable"] = None
    run["attention"] = parsed(run["attention"])
    for step in steps:
        step["choice"], step["error"] = parsed(step["choice"]), parsed(step["error"])
    return run, steps


def fold_in(tx: Tx, folded: FoldedRun, run_id: uuid.UUID, until: int) -> dict[str, Any] | None:
    """Let ``folded`` take the run's events after its own seq up to ``until``; returns the last it took."""
    event: dict[str, Any] | None = None
    after = folded.seq
    while page := tx.rows("rebuild_events", (run_id, after, until, PAGE)):
        for row in page:
            event = dict(zip(_EVENT, row, strict=True))
            event["payload"] = parsed(event["payload"])
            folded.take(event)
        after = page[-1][0]
    return event


def compare_in(tx: Tx, folded: FoldedRun, run: dict[str, Any], steps: list[dict[str, Any]]) -> list[str]:
    """Return how the rows of :func:`stored_in` differ from what all of the run's events say, at most MOST lines."""
    run_id = run["id"]
    found = _differences(folded, run, steps)
    operations = tx.rows("rebuild_operations", (run_id,))
    head = tx.one("rebuild_head", (run_id,))
    if head is not None and head[0] == run["seq"]:
        # Otherwise the run went on meanwhile, and its operations are read of a later moment than its events.
        for operation_id, status in operations:
            _compare(found, f"operation {operation_id}", folded.operations.get(str(operation_id)), status)
    return found[:MOST]


def _differences(folded: FoldedRun, run: dict[str, Any], steps: list[dict[str, Any]]) -> list[str]:
    found = list(folded.problems)
    counts = folded.counts()
    for name in _RUN_FIELDS:
        _compare(found, f"run {name}", counts.get(name, getattr(folded, name, None)), run[name])
    for name, count in counts.items():
        if name not in _RUN_FIELDS:
            _compare(found, f"run {name}", count, run[name])
    seen = set()
    for row in steps:
        key = (row["node"], row["execution_version"])
        seen.add(key)
        told = folded.steps.get(key)
        where = f"step {key[0]}@{key[1]}"
        if told is None:
            found.append(f"{where}: the events know of no such step")
            continue
        if told.id is not None:
            _compare(found, f"{where} id", told.id, row["id"])
        for name in STEP_FIELDS:
            if name == "claimable" and (row["status"] != "queued" or row[name] is None):
                continue  # it says nothing of a step that is in no queue
            _compare(found, f"{where} {name}", getattr(told, name), row[name])
    found += [f"step {node}@{version}: the row is missing" for node, version in sorted(set(folded.steps) - seen)]
    return found


def _compare(found: list[str], where: str, told: Any, row: Any) -> None:
    told, row = _plain(told), _plain(row)
    if told != row:
        found.append(f"{where}: events say {told!r}, the row says {row!r}"[:500])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value
