"""Reads of who and what serves a tenant: members, tokens, the audit log, worker sessions."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.access.roles import effective
from runtime.kernel.actor import Actor
from runtime.models import AuditEntry
from runtime.queries.base import Page, content, hexed, page, parsed, reading


def list_members(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the members by name with their roles and verbs. Verb ``member.read``."""
    with reading(actor, v.MEMBER_READ) as tx:
        rows = tx.dicts("read_members")
    for row in rows:
        row["extra_verbs"] = parsed(row["extra_verbs"])
        row["verbs"] = sorted(effective(row["role"], row["extra_verbs"]))
        del row["ended_at"], row["user_id"]
    return rows


def list_tokens(*, actor: Actor) -> list[dict[str, Any]]:
    """Return one's own tokens, with ``token.manage`` everybody's; never their text. Verb ``token.issue``."""
    if not may(actor, v.TOKEN_MANAGE):
        authorize(actor, v.TOKEN_ISSUE)
    user = None if may(actor, v.TOKEN_MANAGE) else actor.user_id
    with reading(actor, v.TOKEN_MANAGE if user is None else v.TOKEN_ISSUE) as tx:
        rows = tx.dicts("read_tokens", {"user": user})
    for row in rows:
        row["verbs"], row["user"] = parsed(row["verbs"]), row.pop("username")
    return rows


def list_audit(
    *,
    actor: Actor,
    by: str | None = None,
    verb: str | None = None,
    subject_id: str | None = None,
    result: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
    proof: bool = False,
) -> Page:
    """Return audit entries, newest first; ``by`` is an actor's label such as ``user:ada``. Verb ``audit.read``.

    With ``proof`` each has the ``body`` that was hashed, as text.
    """
    wanted = {"actor": by, "verb": verb, "subject_id": subject_id, "result": result}
    with reading(actor, v.AUDIT_READ):
        rows = AuditEntry.objects.filter(**{k: x for k, x in wanted.items() if x is not None}).values()
        return page(
            rows,
            name="audit",
            actor=actor,
            key="number",
            cursor=cursor,
            limit=limit,
            count=count,
            present=_present_proved if proof else _present_entry,
        )


def _present_proved(row: dict[str, Any]) -> dict[str, Any]:
    body = bytes(row["body"]).decode()
    return {**_present_entry(row), "body": body}


def _present_entry(row: dict[str, Any]) -> dict[str, Any]:
    body = content(row.pop("body"))
    row["details"] = body.get("details")
    row["sha256"], row["previous_sha256"] = hexed(row["sha256"]), hexed(row["previous_sha256"])
    del row["tenant_id"]
    return row


def list_workers(*, actor: Actor) -> list[dict[str, Any]]:
    """Return worker sessions, live or ended within the hour; they serve every tenant. Verb ``worker.read``."""
    with reading(actor, v.WORKER_READ) as tx:
        rows = tx.dicts("read_workers")
    for row in rows:
        row["pools"] = parsed(row["pools"])
    return rows
