"""Messages from the outside: recorded once, in the transaction that acts on them, and acknowledged after it (C2.5)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput, Conflict
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx

MAX_MESSAGE_ID = 300


class MessageConflict(Conflict):
    """The message id was used before with another content."""

    code, title = "message_conflict", "Message conflict"
    remediation = "A message keeps its id and its content for ever; give another message another id."


@dataclass(frozen=True, slots=True)
class Taken:
    """A message in the inbox. ``fresh``: it came for the first time; else ``result`` says what became of it then.

    A ``result`` of None is a message that is kept for later.
    """

    id: uuid.UUID
    fresh: bool
    result: str | None = None


def take_in(
    tx: Tx,
    *,
    source: str,
    message_id: str,
    payload: bytes,
    run_id: uuid.UUID | None = None,
    step_id: uuid.UUID | None = None,
    name: str = "",
    correlation_id: str | None = None,
) -> Taken:
    """Record a message, once per tenant, source and id; ``payload`` are its canonical bytes.

    Call it under the lock of what the message is for, and acknowledge after the commit: a sender that hears nothing
    sends again and gets the first answer. Raises MessageConflict for the same id with another payload, BadInput.
    """
    if not 0 < len(message_id) <= MAX_MESSAGE_ID or not message_id.isprintable():
        raise BadInput(f"A message id has 1 to {MAX_MESSAGE_ID} printable characters.", where="/event_id")
    sha256 = digest(payload)
    row = tx.one(
        "inbox_insert",
        (uuid7(), tx.tenant_id, source, message_id, payload, sha256, run_id, step_id, name, correlation_id),
    )
    if row is not None:
        return Taken(row[0], True)
    there = tx.one("inbox_message", (source, message_id))
    assert there is not None
    if bytes(there[1]) != sha256:
        raise MessageConflict(where="/event_id")
    return Taken(there[0], False, there[2])


def handled(tx: Tx, inbox_id: uuid.UUID, result: str, step_id: uuid.UUID | None = None) -> None:
    """Say what became of a message, in the transaction that did it; ``step_id`` is the step that it was given to."""
    tx.send("inbox_handled", (result, step_id, inbox_id))
