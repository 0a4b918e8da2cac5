"""Breaches of the numbered invariants become cases: one a number and tenant, with what was found (C8.4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from runtime.kernel import seams
from runtime.store.tx import tenant_tx

MOST_SHOWN = 20


def need_breach_case(
    tenant_id: uuid.UUID, number: int, name: str, rows: Sequence[tuple[Any, ...]], *, using: str = "default"
) -> None:
    """Ask for a person about rows (id, problem) that breach an invariant; an open case about it learns what is new."""
    facts = {
        "invariant": number,
        "breaches": len(rows),
        "found": [f"{row_id}: {problem}"[:300] for row_id, problem in rows[:MOST_SHOWN]],
    }
    need = seams.CaseNeed(
        "invariant_breach",
        f"Invariant {number} does not hold: {name}.",
        facts=facts,
        source="invariants",
        fingerprint=f"invariant_breach:{number}",
    )
    with tenant_tx(tenant_id, using=using) as tx:
        seams.need_cases(tx, [need])
