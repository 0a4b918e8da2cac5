"""How risky a request is, and why: from what the tools' contracts say of their effects (C5.3). Pure.

The reasons are names, told in words by whoever shows them.
"""

from __future__ import annotations

from collections.abc import Iterable

from approvals.law import RISKS
from runtime.tools.contract import ToolContract

CANNOT_BE_UNDONE = "cannot_be_undone"
MAY_HAPPEN_TWICE = "may_happen_twice"
NOBODY_CAN_LOOK = "nobody_can_look"
SEVERAL_CALLS = "several_calls"
EDITED = "edited"
DECLARED = "declared"

_WEIGHT = {CANNOT_BE_UNDONE: 2, MAY_HAPPEN_TWICE: 3, NOBODY_CAN_LOOK: 1, SEVERAL_CALLS: 2, EDITED: 1}


def reasons_of(contract: ToolContract) -> set[str]:
    """Return what makes one writing tool risky."""
    found = set()
    if contract.compensation is None:
        found.add(CANNOT_BE_UNDONE)
    if contract.idempotency == "none" and contract.query is None:
        found.add(MAY_HAPPEN_TWICE)
    elif contract.query is None:
        found.add(NOBODY_CAN_LOOK)
    return found


def judge(contracts: Iterable[ToolContract], declared: str = "", edited: bool = False) -> tuple[int, list[str]]:
    """Return the level (index into ``law.RISKS``) and the reasons, sorted; ``declared`` is a floor."""
    contracts = list(contracts)
    found: set[str] = set().union(*(reasons_of(one) for one in contracts)) if contracts else set()
    if len(contracts) > 1:
        found.add(SEVERAL_CALLS)
    if edited:
        found.add(EDITED)
    level = max((_WEIGHT[reason] for reason in found), default=0)
    if declared and RISKS.index(declared) >= level:
        found.add(DECLARED)
        level = RISKS.index(declared)
    return level, sorted(found)


def effect_of(contract: ToolContract) -> dict[str, object]:
    """Return what a person is shown of a tool's effect: how it is undone, recovered and looked up."""
    return {
        "undo": contract.compensation,
        "recovery": contract.recovery,
        "idempotency": contract.idempotency,
        "query": contract.query,
    }
