"""What a run may still use: calls and effects, counted in the ledger, alone (B4.2, C3.2, invariant 6).

A budget bounds its run and the runs below it, those that name it or one below it as their parent: what they use is used
of it too. A call is counted when it is claimed, an effect when its intent is about to be written, each under a lock of
the budget that is held until that is committed. What goes beyond fails with class ``budget``, for good, and nothing was
sent. Undoing an effect is no part of it: that has its own order and deadline. Runs that nothing bounds ask nothing.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection

from runtime.store.arrays import arrays
from runtime.store.tx import Tx
from runtime.worker.execute import Prepared, failed
from runtime.worker.permits import exhausted
from runtime.worker.work import CallsBefore, Claimed, Report

_CALLING = ("tool", "verifier")


def count_calls(tx: Tx, claimed: Collection[Claimed]) -> None:
    """Tell steps whose calls a budget bounds how many were made before each of them; their attempts are written.

    The transaction's last lock but the audit's: who counts waits for nobody after that.
    """
    under: dict[uuid.UUID, list[tuple[Claimed, int]]] = defaultdict(list)
    for one in claimed:
        if one.node.kind in _CALLING:
            for top, most in one.bounds("calls"):
                under[top].append((one, most))
    if not under:
        return
    tops = arrays("u", [(top,) for top in sorted(under)])
    tx.send("lock_calls_of", tops)
    count: Counter[uuid.UUID] = Counter()
    in_hand: Counter[tuple[uuid.UUID, uuid.UUID]] = Counter()
    for top, run_id, calls, open_ in tx.rows("calls_of_runs", tops):
        count[top] += calls
        in_hand[top, run_id] = open_
    for top, steps in under.items():
        for place, (one, most) in enumerate(steps):
            # What another run has in hand counts as made: it may be the very call that waits for this run.
            made = count[top] - in_hand[top, one.run_id]
            one.calls.append(CallsBefore(top, most, count[top] - len(steps) + place, made))


def within_effects(tx: Tx, going: list[Prepared], reports: list[Report], *, together: bool = True) -> list[Prepared]:
    """Return the writing calls that the budgets of effects leave room for; the others are reported refused.

    ``together``: these will all begin now. Else each is judged alone, since others of them may yet be held back.
    A key that was sent before in the run is no further effect, and one whose answer is in the ledger is not sent.
    """
    bounded = {item.claimed.step_id: bounds for item in going if (bounds := item.claimed.bounds("effects"))}
    if not bounded:
        return going
    tops = arrays("u", [(top,) for top in sorted({top for bounds in bounded.values() for top, _most in bounds})])
    tx.send("lock_effects_of", tops)
    begun = Counter(dict(tx.rows("effects_of_runs", tops)))
    keys = [item.claimed.business_key for item in going if item.claimed.step_id in bounded]
    standing = {row[0]: row[1:] for row in tx.rows("operations_standing", (tx.tenant_id, keys))}
    left = set()
    for item in going:
        claimed = item.claimed
        run_id, status = standing.get(claimed.business_key, (None, "absent"))
        if claimed.step_id not in bounded or status != "absent" or run_id == claimed.run_id:
            continue
        bounds = bounded[claimed.step_id]
        used_up = next(((top, most) for top, most in bounds if begun[top] >= most), None)
        if used_up is None:
            if together:
                begun.update(top for top, _most in bounds)
                standing[claimed.business_key] = (claimed.run_id, "intended")
            continue
        code, message = exhausted("effects", used_up[1], claimed, used_up[0])
        reports.append(failed(claimed, "budget", message, code=code, sent=False))
        left.add(claimed.step_id)
    return [item for item in going if item.claimed.step_id not in left]
