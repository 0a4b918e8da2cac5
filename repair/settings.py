"""The settings of a tenant that this app heeds; `policy.py` reads them."""

from __future__ import annotations

from runtime.kernel.seams import Setting

BY_RISK, ALWAYS = "by_risk", "always"
DUE_HOURS: dict[str, float] = {"high": 1.0, "medium": 4.0, "low": 24.0}
BELOW_HOURS = 10_000.0

SETTINGS: dict[str, Setting] = {
    "repair.second_person": Setting(
        "Which repairs another person has to review: what is risky, or each.", default=BY_RISK, words=(BY_RISK, ALWAYS)
    ),
    **{
        f"repair.due_hours.{risk}": Setting(
            f"Hours in which a case of {risk} risk is due.", default=hours, below=BELOW_HOURS
        )
        for risk, hours in DUE_HOURS.items()
    },
}
