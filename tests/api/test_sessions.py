"""A session is its owner's; a task outlives it, and takes its own State to another one (A1.1, A1.2)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.actions.sessions import MAX_CONTEXT_BYTES
from runtime.models import Session, Task
from runtime.queries import sessions as queries
from runtime.store.tx import tenant_tx
from tests.support.api import Caller, caller, problem
from tests.support.engine import Engine, sweep
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A1.2", "A1.1"), pytest.mark.django_db(transaction=True)]

CONTEXT = {"customer": "Grace", "turns": [1, 2.5, None]}


@pytest.fixture
def ada(admin, tenant) -> Caller:
    """An integrator in a tenant with the workflow ``parcel``."""
    return caller(tenant, "integrator")


@pytest.fixture
def bob(tenant) -> Caller:
    return caller(tenant, "integrator")


def make(who: Caller, key: str = "desk", context: Any = CONTEXT) -> str:
    answer = who.post("sessions/", {"key": key, "context": context})
    assert answer.status_code == 201, answer.content
    assert answer["Location"].endswith(f"/sessions/{answer.json()['session_id']}/")
    return answer.json()["session_id"]


def test_its_owner_makes_reads_and_changes_it(ada, admin):
    session = make(ada)
    task = ada.submit(session="desk")
    read = ada.get(f"sessions/{session}/").json()
    assert (read["key"], read["context"], read["created_by"]) == ("desk", CONTEXT, ada.actor.label)
    assert [(one["id"], one["run_id"]) for one in read["tasks"]] == [(task["task_id"], task["run_id"])]
    changed = ada.send("PUT", f"sessions/{session}/", {"context": {"customer": "Lin"}})
    assert (changed.status_code, changed.json()["context"]) == (200, {"customer": "Lin"})
    assert ada.get(f"sessions/{session}/").json()["context"] == {"customer": "Lin"}
    assert [one["key"] for one in ada.get("sessions/").json()["items"]] == ["desk"]
    entries = admin.get("audit/?verb=task.submit").json()["items"]
    assert [e["result"] for e in entries if e["subject_kind"] == "session"] == ["changed", "created"]


def test_a_submit_makes_a_session_of_the_submitter(ada, bob):
    ada.submit(session="fresh")
    [mine] = ada.get("sessions/?key=fresh").json()["items"]
    assert ada.get(f"sessions/{mine['id']}/").json()["context"] == {}
    assert bob.get("sessions/").json()["items"] == []
    problem(ada.post("sessions/", {"key": "fresh"}), 409, "conflict")


def test_nobody_else_is_let_in(ada, bob, admin, tenant):
    session = make(ada)
    for answer in (
        bob.get(f"sessions/{session}/"),
        bob.get(f"sessions/{session}/tasks/"),
        bob.send("PUT", f"sessions/{session}/", {"context": {}}),
        bob.post(f"sessions/{session}/tasks/", {"task_id": bob.submit()["task_id"]}),
    ):
        problem(answer, 404, "not_found")
    refused = bob.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}, "session": "desk"})
    assert problem(refused, 403)["where"] == "/session"
    bulk = {"workflow": "parcel", "input": {"order_id": "1"}}
    items = bob.post("tasks/bulk/", {"tasks": [bulk, {**bulk, "session": "desk"}]}).json()["items"]
    assert (items[0]["status"], items[1]["status"], items[1]["where"]) == ("accepted", 403, "/tasks/1/session")
    assert ada.get(f"sessions/{session}/").json()["tasks"] == []
    # Who operates is let in; who may not read payloads gets no context.
    assert caller(tenant, "oncall").get(f"sessions/{session}/").json()["context"] == CONTEXT
    shown = caller(tenant, "admin", ["task.read", "session.use"]).get(f"sessions/{session}/").json()
    assert (shown["redacted"], "context" in shown) == (True, False)
    assert [one["key"] for one in admin.get("sessions/").json()["items"]] == ["desk"]


def test_a_task_goes_on_in_another_session_with_its_own_state(tenant, db):
    engine = Engine(tenant)
    try:
        oncall = caller(tenant, "oncall")
        old, new = make(oncall, "old"), make(oncall, "new", {})
        document = workflow(tool("pay"), {"id": "wait", "kind": "wait", "event": "arrived", "after": ["pay"]})
        run = engine.submit(document, {"order_id": "W1"}, session="old")
        [claimed] = engine.claim()
        operation = send(engine, claimed, f"pay:{run}")
        engine.report(claimed, "succeeded", {"refund": "R-1"}, operation_status="succeeded")
        task = str(engine.run(run).task_id)
        answer = oncall.post(f"sessions/{new}/tasks/", {"task_id": task})
        assert answer.status_code == 200, answer.content
        told = answer.json()
        assert (told["key"], told["before"], told["task"]["session"]) == ("new", "old", "new")
        assert told["task"]["input"] == {"order_id": "W1"}
        assert told["run"]["run_id"] == str(run)
        steps = {one["node"]: one["status"] for one in told["run"]["steps"]}
        assert steps == {"pay": "succeeded", "wait": engine.statuses(run)["wait"].split("(")[0]}
        assert str(operation) in answer.content.decode()
        assert b"Grace" not in answer.content, "the context that it leaves stays behind"
        assert oncall.get(f"sessions/{old}/").json()["tasks"] == []
        # The run goes on as if nothing had been.
        assert engine.statuses(run)["pay"] == "succeeded"
        engine.check(run)
        again = oncall.post(f"sessions/{new}/tasks/", {"task_id": task}).json()
        assert again["before"] == "new"
    finally:
        sweep(db, tenant.id)


def test_what_one_may_not_read_is_not_loaded(ada, bob, admin, tenant):
    task = ada.submit()["task_id"]
    session = make(bob)
    assert problem(bob.post(f"sessions/{session}/tasks/", {"task_id": task}), 403)["where"] == "/task_id"
    assert admin.get(f"tasks/{task}/").json()["session"] is None
    blind = caller(tenant, "admin", ["task.submit", "task.read", "run.read", "session.use"])
    told = blind.post(f"sessions/{session}/tasks/", {"task_id": task}).json()["task"]
    assert (told["redacted"], "input" in told, "state" in told) == (True, False, False)
    lost = caller(tenant, "admin", ["task.submit", "session.use"])
    problem(lost.post(f"sessions/{session}/tasks/", {"task_id": task}), 403)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"key": ""}, "/key"),
        ({"key": "x" * 201}, "/key"),
        ({"key": "a\nb"}, "/key"),
        ({"key": "k", "context": []}, "/context"),
        ({"key": "k", "context": {"text": "x" * MAX_CONTEXT_BYTES}}, "/context"),
        ({"key": "k", "more": 1}, "/"),
        ({}, "/"),
    ],
)
def test_what_does_not_fit_makes_nothing(ada, tenant, body, where):
    assert problem(ada.post("sessions/", body), 400)["where"] == where
    with tenant_tx(tenant.id):
        assert not Session.objects.exists()


def test_its_tasks_come_in_pages(ada, tenant, monkeypatch):
    monkeypatch.setattr(queries, "TASKS_SHOWN", 2)
    session = make(ada)
    ids = [ada.submit(f"W{number}", session="desk")["task_id"] for number in range(5)]
    read = ada.get(f"sessions/{session}/").json()
    assert ([one["id"] for one in read["tasks"]], read["tasks_more"]) == (ids[:2:-1], True)
    found, path = [], f"sessions/{session}/tasks/?limit=2"
    while path:
        answer = ada.get(path).json()
        found += [one["id"] for one in answer["items"]]
        path = answer["next"] and f"sessions/{session}/tasks/?limit=2&cursor={answer['next']}"
    assert found == ids[::-1]
    with tenant_tx(tenant.id):
        assert Task.objects.filter(session_id=session).count() == 5
