"""Rows → columns → one statement each: how :mod:`runtime.machine.apply` writes what it moved."""

from __future__ import annotations

from typing import Any

import orjson
import psycopg

from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def insert_steps(tx: Tx, steps: list[StepState]) -> None:
    """Insert fresh step rows."""
    rows = [
        (
            s.id, s.run_id, s.node, s.kind, s.execution_version, s.status, s.cause, s.version, s.owner_epoch,
            s.attempt, s.priority, s.pool, s.claimable, s.not_before, s.deps_left, s.deps_ok, s.deps_bskip,
            s.deps_err, s.deps_bad, s.created_at, s.queued_at, s.finished_at, s.home_pool, s.prefer_until,
        )
        for s in steps
    ]  # fmt: skip
    if rows:
        tx.send("insert_steps", (tx.tenant_id, *arrays("uutsissiiiitbziiiiizzzsz", rows)))


def step_row(s: StepState) -> tuple[Any, ...]:
    """Return what updates a step's row to how it stands now, from how it was read."""
    return (
        s.id, s.read_status, s.read_version, s.status, s.cause, s.version, s.owner_epoch, s.attempt, s.claimable,
        s.not_before, s.worker_session_id, s.deps_left, s.deps_ok, s.deps_bskip, s.deps_err, s.deps_bad,
        s.hold_requested, s.forced, s.superseded, _json(s.choice), _json(s.error), s.queued_at, s.started_at,
        s.finished_at, "{" + ",".join(map(str, s.tokens)) + "}" if s.tokens else None, s.serial, s.pool,
        s.prefer_until,
    )  # fmt: skip


def update_steps(tx: Tx, rows: list[tuple[Any, ...]]) -> psycopg.Cursor:
    """Update step rows (compare-and-set); the cursor's rowcount tells how many were changed."""
    return tx.send("update_steps", arrays("usissiiibzuiiiiibbbttzzztusz", rows))


def update_runs(tx: Tx, runs: list[RunState]) -> psycopg.Cursor:
    """Update run rows (compare-and-set on version and seq); the rowcount tells how many were changed."""
    rows = [
        (
            r.id, r.read_version, r.read_seq, r.status, r.reason, r.version, r.seq, r.cancel_requested, r.paused,
            _json(r.attention), r.n_steps, r.n_open, r.n_live, r.n_timer, r.n_hold_approval, r.n_hold_external,
            r.n_unknown, r.n_bad, r.n_open_operations, r.n_compensating, r.cancel_by, r.started_at, r.finished_at,
        )
        for r in runs
    ]  # fmt: skip
    return tx.send("update_runs", arrays("uilstilbbtiiiiiiiiiizzz", rows))


def write_events(tx: Tx, events: list[tuple[Any, ...]]) -> None:
    """Append events; their run_seq was given out under the run's lock."""
    if events:
        tx.send("insert_events", (tx.tenant_id, *arrays("ulsutiiiissstttxxuz", events)))
