"""The one place where a request is written, with the calls it permits and the message that it waits."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from approvals.asked import Asked
from approvals.law import EVENTS
from approvals.rendering import Rendered
from approvals.terms import Terms, half_time
from approvals.wiring import ASKED
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx

# The note on a request whose target was found in another version when its call was to be sent: {node, from, to}.
TARGET_CHANGED = "target_changed"


def target_changed(was: str | None, now: str | None) -> str:
    """Return why a request is voided whose target is found in another version than was approved."""
    return f"target changed: {was} → {now}"[:200]


@dataclass(frozen=True, slots=True)
class About:
    """What a request is about: a held step, or a subject of another app. ``version`` counts proposals."""

    kind: str
    run_id: uuid.UUID | None = None
    task_id: uuid.UUID | None = None
    step_id: uuid.UUID | None = None
    node: str = ""
    execution_version: int | None = None
    subject_kind: str = "step"
    subject_id: str | None = None
    version: int = 1
    supersedes: uuid.UUID | None = None
    editor_id: int | None = None


def write_request(
    tx: Tx, about: About, terms: Terms, rendered: Rendered, now: datetime, *, deadline: datetime | None = None
) -> uuid.UUID | None:
    """Write a pending request and return its id; None when one about the same thing waits already."""
    request_id = uuid7()
    until = deadline or terms.deadline(now)
    row = tx.one(
        "approval_insert",
        {
            "id": request_id,
            "tenant": tx.tenant_id,
            "kind": about.kind,
            "run": about.run_id,
            "task": about.task_id,
            "step": about.step_id,
            "node": about.node,
            "execution_version": about.execution_version,
            "subject_kind": about.subject_kind,
            "subject_id": about.subject_id,
            "title": rendered.title,
            "role": terms.role,
            "version": about.version,
            "supersedes": about.supersedes,
            "shown": rendered.shown,
            "payload_sha256": rendered.payload_sha256,
            "action_sha256": rendered.action_sha256,
            "problem": rendered.problem,
            "n_actions": len(rendered.calls),
            "target": rendered.target,
            "target_version": rendered.target_version,
            "requested_by": rendered.requested_by,
            "now": now,
            "deadline": until,
            "on_timeout": terms.on_timeout,
            "start_within": terms.start_within_s,
            "risk": rendered.risk[0],
            "quorum": terms.quorum,
            "separation": terms.separation,
            "editor_id": about.editor_id,
            "editor": rendered.edited_by,
            "level": 0,
            "ladder": orjson.dumps([dict(rung) for rung in terms.ladder]).decode(),
            "remind_at": half_time(now, until),
        },
    )
    if row is None:
        return None
    _permit(tx, request_id, about.run_id, rendered)
    tell(tx, request_id, now)
    return request_id


def tell(tx: Tx, request_id: uuid.UUID, now: datetime, why: str = "asked") -> None:
    """Put the message that a request waits into the outbox; ``why`` says what about it is new."""
    message = orjson.dumps({"request_id": str(request_id), "why": why}).decode()
    tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), ASKED, message, now))
    if why in EVENTS and why != "asked":  # that it was asked the database tells with the row
        tx.send("approval_told", (why, request_id))


def assign(tx: Tx, asked: Asked, to: tuple[int | None, str] | None, by: tuple[int | None, str] | None) -> None:
    """Say who alone decides a request under lock; None: everybody of its role again."""
    asked.assignee_id, asked.assignee = to or (None, None)
    asked.assigned_by_id, asked.assigned_by = by or (None, None)
    tx.send(
        "approval_assign",
        {
            "id": asked.id,
            "to_id": asked.assignee_id,
            "to": asked.assignee,
            "by_id": asked.assigned_by_id,
            "by": asked.assigned_by,
            "revision": asked.revision,
        },
    )
    asked.revision += 1


def note(
    tx: Tx, request_id: uuid.UUID, kind: str, actor: str, text: str = "", details: dict[str, Any] | None = None
) -> None:
    """Write into a request's history what was done with it."""
    told = None if details is None else orjson.dumps(details).decode()
    tx.send("approval_note", (uuid7(), tx.tenant_id, request_id, kind, actor, text, told))


def record_act(
    tx: Tx,
    actor: Actor,
    verb: str,
    asked: Asked,
    *,
    result: str = "done",
    reason: str = "",
    details: dict[str, Any] | None = None,
) -> None:
    """Append what somebody did with a request to the audit; the transaction's last statement."""
    audit.record(
        tx, actor=actor, verb=verb, subject_kind="approval", subject_id=asked.id, run_id=asked.run_id, result=result,
        reason=reason, details=details,
    )  # fmt: skip


def _permit(tx: Tx, request_id: uuid.UUID, run_id: uuid.UUID | None, rendered: Rendered) -> None:
    for call in rendered.calls:
        tx.send(
            "approval_action_insert",
            (
                uuid7(), tx.tenant_id, request_id, run_id, call.node, call.tool, call.contract_sha256,
                call.business_key, call.arguments_sha256, call.edited, call.prepared_sha256,
            ),
        )  # fmt: skip
