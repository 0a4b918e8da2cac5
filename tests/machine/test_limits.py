"""Limits: tokens go with a step's moves, what may not start is parked, and goes on when a token frees (C2.7)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.access import verbs as v
from runtime.actions.finish import kill_step
from runtime.actions.hold import hold_step, release_step
from runtime.actions.limits import remove_limit, set_limit
from runtime.actions.runs import cancel_run, pause_run, resume_run
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.machine.frame import Frame
from runtime.machine.needs import fence_step
from runtime.models import Limit, Step
from runtime.queries.health import engine_numbers
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.complete import complete
from runtime.worker.gates import let_go
from runtime.worker.maintenance import lost
from runtime.worker.maintenance.gates import Turnstile
from runtime.worker.onward import Onward
from runtime.worker.work import Claimed, Report
from tests.support import invariants
from tests.support.clock import Clock
from tests.support.engine import Engine, sweep
from tests.support.operations import send
from tests.support.race import Contender
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

# Alone in a database: these duties look at every tenant.
pytestmark = [
    pytest.mark.req("C2.7", "A4.4"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]
FIVE = workflow(*(tool(f"n{i}") for i in range(5)))


@pytest.fixture(autouse=True)
def kept(engine: Engine) -> Iterator[None]:
    """Whatever a test did, the counts agree with the rows at its end."""
    yield
    assert not invariants.problems(engine.tenant.id, at_rest=False)


def operator(engine: Engine) -> Actor:
    """Return the engine's actor as one who runs the installation."""
    actor = engine.actor
    return Actor(actor.kind, actor.name, actor.tenant_id, actor.verbs | {v.STOP_GLOBAL})


def limit(engine: Engine, scope: str = "tool", name: str = "core.noop", **more: Any) -> uuid.UUID:
    return uuid.UUID(set_limit(actor=operator(engine), scope=scope, name=name, **more)["limit_id"])


def used(engine: Engine, limit_id: uuid.UUID) -> int:
    with tenant_tx(engine.tenant.id):
        return Limit.objects.get(id=limit_id).used


def parked(engine: Engine, run_id: uuid.UUID) -> list[str]:
    """Return the nodes that wait for a gate, and check that the ready index does not hold them."""
    with tenant_tx(engine.tenant.id):
        rows = Step.objects.filter(run_id=run_id, status="queued", blocked_on__isnull=False)
        assert not rows.filter(claimable=True).exists()
        return sorted(rows.values_list("node", flat=True))


def ended(claimed: Claimed, outcome: str = "succeeded") -> Report:
    report = Report(claimed, outcome)
    if outcome == "succeeded":
        report.output = canonical_bytes({})
        report.output_sha256 = report.input_sha256 = digest(report.output)
    return report


def test_what_has_no_token_is_parked_and_goes_on_when_one_frees(engine):
    bound = limit(engine, most=2)
    run_id = engine.submit(FIVE)
    first, second = engine.claim()
    assert parked(engine, run_id) == ["n2", "n3", "n4"]
    assert engine.claim() == [], "nothing is left in the ready index"
    assert used(engine, bound) == 2
    engine.check(run_id)
    answer = complete(engine.tenant.id, [ended(first)])
    assert answer.freed == {bound: 1}
    assert let_go(engine.tenant.id, answer.freed) == 1
    assert [one.node.id for one in engine.claim()] == ["n2"], "the one that waited longest"
    complete(engine.tenant.id, [ended(second)])
    assert used(engine, bound) == 1


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "retry", "unknown", "yielded", "given_back", "killed"])
def test_a_token_comes_back_whatever_becomes_of_the_step(engine, outcome):
    bound = limit(engine, most=5)
    engine.submit(workflow(tool("a")))
    (claimed,) = engine.claim()
    assert used(engine, bound) == 1
    engine.report(claimed, outcome)
    assert used(engine, bound) == 0


def test_a_token_comes_back_when_the_step_is_killed_or_its_run_cancelled(engine):
    bound = limit(engine, most=5)
    run_id = engine.submit(FIVE)
    engine.claim()
    engine.act(kill_step, run_id, "n0")
    assert used(engine, bound) == 4
    cancel_run(actor=engine.actor, run_id=run_id, reason="enough")
    assert used(engine, bound) == 0


