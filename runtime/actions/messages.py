"""Messages in quarantine: sent again under their own event_id, or discarded; by a person, with a reason (C2.6)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.base import check_reason
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, NotFound
from runtime.store.tx import Tx, tenant_tx

# Of many messages closed at once, so many are named in the audit.
MOST_TOLD = 200


def replay_message(*, actor: Actor, message_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Send a quarantined message again, with a fresh budget, under its own event_id.

    Returns {message_id, event_id, topic, resolution, replayed}; asked again it answers the same. Raises NotFound,
    Conflict (it was discarded), PermissionDenied, BadInput. Verb ``message.resolve``.
    """
    return _close(actor, message_id, reason, "replayed")


def discard_message(*, actor: Actor, message_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Give a quarantined message up; a reason is required. Answers and raises as :func:`replay_message`."""
    return _close(actor, message_id, reason, "discarded")


def _close(actor: Actor, message_id: uuid.UUID, reason: str, resolution: str) -> dict[str, Any]:
    authorize(actor, v.MESSAGE_RESOLVE)
    text = check_reason(reason, required=resolution == "discarded")
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("quarantined_lock", (message_id,))
        if row is None:
            raise NotFound("There is no such message in this tenant's quarantine.")
        outbox_id, event_id, topic, before, by = row
        answer = {
            "message_id": str(message_id), "event_id": str(event_id), "topic": topic, "resolution": resolution,
        }  # fmt: skip
        if before is not None:
            if before != resolution:
                raise Conflict(f"The message was {before} by {by}.", remediation="Nothing is left to do with it.")
            return {**answer, "replayed": True}
        tx.send("quarantined_close", (resolution, actor.label, text, message_id))
        if resolution == "replayed":
            tx.send("message_again", (outbox_id,))
        audit.record(
            tx,
            actor=actor,
            verb=v.MESSAGE_RESOLVE,
            subject_kind="message",
            subject_id=message_id,
            result=resolution,
            reason=text,
            details={"event_id": str(event_id), "topic": topic},
        )
    return {**answer, "replayed": False}


def close_topic(tx: Tx, actor: Actor, topic: str, *, reason: str, replay: bool) -> list[str]:
    """Replay or discard every message of a topic that waits in quarantine, inside the caller's transaction.

    The same as :func:`replay_message` and :func:`discard_message` do to each; the caller has asked for the permission
    and the reason. Returns the ids of what was closed in the quarantine.
    """
    resolution = "replayed" if replay else "discarded"
    closed = tx.rows("quarantined_close_topic", (resolution, actor.label, reason, topic))
    if replay and closed:
        tx.send("messages_again", ([row[1] for row in closed],))
    if closed:
        details = {"topic": topic, "messages": len(closed), "event_ids": [str(row[2]) for row in closed[:MOST_TOLD]]}
        audit.record(
            tx, actor=actor, verb=v.MESSAGE_RESOLVE, subject_kind="topic", subject_id=topic, result=resolution,
            reason=reason, details=details,
        )  # fmt: skip
    return [str(row[0]) for row in closed]
