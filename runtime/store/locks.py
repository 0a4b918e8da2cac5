"""Locks in the one order: budget → runs by id → steps by (run, node) → operation → … → audit head (engine.md 1)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from runtime.store.arrays import arrays
from runtime.store.tx import Tx


def run_rows(tx: Tx, run_ids: Iterable[uuid.UUID]) -> list[tuple[Any, ...]]:
    """Lock the runs by id and return their rows."""
    return tx.rows("lock_runs", arrays("u", [(run_id,) for run_id in set(run_ids)]))


def step_rows(tx: Tx, pairs: Iterable[tuple[uuid.UUID, str]]) -> list[tuple[Any, ...]]:
    """Return the current step rows at (run, node); the runs' locks keep them still."""
    return tx.rows("steps_at", arrays("ut", list(pairs)))
