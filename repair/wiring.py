"""Where `repair` plugs into the runtime; the runtime never imports this app.

What is plugged in is imported when it is first called: every command of ``manage.py`` connects the apps.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from repair.settings import SETTINGS
from repair.verbs import ACTS, READ, READERS, ROLES, VERBS
from runtime.access import roles
from runtime.kernel import seams

_DUTY_SECONDS, _BULK_SECONDS, _STUCK_SECONDS = 2.0, 1.0, 60.0
# The topic of the message that a case is overdue.
OVERDUE = "repair.overdue"
# The topic of the message that something waits for a second person's review.
REVIEW_ASKED = "repair.review_asked"


def connect() -> None:
    """Register with the seams; calling it twice changes nothing."""
    seams.register_verbs(VERBS)
    seams.register_acts(ACTS)
    seams.register_settings(SETTINGS)
    for role in READERS:
        roles.extend(role, [READ])
    for role, verbs in ROLES.items():
        roles.extend(role, verbs)
    seams.register_case_listener("repair", _called("opening", "on_needs"))
    seams.register_order_witness("repair", _called("undoing", "order_words"))
    seams.register_composer(OVERDUE, _called("mails", "overdue"))
    seams.register_composer(REVIEW_ASKED, _called("mails", "review_asked"))
    seams.register_duty("repair_escalate", _called("duties", "escalate_overdue"), _DUTY_SECONDS)
    seams.register_duty("repair_settled", _called("duties", "close_settled"), _DUTY_SECONDS)
    seams.register_bench("repairs", _called("bench", "repairs"))
    seams.register_bench("bulkrepair", _called("bench_bulk", "bulkrepair"))
    # It looks at every tenant's open runs: no timer waits for that.
    seams.register_duty("repair_stuck", _called("standstill", "watch_standstills"), _STUCK_SECONDS, apart=True)
    # It asks tools before it closes cases: apart, so that no timer waits for that.
    seams.register_duty("repair_bulk", _called("bulk_duty", "carry_bulks"), _BULK_SECONDS, apart=True)


def _called(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"repair.{module}"), name)(*arguments)

    return call
