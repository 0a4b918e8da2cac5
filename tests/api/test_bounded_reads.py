"""What may grow without end is read in pages: execution versions, attempts, evidence; the queue counts to a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.actions.steps import rerun_step
from runtime.kernel.conf import conf
from runtime.kernel.ids import uuid7
from runtime.models import Evidence
from runtime.queries import steps as step_queries
from runtime.queries import tasks as task_queries
from runtime.queries.health import engine_numbers
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance import each, timers
from tests.support.api import caller, problem
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C6.2", "A9.8"), pytest.mark.django_db(transaction=True)]


def walk(admin: Any, path: str) -> list[dict[str, Any]]:
    """Follow ``next`` to the end; return the items of all pages."""
    items: list[dict[str, Any]] = []
    address = path
    for _ in range(50):
        page = admin.get(address).json()
        items += page["items"]
        if page["next"] is None:
            return items
        assert page["items"], "a page before the last has something"
        address = f"{path}&cursor={page['next']}"
    raise AssertionError("the pages do not end")


def again_and_again(engine: Engine, times: int) -> Any:
    """Return a run, still open, whose step ``a`` has succeeded in so many execution versions."""
    run_id = engine.submit(workflow(tool("a"), {"id": "t", "kind": "wait", "seconds": 3600}))
    engine.finish("a")
    for _ in range(times - 1):
        engine.act(rerun_step, run_id, "a")
        engine.finish("a")
    return run_id


@pytest.mark.req("A2.6")
def test_superseded_steps_come_in_pages(admin, tenant):
    engine = Engine(tenant)
    run_id = again_and_again(engine, 7)
    steps = f"runs/{run_id}/steps/"
    whole = admin.get(steps).json()
    assert (whole["next"], {one["node"] for one in whole["items"]}) == (None, {"a", "t"})
    assert [one["id"] for one in walk(admin, f"{steps}?limit=1")] == [one["id"] for one in whole["items"]]
    every = admin.get(f"{steps}?all=1").json()
    assert every["next"] is None
    assert [one["execution_version"] for one in every["items"] if one["node"] == "a"] == [1, 2, 3, 4, 5, 6, 7]
    assert walk(admin, f"{steps}?all=1&limit=3") == every["items"]
    other = admin.submit()["run_id"]
    cursor = admin.get(f"{steps}?all=1&limit=3").json()["next"]
    problem(admin.get(f"runs/{other}/steps/?all=1&cursor={cursor}"), 400)


def test_execution_versions_asked_for_without_a_limit_are_a_page(admin, tenant, monkeypatch):
    monkeypatch.setattr(step_queries, "MAX_LIMIT", 3)
    path = f"runs/{again_and_again(Engine(tenant), 4)}/steps/"
    page = admin.get(f"{path}?all=1").json()
    assert (len(page["items"]), page["next"] is None) == (3, False)
    assert len(admin.get(f"{path}?all=1&cursor={page['next']}").json()["items"]) == 2
    assert len(admin.get(path).json()["items"]) == 2, "the current steps are whole: no more than there are nodes"


@pytest.mark.req("C3.7")
def test_a_step_shows_its_newest_attempts_and_lists_them_all(fresh_db, admin, tenant, monkeypatch):
    monkeypatch.setattr(step_queries, "ATTEMPTS_SHOWN", 3)
    each.forget()
    engine = Engine(tenant)
    run_id = engine.submit(workflow(tool("a")))
    for _ in range(4):
        (claimed,) = engine.claim()
        engine.report(claimed, "given_back", cause="given_back")
        timers.fire_timers()
    path = f"steps/{engine.step(run_id, 'a').id}/"
    assert admin.get(path).json()["attempts_more"] is True
    engine.finish("a")
    found = admin.get(path).json()
    assert [one["number"] for one in found["attempts"]] == [3, 4, 5]
    assert [one["number"] for one in walk(admin, f"{path}attempts/?limit=2")] == [5, 4, 3, 2, 1]
    assert walk(admin, f"{path}attempts/?limit=3")[0] == found["attempts"][-1]
    problem(admin.get(f"{path}attempts/?limit=501"), 400)


@pytest.mark.req("A2.4")
def test_an_outcome_shows_the_newest_evidence_and_the_rest_is_listed(admin, tenant, monkeypatch):
    monkeypatch.setattr(task_queries, "EVIDENCE_SHOWN", 2)
    task = admin.submit()
    with tenant_tx(tenant.id) as tx:
        at = tx.now()
        ids = [
            Evidence.objects.create(
                id=uuid7(),
                tenant=tenant,
                task_id=task["task_id"],
                run_id=task["run_id"],
                criterion=f"scan {number}",
                source="carrier",
                content=b'{"secret":"Grace"}',
                content_sha256=bytes(32),
                observed_at=at,
            ).id
            for number in range(5)
        ]
    outcome = admin.get(f"tasks/{task['task_id']}/outcome/").json()
    assert [one["criterion"] for one in outcome["evidence"]] == ["scan 3", "scan 4"]
    assert outcome["evidence_more"] is True
    path = f"tasks/{task['task_id']}/evidence/?limit=2"
    assert [one["id"] for one in walk(admin, path)] == [str(one) for one in reversed(ids)]
    assert b"Grace" in admin.get(path).content
    assert b"Grace" not in caller(tenant, "viewer").get(path).content


@pytest.fixture
def mark(settings: Any) -> Iterator[None]:
    """A high-water mark of two."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "queue_high_water": 2}
    conf.cache_clear()
    yield
    settings.QUARTERDECK = {}
    conf.cache_clear()


@pytest.mark.req("C7.8")
def test_the_depth_of_the_queue_is_counted_to_the_mark(fresh_db, tenant, mark):
    engine = Engine(tenant)
    assert engine_numbers()["queue_depth"] == 0
    engine.submit(workflow(*[tool(f"n{i}") for i in range(6)]))
    assert engine_numbers()["queue_depth"] == 3, "the mark and one beyond"
    engine.claim(limit=5)
    assert engine_numbers()["queue_depth"] == 1
