"""Where `approvals` plugs into the runtime; the runtime never imports this app.

What is plugged in is imported when it is first called: every command of ``manage.py`` connects the apps, and few of
them need expressions and tools.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from approvals.settings import SETTINGS
from approvals.verbs import ACTS, ANSWER, ANSWERERS, ASK, ASKERS, DECIDE, DECIDERS, READ, READERS, VERBS
from runtime.access import roles
from runtime.access.verbs import ARTIFACT_WRITE
from runtime.kernel import seams

_DUTY_SECONDS = 1.0
# The topic of the message that a request is waiting.
ASKED = "approval.asked"
# The topics of one event of a request, or of a run, for one hook.
EVENT = "approval.event"
RUN_EVENT = "run.event"


def connect() -> None:
    """Register with the seams; calling it twice changes nothing."""
    seams.register_verbs(VERBS)
    seams.register_acts(ACTS)
    for role in READERS:
        roles.extend(role, [READ])
    for role in DECIDERS:
        roles.extend(role, [DECIDE])
    for role in ANSWERERS:
        roles.extend(role, [ANSWER])
    for role in ASKERS:
        roles.extend(role, [ASK])
    for role in {*DECIDERS, *ANSWERERS}:
        # Who decides or answers attaches what the decision is made by.
        roles.extend(role, [ARTIFACT_WRITE])
    seams.register_settings(SETTINGS)
    seams.register_gate("approvals", _called("gate", "gate"))
    seams.register_send_listener("approvals", _called("gate", "on_sent"))
    seams.register_end_listener("approvals", _called("ends", "on_ends"))
    seams.register_hold_listener("approvals", _called("requests", "on_holds"))
    seams.register_composer(ASKED, _called("mails", "asked"))
    seams.register_composer(EVENT, _called("hooks", "told"), _called("hooks", "destination"))
    seams.register_composer(RUN_EVENT, _called("run_hooks", "told"), _called("hooks", "destination"))
    seams.register_duty("approvals_expire", _called("duties", "expire_requests"), _DUTY_SECONDS)
    seams.register_duty("approvals_remind", _called("duties", "remind"), _DUTY_SECONDS)
    seams.register_bench("approval", _called("bench_onward", "approval"))
    for name in ("decide", "inbox"):
        seams.register_bench(name, _called("bench", name))
    seams.register_subject("policy", _called("actions.policies", "resume_policy"))
    seams.register_policy("approvals", "policy_in_force")
    seams.register_workflow_critic("approvals", _called("askable", "workflow_warnings"))
    seams.register_subject("external", _called("actions.own", "resume_own"))
    seams.register_asker(_called("subjects", "ask_about"))
    seams.register_duty("approvals_idle", _called("duties", "close_idle"), _DUTY_SECONDS)


def _called(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(f"approvals.{module}"), name)(*arguments, **named)

    return call
