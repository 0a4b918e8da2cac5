"""Submitting and reading: accepted with links, idempotent by key, redacted without the verb, found again."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.workflows import authorise_verifier
from tests.support.api import WORKFLOW, caller, problem

pytestmark = [pytest.mark.req("C2.1", "C2.2", "C6.1", "A4.1", "A4.5"), pytest.mark.django_db(transaction=True)]


def test_a_submit_is_accepted_with_links(admin):
    answer = admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "W1"}})
    body = answer.json()
    assert (answer.status_code, body["status"], body["replayed"]) == (202, "accepted", False)
    assert uuid.UUID(body["task_id"]).version == 7
    assert answer["Location"] == body["links"]["task"]
    assert admin.get(body["links"]["task"].removeprefix("/api/v1/")).json()["id"] == body["task_id"]
    run = admin.get(body["links"]["run"].removeprefix("/api/v1/")).json()
    assert (run["id"], run["workflow"], run["workflow_version"]) == (body["run_id"], "parcel", 1)
    events = admin.get(body["links"]["events"].removeprefix("/api/v1/")).json()
    assert [e["seq"] for e in events["events"]] == list(range(1, events["head_seq"] + 1))
    assert events["events"][0]["type"] == "RUN_CREATED"


@pytest.mark.req("A1.1", "A1.2", "C1.2")
def test_all_that_a_task_carries_is_kept(admin):
    more = {
        "goal": "send it",
        "name": "parcel of Ada",
        "priority": -3,
        "pool": "slow",
        "agent": "packer",
        "session": "s-1",
        "scope": {"orders": ["W1"]},
        "success": {"verifier": "arrived@1"},
        "retry": {"max_attempts": 2},
        "timeout": 90.5,
        "scheduled_at": "2040-01-01T01:00:00+01:00",
        "data_time": "2030-01-01T00:00:00Z",
        "deadline": "2041-01-01T00:00:00Z",
        "budget": {"calls": 9, "effects": 1, "limit": "10.00", "currency": "EUR"},
    }
    authorise_verifier(actor=admin.actor, name="arrived", version=1, method="human_review")
    task = admin.get(f"tasks/{admin.submit(**more)['task_id']}/").json()
    for name in set(more) - {"timeout", "scheduled_at", "deadline"}:
        assert task[name] == more[name], name
    assert task["scheduled_at"] == "2040-01-01T00:00:00Z"
    assert task["timeout_seconds"] == 90.5
    assert task["input"] == {"order_id": "W1"}
    assert task["created_by"] == admin.actor.label


def test_the_same_key_and_payload_answer_the_same_task(admin):
    body = {"workflow": "parcel", "input": {"order_id": "W1", "boxes": 2}}
    first = admin.post("tasks/", body, Idempotency_Key="k-1").json()
    again = admin.post("tasks/", {"input": {"boxes": 2, "order_id": "W1"}, "workflow": "parcel"}, Idempotency_Key="k-1")
    assert again.status_code == 202
    assert again.json() == {**first, "replayed": True}
    assert len(admin.get("tasks/").json()["items"]) == 1


def test_the_same_instant_in_another_offset_is_the_same_payload(admin):
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    first = admin.post("tasks/", {**body, "deadline": "2040-01-01T00:00:00Z"}, Idempotency_Key="k").json()
    again = admin.post("tasks/", {**body, "deadline": "2040-01-01T02:00:00+02:00"}, Idempotency_Key="k").json()
    assert again["task_id"] == first["task_id"]


def test_the_same_key_with_another_payload_is_refused(admin):
    first = admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "W1"}}, Idempotency_Key="k-1").json()
    answer = admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "W2"}}, Idempotency_Key="k-1")
    body = problem(answer, 409, "request_key_conflict")
    assert body["task_id"] == first["task_id"]
    assert len(admin.get("tasks/").json()["items"]) == 1


def test_a_key_that_is_taken_is_answered_whatever_a_new_version_asks_for(admin):
    """The answer to the first request was lost; meanwhile the workflow wants more than the request has."""
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    first = admin.post("tasks/", body, Idempotency_Key="k-1").json()
    schema = {**WORKFLOW["input_schema"], "required": ["order_id", "boxes"]}
    assert admin.post("workflows/", {**WORKFLOW, "input_schema": schema}).status_code == 201
    again = admin.post("tasks/", body, Idempotency_Key="k-1")
    assert (again.status_code, again.json()) == (202, {**first, "replayed": True})
    problem(admin.post("tasks/", {**body, "input": {"order_id": "W2"}}, Idempotency_Key="k-1"), 409)
    bulk = admin.post("tasks/bulk/", {"tasks": [{**body, "request_key": "k-1"}, {**body, "request_key": "k-2"}]}).json()
    assert (bulk["items"][0], bulk["items"][1]["code"]) == ({**first, "replayed": True}, "schema_mismatch")
    problem(admin.post("tasks/", body, Idempotency_Key="k-2"), 400, "schema_mismatch")


def test_a_key_that_is_taken_tells_nothing_to_whoever_may_not_submit(admin, tenant):
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    admin.post("tasks/", body, Idempotency_Key="k-1")
    problem(caller(tenant, "viewer").post("tasks/", body, Idempotency_Key="k-1"), 403)


def test_a_key_twice_in_one_bulk_is_one_task_with_one_run(admin):
    item = {"workflow": "parcel", "input": {"order_id": "W1"}, "request_key": "k"}
    first, second = admin.post("tasks/bulk/", {"tasks": [item, item]}).json()["items"]
    assert second == {**first, "replayed": True}
    assert admin.get(second["links"]["run"].removeprefix("/api/v1/")).json()["id"] == first["run_id"]


def test_keys_are_the_tenants_own(admin, stranger):
    body = {"workflow": "parcel", "input": {"order_id": "W1"}}
    first = admin.post("tasks/", body, Idempotency_Key="k-1").json()
    other = stranger.post("tasks/", body, Idempotency_Key="k-1").json()
    assert first["task_id"] != other["task_id"]
    assert not other["replayed"]


def test_bulk_replays_by_key(admin):
    items = [{"workflow": "parcel", "input": {"order_id": str(i)}, "request_key": f"k{i}"} for i in range(5)]
    first = admin.post("tasks/bulk/", {"tasks": items}).json()
    again = admin.post("tasks/bulk/", {"tasks": items}).json()
    assert [one["task_id"] for one in again["items"]] == [one["task_id"] for one in first["items"]]
    assert all(one["replayed"] for one in again["items"])


@pytest.mark.req("A9.8", "A1.2")
def test_contents_need_a_verb_of_their_own(admin, tenant):
    task = admin.submit("secret-order")
    step = admin.get(f"runs/{task['run_id']}/steps/").json()["items"][0]["id"]
    viewer = caller(tenant, "viewer")
    shown = viewer.get(f"tasks/{task['task_id']}/")
    assert shown.json()["redacted"] is True
    for path in (f"tasks/{task['task_id']}/", f"runs/{task['run_id']}/", f"steps/{step}/", "tasks/", "runs/"):
        assert b"secret-order" not in viewer.get(path).content, path
    assert admin.get(f"tasks/{task['task_id']}/").json()["input"] == {"order_id": "secret-order"}


def test_pages_go_through_everything_once(admin):
    ids = [admin.submit(str(i))["run_id"] for i in range(7)]
    seen, path = [], "runs/?limit=3&count=true"
    while path:
        body = admin.get(path).json()
        assert (body["count"], body["count_is"]) == (7, "exact")
        seen += [one["id"] for one in body["items"]]
        path = f"runs/?limit=3&count=true&cursor={body['next']}" if body["next"] else None
    assert seen == ids[::-1]


def test_filters(admin):
    run = admin.submit()
    admin.post("workflows/", {**WORKFLOW, "name": "other"})
    admin.post("tasks/", {"workflow": "other", "input": {"order_id": "1"}})
    assert [one["id"] for one in admin.get("runs/?workflow=parcel").json()["items"]] == [run["run_id"]]
    assert [one["id"] for one in admin.get(f"runs/?task={run['task_id']}").json()["items"]] == [run["run_id"]]
    assert len(admin.get("runs/?status=queued,running").json()["items"]) == 2
    assert admin.get("runs/?status=failed").json()["items"] == []
    assert admin.get("runs/?created_before=2020-01-01T00:00:00Z").json()["items"] == []


@pytest.mark.req("C1.2", "A4.1")
def test_a_run_names_its_parent_its_budget_and_its_criterion(admin, stranger):
    parent = admin.submit()
    child = admin.submit(parent=parent["run_id"], budget={"calls": 3}, success={"criterion": "it arrived"})
    run = admin.get(f"runs/{child['run_id']}/").json()
    assert (run["parent"], run["budget"], run["budget_used"]) == (parent["run_id"], {"calls": 3}, {"calls": 0})
    assert (run["success"]["status"], run["success"]["criterion"]) == ("undecided", "it arrived")
    above = admin.get(f"runs/{parent['run_id']}/").json()
    assert ([one["id"] for one in above["children"]], above["children_more"]) == ([child["run_id"]], False)
    assert (above["success"], above["budget"], above["parent"]) == (None, {}, None)
    listed = admin.get(f"runs/?parent={parent['run_id']}").json()["items"]
    assert [(one["id"], one["parent"]) for one in listed] == [(child["run_id"], parent["run_id"])]
    snapshot = admin.get(f"runs/{child['run_id']}/snapshot/").json()["run"]
    assert (snapshot["parent"], snapshot["budget"]) == (parent["run_id"], {"calls": 3})
    assert stranger.get(f"runs/?parent={parent['run_id']}").json()["items"] == []
    taken = {"workflow": "parcel", "input": {"order_id": "W1"}, "parent": parent["run_id"]}
    assert problem(stranger.post("tasks/", taken), 404)["where"] == "/parent"
    bulk = stranger.post("tasks/bulk/", {"tasks": [taken]}).json()["items"]
    assert (bulk[0]["status"], bulk[0]["where"]) == (404, "/tasks/0/parent")


@pytest.mark.req("C4.10")
def test_a_new_run_may_have_a_budget_of_its_own(admin):
    task = admin.submit(budget={"calls": 1})
    admin.post(f"runs/{task['run_id']}/cancel/", {"reason": "too little"})
    path = f"tasks/{task['task_id']}/runs/"
    assert problem(admin.post(path, {"budget": {"calls": -1}}), 400)["where"] == "/budget/calls"
    again = admin.post(path, {"budget": {"calls": 5}}).json()
    assert admin.get(f"runs/{again['run_id']}/").json()["budget"] == {"calls": 5}


def test_events_beyond_the_end_are_gone(admin):
    run = admin.submit()["run_id"]
    head = admin.get(f"runs/{run}/").json()["seq"]
    assert admin.get(f"runs/{run}/events/?after={head}").json()["events"] == []
    answer = admin.get(f"runs/{run}/events/?after={head + 1}")
    body = problem(answer, 410, "cursor_expired")
    assert body["available"] == {"first": 1, "last": head}
    snapshot = admin.get(body["links"]["snapshot"].removeprefix("/api/v1/")).json()
    assert snapshot["last_included_seq"] == head
    assert "snapshot" in answer["Link"]


def test_snapshot_steps_and_graph_agree(admin):
    run = admin.submit()["run_id"]
    snapshot = admin.get(f"runs/{run}/snapshot/").json()
    steps = admin.get(f"runs/{run}/steps/").json()
    graph = admin.get(f"runs/{run}/graph/").json()
    assert snapshot["steps"] == steps["items"]
    assert {s["node"]: s["status"] for s in steps["items"]} == {"pack": "queued", "send": "waiting"}
    assert [(n["id"], n["level"], n["step"]["status"]) for n in graph["nodes"]] == [
        ("pack", 0, "queued"),
        ("send", 1, "waiting"),
    ]
    assert [(e["source"], e["target"]) for e in graph["edges"]] == [("pack", "send")]
    step = admin.get(f"steps/{steps['items'][0]['id']}/").json()
    assert (step["node"], step["attempts"], step["checkpoint"]) == ("pack", [], None)


def test_search(admin, stranger):
    run = admin.submit("W1", name="parcel of Ada Lovelace")
    admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}}, Idempotency_Key="order-77")
    hits = admin.get("search/?q=lovelace").json()["items"]
    assert [(h["kind"], h["id"], h["run_id"]) for h in hits] == [("task", run["task_id"], run["run_id"])]
    assert [h["kind"] for h in admin.get(f"search/?q={run['run_id']}").json()["items"]] == ["run"]
    assert len(admin.get("search/?q=order-77").json()["items"]) == 1
    assert stranger.get("search/?q=lovelace").json()["items"] == []
    assert stranger.get(f"search/?q={run['run_id']}").json()["items"] == []


def test_registering_the_same_content_answers_the_same_version(admin):
    again = admin.post("workflows/", WORKFLOW)
    assert (again.status_code, again.json()["version"], again.json()["created"]) == (200, 1, False)
    second = admin.post("workflows/", {**WORKFLOW, "description": "changed"})
    assert (second.status_code, second.json()["version"]) == (201, 2)
    listed = admin.get("workflows/parcel/versions/").json()["items"]
    assert [one["version"] for one in listed] == [2, 1]
    assert admin.get("workflows/parcel/versions/1/").json()["spec"]["nodes"] == WORKFLOW["nodes"]
    problem(admin.get("workflows/parcel/versions/3/"), 404)
    problem(admin.get("workflows/nope/versions/"), 404)
    workflow = admin.get("workflows/").json()["items"][0]
    assert (workflow["name"], workflow["newest"], workflow["versions"]) == ("parcel", 2, 2)


def test_tools_are_listed_and_registered(admin):
    names = [one["name"] for one in admin.get("tools/").json()["items"]]
    assert "core.echo" in names
    contract = {
        "name": "shop.load",
        "version": 1,
        "adapter": "http",
        "config": {"url": "http://127.0.0.1:1/x", "method": "GET"},
        "targets": ["127.0.0.1:1"],
        "input_schema": {"type": "object"},
        "side_effect": "read",
        "recovery": "replayable",
    }
    first = admin.post("tools/", contract)
    assert first.status_code == 201, first.content
    assert admin.post("tools/", contract).status_code == 200
    problem(admin.post("tools/", {**contract, "timeout_s": 5}), 409)
    body = problem(admin.post("tools/", {**contract, "name": "core.mine"}), 400)
    assert body["where"] == "/name"


def test_artifacts(admin, tenant, stranger):
    stored = admin.upload(b"hello")
    body = stored.json()
    assert (stored.status_code, body["created"], body["size"]) == (201, True, 5)
    assert admin.upload(b"hello").json() == {**body, "created": False}
    path = f"artifacts/{body['artifact_id']}/"
    assert admin.get(path).json()["sha256"] == body["sha256"]
    content = admin.get(f"{path}content/")
    assert (content.content, content["X-Content-Type-Options"]) == (b"hello", "nosniff")
    assert content["Content-Disposition"].startswith("attachment")
    viewer = caller(tenant, "viewer")
    assert viewer.get(path).status_code == 200
    problem(viewer.get(f"{path}content/"), 403)
    problem(stranger.get(path), 404)
    assert stranger.upload(b"hello").json()["artifact_id"] != body["artifact_id"]


@pytest.mark.parametrize("media_type", ["text", "a/b\u00e4", "text/html; x=\ty"])
def test_an_upload_with_a_wrong_media_type(admin, media_type):
    problem(admin.upload(b"x", media_type), 400)
