"""Sessions: context that tasks may be attached to, its owner's alone; a task moves between them (A1.2)."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx, tenant_tx

MAX_CONTEXT_BYTES = 64_000
MAX_KEY_CHARS = 200


def create_session(*, actor: Actor, key: str, context: dict[str, Any]) -> dict[str, Any]:
    """Make a session and return {session_id, key, context}; who makes it owns it, and nobody else is let in.

    Raises BadInput (key or context), Conflict (the key is taken), PermissionDenied. Verb ``task.submit``: a submit that
    names a session makes it as well.
    """
    authorize(actor, v.TASK_SUBMIT)
    if not 0 < len(key) <= MAX_KEY_CHARS or not key.isprintable():
        detail = f"A session's key has 1 to {MAX_KEY_CHARS} printable characters."
        raise BadInput(detail, where="/key", remediation="Send another key.")
    text, session_id = _storable(context), uuid7()
    with tenant_tx(actor.tenant_id) as tx:
        if tx.one("create_session", (session_id, tx.tenant_id, key, text, actor.label)) is None:
            raise Conflict(
                "There is a session of this key.", where="/key", remediation="Choose another key, or use that session."
            )
        _record(tx, actor, session_id, "created")
    return {"session_id": str(session_id), "key": key, "context": context}


def set_context(*, actor: Actor, session_id: uuid.UUID, context: dict[str, Any]) -> dict[str, Any]:
    """Put another context in the place of a session's; return {session_id, key, context}. Its tasks stay as they are.

    Raises NotFound (also for another's session), BadInput, PermissionDenied. Verb ``task.submit``.
    """
    authorize(actor, v.TASK_SUBMIT)
    text = _storable(context)
    with tenant_tx(actor.tenant_id) as tx:
        key = own_session(tx, actor, session_id)
        tx.send("set_session_context", (text, session_id))
        _record(tx, actor, session_id, "changed")
    return {"session_id": str(session_id), "key": key, "context": context}


def attach_task(*, actor: Actor, session_id: uuid.UUID, task_id: uuid.UUID) -> dict[str, Any]:
    """Let a task go on in another session and return {session_id, key, task_id, before}: the session it left, or None.

    The task takes its own State along and nothing of the context it leaves; it was the actor's own, or was in a session
    that the actor may use. Raises NotFound, PermissionDenied. Verb ``task.submit``.
    """
    authorize(actor, v.TASK_SUBMIT)
    with tenant_tx(actor.tenant_id) as tx:
        key = own_session(tx, actor, session_id)
        row = tx.one("lock_task_session", (task_id,))
        if row is None:
            raise NotFound("There is no task of that id in this tenant.", where="/task_id")
        created_by, before, before_key, owner = row
        if created_by != actor.label and not _may_use(actor, owner):
            raise PermissionDenied(
                "The task is somebody else's.",
                where="/task_id",
                remediation="Whoever submitted it attaches it, or somebody whose role carries `session.use`.",
                verb=v.SESSION_USE,
            )
        if before != session_id:
            tx.send("attach_task", (session_id, task_id))
            _record(tx, actor, session_id, "attached", task_id=str(task_id), before=str(before) if before else None)
    return {"session_id": str(session_id), "key": key, "task_id": str(task_id), "before": before_key}


def own_session(tx: Tx, actor: Actor, session_id: uuid.UUID) -> str:
    """Return the key of a session that the actor may use. Raises NotFound: another's is as if it were not there."""
    row = tx.one("session_of_id", (session_id,))
    if row is None or not _may_use(actor, row[1]):
        raise NotFound("There is no session of that id in this tenant.")
    return str(row[0])


def check_owner(actor: Actor, owner: str | None) -> None:
    """Raise PermissionDenied when a session that a submit names is somebody else's; None: it is yet to be made."""
    if owner is not None and not _may_use(actor, owner):
        raise PermissionDenied(
            "The session is somebody else's.",
            where="/session",
            remediation="Name a session of your own; a new key makes one.",
            verb=v.SESSION_USE,
        )


def _may_use(actor: Actor, owner: str | None) -> bool:
    return owner == actor.label or may(actor, v.SESSION_USE)


def _storable(context: dict[str, Any]) -> str:
    size = len(body := canonical_bytes(context))
    if size > MAX_CONTEXT_BYTES:
        raise BadInput(
            f"The context has {size} bytes; the limit is {MAX_CONTEXT_BYTES}.",
            where="/context",
            remediation="Upload what is large as an artifact, and keep its reference.",
        )
    return body.decode()


def _record(tx: Tx, actor: Actor, session_id: uuid.UUID, result: str, **details: Any) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=v.TASK_SUBMIT,
        subject_kind="session",
        subject_id=session_id,
        result=result,
        details=details,
    )
