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
        f"repair.due_hours.{risk}": Setting(says, default=DUE_HOURS[risk], below=BELOW_HOURS)
        for risk, says in (
            ("high", "Hours in which a repair case of high risk is due."),
            ("medium", "Hours in which a repair case of medium risk is due."),
            ("low", "Hours in which a repair case of low risk is due."),
        )
    },
}
