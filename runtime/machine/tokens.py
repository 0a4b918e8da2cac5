"""Tokens of limits: taken and given back with a step's move, counted in the transaction that moves it (C2.7)."""

from __future__ import annotations

import uuid

from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

# Where a state stays with who wrote it last: the outcome is unknown, or the step was ended while it may be. Whether it
# still is taken is read from the ledger (busy_serials), so that nobody has to give it back.
_KEEPS_STATE = frozenset({"unknown", "killed", "mark_successed"})


def hold_tokens(run: RunState, step: StepState, to: str, tokens: list[uuid.UUID] | None) -> None:
    """Take or give back a step's tokens with its move, so that no path can lose one (invariant 6).

    A state that it writes stays its own while the outcome is unknown, and past a kill or a forced success as long as
    its operation is open.
    """
    run.tokens, run.freed = run.tokens or {}, run.freed or {}
    for limit in step.tokens or ():
        run.tokens.setdefault(limit, [0, 0])[0] -= 1
        run.freed[limit] = run.freed.get(limit, 0) + 1
    step.tokens = tokens or None
    for limit in step.tokens or ():
        counts = run.tokens.setdefault(limit, [0, 0])
        counts[0] += 1
        counts[1] += 1
    if step.serial is not None and to not in _KEEPS_STATE:
        run.freed[step.serial] = run.freed.get(step.serial, 0) + 1
        step.serial = None


def count_tokens(tx: Tx, runs: list[RunState]) -> None:
    """Bring the limits' counts to what the steps hold now, in the order of their ids; a lock class of its own."""
    changed: dict[uuid.UUID, list[int]] = {}
    for run in runs:
        for limit, (taken, started) in (run.tokens or {}).items():
            total = changed.setdefault(limit, [0, 0])
            total[0] += taken
            total[1] += started
    rows = [(limit, *counts) for limit, counts in sorted(changed.items()) if any(counts)]
    if rows:
        tx.send("lock_limits", arrays("u", [row[:1] for row in rows]))
        tx.send("count_tokens", arrays("uii", rows))
