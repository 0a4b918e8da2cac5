"""What throttles a step is in its run's ledger: once for each time it is parked (B1.2, C2.7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.actions.limits import set_limit
from runtime.worker.gates import let_go
from tests.support import invariants
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("B1.2", "C2.7"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]


@pytest.fixture(autouse=True)
def kept(engine: Engine) -> Iterator[None]:
    yield
    assert not invariants.problems(engine.tenant.id, at_rest=False)


def told(engine: Engine, run_id: uuid.UUID) -> list[tuple[Any, ...]]:
    return [
        (e.node, e.cause, e.payload, e.from_status, e.to_status)
        for e in engine.events(run_id)
        if e.type == "STEP_PARKED"
    ]


def test_a_parked_step_tells_what_it_waits_for_and_tells_no_look(engine):
    answer = set_limit(actor=engine.actor, scope="tool", name="core.noop", most=2)
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(5))))
    first, _second = engine.claim()
    waits = {"kind": "tool", "name": "core.noop"}
    assert told(engine, run_id) == [(f"n{i}", "throttled", waits, None, None) for i in (2, 3, 4)]
    assert engine.claim() == []
    assert len(told(engine, run_id)) == 3, "no look is told"
    # Two are let go where one token is free: the second is parked once more, and that is told.
    engine.report(first, "succeeded")
    assert let_go(engine.tenant.id, {uuid.UUID(answer["limit_id"]): 2}) == 2
    assert [one.node.id for one in engine.claim()] == ["n2"]
    assert [row[0] for row in told(engine, run_id)] == ["n2", "n3", "n4", "n3"]
    engine.check(run_id)


def test_the_runs_own_bound_is_told_as_such(engine):
    run_id = engine.submit(workflow(tool("a"), tool("b"), max_parallel=1))
    assert len(engine.claim()) == 1
    assert told(engine, run_id) == [("b", "throttled", {"kind": "run", "name": ""}, None, None)]
    engine.check(run_id)
