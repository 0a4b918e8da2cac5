"""The ground the other tests stand on: roles, walls between tenants, fresh clones, the settable clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from runtime.models import Tenant
from runtime.store.tx import tenant_tx


def current(expression: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression}")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("role", ["web", "worker"])
def test_a_process_stands_in_its_role_and_sees_its_tenant_only(tenant, other_tenant, as_role, role):
    with as_role(role):
        assert current("current_user") == f"qd_{role}"
        assert Tenant.objects.count() == 0
        with tenant_tx(tenant.id):
            assert list(Tenant.objects.all()) == [tenant]
        assert Tenant.objects.count() == 0


def test_a_fresh_clone_is_another_database(tenant, fresh_db):
    assert current("current_database()") == fresh_db.name
    with fresh_db.connect("qd_web") as plain:
        assert plain.execute("SELECT count(*) FROM qd_tenant").fetchone() == (0,)
    with tenant_tx(tenant.id):
        assert Tenant.objects.get().slug == tenant.slug


def test_the_clock_moves_for_every_session(clock, db):
    then = datetime(2031, 1, 1, tzinfo=UTC)
    clock.set(then)
    clock.advance(timedelta(hours=1))
    assert timedelta(hours=1) <= current("qd_now()") - then < timedelta(hours=1, minutes=1)
    clock.reset()
    assert abs(current("qd_now()") - datetime.now(UTC)) < timedelta(minutes=1)
