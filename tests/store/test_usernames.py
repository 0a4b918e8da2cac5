"""A member's user name is what the record calls them by: it never passes to somebody else."""

from __future__ import annotations

import psycopg
import pytest

from runtime.actions.tenants import end_membership
from runtime.models import Membership
from runtime.store.tx import tenant_tx
from tests.support import actors
from tests.support.factories import make_member, make_user

pytestmark = [pytest.mark.req("C5.3", "C8.5"), pytest.mark.django_db(transaction=True)]


def renamed(database, user, role):
    """Try to rename a user as somebody with the database open could; returns the SQLSTATE, or ``renamed``."""
    with database.connect(role) as connection:
        try:
            connection.execute("UPDATE auth_user SET username = username || '-x' WHERE id = %s", [user.pk])
        except psycopg.Error as problem:
            return problem.sqlstate
    return "renamed"


@pytest.mark.parametrize("role", [None, "qd_web"])
def test_the_name_of_a_member_stays_theirs(test_database, tenant, role):
    member, stranger = make_member(tenant, "approver"), make_user()
    assert renamed(test_database, member, role) == "QD003"
    assert renamed(test_database, stranger, role) == "renamed"


def test_the_name_of_who_left_is_nobody_elses_either(test_database, tenant):
    member = make_member(tenant, "approver")
    with tenant_tx(tenant.id):
        membership = Membership.objects.get(user=member)
    end_membership(actor=actors.member(tenant, "admin"), membership_id=membership.id)
    assert renamed(test_database, member, None) == "QD003"
    # What else is written of a person goes on: a password, the time of a sign-in, another address.
    member.email = "new@example.com"
    member.save()


def test_who_is_named_in_the_record_is_not_deleted(test_database, tenant):
    member = make_member(tenant, "approver")
    with test_database.connect() as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute("DELETE FROM auth_user WHERE id = %s", [member.pk])
