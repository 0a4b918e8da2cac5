"""Signing in, choosing a tenant, and what a reader sets for themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from runtime.models import AuditEntry
from runtime.store.tx import tenant_tx
from tests.support.factories import make_member, make_user
from tests.support.pages import Reader

PASSWORD = "correct horse battery"


def audit_of(tenant: Any) -> list[AuditEntry]:
    with tenant_tx(tenant.id):
        return list(AuditEntry.objects.order_by("number"))


def test_sign_in_goes_on_to_where_one_wanted_to_be(tenant):
    user = make_member(tenant, "viewer", make_user(password=PASSWORD))
    client = Client()
    wrong = client.post("/sign-in/", {"username": user.username, "password": "wrong", "next": "/runs/"})
    assert wrong.status_code == 400
    assert "Nothing was signed in." in wrong.content.decode()
    right = client.post("/sign-in/", {"username": user.username, "password": PASSWORD, "next": "/runs/?status=failed"})
    assert right["Location"] == "/runs/?status=failed"
    assert client.get("/now/").status_code == 200
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/now/").status_code == 302


@pytest.mark.req("A10.1", "A10.3")
def test_too_many_failed_sign_ins_lock_the_name_for_a_while(tenant):
    user = make_member(tenant, "viewer", make_user(password=PASSWORD))

    def attempt(password: str, address: str = "203.0.113.7") -> HttpResponse:
        words = {"username": user.username, "password": password}
        return Client(REMOTE_ADDR=address).post("/sign-in/", words)

    assert [attempt("wrong").status_code for _ in range(4)] == [400] * 4
    locked = attempt("wrong")
    assert (locked.status_code, locked["Retry-After"]) == (429, "900")
    assert "try again in 15 minutes" in locked.content.decode()
    # The right password is not even looked at, and nothing more is written down.
    assert attempt(PASSWORD).status_code == 429
    # Who comes from elsewhere is not shut out by it.
    assert attempt(PASSWORD, "203.0.113.8").status_code == 302
    entries = [(one.result, one.verb, one.subject_id) for one in audit_of(tenant)]
    wanted = [("refused", "session.begin", user.username)] * 4 + [("locked", "session.begin", user.username)]
    assert entries == wanted
    AccessAttempt.objects.using("owner").filter(username=user.username).update(
        attempt_time=timezone.now() - timedelta(minutes=16)
    )
    assert attempt(PASSWORD).status_code == 302


def test_a_name_that_nobody_has_is_locked_alike(tenant):
    tried = [Client().post("/sign-in/", {"username": "nobody-here", "password": "x"}).status_code for _ in range(6)]
    assert tried == [400, 400, 400, 400, 429, 429]
    assert audit_of(tenant) == []


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_no_sign_in_leads_elsewhere(tenant, target):
    user = make_member(tenant, "viewer", make_user(password=PASSWORD))
    answer = Client().post("/sign-in/", {"username": user.username, "password": PASSWORD, "next": target})
    assert answer["Location"].startswith("/")
    assert "evil" not in answer["Location"].split("?")[0].lstrip("/").split("/")[0]


def test_a_name_that_no_database_stores_is_refused(db):
    answer = Client().post("/sign-in/", {"username": "a\x00b", "password": "x"})
    assert answer.status_code == 400


def test_a_member_of_two_tenants_chooses_one(tenant, other_tenant):
    reader = Reader(tenant, "admin")
    make_member(other_tenant, "viewer", reader.user)
    for one in (tenant, other_tenant, tenant):
        reader.post("/preferences/", {"tenant": one.slug, "next": "/now/"})
        assert f"<small>{one.slug}</small>" in reader.get("/now/")
    reader.post("/preferences/", {"tenant": "no-such-tenant", "next": "/now/"})
    assert f"<small>{tenant.slug}</small>" in reader.get("/now/")


def test_who_belongs_nowhere_is_told_so(db):
    client = Client()
    client.force_login(make_user())
    answer = client.get("/now/")
    assert answer.status_code == 403
    assert "belongs to no such tenant" in answer.content.decode()


def test_theme_zone_and_language_are_kept(tenant):
    reader = Reader(tenant, "viewer")
    reader.post("/preferences/", {"theme": "dark", "next": "/now/"})
    reader.post("/preferences/", {"zone": "Asia/Shanghai", "next": "/now/"})
    reader.post("/preferences/", {"language": "zh-hans", "next": "/now/"})
    page = reader.get("/now/")
    assert 'data-theme="dark"' in page
    assert "Asia/Shanghai" in page
    assert 'lang="zh-hans"' in page
    assert "待办" in page
    for wrong in ({"theme": "neon"}, {"zone": "Mars/Olympus"}, {"zone": "../../etc/passwd"}, {"language": "xx"}):
        reader.post("/preferences/", {**wrong, "next": "/now/"})
    assert reader.get("/now/").count('data-theme="dark"') == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "Etc/GMT+5"])
def test_the_clock_says_in_which_zone_it_goes(tenant, zone):
    reader = Reader(tenant, "viewer")
    reader.post("/preferences/", {"zone": zone, "next": "/now/"})
    assert f'data-zone="{zone}">' in reader.get("/now/")


def test_a_session_that_ended_sends_htmx_to_sign_in(tenant):
    client = Client()
    answer = client.get("/runs/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/runs/?q=a"})
    assert answer.status_code == 204
    assert answer["HX-Redirect"] == "/sign-in/?next=%2Fruns%2F%3Fq%3Da"
    refused = client.post("/stops/", {}, headers={"HX-Request": "true"})
    assert refused.status_code == 401
