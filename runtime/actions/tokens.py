"""Issuing and revoking API tokens. The raw text is answered once and stored nowhere."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import identity
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied
from runtime.store import directory
from runtime.store.tx import Tx, tenant_tx


def issue_token(
    *,
    actor: Actor,
    username: str | None = None,
    name: str = "",
    verbs: list[str] | None = None,
    days: float = 30,
    token_id: uuid.UUID | None = None,
) -> dict[str, Any]:
    """Issue a token and return {token_id, token, user, expires_at, verbs}; ``token`` is shown this once.

    Without ``username`` it is the actor's own; another member's needs ``token.manage``. ``verbs`` narrow the member's
    role, they never widen it; a token that was issued through a narrowed one is narrowed as much. ``token_id`` is the
    caller's own id of it: sent again, no second one is issued, and as its text is stored nowhere it is not told again.
    Raises PermissionDenied, BadInput, NotFound, AlreadyIssued. Verb ``token.issue``.
    """
    scope = identity.check_scope(verbs)
    user_id = identity.owner_of_new_token(actor, _user_id(username))
    if "\x00" in name or len(name) > 100:
        raise BadInput("A name has at most 100 characters and no NUL.", where="/name")
    with tenant_tx(actor.tenant_id) as tx:
        identity.role_in(actor.tenant_id, user_id)
        scope = _within(tx, actor, scope)
        token = identity.insert_token(
            tx, user_id=user_id, name=name, verbs=scope, days=days, now=tx.now(), token_id=token_id
        )
        audit.record(
            tx,
            actor=actor,
            verb=v.TOKEN_ISSUE,
            subject_kind="token",
            subject_id=token.id,
            result="issued",
            details={"user_id": user_id, "verbs": scope, "expires_at": token.expires_at.isoformat()},
        )
    return {
        "token_id": str(token.id),
        "token": token.raw,
        "user": username or actor.name,
        "expires_at": token.expires_at,
        "verbs": scope,
    }


def _within(tx: Tx, actor: Actor, scope: list[str] | None) -> list[str] | None:
    """Return the new token's scope, no wider than that of the token the actor came with."""
    own = directory.token_scope(tx, actor.token_id) if actor.token_id is not None else None
    if own is None or scope is None:
        return scope if own is None else own
    if not set(scope) <= set(own):
        raise PermissionDenied(
            "A token issues only tokens that carry no more than itself.",
            where="/verbs",
            remediation="Name verbs this token carries, or sign in.",
            verb=v.TOKEN_ISSUE,
        )
    return scope


def _user_id(username: str | None) -> int | None:
    from django.contrib.auth import get_user_model

    if username is None:
        return None
    user = get_user_model().objects.filter(username=username, is_active=True).only("pk").first()
    # Whoever is nobody here and whoever does not exist are answered alike.
    return user.pk if user is not None else -1


def revoke_token(*, actor: Actor, token_id: uuid.UUID) -> dict[str, Any]:
    """Revoke a token and return {token_id, revoked}; one that was revoked before stays so.

    One's own needs ``token.issue``, another's ``token.manage``. Raises NotFound, PermissionDenied.
    """
    authorize(actor, v.TOKEN_MANAGE if may(actor, v.TOKEN_MANAGE) else v.TOKEN_ISSUE)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("token_owner", (token_id,))
        if row is None or (row[0] != actor.user_id and not may(actor, v.TOKEN_MANAGE)):
            raise NotFound("There is no token of that id in this tenant.")
        if tx.one("revoke_token", (token_id,)) is not None:
            audit.record(
                tx,
                actor=actor,
                verb=v.TOKEN_MANAGE,
                subject_kind="token",
                subject_id=token_id,
                result="revoked",
                details={"user_id": row[0]},
            )
    return {"token_id": str(token_id), "revoked": True}
