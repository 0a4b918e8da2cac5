"""Credentials: tokens and sessions, their tenant, scope and end; CSRF; what is answered without any."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.test import Client

from tests.support.api import Caller, caller, problem
from tests.support.factories import make_member, make_user
from tests.support.race import together

pytestmark = [pytest.mark.req("A10.1", "A10.2"), pytest.mark.django_db(transaction=True)]

ENDPOINTS = ["tasks/", "runs/", "search/?q=abc", "workflows/", "tools/", "workers/", "audit/", "tokens/", "members/"]


@pytest.mark.parametrize("path", ENDPOINTS)
def test_nothing_is_answered_without_a_credential(tenant, path):
    answer = Caller(None, tenant).get(path)
    problem(answer, 401, "not_authenticated")
    assert answer["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YTpi", "Bearer qd_nope", "Bearer \u00e4", "qd_x"])
def test_a_wrong_authorization_header(tenant, header):
    problem(Caller(None, tenant).get("runs/", Authorization=header), 401, "not_authenticated")


@pytest.mark.parametrize("path", ENDPOINTS)
def test_an_admin_reads_every_list(admin, path):
    assert admin.get(path).status_code == 200


def test_an_expired_token(tenant, clock):
    viewer = caller(tenant, "viewer")
    assert viewer.get("runs/").status_code == 200
    clock.advance(timedelta(days=1, minutes=1))
    assert "expired" in problem(viewer.get("runs/"), 401)["detail"]


def test_a_scope_narrows(admin, tenant):
    narrow = caller(tenant, "admin", ["run.read"])
    assert narrow.get("runs/").status_code == 200
    body = problem(narrow.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}}), 403, "permission_denied")
    assert body["verb"] == "task.submit"


def test_a_denied_write_is_audited_and_nothing_else_is_written(admin, tenant):
    viewer = caller(tenant, "viewer")
    problem(viewer.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}}), 403)
    entry = admin.get("audit/?result=denied").json()["items"][0]
    assert (entry["verb"], entry["actor"]) == ("task.submit", viewer.actor.label)
    assert admin.get("tasks/").json()["items"] == []


def test_a_signed_in_user_reads_and_needs_csrf_to_write(admin, tenant):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_member(tenant, "admin"))
    assert browser.get("/api/v1/runs/").status_code == 200
    body = {"workflow": "parcel", "input": {"order_id": "1"}}
    refused = browser.post("/api/v1/tasks/", body, content_type="application/json")
    assert "CSRF" in problem(refused, 403)["remediation"]
    browser.cookies["csrftoken"] = "a" * 32
    sent = browser.post("/api/v1/tasks/", body, content_type="application/json", headers={"X-CSRFToken": "a" * 32})
    assert sent.status_code == 202, sent.content


def test_a_member_of_two_tenants_names_one_of_theirs(tenant, other_tenant):
    user = make_member(tenant, "viewer")
    make_member(other_tenant, "viewer", user)
    browser = Client()
    browser.force_login(user)
    body = problem(browser.get("/api/v1/runs/"), 400)
    assert body["where"] == "header X-Quarterdeck-Tenant"
    assert tenant.slug in body["remediation"]
    for one in (tenant, other_tenant):
        assert browser.get("/api/v1/runs/", headers={"X-Quarterdeck-Tenant": one.slug}).status_code == 200
    problem(browser.get("/api/v1/runs/", headers={"X-Quarterdeck-Tenant": "elsewhere"}), 403)


def test_a_token_does_not_leave_its_tenant_by_a_header(admin, other_tenant):
    task = admin.submit()["task_id"]
    answer = admin.get(f"tasks/{task}/", X_Quarterdeck_Tenant=other_tenant.slug)
    assert answer.status_code == 200


def test_a_user_without_membership(db):
    browser = Client()
    browser.force_login(make_user())
    problem(browser.get("/api/v1/runs/"), 403)


def test_a_token_under_an_id_of_its_own_is_issued_once(admin, tenant, other_tenant):
    given = str(uuid.uuid4())
    made = admin.post("tokens/", {"name": "ci", "token_id": given})
    assert (made.status_code, made.json()["token_id"]) == (201, given)
    for one in (admin, caller(tenant), caller(other_tenant)):
        told = problem(one.post("tokens/", {"name": "ci", "token_id": given}), 409, "already_issued")
        assert (told["where"], told["token_id"], "qd_" in str(told)) == ("/token_id", given, False)
    assert [one["name"] for one in admin.get("tokens/").json()["items"]].count("ci") == 1
    assert Caller(made.json()["token"], tenant).get("runs/").status_code == 200
    assert problem(admin.post("tokens/", {"token_id": "mine"}), 400)["where"] == "/token_id"
    another = str(uuid.uuid4())
    answers = together(*[lambda: admin.post("tokens/", {"token_id": another}).status_code] * 4)
    assert sorted(answers) == [201, 409, 409, 409]


@pytest.mark.parametrize("sign", ["%00", "%EF%BF%BF", "%ED%A0%80", "%0A"])
def test_a_denial_is_audited_whatever_its_address_holds(admin, tenant, sign):
    viewer = caller(tenant, "viewer")
    problem(viewer.post(f"approvals/a{sign}b/consume/", {}), 403)
    (entry,) = admin.get("audit/?result=denied").json()["items"]
    assert (entry["actor"], entry["verb"]) == (viewer.actor.label, "approval.ask")
    assert entry["subject_id"].startswith("/api/v1/approvals/a")
    assert "\x00" not in entry["subject_id"]
    if sign == "%00":
        assert entry["subject_id"] == "/api/v1/approvals/a\\x00b/consume/"


def test_a_form_that_cannot_be_read_is_a_problem_for_a_signed_in_program(admin, tenant):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_member(tenant, "admin"))
    browser.cookies["csrftoken"] = "a" * 32
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=" + "x" * 300):
        told = problem(browser.generic("POST", "/api/v1/tasks/", b"--x\r\n", content_type=content_type), 400)
        assert (told["where"], told["instance"]) == ("body", "/api/v1/tasks/")


def test_issuing_and_revoking_a_token(admin, tenant):
    viewer = caller(tenant, "viewer")
    issued = viewer.post("tokens/", {"name": "ci", "verbs": ["run.read"], "days": 2})
    assert issued.status_code == 201, issued.content
    body = issued.json()
    assert body["token"].startswith("qd_")
    fresh = Caller(body["token"], tenant)
    assert fresh.get("runs/").status_code == 200
    problem(fresh.post("tokens/", {}), 403)
    narrow = caller(tenant, "viewer", ["run.read", "token.issue"])
    child = narrow.post("tokens/", {})
    assert child.json()["verbs"] == ["run.read", "token.issue"]
    problem(narrow.post("tokens/", {"verbs": ["task.read"]}), 403)
    listed = viewer.get("tokens/").json()["items"]
    assert {one["user"] for one in listed} == {viewer.actor.name}
    assert body["token"] not in str(listed)
    assert viewer.send("DELETE", f"tokens/{body['token_id']}/").status_code == 200
    problem(fresh.get("runs/"), 401)


def test_a_viewer_does_not_see_or_revoke_the_tokens_of_others(admin, tenant):
    viewer = caller(tenant, "viewer")
    others = [one["id"] for one in admin.get("tokens/").json()["items"] if one["user"] != viewer.actor.name]
    problem(viewer.send("DELETE", f"tokens/{others[0]}/"), 404)
    problem(viewer.post("tokens/", {"user": admin.actor.name, "verbs": ["run.read"]}), 403)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"verbs": ["run.explode"]}, "/verbs/0"),
        ({"verbs": []}, "/verbs"),
        ({"days": 0}, "/days"),
        ({"days": 100000}, "/days"),
        ({"days": "2"}, "/days"),
        ({"admin": True}, "/"),
    ],
)
def test_a_wrong_token_request_names_the_place(admin, body, where):
    assert problem(admin.post("tokens/", body), 400)["where"] == where


def test_members(admin, tenant):
    user = make_user()
    added = admin.post("members/", {"user": user.username, "role": "viewer"})
    assert (added.status_code, added.json()["created"]) == (201, True)
    changed = admin.post("members/", {"user": user.username, "role": "oncall"})
    assert (changed.status_code, changed.json()["created"]) == (200, False)
    listed = {one["username"]: one["role"] for one in admin.get("members/").json()["items"]}
    assert listed[user.username] == "oncall"
    assert admin.send("DELETE", f"members/{added.json()['membership_id']}/").status_code == 200
    assert user.username not in {one["username"] for one in admin.get("members/").json()["items"]}


def test_the_last_admin_stays(admin):
    own = next(one for one in admin.get("members/").json()["items"] if one["username"] == admin.actor.name)
    problem(admin.send("DELETE", f"members/{own['id']}/"), 409)
    problem(admin.post("members/", {"user": admin.actor.name, "role": "viewer"}), 409)
