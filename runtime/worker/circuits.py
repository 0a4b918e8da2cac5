"""Circuit breakers: a tool that fails again and again is left alone, then tried by one call (B4.2).

Told in the completing transaction, by compare-and-set in the statement itself; a tool that answers, if only to refuse,
is there.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

from runtime.kernel.conf import conf
from runtime.kernel.errors import TRANSIENT_CLASSES
from runtime.kernel.ids import uuid7
from runtime.store.arrays import arrays
from runtime.store.tx import Tx, tenant_tx
from runtime.worker.gates import Gates, let_go
from runtime.worker.work import UNREAD, Report

_ANSWERS = frozenset({"business", "not_found", "permission", "validation"})
_AT_ONCE = 500


def tell_circuits(tx: Tx, gates: Gates, reports: Sequence[Report]) -> dict[uuid.UUID, int]:
    """Count failures and successes of tools; return the breakers that closed, with how many parked steps go on.

    Their rows are locked in one order before the first is changed: two tellers wait for each other, never in a circle.
    """
    answered: set[str] = set()
    broken: Counter[tuple[str, str]] = Counter()
    for report in reports:
        tool, error = report.claimed.node.tool, report.error or {}
        if tool is None or report.adopted_from is not None:
            continue
        asked = error.get("sent") is not False
        if report.looked_by is not None and error.get("code") == UNREAD:
            tool, asked = report.looked_by, True  # it is the reader that failed; the tool itself was not asked
        elif report.looked_by is not None and gates.troubled(report.looked_by):
            answered.add(report.looked_by)
        if report.outcome == "succeeded" or (error.get("class") in _ANSWERS and asked):
            if gates.troubled(tool):
                answered.add(tool)
        elif error.get("class") in TRANSIENT_CLASSES and asked:
            broken[tool, error["class"]] += 1
    return _tell(tx, answered, broken)


def tell_question(tenant_id: uuid.UUID, tool: str, error_class: str | None, *, troubled: bool) -> None:
    """Count how a question to a tool ended (``error_class`` None: it answered), and let go who waited for its breaker.

    ``troubled``: a breaker of the tool has something that a success mends. Raises what the database raises.
    """
    answers = error_class is None or error_class in _ANSWERS
    broken = Counter({(tool, error_class): 1} if error_class in TRANSIENT_CLASSES else {})
    if not broken and not (answers and troubled):
        return
    with tenant_tx(tenant_id) as tx:
        closed = _tell(tx, {tool} if answers else set(), broken)
    if closed:
        let_go(tenant_id, closed)


def _tell(tx: Tx, answered: set[str], broken: Mapping[tuple[str, str], int]) -> dict[uuid.UUID, int]:
    """Mend the breakers of tools that answered and break those of others; returns what closed."""
    closed: dict[uuid.UUID, int] = {}
    rows = [(uuid7(), *pair, n) for pair, n in sorted(broken.items())]
    if rows:
        tx.send("add_breakers", (tx.tenant_id, *arrays("utt", [row[:3] for row in rows])))
    if tools := sorted(answered.union(tool for tool, _class in broken)):
        tx.send("lock_breakers", arrays("t", [(tool,) for tool in tools]))
    if answered:
        closed = {row[0]: _AT_ONCE for row in tx.rows("mend_circuits", arrays("t", [(t,) for t in sorted(answered)]))}
    if rows:
        _ids, names, classes, counts = arrays("utti", rows)
        tx.send(
            "break_circuits",
            {
                "tools": names, "classes": classes, "counts": counts,
                "threshold": conf().breaker_failures, "seconds": conf().breaker_seconds,
                "longest": 10 * conf().breaker_seconds, "window": conf().breaker_window_seconds,
            },
        )  # fmt: skip
    return closed
