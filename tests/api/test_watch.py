"""stops/ and alerts/ over HTTP, and `manage.py stop`."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.support.api import caller, problem

pytestmark = [pytest.mark.req("C6.1", "A9.9"), pytest.mark.django_db(transaction=True)]


def test_set_list_and_lift_a_stop(tenant, clock):
    oncall = caller(tenant, "oncall")
    until = (clock.now() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    body = {"scope": "tool", "name": "shop.refund", "reason": "it pays twice", "until": until}
    made = oncall.post("stops/", body)
    assert made.status_code == 201, made.content
    (listed,) = oncall.get("stops/?standing=1").json()["items"]
    assert (listed["id"], listed["name"], listed["standing"]) == (made.json()["stop_id"], "shop.refund", True)
    assert oncall.get(f"stops/{listed['id']}/").json() == listed
    assert oncall.post(f"stops/{listed['id']}/lift/", {"reason": "mended"}).json()["lifted"] is True
    assert oncall.post(f"stops/{listed['id']}/lift/").status_code == 200
    assert oncall.get("stops/?standing=true").json()["items"] == []


def test_what_is_refused(tenant, other_tenant):
    oncall = caller(tenant, "oncall")
    assert "reason" in problem(oncall.post("stops/", {"scope": "tool", "name": "x"}), 400)["detail"]
    assert problem(oncall.post("stops/", {"scope": "tool", "reason": "x"}), 400)["where"] == "/name"
    assert problem(oncall.post("stops/", {"scope": "tenant", "reason": "x", "until": "soon"}), 400)["where"] == "/until"
    problem(oncall.post("stops/", {"scope": "global", "reason": "x"}), 403)
    problem(caller(tenant, "viewer").post("stops/", {"scope": "tenant", "reason": "x"}), 403)
    made = oncall.post("stops/", {"scope": "tenant", "reason": "x"}).json()
    problem(caller(other_tenant, "admin").post(f"stops/{made['stop_id']}/lift/"), 404)
    problem(caller(other_tenant, "admin").get(f"stops/{made['stop_id']}/"), 404)


def test_targets_are_an_admins(tenant, other_tenant):
    admin = caller(tenant, "admin")
    made = admin.post("alerts/targets/", {"kind": "mail", "address": "ops@acme.example", "rules": ["queue_old"]})
    assert (made.status_code, made.json()["secret"]) == (201, None)
    problem(admin.post("alerts/targets/", {"kind": "mail", "address": "ops@acme.example"}), 409)
    (target,) = admin.get("alerts/targets/").json()["items"]
    assert (target["address"], target["rules"]) == ("ops@acme.example", ["queue_old"])
    problem(caller(other_tenant, "admin").send("DELETE", f"alerts/targets/{target['id']}/"), 404)
    problem(caller(tenant, "oncall").get("alerts/targets/"), 403)
    assert admin.send("DELETE", f"alerts/targets/{target['id']}/").status_code == 200
    assert admin.get("alerts/targets/").json()["items"] == []


@pytest.mark.parametrize(
    "address",
    ["https://elsewhere.example/x", "http://example.com/", "ftp://example.com", "https://169.254.169.254/", "nowhere"],
)
@pytest.mark.req("C7.4")
def test_webhooks_go_to_the_allow_list_only(tenant, address):
    told = problem(caller(tenant, "admin").post("alerts/targets/", {"kind": "webhook", "address": address}), 400)
    assert told["where"] == "/address"


def test_alerts_are_listed_to_everybody(tenant):
    assert caller(tenant, "viewer").get("alerts/?state=all&count=1").json()["count"] == 0
    problem(caller(tenant, "viewer").get("alerts/?state=new"), 400)


@pytest.mark.usefixtures("fresh_db")  # a stop of everybody is listed to everybody
def test_the_command(tenant):
    def stop(*words: str) -> list[dict]:
        out = StringIO()
        call_command("stop", *words, "--tenant", tenant.slug, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    (made,) = stop("set", "workflow", "refund", "--reason", "wrong prices", "--minutes", "5")
    (listed,) = stop("list", "--standing")
    assert (listed["id"], listed["reason"], listed["until"] is not None) == (made["stop_id"], "wrong prices", True)
    assert stop("lift", made["stop_id"])[0]["lifted"] is True
    assert stop("list", "--standing") == []
    (everywhere,) = stop("set", "global", "--reason", "fire")
    assert stop("lift", everywhere["stop_id"])[0]["scope"] == "global"


def test_a_stop_that_stands_is_answered_with_itself_or_named(tenant):
    oncall, admin = caller(tenant, "oncall"), caller(tenant, "admin")
    body = {"scope": "tool", "name": "shop.refund", "reason": "books twice"}
    made, again = oncall.post("stops/", body), oncall.post("stops/", body)
    assert (made.status_code, again.status_code) == (201, 200)
    assert (again.json()["stop_id"], again.json()["replayed"]) == (made.json()["stop_id"], True)
    told = problem(admin.post("stops/", {**body, "reason": "mine"}), 409, "stop_stands")
    assert told["standing"]["stop_id"] == made.json()["stop_id"]
    assert admin.get(told["standing"]["address"].removeprefix("/api/v1/")).json()["standing"] is True
    assert problem(admin.post("stops/", {**body, "replaces": "that one"}), 400)["where"] == "/replaces"
    second = admin.post("stops/", {**body, "reason": "mine", "replaces": made.json()["stop_id"]})
    assert second.status_code == 201
    admin.post("stops/", {"scope": "tenant", "reason": "x"})
    lifted = oncall.post(f"stops/{second.json()['stop_id']}/lift/").json()
    assert [one["scope"] for one in lifted["still"]] == ["tenant"]


def test_the_command_says_which_stop_stands(tenant):
    out, err = StringIO(), StringIO()
    words = ("stop", "set", "tool", "shop.refund", "--tenant", tenant.slug)
    call_command(*words, "--reason", "books twice", stdout=out)
    made = json.loads(out.getvalue())
    with suppress(SystemExit, CommandError):
        call_command(*words, "--reason", "another", stdout=out, stderr=err)
    assert json.loads(err.getvalue())["standing"]["stop_id"] == made["stop_id"]
    out.truncate(0)
    out.seek(0)
    call_command(*words, "--reason", "another", "--replaces", made["stop_id"], stdout=out)
    assert json.loads(out.getvalue())["replayed"] is False
