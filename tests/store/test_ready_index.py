"""The claim reads the partial index of ready steps alone: what may not run now is not in it (engine.md 3, B8.2)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from dashboard.config import env
from runtime.actions.runs import pause_run, resume_run
from runtime.kernel.classes import CLASSES
from runtime.store.sqlfile import queries
from runtime.store.tx import tenant_tx
from tests.support import db as support
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("B8.2")
MANY = 2000


@pytest.fixture
def as_worker(fresh_db, monkeypatch) -> Iterator[None]:
    """Lead the default alias to the database as a worker process does: its role, its plans."""
    monkeypatch.setenv("QUARTERDECK_DB_ROLE", "worker")
    monkeypatch.delenv("QUARTERDECK_POOL", raising=False)
    with support.switched("default", OPTIONS=env.databases(fresh_db.url)["default"]["OPTIONS"]):
        yield


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database."""
    return Engine(tenant)


@pytest.fixture(autouse=True)
def parked(engine) -> uuid.UUID:
    """Many parked steps that would be more urgent than the one that is ready, and many that are over."""
    parked = engine.submit({**workflow(*[tool(f"n{i}") for i in range(MANY)]), "name": "parked"}, priority=5)
    pause_run(actor=engine.actor, run_id=parked, reason="they stand in front")
    engine.submit({**workflow(tool("first"), *[tool(f"n{i}", "first") for i in range(MANY)]), "name": "over"})
    engine.finish("first", "failed")
    engine.submit({**workflow(tool("ready")), "name": "ready"})
    return parked


def explained(engine: Engine, name: str, params: tuple[object, ...]) -> str:
    with tenant_tx(engine.tenant.id) as tx:
        rows = tx.conn.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {queries()[name]}", params).fetchall()
    return "\n".join(row[0] for row in rows)


def test_a_claim_looks_at_no_step_that_may_not_run(engine, as_worker):
    plan = explained(engine, "claim_ready", ("default", engine.tenant.id, [], 64))
    assert "Index Scan using qd_step_ready" in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan, plan
    assert "Removed by" not in plan, plan


def test_so_does_the_question_how_urgent_the_next_one_is(engine, as_worker):
    plan = explained(engine, "most_urgent", (engine.tenant.id, ["default"]))
    assert "Scan using qd_step_ready" in plan, plan
    assert "Removed by" not in plan, plan


def test_what_goes_on_is_in_the_index_again_and_comes_first(engine, as_worker, parked):
    resume_run(actor=engine.actor, run_id=parked, reason="go on")
    assert {one.run_id for one in engine.claim(10)} == {parked}


@pytest.mark.req("C7.2")
def test_looking_for_late_steps_enters_by_the_indexes_of_what_waits(engine, as_worker):
    plan = explained(engine, "late_steps", ([*CLASSES], [80, 60, 40, 0, -100], [100, 79, 59, 39, -1], [1.0] * 5, 100))
    assert "qd_step_ready" in plan, plan
    assert "qd_step_parked" in plan, plan
    assert "Seq Scan on qd_step" not in plan, plan
    assert plan.count("Limit") == 3, f"each index is read up to a bound: {plan}"