@pytest.mark.req("A6.2")
def test_a_token_comes_back_when_the_worker_is_lost(engine):
    bound = limit(engine, most=2)
    run_id = engine.submit(FIVE)
    engine.claim()
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))
    lost.return_orphans()
    assert used(engine, bound) == 0
    engine.renew()
    assert Turnstile().run_once() == 2
    assert len(engine.claim()) == 2
    engine.check(run_id)


def test_the_scheduler_lets_go_what_workers_missed(engine):
    bound = limit(engine, most=1)
    run_id = engine.submit(FIVE)
    (first,) = engine.claim()
    assert Turnstile().run_once() == 0, "no token is free"
    complete(engine.tenant.id, [ended(first)])
    assert Turnstile().run_once() == 1
    limit(engine, most=4)
    assert Turnstile().run_once() == 3, "the limit was raised"
    remove_limit(actor=operator(engine), limit_id=bound)
    assert len(engine.claim()) == 4
    assert parked(engine, run_id) == []


def test_calls_start_at_the_rate_that_is_allowed(engine, clock: Clock):
    limit(engine, name="core.noop@1", calls=2, per_s=60.0)
    run_id = engine.submit(FIVE)
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
    assert len(parked(engine, run_id)) == 3
    assert Turnstile().run_once() == 0
    clock.advance(31)
    assert Turnstile().run_once() == 1
    assert len(engine.claim()) == 1
    assert len(parked(engine, run_id)) == 2


def test_a_workflow_bounds_each_of_its_runs(engine):
    document = workflow(*(tool(f"n{i}") for i in range(4)), name="narrow", max_parallel=1)
    one, other = engine.submit(document), engine.submit(document)
    claimed = engine.claim()
    assert {c.run_id: c.node.id for c in claimed} == {one: "n0", other: "n0"}
    assert len(claimed) == 2
    answer = complete(engine.tenant.id, [ended(claimed[0])])
    assert answer.freed == {claimed[0].run_id: 1}
    let_go(engine.tenant.id, answer.freed)
    assert [c.node.id for c in engine.claim()] == ["n1"]
    assert Turnstile().run_once() == 0


@pytest.mark.parametrize("scope", ["tenant", "workflow", "global"])
def test_limits_of_every_scope_bound_the_same_way(engine, scope):
    bound = limit(engine, scope, "w" if scope == "workflow" else "", most=3)
    run_id = engine.submit(FIVE)
    assert len(engine.claim()) == 3
    assert len(parked(engine, run_id)) == 2
    remove_limit(actor=operator(engine), limit_id=bound)
    assert Turnstile().run_once() == 2


def test_a_global_limit_is_shared_by_tenants_and_each_gets_its_turn(engine, other_tenant, test_database):
    other = Engine(other_tenant)
    bound = limit(engine, "global", "", most=2)
    engine.submit(FIVE)
    other.submit(FIVE)
    mine = engine.claim()
    assert len(mine) == 2
    assert other.claim() == []
    complete(engine.tenant.id, [ended(one) for one in mine])
    assert Turnstile().run_once() == 2
    assert len(other.claim()) == 1
    assert len(engine.claim()) == 1
    remove_limit(actor=operator(engine), limit_id=bound)
    with tenant_tx(engine.tenant.id):
        assert Limit.objects.get(id=bound).used == 2
    sweep(test_database, other_tenant.id)


def test_who_completes_goes_on_with_the_token_it_has(engine):
    bound = limit(engine, most=1)
    engine.submit(workflow(tool("a"), tool("b", "a")))
    (first,) = engine.claim()
    _ready, taken, freed = complete(engine.tenant.id, [ended(first)], Onward(engine.claimer, ["default"], 5, 5))
    assert [one.node.id for one in taken] == ["b"]
    assert freed == {}
    assert used(engine, bound) == 1
    complete(engine.tenant.id, [ended(taken[0])])


