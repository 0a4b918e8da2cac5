"""What a run may still use: calls and effects, counted in the ledger under the run's lock (B4.2, C3.2, invariant 6).

A call is counted when it is claimed, for everybody who claims in the run holds its lock; an effect when its intent is
about to be written. What goes beyond the budget fails with class ``budget``, for good, and nothing was sent. Undoing an
effect is no part of it: that has its own order and deadline. Runs without a budget ask nothing of the database.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection

from runtime.store.arrays import arrays
from runtime.store.tx import Tx
from runtime.worker.execute import Prepared, failed
from runtime.worker.permits import exhausted
from runtime.worker.work import Claimed, Report

_CALLING = ("tool", "verifier")


def count_calls(tx: Tx, claimed: Collection[Claimed]) -> None:
    """Tell steps whose run has a budget of calls how many were made before each of them; their attempts are written."""
    of_runs: dict[uuid.UUID, list[Claimed]] = {}
    for one in claimed:
        if one.bound("calls") is not None and one.node.kind in _CALLING:
            of_runs.setdefault(one.run_id, []).append(one)
    if not of_runs:
        return
    counted = tx.rows("calls_of_runs", arrays("u", [(run_id,) for run_id in of_runs]))
    made = {run_id: (count, in_hand) for run_id, count, in_hand in counted}
    for run_id, steps in of_runs.items():
        count, in_hand = made[run_id]
        for place, one in enumerate(steps):
            one.calls_before, one.calls_made = count - len(steps) + place, count - in_hand


def within_effects(tx: Tx, going: list[Prepared], reports: list[Report], *, together: bool = True) -> list[Prepared]:
    """Return the writing calls that their runs' budgets of effects leave room for; the others are reported refused.

    ``together``: these will all begin now. Else each is judged alone, since others of them may yet be held back.
    A key that was sent before in the run is no further effect, and one whose answer is in the ledger is not sent.
    """
    bounded = [item for item in going if item.claimed.bound("effects") is not None]
    if not bounded:
        return going
    runs = sorted({item.claimed.run_id for item in bounded})
    begun = Counter(dict(tx.rows("effects_of_runs", arrays("u", [(run_id,) for run_id in runs]))))
    keys = [item.claimed.business_key for item in bounded]
    standing = {row[0]: row[1:] for row in tx.rows("operations_standing", (tx.tenant_id, keys))}
    left = set()
    for item in bounded:
        claimed, most = item.claimed, item.claimed.bound("effects")
        run_id, status = standing.get(claimed.business_key, (None, "absent"))
        if most is None or status != "absent" or run_id == claimed.run_id:
            continue
        if begun[claimed.run_id] < most:
            if together:
                begun[claimed.run_id] += 1
                standing[claimed.business_key] = (claimed.run_id, "intended")
            continue
        code, message = exhausted("effects", most)
        reports.append(failed(claimed, "budget", message, code=code, sent=False))
        left.add(claimed.step_id)
    return [item for item in going if item.claimed.step_id not in left]
