"""Roles of a membership and the verbs they carry. An app adds its own verbs to roles with :func:`extend`."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.access import verbs as v
from runtime.kernel import seams
from runtime.kernel.errors import BadInput

_LOOK = frozenset(
    {
        v.TASK_READ,
        v.RUN_READ,
        v.WORKFLOW_READ,
        v.TOOL_READ,
        v.OPERATION_READ,
        v.ARTIFACT_READ,
        v.WORKER_READ,
        v.TOKEN_ISSUE,
        v.STOP_READ,
        v.ALERT_READ,
        v.LIMIT_READ,
    }
)
_OPERATE = frozenset(
    {
        v.RUN_CREATE,
        v.RUN_CANCEL,
        v.RUN_PAUSE,
        v.RUN_RESUME,
        v.RUN_SIGNAL,
        v.STEP_RERUN,
        v.STEP_SKIP,
        v.STEP_UNSKIP,
        v.STEP_HOLD,
        v.STEP_RELEASE,
        v.STEP_KILL,
        v.STOP_SET,
        v.STOP_LIFT,
        v.OPERATION_COMPENSATE,
        v.MESSAGE_READ,
        v.MESSAGE_RESOLVE,
        v.OPERATION_QUERY,
    }
)
# Recording an outcome is a verifier's alone: not even an admin's role carries it (invariant 12). Stopping everybody is
# the business of whoever runs the installation.
_NOBODY_BY_RANK = frozenset({v.OUTCOME_RECORD, v.STOP_GLOBAL})

_roles: dict[str, set[str]] = {
    "viewer": set(_LOOK),
    "approver": {*_LOOK, v.PAYLOAD_READ, v.MEMBER_READ, v.STEP_RESOLVE},
    "oncall": {*_LOOK, *_OPERATE, v.PAYLOAD_READ, v.AUDIT_READ, v.MEMBER_READ, v.TASK_SUBMIT, v.SESSION_USE},
    "finance": {*_LOOK, v.AUDIT_READ, v.MEMBER_READ},
    "integrator": {
        *_LOOK,
        v.TASK_SUBMIT,
        v.RUN_CREATE,
        v.RUN_CANCEL,
        v.RUN_SIGNAL,
        v.WORKFLOW_REGISTER,
        v.ARTIFACT_WRITE,
        v.PAYLOAD_READ,
        v.ATTEMPT_REPORT,
    },
    "verifier": {*_LOOK, v.PAYLOAD_READ, v.ARTIFACT_WRITE, v.OUTCOME_RECORD},
}

ROLES: dict[str, str] = {
    "viewer": "Looks at runs without reading their contents.",
    "approver": "Decides approvals; reads what is to be decided.",
    "oncall": "Operates runs and steps, repairs.",
    "admin": "Everything but recording outcomes and stopping the whole installation.",
    "finance": "Reads the audit log and the members; answers inputs asked of the role.",
    "integrator": "A program or its author: registers workflows, submits tasks, asks for approvals of its own.",
    "verifier": "Records outcomes from evidence.",
}


def verbs_of_role(role: str) -> frozenset[str]:
    """Return the verbs of a role. Raises BadInput for a role that does not exist."""
    if role == "admin":
        return frozenset(seams.known_verbs()) - _NOBODY_BY_RANK
    try:
        return frozenset(_roles[role])
    except KeyError:
        raise BadInput(
            f"There is no role {role!r}.", where="role", remediation=f"Choose one of: {', '.join(sorted(ROLES))}."
        ) from None


def extend(role: str, verbs: Iterable[str]) -> None:
    """Let a role carry further declared verbs; called from an app's ``wiring.py`` after ``register_verbs``."""
    _roles[role].update(verbs)


def effective(role: str, extra: Iterable[str], scope: Iterable[str] | None = None) -> frozenset[str]:
    """Return the verbs of a credential: the role's and the person's extra ones, narrowed by a token's ``scope``.

    A role that no longer exists carries nothing. ``stop.global`` reaches over the tenant's walls: no tenant gives it.
    """
    base = (verbs_of_role(role) if role in ROLES else frozenset()) | (frozenset(extra) - {v.STOP_GLOBAL})
    return base if scope is None else base & frozenset(scope)
