"""Reads of who and what serves a tenant: members, tokens, the audit log, worker sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may, operates
from runtime.access.roles import effective
from runtime.kernel.actor import Actor
from runtime.models import AuditEntry
from runtime.queries.base import Page, content, cursor_of, hexed, page, parsed, position_of, reading
from runtime.queries.in_hand import steps_in_hand

# Members or tokens that a list without pages holds.
MOST = 1000


def list_members(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the first MOST members by name with their roles and verbs. Verb ``member.read``."""
    with reading(actor, v.MEMBER_READ) as tx:
        return [_present_member(row) for row in tx.dicts("read_members", {"after": None, "limit": MOST})]


def page_members(*, actor: Actor, cursor: str | None = None, limit: int = 100) -> Page:
    """Return a page of :func:`list_members`, which goes on to the last of them. Raises BadInput for a cursor."""
    with reading(actor, v.MEMBER_READ) as tx:
        position = position_of("members", actor, cursor)
        rows = tx.dicts("read_members", {"after": position[0] if position else None, "limit": limit + 1})
    following = cursor_of("members", actor, [rows[limit - 1]["username"]]) if len(rows) > limit else None
    return Page([_present_member(row) for row in rows[:limit]], following)


def _present_member(row: dict[str, Any]) -> dict[str, Any]:
    row["extra_verbs"] = parsed(row["extra_verbs"])
    row["verbs"] = sorted(effective(row["role"], row["extra_verbs"]))
    del row["ended_at"], row["user_id"]
    return row


def list_tokens(*, actor: Actor) -> list[dict[str, Any]]:
    """Return one's own newest MOST tokens, with ``token.manage`` everybody's, never their text. ``token.issue``."""
    return page_tokens(actor=actor, limit=MOST).items


def page_tokens(*, actor: Actor, cursor: str | None = None, limit: int = 100) -> Page:
    """Return a page of tokens as :func:`list_tokens` has them, the newest first. Raises BadInput for a cursor."""
    user = None if may(actor, v.TOKEN_MANAGE) else actor.user_id
    with reading(actor, v.TOKEN_MANAGE if user is None else v.TOKEN_ISSUE) as tx:
        position = position_of("tokens", actor, cursor)
        wanted = {"user": user, "before": position[0] if position else None, "limit": limit + 1}
        rows = tx.dicts("read_tokens", wanted)
    following = cursor_of("tokens", actor, [str(rows[limit - 1]["id"])]) if len(rows) > limit else None
    for row in rows[:limit]:
        row["verbs"], row["user"] = parsed(row["verbs"]), row.pop("username")
    return Page(rows[:limit], following)


def list_audit(
    *,
    actor: Actor,
    by: str | None = None,
    verb: str | None = None,
    subject_id: str | None = None,
    result: str | None = None,
    since: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
    proof: bool = False,
) -> Page:
    """Return audit entries, newest first; ``by`` is an actor's label such as ``user:ada``. Verb ``audit.read``.

    ``since`` leaves out what was written before.

    With ``proof`` each has the ``body`` that was hashed, as text.
    """
    wanted = {"actor": by, "verb": verb, "subject_id": subject_id, "result": result}
    with reading(actor, v.AUDIT_READ) as tx:
        rows = AuditEntry.objects.filter(**{k: x for k, x in wanted.items() if x is not None}).values()
        if since is not None:
            # By number, which the chain counts in the order of time: no index knows the times.
            rows = rows.filter(number__gte=tx.rows("audit_first_since", {"since": since})[0][0])
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
    """Return worker sessions, live or ended within the hour; they serve every tenant. Verb ``worker.read``.

    With each what its last beat told: ``busy`` (steps in hand), and ``attempts``: the tenant's own of the steps in
    hand (``queries.in_hand``). ``progress_seq`` (steps written), ``cpu_s`` and ``rss_bytes`` of its process come of
    what every tenant runs, and are None for all but the installation's operators.
    """
    everybodys = operates(actor)
    with reading(actor, v.WORKER_READ) as tx:
        rows = tx.dicts("read_workers")
        calls = steps_in_hand(tx)
    for row in rows:
        row["pools"] = parsed(row["pools"])
        if not everybodys:
            row.update(progress_seq=None, cpu_s=None, rss_bytes=None)
        row["attempts"] = [one for one in calls if one["worker_session_id"] == row["id"]]
    return rows
