"""Rows that stand before any test: users, tenants, memberships. Everything else is made through actions."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User

from runtime.kernel.ids import uuid7
from runtime.models import Membership, Tenant
from runtime.store.tx import tenant_tx


def make_tenant(slug: str | None = None) -> Tenant:
    """Create a tenant through the owner, as the set-up command does."""
    tenant_id = uuid7()
    slug = slug or f"t-{tenant_id.hex[-12:]}"
    with tenant_tx(tenant_id, using="owner"):
        return Tenant.objects.using("owner").create(id=tenant_id, slug=slug, name=slug)


def make_user(name: str | None = None, password: str | None = None) -> User:
    """Create a user; without a password they cannot sign in with one."""
    name = name or f"u-{uuid.uuid4().hex[:12]}"
    return User.objects.db_manager("owner").create_user(username=name, password=password)


def make_member(tenant: Tenant, role: str, user: User | None = None) -> User:
    """Give a user (a new one by default) ``role`` in ``tenant``."""
    user = user or make_user()
    with tenant_tx(tenant.id, using="owner"):
        Membership.objects.using("owner").create(tenant=tenant, user=user, role=role)
    return user
