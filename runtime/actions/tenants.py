"""Tenants and their members. A tenant is made by whoever runs the installation; members are its admins' business."""

from __future__ import annotations

import re
import uuid
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.access.identity import check_scope
from runtime.access.roles import verbs_of_role
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.store import directory
from runtime.store.tx import tenant_tx

_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def create_tenant(*, slug: str, name: str = "") -> dict[str, Any]:
    """Create a tenant as the database's owner; no role of a tenant can. Returns {tenant_id, slug}.

    Raises BadInput, Conflict when the slug is taken.
    """
    if not _SLUG.fullmatch(slug):
        raise BadInput(
            "A slug has 1 to 63 small letters, digits and inner hyphens.",
            where="slug",
            remediation="Choose one like `acme-eu`.",
        )
    tenant_id = uuid7()
    with tenant_tx(tenant_id, using="owner") as tx:
        if tx.one("insert_tenant", (tenant_id, slug, (name or slug)[:200])) is None:
            raise Conflict(f"The tenant {slug!r} is there already.", remediation="Choose another slug.")
    return {"tenant_id": str(tenant_id), "slug": slug}


def retire_tenant(*, tenant_id: uuid.UUID) -> dict[str, Any]:
    """Suspend a tenant and free its slug, as the database's owner; nothing of it is deleted. Returns {tenant_id, slug}.

    Its members get in no more; end what is open in it first. Raises NotFound.
    """
    with tenant_tx(tenant_id, using="owner") as tx:
        row = tx.one("retire_tenant", {"id": tenant_id, "mark": tenant_id.hex[-12:]})
    if row is None:
        raise NotFound("There is no such tenant.")
    return {"tenant_id": str(tenant_id), "slug": row[0]}


def tenant_by_slug(slug: str | None, *, using: str = "default") -> directory.TenantRow:
    """Return a tenant by slug; without one the only tenant there is, or ``acme``. Raises NotFound, BadInput."""
    tenants = directory.all_tenants(using=using)
    wanted = [one for one in tenants if one.slug == (slug or "acme")]
    if not slug and len(tenants) == 1:
        return tenants[0]
    if wanted:
        return wanted[0]
    if slug:
        raise NotFound(f"There is no tenant {slug!r}.", remediation="Create it: `manage.py tenant create SLUG`.")
    if not tenants:
        mend = "Make one: `manage.py tenant create SLUG`, then `manage.py tenant member USER --role admin`."
        raise NotFound("There is no tenant yet.", where="--tenant", remediation=mend)
    raise BadInput(
        "Which tenant is meant is not clear.",
        where="--tenant",
        remediation=f"Name one of: {', '.join(one.slug for one in tenants)}.",
    )


def add_member(*, actor: Actor, username: str, role: str, extra_verbs: list[str] | None = None) -> dict[str, Any]:
    """Give an existing user a role here, or change it; returns {membership_id, user, role, extra_verbs, created}.

    Raises PermissionDenied, NotFound, BadInput, Conflict (the last admin). Verb ``member.manage``.
    """
    authorize(actor, v.MEMBER_MANAGE)
    verbs_of_role(role)
    extra = check_scope(extra_verbs) if extra_verbs else []
    user_id = _user_id(username)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("insert_membership", (uuid7(), tx.tenant_id, user_id, role, orjson.dumps(extra).decode()))
        created = row is not None
        if row is None:
            row = tx.one("membership_of_user", (user_id,))
            assert row is not None
            if row[1] == "admin" and role != "admin":
                _keep_an_admin(tx, row[0])
            tx.send("update_membership", (role, orjson.dumps(extra).decode(), row[0]))
        audit.record(
            tx,
            actor=actor,
            verb=v.MEMBER_MANAGE,
            subject_kind="membership",
            subject_id=row[0],
            result="added" if created else "changed",
            details={"user": username, "role": role, "extra_verbs": extra},
        )
    answer = {"membership_id": str(row[0]), "user": username, "role": role, "extra_verbs": extra}
    return {**answer, "created": created}


def end_membership(*, actor: Actor, membership_id: uuid.UUID) -> dict[str, Any]:
    """End a membership, and with it the tokens that act through it. Raises NotFound, Conflict (the last admin)."""
    authorize(actor, v.MEMBER_MANAGE)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("membership_by_id", (membership_id,))
        if row is None:
            raise NotFound("There is no membership of that id in this tenant.")
        if row[3] is None:
            if row[2] == "admin":
                _keep_an_admin(tx, row[0])
            tx.send("end_membership", (membership_id,))
            audit.record(
                tx,
                actor=actor,
                verb=v.MEMBER_MANAGE,
                subject_kind="membership",
                subject_id=membership_id,
                result="ended",
                details={"user_id": row[1]},
            )
    return {"membership_id": str(membership_id), "ended": True}


def _keep_an_admin(tx: Any, membership_id: uuid.UUID) -> None:
    if not tx.rows("other_admins", (membership_id,)):
        raise Conflict("This is the last admin of the tenant.", remediation="Make somebody else an admin first.")


def _user_id(username: str) -> int:
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.filter(username=username).only("pk").first() if "\x00" not in username else None
    if user is None:
        raise NotFound(
            f"There is no user {username[:80]!r}.",
            where="/user",
            remediation="Create the user first: `manage.py createsuperuser` or your sign-in system.",
        )
    return user.pk
