"""Limits, breakers and the policy over HTTP and on the command line; submits above the high-water mark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from runtime.actions import admission
from runtime.kernel.conf import conf
from runtime.models import AuditEntry, Breaker, Limit, Task
from runtime.store.tx import tenant_tx
from tests.support.api import Caller, caller, problem

pytestmark = [pytest.mark.req("C2.7", "A4.2", "C6.1"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def marks(settings: Any) -> Iterator[Callable[..., None]]:
    """Set high-water marks; what was counted is forgotten."""

    def put(**fields: Any) -> None:
        settings.QUARTERDECK = {**settings.QUARTERDECK, **fields}
        conf.cache_clear()
        admission.forget()

    yield put
    settings.QUARTERDECK = {}
    conf.cache_clear()
    admission.forget()


def tasks(caller: Caller) -> int:
    with tenant_tx(caller.tenant.id):
        return Task.objects.count()


def test_a_limit_is_set_changed_listed_and_taken_away(admin):
    made = admin.post("limits/", {"scope": "tool", "name": "core.echo", "most": 4, "reason": "the shop is small"})
    assert made.status_code == 201
    changed = admin.post("limits/", {"scope": "tool", "name": "core.echo", "calls": 10, "per_s": 1})
    assert changed.json()["limit_id"] == made.json()["limit_id"]
    (listed,) = admin.get("limits/").json()["items"]
    assert (listed["most"], listed["calls"], listed["per_s"], listed["used"], listed["waiting"]) == (
        None,
        10,
        1.0,
        0,
        0,
    )
    assert admin.send("DELETE", f"limits/{listed['id']}/").json() == {"limit_id": listed["id"], "removed": True}
    assert admin.get("limits/").json()["items"] == []
    with tenant_tx(admin.tenant.id):
        assert AuditEntry.objects.filter(verb="limit.set").count() == 3


def test_a_limit_is_changed_only_in_the_version_that_was_shown(admin):
    """A change that quotes no version changes whatever stands, as programs that own their limits do."""
    body = {"scope": "tool", "name": "core.echo", "most": 4}
    made = admin.post("limits/", {**body, "expected_version": 0}).json()
    assert made["version"] == 1
    found = problem(admin.post("limits/", {**body, "most": 5, "expected_version": 0}), 409, "stale")
    assert (found["current_version"], found["current"]["most"]) == (1, 4)
    assert admin.post("limits/", {**body, "most": 5, "expected_version": 1}).json()["version"] == 2
    assert admin.post("limits/", {**body, "most": 6}).json()["version"] == 3
    address = f"limits/{made['limit_id']}/"
    problem(admin.send("DELETE", f"{address}?expected_version=2"), 409, "stale")
    problem(admin.send("DELETE", f"{address}?expected_version=x"), 400)
    assert admin.get("limits/").json()["items"][0]["most"] == 6
    assert admin.send("DELETE", f"{address}?expected_version=3").json()["removed"] is True
    found = problem(admin.post("limits/", {**body, "expected_version": 3}), 409, "stale")
    assert found["current"] is None
    assert admin.get("limits/").json()["items"] == []


@pytest.mark.req("B4.2")
def test_a_breaker_is_opened_by_hand_for_a_while(admin):
    with tenant_tx(admin.tenant.id) as tx:
        one = Breaker.objects.create(
            tenant=admin.tenant, tool="core.echo@1", error_class="timeout", failures=3, last_failure_at=tx.now()
        )
    address = f"breakers/{one.id}/open/"
    for wrong in ({}, {"reason": ""}, {"reason": "x", "seconds": 0}, {"reason": "x", "expected_state": "ajar"}):
        problem(admin.post(address, wrong), 400)
    found = problem(admin.post(address, {"reason": "x", "expected_state": "open"}), 409, "stale")
    assert found["current"]["state"] == "closed"
    problem(caller(admin.tenant, "oncall").post(address, {"reason": "x"}), 403)
    (listed,) = admin.get("breakers/").json()["items"]
    assert listed["state"] == "closed"
    done = admin.post(address, {"reason": "it answers rubbish", "seconds": 60, "expected_state": "closed"}).json()
    assert done["opened"] is True
    (listed,) = admin.get("breakers/").json()["items"]
    assert (listed["state"], listed["open_until"]) == ("open", done["open_until"])


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"scope": "planet", "most": 1}, "/scope"),
        ({"scope": "tenant", "name": "x", "most": 1}, "/name"),
        ({"scope": "tool", "most": 1}, "/name"),
        ({"scope": "tool", "name": "no tool", "most": 1}, "/name"),
        ({"scope": "tenant"}, "/most"),
        ({"scope": "tenant", "most": 0}, "/most"),
        ({"scope": "tenant", "most": "many"}, "/most"),
        ({"scope": "tenant", "most": True}, "/most"),
        ({"scope": "tenant", "calls": 5}, "/per_s"),
        ({"scope": "tenant", "calls": 5, "per_s": 0}, "/per_s"),
        ({"scope": "tenant", "most": 2**40}, "/most"),
        ({"scope": "tenant", "most": 5, "colour": "red"}, "/"),
        ({"scope": "tenant", "most": 5, "reason": "\u0000"}, "/reason"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else None,
)
def test_a_limit_that_makes_no_sense_is_refused_and_nothing_is_set(admin, body, where):
    found = problem(admin.post("limits/", body), 400)
    assert found["where"] == where
    assert found["detail"]
    with tenant_tx(admin.tenant.id):
        assert not Limit.objects.exists()


def test_only_who_may_sets_limits_and_only_operators_for_everybody(admin, stranger):
    viewer = caller(admin.tenant, "oncall")
    assert viewer.get("limits/").status_code == 200
    problem(viewer.post("limits/", {"scope": "tenant", "most": 5}), 403)
    assert problem(admin.post("limits/", {"scope": "global", "most": 5}), 403)["remediation"]
    made = admin.post("limits/", {"scope": "tenant", "most": 5}).json()
    problem(stranger.send("DELETE", f"limits/{made['limit_id']}/"), 404)
    assert stranger.get("limits/").json()["items"] == []
    problem(stranger.post(f"breakers/{made['limit_id']}/close/", {"reason": "x"}), 404)


@pytest.mark.req("C3.2")
def test_the_policy_is_read_and_set(admin):
    assert admin.get("policy/").json()["scopes"] is None
    assert admin.send("PUT", "policy/", {"data_regions": ["eu"], "scopes": None}).status_code == 200
    assert admin.get("policy/").json()["data_regions"] == ["eu"]
    problem(admin.send("PUT", "policy/", {"data_regions": "eu", "scopes": None}), 400)
    assert admin.get("policy/").json()["data_regions"] == ["eu"]


def test_a_tools_contract_makes_its_limit_and_only_a_new_version_takes_it_away(admin):
    contract = {
        "name": "shop.small", "version": 1, "adapter": "http", "config": {"url": "https://shop.example/x"},
        "targets": ["shop.example"], "input_schema": {"type": "object"}, "side_effect": "read",
        "recovery": "replayable", "rate_limit": {"concurrency": 2},
    }  # fmt: skip
    assert admin.post("tools/", contract).status_code == 201
    (listed,) = admin.get("limits/").json()["items"]
    assert (listed["origin"], listed["name"], listed["most"]) == ("contract", "shop.small@1", 2)
    assert "contract" in problem(admin.send("DELETE", f"limits/{listed['id']}/"), 400)["detail"]
    for wrong in ({}, {"calls": 1}, {"concurrency": 0}):
        problem(admin.post("tools/", {**contract, "version": 2, "rate_limit": wrong}), 400)
    assert len(admin.get("limits/").json()["items"]) == 1


@pytest.mark.parametrize(
    "serial", ["account:{nothing}", "account:{", "{account}{", ""], ids=["unknown", "open", "half", "empty"]
)
def test_a_state_is_named_by_the_arguments_of_a_write(admin, serial):
    contract = {
        "name": "bank.pay", "version": 1, "adapter": "http", "config": {"url": "https://bank.example/pay"},
        "targets": ["bank.example"], "side_effect": "write", "recovery": "human",
        "input_schema": {"type": "object", "properties": {"account": {"type": "string"}}},
    }  # fmt: skip
    assert problem(admin.post("tools/", {**contract, "serial": serial}), 400)["where"] == "/serial"
    assert admin.post("tools/", {**contract, "serial": "account:{account}"}).status_code == 201


def test_the_command_line_does_the_same(admin):
    def run(*words: str) -> list[Any]:
        out = StringIO()
        call_command("limit", *words, "--tenant", admin.tenant.slug, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines() if line]

    (made,) = run("set", "global", "--most", "500", "--reason", "small machine")
    assert "warning" not in made
    assert [one["scope"] for one in run("list")] == ["global"]
    assert run("remove", made["limit_id"])[0]["removed"] is True
    assert run("policy", "--regions", "eu,us", "--scopes", "any") == [{"data_regions": ["eu", "us"], "scopes": None}]
    assert run("policy")[0]["data_regions"] == ["eu", "us"]


@pytest.mark.req("B4.2", "C6.1")
def test_the_command_line_lists_the_breakers_it_opens_and_closes_by_id(admin):
    def run(*words: str) -> list[Any]:
        out = StringIO()
        call_command("limit", *words, "--tenant", admin.tenant.slug, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines() if line]

    run("set", "tenant", "--most", "500")
    assert run("breakers") == []
    for kind, name in (("tool", "core.ehco"), ("workflow", "refnud")):
        wanted = f"No {kind} '{name}' is registered: nothing that runs today is limited."
        assert run("set", kind, name, "--most", "3")[0]["warning"] == wanted
        assert admin.post("limits/", {"scope": kind, "name": name, "most": 4}).json()["warning"] == wanted
    with tenant_tx(admin.tenant.id) as tx:
        Breaker.objects.create(
            tenant=admin.tenant, tool="core.echo@1", error_class="timeout", failures=3, last_failure_at=tx.now()
        )
    (listed,) = run("breakers")
    assert (listed["tool"], listed["error_class"], listed["state"]) == ("core.echo@1", "timeout", "closed")
    assert run("open", listed["id"], "--reason", "it answers rubbish")[0]["opened"] is True
    assert [one["state"] for one in run("breakers")] == ["open"]
    assert sorted(one["scope"] for one in run("list")) == ["tenant", "tool", "workflow"], "limits alone"
    assert run("close", listed["id"], "--reason", "it is well")[0]["closed"] is True


@pytest.mark.req("A4.2", "C7.2")
def test_a_full_queue_refuses_new_work_low_priority_first(admin, marks):
    for _ in range(4):
        admin.submit()
    marks(tenant_high_water=8)
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    refused = admin.post("tasks/", {**body, "priority": "experiment"})
    found = problem(refused, 503)
    assert (found["code"], found["retryable"]) == ("queue_full", True)
    assert 1 <= found["retry_after"] <= 60
    assert int(refused["Retry-After"]) >= 1
    assert tasks(admin) == 4
    for _ in range(3):
        assert admin.post("tasks/", {**body, "priority": 0}).status_code == 202
    problem(admin.post("tasks/", body), 503)
    assert admin.post("tasks/", {**body, "priority": "production_alert"}).status_code == 202
    problem(admin.post("tasks/", {**body, "priority": "production_alert"}), 503)
    assert tasks(admin) == 8


def test_a_full_queue_still_answers_what_it_has_accepted(admin, marks):
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    first = admin.post("tasks/", body, Idempotency_Key="k-1").json()
    marks(tenant_high_water=1)
    again = admin.post("tasks/", body, Idempotency_Key="k-1")
    assert (again.status_code, again.json()) == (202, {**first, "replayed": True})
    problem(admin.post("tasks/", body, Idempotency_Key="k-2"), 503)


def test_one_tenants_full_queue_is_nobody_elses(admin, stranger, marks):
    for _ in range(4):
        admin.submit()
    marks(tenant_high_water=4)
    problem(admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "W1"}}), 503)
    assert stranger.submit()["status"] == "accepted"


def test_a_full_installation_is_told_before_anything_is_read(admin, marks):
    admin.submit()
    marks(queue_high_water=1)
    for path in ("tasks/", "tasks/bulk/"):
        refused = admin.raw("POST", path, b"this is no JSON", Authorization="Bearer nobody")
        assert problem(refused, 503)["code"] == "queue_full"
    assert admin.get("tasks/").status_code == 200
    assert tasks(admin) == 1


def test_of_a_bulk_each_item_is_judged_by_its_priority(admin, marks):
    for _ in range(4):
        admin.submit()
    marks(tenant_high_water=8)
    items = [{"workflow": "parcel", "input": {"order_id": "W1"}, "priority": p} for p in ("experiment", "interactive")]
    answers = admin.post("tasks/bulk/", {"tasks": items}).json()["items"]
    assert [one.get("code") or one["status"] for one in answers] == ["queue_full", "accepted"]


@pytest.mark.parametrize("scope", [{"tools": "core.echo"}, {"scopes": [1]}], ids=["text", "number"])
def test_a_tasks_scope_has_a_form(admin, scope):
    refused = admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "W1"}, "scope": scope})
    assert problem(refused, 400)["where"].startswith("/scope/")
    assert tasks(admin) == 0
