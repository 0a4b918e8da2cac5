"""The capacity watch of bulk repairs: it slows or stops them when the queue grows old or what they resume fails.

It measures against the moment the bulk repair began or went on: how long the oldest step waits for a worker, over all
tenants, and which share of the newest items failed or led to steps that did.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from repair.law import BROKEN, CARRIED_OUT
from repair.models import BulkRepair
from runtime.models import Step
from runtime.store.tx import Tx

# Seconds that the queue's age may grow: beyond the first it goes slower, beyond the second it stops.
SLOW_AGE_S, STOP_AGE_S = 5.0, 30.0
SLOW_SHARE, STOP_SHARE = 0.2, 0.5
SLOWER = 4.0
_NEWEST, _LEAST = 20, 5
_WENT_WRONG = ("failed", "killed", "unknown")


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured, how many times slower it goes, and why it stops (empty: it goes on)."""

    measured: dict[str, Any]
    slower: float
    stop: str


def look(tx: Tx, bulk: BulkRepair) -> Seen:
    """Measure for a locked bulk repair, in its transaction."""
    age, began = float(tx.rows("queue_age")[0][0]), float(bulk.watch.get("began_with_s", 0.0))
    grown, share = max(0.0, age - began), _failed_share(bulk)
    stop = ""
    if grown > STOP_AGE_S:
        stop = "The queue grew too old: what is ready waits for workers."
    elif share >= STOP_SHARE:
        stop = "Half of what it did lately failed."
    slower = SLOWER if grown > SLOW_AGE_S or share > SLOW_SHARE else 1.0
    return Seen({"queue_age_s": round(age, 1), "failed_share": round(share, 2), "slower": slower}, slower, stop)


def _failed_share(bulk: BulkRepair) -> float:
    since = bulk.watch.get("since")
    rows = bulk.items.filter(state__in=(CARRIED_OUT, BROKEN))
    if since:
        rows = rows.filter(finished_at__gt=datetime.fromisoformat(since))
    newest = list(rows.order_by("-finished_at", "-position").values_list("state", "result")[:_NEWEST])
    if len(newest) < _LEAST:
        return 0.0
    steps = [step for _state, result in newest if (step := _step_of(result)) is not None]
    wrong = Step.objects.filter(id__in=steps, status__in=_WENT_WRONG).count()
    return (wrong + sum(state == BROKEN for state, _result in newest)) / len(newest)


def _step_of(result: dict[str, Any]) -> str | None:
    """Return the step that an item let go on, where it did."""
    for name in ("resumed", "undoing"):
        if (step := (result.get(name) or {}).get("step_id")) is not None:
            return str(step)
    return None
