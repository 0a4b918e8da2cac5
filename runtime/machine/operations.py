"""Moves of the operation ledger: a business side effect and what is known of it (C3.3–C3.5)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from runtime.kernel.errors import MoveRefused, Stale
from runtime.machine import law
from runtime.machine.apply import note
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

OPEN = frozenset(
    {"intended", "sent", "unknown", "needs_human", "partially_applied", "compensating", "compensation_failed"}
)


@dataclass(slots=True)
class OperationState:
    """An operation row under lock; field order is that of ``store.columns.OPERATION``, then the stored response."""

    id: uuid.UUID
    business_key: str
    payload_sha256: bytes
    tool_version_id: uuid.UUID
    recovery: str
    run_id: uuid.UUID
    step_id: uuid.UUID
    execution_version: int
    attempt: int
    owner_epoch: int
    status: str
    version: int
    sends: int
    external_ref: str | None
    response_sha256: bytes | None
    error: dict[str, Any] | None
    next_query_at: datetime | None
    intended_at: datetime
    sent_at: datetime | None
    settled_at: datetime | None
    response: bytes | None = None
    read_status: str = ""
    read_version: int = 0

    def __post_init__(self) -> None:
        self.read_status, self.read_version = self.status, self.version

    def sent_by(self, step_id: uuid.UUID, attempt: int, owner_epoch: int) -> bool:
        """Whether the last send is that attempt's. An absent operation is sent again, perhaps by another step."""
        return (self.step_id, self.attempt, self.owner_epoch) == (step_id, attempt, owner_epoch)


def move_operation(
    run: RunState,
    step: StepState | None,
    operation: OperationState,
    to: str,
    *,
    by: str,
    actor: str | None = None,
    reason: str | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    """Move an operation by the law and append the event to the run that holds it. Raises MoveRefused."""
    move = law.OPERATION.get((operation.status, to))
    if move is None or by not in move.by:
        raise MoveRefused(
            f"An operation does not go from {operation.status} to {to} by {by}.",
            run_id=run.id,
            operation_id=str(operation.id),
            current_status=operation.status,
        )
    source = operation.status
    run.n_open_operations += (to in OPEN) - (source in OPEN)
    run.n_compensating += (to == "compensating") - (source == "compensating")
    operation.status, operation.version, operation.error = to, operation.version + 1, error
    if to == "sent":
        operation.sends, operation.sent_at, operation.settled_at = operation.sends + 1, run.now, None
        operation.next_query_at = None
    elif to not in OPEN:
        operation.settled_at, operation.next_query_at = run.now, None
    payload: dict[str, Any] = {"operation_id": str(operation.id), "business_key": operation.business_key}
    if operation.external_ref:
        payload["external_ref"] = operation.external_ref
    if error:
        payload["error"] = error
    note(
        run,
        f"OPERATION_{to.upper()}",
        step,
        actor=actor,
        reason=reason,
        payload=payload,
        from_status=source,
        to_status=to,
        cause="operation",
        output_sha256=operation.response_sha256,
    )


def note_intent(run: RunState, step: StepState, operation: OperationState) -> None:
    """Append OPERATION_INTENDED for a freshly inserted row and count it as open."""
    run.n_open_operations += 1
    note(
        run,
        "OPERATION_INTENDED",
        step,
        payload={"operation_id": str(operation.id), "business_key": operation.business_key},
        to_status="intended",
        cause="operation",
        input_sha256=operation.payload_sha256,
    )


def write_operations(tx: Tx, operations: Iterable[OperationState]) -> None:
    """Write moved operations back, compare-and-set. Raises Stale when one was moved by somebody else."""
    rows = [
        (
            o.id, o.read_status, o.read_version, o.status, o.version, o.sends, o.run_id, o.step_id, o.execution_version,
            o.attempt, o.owner_epoch, o.external_ref, o.response, o.response_sha256,
            orjson.dumps(o.error).decode() if o.error else None, o.next_query_at, o.sent_at, o.settled_at,
        )
        for o in operations
    ]  # fmt: skip
    if rows and tx.count("update_operations", arrays("usisiiuuiiitxxtzzz", rows)) != len(rows):
        raise Stale("An operation was moved by somebody else first; nothing was changed.")
