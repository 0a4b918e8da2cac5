"""A signed-in person changes their own password: asked for the old one, told in the audit, signed out elsewhere."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.test import Client

from runtime.actions.passwords import change_own_password
from runtime.kernel.errors import PermissionDenied
from runtime.models import AuditEntry
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.factories import make_member, make_user
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("A10.1", "A10.3"), pytest.mark.django_db(transaction=True)]
OLD, NEW = "correct horse battery", "a staple of another kind"


@pytest.fixture
def user(tenant) -> Any:
    return make_member(tenant, "viewer", make_user(password=OLD))


def signed_in(user: Any, password: str = OLD, **more: Any) -> Client:
    client = Client(**more)
    assert client.post("/sign-in/", {"username": user.username, "password": password}).status_code == 302
    return client


def told(tenant: Any) -> list[tuple[str, str, str]]:
    with tenant_tx(tenant.id):
        entries = AuditEntry.objects.filter(verb="password.change").order_by("number")
        return list(entries.values_list("actor", "subject_id", "result"))


def words(tenant: Any, **more: str) -> dict[str, str]:
    return {"old_password": OLD, "new_password1": NEW, "new_password2": NEW, "shown_tenant": tenant.slug, **more}


def test_a_changed_password_ends_every_other_session(tenant, other_tenant, user):
    make_member(other_tenant, "viewer", user)
    here, there = signed_in(user), signed_in(user)
    assert "Change your password" in here.get("/now/").content.decode(), "the menu leads to it"
    slug = next(
        one for one in (tenant, other_tenant) if f"<small>{one.slug}</small>" in here.get("/now/").content.decode()
    )
    answer = here.post("/password/", words(slug), follow=True)
    assert "Your password was changed." in answer.content.decode()
    assert here.get("/now/").status_code == 200
    assert there.get("/now/").status_code == 302, "signed out"
    assert Client().post("/sign-in/", {"username": user.username, "password": OLD}).status_code == 400
    signed_in(user, NEW)
    for one in (tenant, other_tenant):
        assert told(one) == [(f"user:{user.username}", user.username, "changed")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"old_password": "not it"},
        {"new_password1": "1234", "new_password2": "1234"},
        {"new_password1": "password", "new_password2": "password"},
        {"new_password2": "something else"},
        {"new_password1": "a\x00b", "new_password2": "a\x00b"},
    ],
    ids=["another's", "short", "common", "two", "nul"],
)
def test_what_is_wrong_changes_nothing_and_is_in_the_audit(tenant, user, wrong):
    client = signed_in(user)
    answer = client.post("/password/", words(tenant, **wrong))
    assert answer.status_code == 400
    page = unescape(answer.content.decode())
    assert "Nothing was changed." in page
    assert OLD not in page
    assert told(tenant) == [(f"user:{user.username}", user.username, "refused")]
    signed_in(user)


def test_it_needs_a_sign_in_and_a_form_of_ours(tenant, user):
    assert Client().get("/password/")["Location"].startswith("/sign-in/")
    assert signed_in(user).post("/password/", {**words(tenant), "shown_tenant": ""}).status_code == 400
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post("/password/", words(tenant)).status_code == 403
    assert told(tenant) == []


def test_nobody_changes_anothers(tenant, user):
    with pytest.raises(PermissionDenied):
        change_own_password(actor=member(tenant, "admin"), user=user, password=NEW)
    signed_in(user)


def test_it_speaks_chinese(tenant):
    reader = Reader(tenant, "viewer")
    reader.client.cookies["django_language"] = "zh-hans"
    page = reader.get("/password/")
    assert "旧密码" in page
    assert 'name="new_password2"' in page
