"""What waits for its run's own bound, told beside any number of steps that wait for a limit (C2.7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.actions.limits import set_limit
from runtime.queries.limits import list_held_by_own
from runtime.store.sqlfile import queries
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.7", "C6.2"), pytest.mark.django_db(transaction=True)]

MANY = 60


@pytest.fixture
def narrow(fresh_db, tenant) -> tuple[Engine, uuid.UUID]:
    """A tenant with a run that runs one step of three at a time, and many steps of another that wait for a limit."""
    engine = Engine(tenant)
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(3)), name="narrow", max_parallel=1))
    engine.claim()
    set_limit(actor=engine.actor, scope="tool", name="core.noop", most=1, reason="small")
    engine.submit(workflow(*(tool(f"many{i}") for i in range(MANY)), name="wide"))
    engine.claim(MANY + 10)
    return engine, run_id


def test_only_what_no_limit_holds_back_is_told(narrow):
    engine, run_id = narrow
    held = list_held_by_own(actor=engine.actor)
    assert {(one["run_id"], one["node"], one["kind"], one["waiting"]) for one in held} == {
        (run_id, "n1", "run", 1),
        (run_id, "n2", "run", 1),
    }


def test_what_waits_for_a_limit_is_not_read(narrow, fresh_db):
    engine, _run_id = narrow
    with fresh_db.connect() as connection:
        connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(engine.tenant.id)])
        # The test's tables are small: without these the planner rightly reads them whole.
        for way in ("seqscan", "bitmapscan", "sort"):
            connection.execute(f"SET enable_{way} = off".encode())
        statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {queries()['held_by_their_own']}"
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    read = sum(rows for rows in _steps_read(row[0][0]["Plan"]))
    assert 2 <= read < MANY / 2, row[0]


def _steps_read(plan: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of steps each part of a plan has looked at."""
    if plan.get("Relation Name") == "qd_step":
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _steps_read(part)
