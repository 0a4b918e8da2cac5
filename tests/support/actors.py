"""Personas: who acts in a test. Each is a real membership; verbs come from the role, as for a signed-in person."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.kernel.actor import Actor, engine
from runtime.models import Tenant
from tests.support.factories import make_member


def member(tenant: Tenant, role: str) -> Actor:
    """Return a new user with ``role`` in ``tenant``."""
    from runtime.access.roles import verbs_of_role

    user = make_member(tenant, role)
    return Actor(
        kind="user", name=user.username, tenant_id=tenant.id, verbs=frozenset(verbs_of_role(role)), user_id=user.pk
    )


def outsider(tenant: Tenant, verbs: Iterable[str] = ()) -> Actor:
    """Return somebody of ``tenant`` without membership: only the ``verbs`` given, by default none."""
    return Actor(kind="user", name="outsider", tenant_id=tenant.id, verbs=frozenset(verbs))


def the_engine(tenant: Tenant) -> Actor:
    """Return the engine acting in ``tenant``."""
    return engine(tenant.id)
