"""How approvals go: counts by outcome, and how long people were waited for; of all, by tool, by role and by period."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from approvals.law import GRANTED
from approvals.verbs import READ
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.queries.base import reading

DEFAULT_DAYS, MOST_DAYS = 30, 366
# Above so many days a period is a week.
DAILY = 62
MOST = 50_000
MOST_NAMES = 50
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
# The upper ends of the histogram's classes, in seconds: a minute, 5, 15, an hour, 4, a day, 3, 7; the last is open.
# As many as the query counts.
EDGES = (60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 259_200.0, 604_800.0)
OUTCOMES = ("pending", "approved", "rejected", "expired", "cancelled", "superseded")
USES = ("consumed", "lapsed", "withdrawn")


def read_statistics(*, actor: Actor, since: datetime | None = None, until: datetime | None = None) -> dict[str, Any]:
    """Return the numbers of what was asked from ``since`` on and before ``until``; by default the last 30 days.

    {since, until, unit (day or week, in UTC), cut, all, by_tool, by_role, by_period}. Each group: {name, asked,
    outcomes {pending, approved, rejected, expired, cancelled, superseded}, approved {consumed, lapsed, withdrawn},
    wait_s {n, mean, min, max, p5, p25, p50, p75, p90, p95, p99} in seconds from asking to the decision that settled it,
    histogram [{from_s, to_s, n}]}. A request of several tools counts with each. At most MOST requests, the oldest, are
    read; ``cut`` says that there are more. Raises BadInput. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        now = tx.now()
        until = until or now
        since = since or until - timedelta(days=DEFAULT_DAYS)
        if not timedelta(0) < until - since <= timedelta(days=MOST_DAYS):
            mend = f"Name a time of at most {MOST_DAYS} days, its start before its end."
            raise BadInput("The time is empty or too long.", where="query since", remediation=mend)
        unit = "day" if until - since <= timedelta(days=DAILY) else "week"
        wanted = {
            "since": since, "until": until, "unit": unit, "most": MOST, "granted": list(GRANTED),
            "quantiles": list(QUANTILES), "edges": list(EDGES),
        }  # fmt: skip
        groups: dict[str, list[dict[str, Any]]] = {"all": [], "tool": [], "role": [], "period": []}
        for row in tx.dicts("approval_statistics", wanted):
            groups[row.pop("kind")].append(_group(row))
    whole = groups["all"][0] if groups["all"] else _group(_NONE)
    return {
        "since": since,
        "until": until,
        "unit": unit,
        "cut": whole["asked"] >= MOST,
        "all": whole,
        **{f"by_{name}": groups[name][:MOST_NAMES] for name in ("tool", "role")},
        "by_period": groups["period"],
    }


_NONE: dict[str, Any] = {
    **dict.fromkeys((*OUTCOMES, *USES, "asked", "waited"), 0),
    **dict.fromkeys(("mean", "shortest", "longest", "quantiles", "classes"), None),
    "name": "",
}


def _group(row: dict[str, Any]) -> dict[str, Any]:
    quantiles = row["quantiles"] or [None] * len(QUANTILES)
    waits = {"n": row["waited"], "mean": row["mean"], "min": row["shortest"], "max": row["longest"]}
    # What was superseded, or ended undecided, has no waiting time: nobody was waited for to the end.
    counts = row["classes"] or [0] * (len(EDGES) + 1)
    ends: list[float | None] = [0.0, *EDGES, None]
    return {
        "name": row["name"],
        "asked": row["asked"],
        "outcomes": {name: row[name] for name in OUTCOMES},
        "approved": {name: row[name] for name in USES},
        "wait_s": {**waits, **{f"p{round(q * 100)}": v for q, v in zip(QUANTILES, quantiles, strict=True)}},
        "histogram": [
            {"from_s": low, "to_s": high, "n": n} for n, (low, high) in zip(counts, pairwise(ends), strict=True)
        ],
    }


__all__ = ["EDGES", "MOST_DAYS", "OUTCOMES", "read_statistics"]
