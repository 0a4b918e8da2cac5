"""Whether a run's success criterion is met: read from the Outcomes of the ledger, whenever it is asked (A2.5, A4.1).

An execution that has completed is no business success: that is an Outcome's to say. It is ``met`` when the newest
Outcome of the run by the verifier that the criterion cites says ``achieved`` and cites every kind of evidence that is
asked for, ``not_met`` when it says ``not_achieved``, else ``undecided``. No status of a run moves by it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from runtime.store.tx import Tx

MET, NOT_MET, UNDECIDED = "met", "not_met", "undecided"


def success_of(tx: Tx, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return run → {status, criterion, verifier, evidence, missing, outcome}; runs without a criterion are left out.

    ``missing`` are the kinds of evidence that the Outcome does not cite; ``outcome`` is {id, verdict, verifier,
    decided_at}, None where there is none by the cited verifier.
    """
    return {row["run_id"]: _judged(row) for row in tx.dicts("success_of_runs", (list(run_ids),))}


def _judged(row: dict[str, Any]) -> dict[str, Any]:
    asked = orjson.loads(row["success"])
    missing = [kind for kind in asked.get("evidence", ()) if not any(_is(kind, one) for one in row["sources"] or ())]
    status = UNDECIDED
    if row["verdict"] == "not_achieved":
        status = NOT_MET
    elif row["verdict"] == "achieved" and not missing:
        status = MET
    named = ("id", "verdict", "verifier", "decided_at")
    return {
        "status": status,
        "criterion": asked.get("criterion"),
        "verifier": asked.get("verifier"),
        "evidence": asked.get("evidence", []),
        "missing": missing,
        "outcome": {name: row[name] for name in named} if row["id"] is not None else None,
    }


def _is(kind: str, source: str) -> bool:
    """Say whether evidence from ``source`` (``name@version`` of a tool, ``artifact:id`` …) is of this kind."""
    return source == kind or source.startswith((f"{kind}:", f"{kind}@"))
