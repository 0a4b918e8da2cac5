"""The database away, not migrated, busy; errors nobody expected; many at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from runtime.queries import runs as run_queries
from tests.support import db as support
from tests.support.api import Caller, problem

pytestmark = [pytest.mark.req("C6.1", "C2.2"), pytest.mark.django_db(transaction=True)]


def test_with_the_database_away(admin):
    with support.switched("default", NAME="qd_nowhere"):
        answer = admin.get("runs/")
        body = problem(answer, 503, "unavailable")
        problem(admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}}), 503)
    assert body["retryable"] is True
    assert answer["Retry-After"] == "2"
    assert admin.get("runs/").status_code == 200


def test_on_a_database_that_was_never_migrated(admin):
    with support.admin() as connection:
        support.roles.create_database(connection, "qd_bare", support.OWNER)
    try:
        with support.switched("default", NAME="qd_bare"):
            body = problem(admin.get("runs/"), 503)
        assert "migrate" in body["remediation"]
    finally:
        support.drop("qd_bare")


def test_an_unexpected_error_tells_nothing_of_the_inside(admin, monkeypatch, caplog):
    def fail(**arguments):
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(run_queries, "list_runs", fail)
    answer = admin.get("runs/")
    problem(answer, 500, "internal")
    assert b"secret" not in answer.content
    assert "secret of the inside" in caplog.text


def test_the_same_key_at_once_makes_one_task(admin):
    barrier = threading.Barrier(8)

    def submit(_):
        try:
            barrier.wait(10)
            one = Caller(admin.token, admin.tenant)
            return one.post("tasks/", {"workflow": "parcel", "input": {"order_id": "1"}}, Idempotency_Key="race")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(submit, range(8)))
    assert {a.status_code for a in answers} == {202}, [a.content for a in answers]
    assert len({a.json()["task_id"] for a in answers}) == 1
    assert sorted(a.json()["replayed"] for a in answers) == [False] + [True] * 7
    assert len(admin.get("tasks/").json()["items"]) == 1


def test_the_same_workflow_at_once_makes_one_version(admin):
    from tests.support.api import WORKFLOW

    barrier = threading.Barrier(6)

    def register(number):
        try:
            barrier.wait(10)
            one = Caller(admin.token, admin.tenant)
            return one.post("workflows/", {**WORKFLOW, "name": "raced", "description": f"v{number % 2}"})
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(register, range(6)))
    assert {a.status_code for a in answers} <= {200, 201}, [a.content for a in answers]
    assert sorted(v["version"] for v in admin.get("workflows/raced/versions/").json()["items"]) == [1, 2]
