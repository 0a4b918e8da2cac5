"""A node may prefer a pool: its step waits there first, and in time goes where its ordinary workers are (C2.7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.actions.hold import hold_step, release_step
from runtime.actions.rerun import rerun_step
from runtime.actions.skip import skip_step
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import tool_of
from runtime.worker.complete import complete
from runtime.worker.maintenance import each, timers
from runtime.worker.maintenance.preferred import leave_preferred
from runtime.worker.onward import Onward
from runtime.worker.work import Claimed, Report
from tests.support import invariants
from tests.support.engine import Engine
from tests.support.race import held
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C2.7"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]

NEAR = {"pool": "near", "for_s": 60}


@pytest.fixture(autouse=True)
def kept(engine: Engine, as_role: Any) -> Iterator[None]:
    """Stand in the worker's role, as the duty does; every invariant holds afterwards."""
    each.forget()
    with as_role("worker"):
        yield
    each.forget()
    assert not invariants.problems(engine.tenant.id, at_rest=False)


def serve(pool: str) -> uuid.UUID:
    """Open a worker session that serves a pool."""
    session = uuid.uuid4()
    with plain_tx() as tx:
        tx.send("insert_session", (session, "test", 1, "", f'["{pool}"]', 8, "test", 1e9))
    return session


def begin(engine: Engine, *nodes: dict[str, Any], as_role: Any, **more: Any) -> uuid.UUID:
    with as_role("web"):
        return engine.submit(workflow(*nodes), **more)


def take(engine: Engine, pool: str) -> list[Claimed]:
    """Claim what stands in a pool."""
    return engine.claimer.claim(engine.tenant.id, pool, 10)


def where(engine: Engine, run_id: uuid.UUID, node: str = "a") -> tuple[str, bool]:
    """Return the pool a step is in, and whether it stands there by preference."""
    step = engine.step(run_id, node)
    return step.pool, step.prefer_until is not None


def told(engine: Engine, run_id: uuid.UUID) -> list[dict[str, Any]]:
    return [e.payload for e in engine.events(run_id) if e.type == "STEP_POOL_CHANGED"]


def test_the_preferred_pools_worker_takes_it_while_it_is_there(engine, as_role):
    serve("near")
    run = begin(engine, tool("a", prefer=NEAR), as_role=as_role)
    assert leave_preferred() == 0
    assert (where(engine, run), take(engine, "default")) == (("near", True), [])
    (claimed,) = take(engine, "near")
    assert where(engine, run) == ("near", False)
    engine.report(claimed, "succeeded")
    assert (engine.run(run).status, told(engine, run)) == ("completed", [])
    engine.check(run)


def test_nobody_claims_it_in_time_and_it_goes_to_its_ordinary_pool(engine, clock, as_role):
    serve("near")
    run = begin(engine, tool("a", prefer=NEAR), tool("b", pool="far", prefer=NEAR), as_role=as_role, pool="own")
    clock.advance(59)
    assert leave_preferred() == 0
    clock.advance(2)
    assert leave_preferred() == 2
    assert (where(engine, run), where(engine, run, "b")) == (("own", False), ("far", False))
    assert told(engine, run) == [{"from": "near", "to": to, "why": "waited"} for to in ("own", "far")]
    assert (take(engine, "near"), leave_preferred()) == ([], 0)
    assert [one.node.id for one in take(engine, "own")] == ["a"]
    engine.check(run)


def test_a_pool_that_nobody_alive_serves_is_left_at_once(engine, clock, as_role):
    run = begin(engine, tool("a", prefer=NEAR), as_role=as_role)
    assert leave_preferred() == 1
    assert told(engine, run) == [{"from": "near", "to": "default", "why": "unserved"}]
    assert [one.node.id for one in take(engine, "default")] == ["a"]
    engine.check(run)


def test_each_queueing_prefers_anew(engine, clock, as_role):
    run = begin(engine, tool("a", prefer=NEAR), tool("b", "a"), as_role=as_role)
    assert leave_preferred() == 1
    (claimed,) = take(engine, "default")
    engine.report(claimed, "retry")
    clock.advance(61)
    assert timers.fire_timers() == 1
    assert where(engine, run) == ("near", True)
    assert leave_preferred() == 1
    (claimed,) = take(engine, "default")
    engine.report(claimed, "succeeded")
    with as_role("web"):
        engine.act(rerun_step, run, "a")
    assert (engine.step(run, "a").execution_version, where(engine, run)) == (2, ("near", True))
    assert leave_preferred() == 1
    engine.check(run)


def test_a_held_and_released_step_prefers_anew_and_a_skipped_one_stands_nowhere(engine, clock, as_role):
    serve("near")
    nodes = tool("first"), tool("a", "first", prefer=NEAR), tool("b", "first", prefer=NEAR)
    run = begin(engine, *nodes, as_role=as_role)
    with as_role("web"):
        engine.act(hold_step, run, "a")
    (claimed,) = take(engine, "default")
    engine.report(claimed, "succeeded")
    assert where(engine, run) == ("default", False)
    clock.advance(3600)
    with as_role("web"):
        engine.act(release_step, run, "a")
        engine.act(skip_step, run, "b")
    assert (where(engine, run), where(engine, run, "b")[1]) == (("near", True), False)
    assert leave_preferred() == 0
    engine.check(run)


def go_on(engine: Engine, claimed: Claimed, pools: list[str]) -> list[str]:
    """Report a success as a worker of these pools does that goes on; return what it went on with."""
    with tenant_tx(engine.tenant.id) as tx:
        tool_of(tx, "core.noop@1")
    output = canonical_bytes({})
    report = Report(claimed, "succeeded", output=output, output_sha256=digest(output), input_sha256=digest(b"{}"))
    done = complete(engine.tenant.id, [report], Onward(engine.claimer, pools, 10, 10))
    return sorted(one.node.id for one in done.taken)


@pytest.mark.parametrize(("pools", "taken"), [(["default"], ["b"]), (["default", "near"], ["b", "c"])])
def test_who_goes_on_takes_a_preferring_step_only_where_it_serves_the_pool(engine, as_role, pools, taken):
    run = begin(engine, tool("a"), tool("b", "a"), tool("c", "a", prefer=NEAR), as_role=as_role)
    (claimed,) = take(engine, "default")
    assert go_on(engine, claimed, pools) == taken
    assert where(engine, run, "c") == ("near", "c" not in taken)
    engine.check(run)


def test_the_workflows_own_preference_spares_nodes_of_that_pool(engine, as_role):
    nodes = tool("a"), tool("b", pool="near"), tool("c", prefer={"pool": "other", "for_s": 1})
    with as_role("web"):
        run = engine.submit(workflow(*nodes, defaults={"prefer": NEAR}))
    assert [where(engine, run, name) for name in "abc"] == [("near", True), ("near", False), ("other", True)]


def test_a_tasks_own_pool_that_is_preferred_is_no_preference(engine, as_role):
    run = begin(engine, tool("a", prefer=NEAR), as_role=as_role, pool="near")
    assert (where(engine, run), leave_preferred()) == (("near", False), 0)


def test_a_run_that_somebody_holds_is_passed_over(engine, fresh_db, as_role):
    runs = [begin(engine, tool("a", prefer=NEAR), as_role=as_role) for _ in range(2)]
    with held(fresh_db, "qd_run", runs[0]):
        assert leave_preferred() == 1
    assert [where(engine, run)[0] for run in runs] == ["near", "default"]
    assert leave_preferred() == 1
