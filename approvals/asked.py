"""A request under lock, and what an answer tells of it when it is not as somebody was shown."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from approvals.errors import AlreadyClosed, OtherVersion, TooLate
from approvals.law import TIMEOUT
from runtime.kernel.errors import NotFound
from runtime.machine.frame import Frame
from runtime.queries.base import parsed


@dataclass(slots=True)
class Asked:
    """A request under lock; field order is that of the query ``approval_lock``."""

    id: uuid.UUID
    kind: str
    run_id: uuid.UUID | None
    task_id: uuid.UUID | None
    step_id: uuid.UUID | None
    node: str
    execution_version: int | None
    subject_kind: str
    subject_id: str | None
    title: str
    role: str
    state: str
    version: int
    revision: int
    payload_sha256: bytes
    action_sha256: bytes
    problem: str | None
    n_actions: int
    requested_by: str
    created_at: datetime
    deadline: datetime | None
    on_timeout: str
    start_within_seconds: float | None
    decided_at: datetime | None
    decided_by: str | None
    comment: str
    outcome_reason: str
    risk: int
    quorum: int
    separation: str
    editor_id: int | None
    editor: str | None
    assignee_id: int | None
    assignee: str | None
    assigned_by_id: int | None
    assigned_by: str | None
    level: int
    ladder: Any
    reminders: int
    target: str | None
    target_version: str | None

    def __post_init__(self) -> None:
        self.ladder = parsed(self.ladder)

    @property
    def seen(self) -> int:
        """The revision that readers are shown: a reminder changes the row, and nothing of what is asked."""
        return self.revision - self.reminders

    def there(self) -> dict[str, Any]:
        """Return what a refusal tells: the request as it is now."""
        return {
            "run_id": self.run_id,
            "step_id": self.step_id,
            "approval_id": str(self.id),
            "current_state": self.state,
            "current_version": self.version,
            "current_payload_hash": bytes(self.payload_sha256).hex(),
            "deadline": self.deadline.isoformat() if self.deadline else None,
        }


def lock_request(unit: Frame, request_id: uuid.UUID) -> Asked:
    """Lock a request after its run (engine.md 1) and return it. Raises NotFound."""
    subject = unit.tx.one("approval_subject", (request_id,))
    if subject is None:
        raise NotFound("There is no approval of that id in this tenant.")
    if subject[0] is not None:
        unit.run(subject[0])
    row = unit.tx.one("approval_lock", (request_id,))
    assert row is not None
    return Asked(*row)


def refuse_closed(asked: Asked, now: datetime) -> None:
    """Raise when the request waits no more: AlreadyClosed, or TooLate once its time was over."""
    there = asked.there()
    if asked.state != "pending":
        by = f" by {asked.decided_by}" if asked.decided_by else ""
        why = f" ({asked.outcome_reason})" if asked.outcome_reason else ""
        there.update(decided_by=asked.decided_by, outcome_reason=asked.outcome_reason)
        error = TooLate if asked.outcome_reason == TIMEOUT else AlreadyClosed
        raise error(f"The request is {asked.state}{by}{why}.", **there)
    if asked.deadline is not None and asked.deadline <= now:
        raise TooLate(f"The request ended at {asked.deadline.isoformat()}.", **there)


def refuse_other(asked: Asked, version: int, quoted: bytes) -> None:
    """Raise OtherVersion when not this proposal, or not this payload, was shown."""
    refuse_other_version(asked, version)
    if quoted != bytes(asked.payload_sha256):
        raise OtherVersion("The payload's hash is not that of this request.", where="/payload_hash", **asked.there())


def refuse_other_version(asked: Asked, version: int) -> None:
    """Raise OtherVersion when not this proposal was shown."""
    if version != asked.version:
        detail = f"The request is in version {asked.version}; you were shown version {version}."
        raise OtherVersion(detail, **asked.there())
