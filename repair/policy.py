"""What a tenant's policy says of cases: when they are due, and who looks a second time.

A tenant widens it in ``settings["repair"]``: {"due_hours": {"high": 1, …}, "second_person": "by_risk" | "always"};
`settings.py` declares what may be said there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from repair.law import COMPENSATE, CONFIRM_ABSENT, RECORD_SUCCESS, RESUME_STEP, WRITE_OFF
from repair.settings import ALWAYS, BELOW_HOURS, DUE_HOURS
from runtime.models import Tenant

RISKS = ("high", "medium", "low")
ASK_AGAIN_SECONDS = 10
_A_WORD = "A person's word stands for the tool's answer."


@dataclass(frozen=True, slots=True)
class Policy:
    """A tenant's policy."""

    due_hours: dict[str, float] = field(default_factory=lambda: dict(DUE_HOURS))
    always_second: bool = False

    def due_within(self, risk: str) -> timedelta:
        """Return how long a case of this risk may stay open."""
        return timedelta(hours=self.due_hours[risk])


def policy_of(tenant_id: Any) -> Policy:
    """Return the tenant's policy, read in its transaction; what does not make sense is left at the default."""
    settings = Tenant.objects.values_list("settings", flat=True).get(id=tenant_id)
    said = settings.get("repair") if isinstance(settings, dict) else None
    said = said if isinstance(said, dict) else {}
    base = Policy()
    hours = said.get("due_hours")
    hours = hours if isinstance(hours, dict) else {}
    own = {name: float(value) for name, value in hours.items() if name in RISKS and _positive(value)}
    return Policy({**base.due_hours, **own}, said.get("second_person") == ALWAYS)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < BELOW_HOURS


def risk_of(recovery: str | None, idempotency: str, kind: str) -> str:
    """Return how much harm a wrong repair could do: by what the tool lets anybody undo or tell again."""
    if kind in ("partially_applied", "compensation_failed", "operation_conflicts"):
        return "high"
    if recovery is None or recovery == "replayable":
        return "low" if kind == "by_hand" else "medium"
    return "high" if recovery in ("human", "compensable") or idempotency == "none" else "medium"


def needs_second(
    policy: Policy,
    resolution: str,
    *,
    recovery: str | None,
    idempotency: str,
    answered_by: str | None,
    own_output: bool = False,
) -> str | None:
    """Return why another person has to look at this resolution, None when nobody has to.

    ``own_output``: what the steps that follow will read is what the proposer wrote.
    """
    by_tool = answered_by in ("query", "ledger")
    if policy.always_second:
        return "The tenant's policy asks for a second person on every repair."
    if resolution == WRITE_OFF:
        return "What is written off is never looked after again."
    if resolution == COMPENSATE:
        return "It acts outside."
    if own_output:
        return _A_WORD
    if recovery is None or recovery == "replayable":
        # Running it again is harmless; what others go on with is not one person's to make up.
        return _A_WORD if resolution == RECORD_SUCCESS and not by_tool else None
    if resolution == RESUME_STEP and (recovery == "human" or idempotency == "none"):
        return "The tool cannot tell a second send from the first."
    if resolution in (CONFIRM_ABSENT, RECORD_SUCCESS, RESUME_STEP) and not by_tool:
        return _A_WORD
    return None
