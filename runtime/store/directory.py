"""Who belongs where, asked before any tenant is known; answered by reviewed SECURITY DEFINER functions only."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import orjson

from runtime.store.tx import Tx, plain_tx


@dataclass(frozen=True, slots=True)
class MembershipRow:
    """A user's place in one tenant that is not suspended."""

    tenant_id: uuid.UUID
    slug: str
    name: str
    role: str
    extra_verbs: list[str]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token that was not revoked, with its owner's role; ``verbs`` None means no narrowing."""

    token_id: uuid.UUID
    tenant_id: uuid.UUID
    user_id: int
    verbs: list[str] | None
    role: str
    extra_verbs: list[str]
    expires_at: Any
    expired: bool


@dataclass(frozen=True, slots=True)
class TenantRow:
    """A tenant's id and slug."""

    id: uuid.UUID
    slug: str
    suspended: bool


def memberships_of(user_id: int, *, using: str = "default") -> list[MembershipRow]:
    """Return the memberships of a user in tenants that are not suspended, by slug."""
    with plain_tx(using=using) as tx:
        rows = tx.rows("memberships_of", (user_id,))
    return [MembershipRow(tenant, slug, name, role, _list(extra) or []) for tenant, slug, name, role, extra in rows]


def token_by_hash(sha256: bytes, *, using: str = "default") -> TokenRow | None:
    """Return the token of this SHA-256; expiry is told by the database's clock."""
    with plain_tx(using=using) as tx:
        row = tx.one("token_by_hash", (sha256,))
    if row is None:
        return None
    token_id, tenant_id, user_id, verbs, role, extra, expires_at, expired = row
    return TokenRow(token_id, tenant_id, user_id, _list(verbs), role, _list(extra) or [], expires_at, expired)


def token_scope(tx: Tx, token_id: uuid.UUID) -> list[str] | None:
    """Return the verbs a token of the transaction's tenant is narrowed to; None for no narrowing, [] for no token."""
    row = tx.one("token_scope", (token_id,))
    return _list(row[0]) if row else []


def all_tenants(*, using: str = "default") -> list[TenantRow]:
    """Return every tenant by slug."""
    with plain_tx(using=using) as tx:
        return [TenantRow(*row) for row in tx.rows("all_tenants")]


def _list(value: Any) -> list[str] | None:
    # Django leaves jsonb as text on its connections.
    return orjson.loads(value) if isinstance(value, str | bytes) else value