def test_who_completes_does_not_overtake_those_that_wait(engine):
    limit(engine, most=1)
    engine.submit(workflow(tool("a"), tool("b", "a"), name="chain"))
    (first,) = engine.claim()
    waiting = engine.submit(workflow(tool("x"), name="single"))
    engine.claim()
    assert parked(engine, waiting) == ["x"]
    _ready, taken, freed = complete(engine.tenant.id, [ended(first)], Onward(engine.claimer, ["default"], 5, 5))
    assert taken == []
    let_go(engine.tenant.id, freed)
    assert [one.node.id for one in engine.claim(1)] == ["x"] or parked(engine, waiting) == []


def test_a_slow_tool_keeps_nobody_waiting(engine):
    limit(engine, name="core.echo", most=1)
    engine.submit(
        workflow(*(tool(f"slow{i}", tool="core.echo@1", input={}) for i in range(20)), tool("quick", priority=-1))
    )
    found = [one.node.id for _ in range(3) for one in engine.claim(8)]
    assert sorted(found) == ["quick", "slow0"]


def test_pausing_resuming_holding_and_skipping_what_is_parked(engine):
    bound = limit(engine, most=1)
    run_id = engine.submit(FIVE)
    (first,) = engine.claim()
    engine.act(hold_step, run_id, "n1")
    pause_run(actor=engine.actor, run_id=run_id, reason="look")
    assert parked(engine, run_id) == []
    complete(engine.tenant.id, [ended(first)])
    Turnstile().run_once()
    assert engine.claim() == []
    resume_run(actor=engine.actor, run_id=run_id, reason="seen")
    (second,) = engine.claim()
    assert second.node.id == "n2", "an operator holds n1"
    assert parked(engine, run_id) == ["n3", "n4"]
    engine.act(release_step, run_id, "n1")
    engine.check(run_id)
    engine.act(kill_step, run_id, "n3")
    assert parked(engine, run_id) == ["n4"]
    complete(engine.tenant.id, [ended(second)])
    while claimed := engine.claim() or (Turnstile().run_once() and engine.claim()):
        complete(engine.tenant.id, [ended(one) for one in claimed])
    assert used(engine, bound) == 0
    engine.check(run_id)


@pytest.mark.req("A4.4")
def test_places_in_use_are_counted_as_they_are(engine):
    """A worker may have claimed more than it has places (8 here); the rest waits in its hands."""
    before = engine_numbers()["slots_busy"]
    engine.submit(workflow(*(tool(f"n{i}") for i in range(12))))
    first, *others = engine.claim(3)
    assert engine_numbers()["slots_busy"] == before + 3
    engine.report(first, "succeeded")
    assert engine_numbers()["slots_busy"] == before + 2
    others += engine.claim()
    assert engine_numbers()["slots_busy"] == before + 8
    for claimed in others:
        engine.report(claimed, "succeeded")
    assert engine_numbers()["slots_busy"] == before


def test_a_limit_that_comes_later_counts_only_what_starts_under_it(engine):
    run_id = engine.submit(FIVE)
    early = engine.claim(2)
    bound = limit(engine, most=1)
    (third,) = engine.claim()
    assert used(engine, bound) == 1
    complete(engine.tenant.id, [ended(one) for one in early])
    assert used(engine, bound) == 1
    complete(engine.tenant.id, [ended(third)])
    assert used(engine, bound) == 0
    engine.check(run_id)


