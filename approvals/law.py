"""The law of approvals as data (design: state-machine.md); the database guard is made from it."""

from __future__ import annotations

from runtime.machine.law import RUN_TOLD

PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"

MOVES: dict[tuple[str, str], str] = {
    ("pending", "approved"): "decided by an authorised person, in time",
    ("pending", "rejected"): "decided by an authorised person, or by the timeout policy",
    ("pending", "cancelled"): "what was asked for is no longer wanted: run cancelled, step skipped or forced",
    ("pending", "superseded"): "another proposal took its place",
    ("approved", "consumed"): "every effect it permits was sent",
    ("approved", "lapsed"): "the permission to start ran out",
    ("approved", "voided"): "run ended, target or payload changed",
    ("approved", "revoked"): "a person took it back, or a right was lost",
}
STATES = ("pending", "approved", "rejected", "cancelled", "superseded", "consumed", "lapsed", "voided", "revoked")
# Only these were approved once; no other road leads to an effect.
GRANTED = ("approved", "consumed", "lapsed", "voided", "revoked")

# What happens at the deadline; none of it approves. `keep`: it waits on, and a person extends it before deciding.
ON_TIMEOUT = ("reject", "keep", "escalate")
# Who may not approve: nobody in particular; the requester; the requester and whoever edited the proposal.
SEPARATIONS = ("none", "requester", "two_people")
POLICY_STATES = ("proposed", "active", "retired", "rejected", "withdrawn")
# What is told of a request to whoever listens: what people and time do to it while it waits, and the states it goes to.
EVENTS = ("asked", "warned", "reminded", "overdue", "escalated", "delegated", *STATES[1:])
# What a hook hears of runs where it names them: approvals alone are what it hears of without any choice.
RUN_EVENTS = tuple(f"run.{status}" for status in RUN_TOLD)
HOOK_FORMATS = ("standard", "chat")
RISKS = ("none", "low", "medium", "high")
# Why a request ended, beside who took it back and what its target changed to; pages say it in the reader's language.
TIMEOUT, NOT_STARTED, WITHDRAWN, EDITED = "timeout", "not started in time", "withdrawn", "edited by a person"
RUN_CANCELLED, RUN_ENDED, RUN_LATE = "run cancelled", "run ended", "the run's deadline passed"
STEP_SKIPPED, STEP_FORCED = "step skipped", "step forced"
APPROVER_GONE, REQUESTER_GONE = "the approver lost the right", "the requester lost the right"
POLICY_DENIES, POLICY_ASKS_MORE = "the policy denies it now", "the policy asks for more now"
REASONS = (
    TIMEOUT, NOT_STARTED, WITHDRAWN, EDITED, RUN_CANCELLED, RUN_ENDED, RUN_LATE, STEP_SKIPPED, STEP_FORCED,
    APPROVER_GONE, REQUESTER_GONE, POLICY_DENIES, POLICY_ASKS_MORE,
)  # fmt: skip


def pairs() -> list[str]:
    """Return every move as ``source>target``, sorted."""
    return sorted(f"{source}>{target}" for source, target in MOVES)
