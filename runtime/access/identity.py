"""From a credential to an Actor: a signed-in user, or an API token of which only the SHA-256 is stored."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.access.roles import effective
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import AlreadyIssued, BadInput, NotAuthenticated, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.store import directory
from runtime.store.tx import tenant_tx

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PREFIX = "qd_"
MAX_DAYS = 366


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token: ``raw`` is shown once and stored nowhere."""

    id: uuid.UUID
    raw: str
    expires_at: datetime
    verbs: list[str] | None


def actor_for_user(user: User | None, tenant_slug: str | None = None) -> Actor:
    """Return the actor of a signed-in user in one of their tenants; without a slug, in the only one they have.

    Raises NotAuthenticated without an active user, PermissionDenied when they belong to no such tenant, and BadInput
    when they belong to several and named none.
    """
    if user is None or not user.is_authenticated or not user.is_active:
        raise NotAuthenticated()
    found = directory.memberships_of(user.pk)
    if tenant_slug is not None:
        found = [one for one in found if one.slug == tenant_slug]
    if not found:
        raise PermissionDenied(
            f"user:{user.get_username()} belongs to no such tenant.",
            remediation="Ask an admin of the tenant to add you, or name another tenant.",
        )
    if len(found) > 1:
        raise BadInput(
            "You belong to several tenants and named none.",
            where="header X-Quarterdeck-Tenant",
            remediation=f"Name one of: {', '.join(one.slug for one in found)}.",
        )
    one = found[0]
    return Actor(
        kind="user",
        name=user.get_username(),
        tenant_id=one.tenant_id,
        verbs=effective(one.role, one.extra_verbs),
        user_id=user.pk,
    )


def actor_in_tenant(tenant_id: uuid.UUID, user_id: int) -> Actor:
    """Return a user's actor in a tenant with the verbs they have now: for what they ordered and others carry out later.

    Raises NotAuthenticated when they are no longer active, PermissionDenied when they have left the tenant.
    """
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.filter(pk=user_id, is_active=True).only("username", "is_active").first()
    slug = next((one.slug for one in directory.memberships_of(user_id) if one.tenant_id == tenant_id), None)
    if user is not None and slug is None:
        raise PermissionDenied(
            f"user:{user.get_username()} is no member of the tenant any more.",
            remediation="Have somebody who is a member order it anew.",
        )
    return actor_for_user(user, slug)


def token_digest(raw: str) -> bytes:
    """Return what is stored of a token. It has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).digest()


def actor_for_token(raw: str) -> Actor:
    """Return the actor of an API token. Raises NotAuthenticated, telling only expiry apart from every other reason."""
    from django.contrib.auth import get_user_model

    refused = NotAuthenticated("The token is not valid.")
    if not raw.startswith(PREFIX) or len(raw) > 200:
        raise refused
    row = directory.token_by_hash(token_digest(raw))
    if row is None:
        raise refused
    if row.expired:
        raise NotAuthenticated("The token has expired.", remediation="Issue a new token.")
    user = get_user_model().objects.filter(pk=row.user_id, is_active=True).only("username").first()
    if user is None:
        raise refused
    _note_use(row)
    return Actor(
        kind="user",
        name=user.get_username(),
        tenant_id=row.tenant_id,
        verbs=effective(row.role, row.extra_verbs, row.verbs),
        user_id=row.user_id,
        token_id=row.token_id,
    )


_noted: dict[uuid.UUID, float] = {}


def _note_use(row: directory.TokenRow) -> None:
    """Write down that a token is in use, once a minute per process: a busy token must not write at every request."""
    now = time.monotonic()
    if now - _noted.get(row.token_id, -60.0) < 60.0:
        return
    if len(_noted) > 10_000:
        _noted.clear()
    _noted[row.token_id] = now
    with tenant_tx(row.tenant_id) as tx:
        tx.send("token_used", (row.token_id,))


def check_scope(verbs: Any) -> list[str] | None:
    """Return a token's scope as a sorted list, None for all. Raises BadInput for a verb that does not exist."""
    if verbs is None:
        return None
    if not isinstance(verbs, list) or not verbs or not all(isinstance(verb, str) for verb in verbs):
        raise BadInput("verbs is a list of verbs, or null for all of them.", where="/verbs")
    unknown = sorted(set(verbs) - set(seams.known_verbs()))
    if unknown:
        raise BadInput(
            f"There is no verb {unknown[0]!r}.",
            where=f"/verbs/{verbs.index(unknown[0])}",
            remediation=f"Choose from: {', '.join(sorted(seams.known_verbs()))}.",
        )
    return sorted(set(verbs))


def insert_token(
    tx: Any,
    *,
    user_id: int,
    name: str,
    verbs: list[str] | None,
    days: float,
    now: datetime,
    token_id: uuid.UUID | None = None,
) -> IssuedToken:
    """Write a new token of ``user_id`` in the transaction's tenant and return it with its raw text.

    Raises BadInput, AlreadyIssued when there is a token of the id that is given.
    """
    from runtime.models import ApiToken

    if not 0 < days <= MAX_DAYS:
        mend = "Choose fewer days." if days > MAX_DAYS else "Choose more than 0 days."
        raise BadInput(f"A token lives for more than 0 and up to {MAX_DAYS} days.", where="/days", remediation=mend)
    raw = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken(
        id=token_id or uuid7(),
        tenant_id=tx.tenant_id,
        user_id=user_id,
        name=name[:100],
        token_sha256=token_digest(raw),
        verbs=verbs,
        expires_at=now + timedelta(days=days),
    )
    # Of two that are sent at once the key lets one through; what was written is known by its own hash.
    rows = ApiToken.objects.using(tx.using)
    rows.bulk_create([token], ignore_conflicts=True)
    if not rows.filter(token_sha256=token.token_sha256).exists():
        raise AlreadyIssued(where="/token_id", token_id=str(token.id))
    return IssuedToken(token.id, raw, token.expires_at, verbs)


def owner_of_new_token(actor: Actor, user_id: int | None) -> int:
    """Return whose token ``actor`` may issue: their own, or with token.manage anybody's in the tenant."""
    authorize(actor, v.TOKEN_ISSUE)
    if user_id is None or user_id == actor.user_id:
        if actor.user_id is None:
            raise BadInput("A service has no tokens of its own.", where="/user", remediation="Name a user.")
        return actor.user_id
    authorize(actor, v.TOKEN_MANAGE)
    return user_id


def role_in(tenant_id: uuid.UUID, user_id: int) -> str:
    """Return the role of a user in a tenant. Raises NotFound when they are no member."""
    for one in directory.memberships_of(user_id):
        if one.tenant_id == tenant_id:
            return one.role
    mend = "The page Members lists them; `manage.py tenant member USER --role ROLE` makes one."
    raise NotFound("There is no such member in this tenant.", remediation=mend)
