"""The page of webhooks: added, given a new secret and taken away; a secret is shown on one answer."""

from __future__ import annotations

import re

import pytest

from runtime.kernel.conf import conf
from tests.support.api import caller, problem
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C7.6"), pytest.mark.django_db(transaction=True)]
URL = "https://hooks.example/quarterdeck"


@pytest.fixture(autouse=True)
def allowed(settings):
    """Let webhooks go to one host."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "webhook_hosts": ("hooks.example",)}
    conf.cache_clear()
    yield
    settings.QUARTERDECK = {}
    conf.cache_clear()


def secret_in(answer):
    return re.search(r'id="new-secret">(whsec_[^<]+)<', answer.content.decode())


def test_a_hook_is_added_its_secret_shown_once_exchanged_and_removed(tenant):
    reader = Reader(tenant, "admin")
    made = reader.post("/webhooks/", {"url": URL, "format": "standard", "events": ["asked"]}, 200)
    first = secret_in(made)
    assert first
    page = reader.get("/webhooks/")
    assert URL in page
    assert "whsec_" not in page
    (rotate,) = re.findall(r'action="(/webhooks/[0-9a-f-]+/rotate/)"', page)
    assert 'name="expected_version" value="1"' in page
    second = secret_in(reader.post(rotate, {"expected_version": "1"}, 200))
    assert second
    assert second[1] != first[1]
    assert 'name="expected_version" value="2"' in reader.get("/webhooks/")
    reader.post(rotate.replace("rotate", "remove"), {}, 302)
    assert URL not in reader.get("/webhooks/")


def test_two_clicks_make_one_secret_and_an_old_page_makes_none(tenant):
    reader = Reader(tenant, "admin")
    reader.post("/webhooks/", {"url": URL, "format": "standard"}, 200)
    (rotate,) = re.findall(r'action="(/webhooks/[0-9a-f-]+/rotate/)"', reader.get("/webhooks/"))
    clicks = [secret_in(reader.post(rotate, {"expected_version": "1"}, 200))[1] for _ in range(2)]
    assert clicks[0] == clicks[1]
    for shown in ({"expected_version": "1", "now": "1"}, {"expected_version": "9"}, {"expected_version": "x"}, {}):
        answer = reader.post(rotate, shown, 409)
        assert "No new secret was made." in answer.content.decode()
        assert secret_in(answer) is None
    assert secret_in(Reader(tenant, "admin").post(rotate, {"expected_version": "1"}, 409)) is None
    assert 'name="expected_version" value="2"' in reader.get("/webhooks/")


def test_a_host_that_is_not_allowed_is_told_and_kept_out(tenant):
    reader = Reader(tenant, "admin")
    answer = reader.post("/webhooks/", {"url": "https://elsewhere.example/", "format": "standard"}, 400)
    assert "QUARTERDECK_WEBHOOK_HOSTS" in answer.content.decode()
    assert "There are no webhooks" in reader.get("/webhooks/")


def test_only_who_manages_notices_sees_it(tenant):
    Reader(tenant, "approver").get("/webhooks/", 403)


def test_the_api_tells_a_secret_once_as_well(tenant):
    admin = caller(tenant, "admin")
    made = admin.post("approvals/hooks/", {"url": URL, "events": ["asked", "approved"]})
    assert made.status_code == 201
    assert made.json()["secret"].startswith("whsec_")
    (listed,) = admin.get("approvals/hooks/").json()["items"]
    assert (listed["url"], listed["events"], "secret" in listed) == (URL, ["approved", "asked"], False)
    path = f"approvals/hooks/{listed['hook_id']}/"
    assert made.json()["secret_version"] == listed["secret_version"] == 1
    problem(admin.post(f"{path}rotate/", {"overlap_s": 60}), 400)
    once, again = (admin.post(f"{path}rotate/", {"expected_version": 1, "overlap_s": 60}).json() for _ in range(2))
    assert once == again
    assert (once["secret"] != made.json()["secret"], once["secret_version"]) == (True, 2)
    stale = problem(admin.post(f"{path}rotate/", {"expected_version": 1}), 409)
    assert (stale["code"], stale["current_version"]) == ("stale", 2)
    assert admin.send("DELETE", path).status_code == 200
    assert admin.get("approvals/hooks/").json()["items"] == []
    told = problem(admin.post("approvals/hooks/", {"url": URL, "events": ["opened"]}), 400)
    assert told["where"].startswith("/events")
    problem(caller(tenant, "viewer").get("approvals/hooks/"), 403)


def test_a_tenant_has_so_many_hooks_and_no_more(tenant, monkeypatch):
    monkeypatch.setattr("approvals.actions.hooks.MOST_HOOKS", 2)
    admin, reader = caller(tenant, "admin"), Reader(tenant, "admin")
    first = admin.post("approvals/hooks/", {"url": f"{URL}/1"}).json()
    assert admin.post("approvals/hooks/", {"url": f"{URL}/2"}).status_code == 201
    told = problem(admin.post("approvals/hooks/", {"url": f"{URL}/3"}), 409)
    assert "at most 2 webhooks" in told["detail"]
    answer = reader.post("/webhooks/", {"url": f"{URL}/3", "format": "standard"}, 409)
    assert "at most 2 webhooks" in answer.content.decode()
    assert len(admin.get("approvals/hooks/").json()["items"]) == 2
    admin.send("DELETE", f"approvals/hooks/{first['hook_id']}/")
    assert admin.post("approvals/hooks/", {"url": f"{URL}/3"}).status_code == 201