@pytest.mark.req("C4.5")
def test_what_undoes_takes_a_token_of_the_tool_that_the_contract_names(engine):
    """Its tool stands in no workflow: the limit and the breaker of it bind all the same."""
    for name, more in (("undo", {}), ("effect", {"recovery": "compensable", "compensation": "test.undo@1"})):
        contract = {**python_tool("effect", writes=True), "name": f"test.{name}", **more}
        register_tool(actor=engine.actor, contract=contract)
    pay, policy = tool("pay", tool="test.effect@1"), {"on_failure": "compensate"}
    runs = [engine.submit(workflow(pay, tool("mail", "pay"), name="back", defaults=policy)) for _ in range(2)]
    for claimed in engine.claim():
        send(engine, claimed, f"pay:{claimed.run_id}", tool="test.effect", recovery="compensable")
        engine.report(claimed, "succeeded", operation_status="succeeded")
    for claimed in engine.claim():
        engine.report(claimed, "failed")
    bound = limit(engine, name="test.undo", most=1)
    (first,) = engine.claim()
    assert (first.node.id, first.node.tool) == ("undo:pay", "test.undo@1")
    assert first.undo is not None
    assert used(engine, bound) == 1
    assert [parked(engine, run_id) for run_id in runs if run_id != first.run_id] == [["undo:pay"]]
    send(engine, first, first.undo.business_key, tool="test.undo")
    engine.report(first, "succeeded", operation_status="succeeded")
    assert Turnstile().run_once() == 1
    (second,) = engine.claim()
    send(engine, second, second.undo.business_key, tool="test.undo")  # type: ignore[union-attr]
    engine.report(second, "succeeded", operation_status="succeeded")
    assert used(engine, bound) == 0
    assert {engine.run(run_id).status for run_id in runs} == {"failed"}


@pytest.mark.req("C2.9")
@pytest.mark.parametrize("meanwhile", [False, True], ids=["alone", "let go meanwhile"])
def test_a_parked_step_that_is_fenced_still_waits_for_something(engine, meanwhile):
    """Who lets it go waits for no run's lock: what was read of a parked step may be old when it is written."""
    bound = limit(engine, most=1)
    run_id = engine.submit(workflow(tool("a"), tool("b")))
    (first,) = engine.claim()
    node = "a" if first.node.id == "b" else "b"
    step_id = engine.step(run_id, node).id
    with tenant_tx(engine.tenant.id) as tx:
        unit = Frame(tx, plan_of)
        run, step = unit.step(step_id)
        if meanwhile:
            Contender(lambda: let_go(engine.tenant.id, {bound: 1})).outcome()
        fence_step(run, step, actor=None, reason="mine")
        unit.flush()
    found = engine.step(run_id, node)
    assert found.claimable or found.blocked_on is not None
    assert engine.claim() == [], "there is no token yet"
    assert parked(engine, run_id) == [node]
    engine.check(run_id)
    engine.report(first, "succeeded")
    Turnstile().run_once()
    assert [one.node.id for one in engine.claim()] == [node]


@pytest.mark.req("C7.2", "A4.2")
def test_the_more_urgent_goes_first_among_those_that_wait(engine):
    limit(engine, most=1)
    low = engine.submit(workflow(tool("low"), name="low"), priority=-50)
    batch = engine.submit(workflow(tool("batch"), name="batch"))
    (first,) = engine.claim(1)
    assert first.run_id == batch
    high = engine.submit(workflow(tool("high"), name="high"), priority=80)
    engine.claim()
    assert parked(engine, low) == ["low"]
    assert parked(engine, high) == ["high"]
    let_go(engine.tenant.id, complete(engine.tenant.id, [ended(first)]).freed)
    assert [one.run_id for one in engine.claim()] == [high]


def test_the_search_finds_counts_that_do_not_agree(engine, test_database: Any):
    from runtime.queries.invariants import breaches_of
    from tests.support.engine import force_columns

    bound = limit(engine, most=3)
    run_id = engine.submit(FIVE)
    engine.claim(2)
    breaks: list[Callable[[], None]] = [
        lambda: force_columns(test_database, "qd_limit", bound, used=3),
        lambda: force_columns(test_database, "qd_step", engine.step(run_id, "n4").id, tokens=[bound]),
        lambda: force_columns(test_database, "qd_step", engine.step(run_id, "n4").id, blocked_on=bound),
        lambda: force_columns(test_database, "qd_step", engine.step(run_id, "n4").id, serial=bound),
    ]
    for number, broken in enumerate(breaks, 1):
        broken()
        found = [row for six, rows in breaches_of(engine.tenant.id) if six == 6 for row in rows]
        assert len(found) == number
    step = engine.step(run_id, "n4").id
    force_columns(test_database, "qd_step", step, tokens=None, blocked_on=None, serial=None)
    force_columns(test_database, "qd_limit", bound, used=2)
