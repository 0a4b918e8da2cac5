"""Breakers and retry budgets: a tool that keeps failing is left alone, then tried by one call (B4.1, B4.2)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from runtime.actions.limits import close_breaker, open_breaker
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.models import Breaker, Step
from runtime.queries.limits import list_breakers
from runtime.store.tx import tenant_tx
from runtime.worker.complete import complete
from runtime.worker.gates import let_go
from runtime.worker.maintenance.gates import Turnstile
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.retries import input_fingerprint
from runtime.worker.work import Claimed, Report
from tests.support import invariants
from tests.support.clock import Clock
from tests.support.db import server
from tests.support.engine import Engine
from tests.support.race import Contender, held, together
from tests.support.specs import tool, workflow

# Alone in a database: these duties look at every tenant.
pytestmark = [
    pytest.mark.req("B4.1", "B4.2"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]
MANY = workflow(*(tool(f"n{i:02}") for i in range(20)))


@pytest.fixture(autouse=True)
def kept(engine: Engine) -> Iterator[None]:
    yield
    assert not invariants.problems(engine.tenant.id, at_rest=False)


@pytest.fixture
def limits(settings: Any) -> Iterator[Callable[..., None]]:
    """Set fields of the configuration for this test."""

    def put(**fields: Any) -> None:
        settings.QUARTERDECK = {**settings.QUARTERDECK, **fields}
        conf.cache_clear()

    yield put
    settings.QUARTERDECK = {}
    conf.cache_clear()


def broken(
    engine: Engine, claimed: list[Claimed], outcome: str = "retry", error_class: str = "network"
) -> dict[Any, int]:
    """Report that the calls failed."""
    reports = []
    for one in claimed:
        report = Report(one, outcome, error={"class": error_class, "message": "away"}, input_sha256=b"1" * 32)
        if outcome == "retry":
            report.cause, report.not_before = "retry_scheduled", one.now + timedelta(hours=1)
        reports.append(report)
    return complete(engine.tenant.id, reports).freed


def breaker(engine: Engine) -> Breaker:
    with tenant_tx(engine.tenant.id):
        return Breaker.objects.get()


def waiting(engine: Engine, run_id: uuid.UUID) -> int:
    with tenant_tx(engine.tenant.id):
        return Step.objects.filter(run_id=run_id, status="queued", blocked_on__isnull=False).count()


def test_it_opens_lets_one_call_try_and_closes_by_its_success(engine, clock: Clock):
    run_id = engine.submit(MANY)
    broken(engine, engine.claim(9))
    assert breaker(engine).state == "closed"
    broken(engine, engine.claim(1))
    assert breaker(engine).state == "open"
    assert engine.claim() == []
    assert waiting(engine, run_id) == 10
    assert [a.attempt for a in engine.claimed.values()] == [1] * 10, "no attempt was spent on waiting"
    assert Turnstile().run_once() == 0
    clock.advance(31)
    assert Turnstile().run_once() == 1
    (probe,) = engine.claim()
    assert breaker(engine).state == "half_open"
    assert Turnstile().run_once() == 0, "one probe at a time"
    freed = complete(engine.tenant.id, [success(probe)]).freed
    assert breaker(engine).state == "closed"
    assert let_go(engine.tenant.id, freed) == 9
    assert len(engine.claim()) == 9
    engine.check(run_id)


def success(claimed: Claimed) -> Report:
    output = canonical_bytes({})
    return Report(claimed, "succeeded", output=output, output_sha256=digest(output), input_sha256=digest(output))


def test_a_probe_that_fails_opens_it_for_twice_as_long(engine, clock: Clock):
    engine.submit(MANY)
    broken(engine, engine.claim(10))
    clock.advance(31)
    engine.claim(1)
    (probe,) = [one for one in engine.claimed.values() if one.node.id == "n10"]
    broken(engine, [probe])
    found = breaker(engine)
    assert (found.state, found.opens) == ("open", 2)
    clock.advance(31)
    engine.claim()
    assert breaker(engine).state == "open"
    clock.advance(31)
    Turnstile().run_once()
    engine.claim()
    assert breaker(engine).state == "half_open"


@pytest.mark.parametrize(
    ("outcome", "error_class"), [("failed", "business"), ("failed", "not_found"), ("succeeded", "")]
)
def test_a_tool_that_answers_is_there(engine, outcome, error_class):
    engine.submit(MANY)
    broken(engine, engine.claim(9))
    (one,) = engine.claim(1)
    if outcome == "succeeded":
        complete(engine.tenant.id, [success(one)])
    else:
        broken(engine, [one], outcome, error_class)
    assert breaker(engine).failures == 0
    broken(engine, engine.claim(9))
    assert breaker(engine).state == "closed"


def test_failures_far_apart_are_counted_anew(engine, clock: Clock):
    engine.submit(MANY)
    broken(engine, engine.claim(9))
    clock.advance(61)
    broken(engine, engine.claim(1))
    assert (breaker(engine).state, breaker(engine).failures) == ("closed", 1)


def test_what_never_left_the_process_says_nothing_about_the_tool(engine):
    engine.submit(MANY)
    reports = [
        Report(one, "failed", error={"class": "timeout", "message": "", "sent": False}) for one in engine.claim(10)
    ]
    complete(engine.tenant.id, reports)
    assert list_breakers(actor=engine.actor) == []


def test_a_person_closes_it(engine):
    run_id = engine.submit(MANY)
    broken(engine, engine.claim(10))
    engine.claim()
    (found,) = list_breakers(actor=engine.actor)
    assert (found["tool"], found["error_class"], found["state"]) == ("core.noop@1", "network", "open")
    assert found["waiting"] == 10
    close_breaker(actor=engine.actor, breaker_id=found["id"], reason="the network is back")
    assert Turnstile().run_once() == 10
    assert waiting(engine, run_id) == 0


def test_a_person_opens_it_and_only_the_probe_closes_it(engine, clock: Clock):
    """A call that was under way and succeeds closes nothing: it says nothing about the calls after it."""
    run_id = engine.submit(MANY)
    first, second = engine.claim(2)
    broken(engine, [first])
    (found,) = list_breakers(actor=engine.actor)
    open_breaker(actor=engine.actor, breaker_id=found["id"], reason="it answers rubbish", seconds=60)
    complete(engine.tenant.id, [success(second)])
    assert breaker(engine).state == "open"
    assert engine.claim() == []
    assert waiting(engine, run_id) > 0
    clock.advance(61)
    Turnstile().run_once()
    (probe,) = engine.claim()
    assert breaker(engine).state == "half_open"
    complete(engine.tenant.id, [success(probe)])
    assert breaker(engine).state == "closed"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("retries_per_run", "run"),
        ("retries_per_tool", "tool"),
        ("retries_per_tenant", "tenant"),
        ("retries_in_all", "installation"),
        ("retries_per_input", "input"),
    ],
)
def test_retries_have_a_budget(engine, limits, clock: Clock, field, name):
    limits(**{field: 3})
    clock.advance(7200 if field == "retries_in_all" else 61)  # past the windows of other tests' tenants
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(5))))
    broken(engine, engine.claim())
    statuses = engine.statuses(run_id)
    assert sorted(statuses.values()) == ["failed"] * 2 + ["waiting(retry_scheduled)"] * 3
    errors = [engine.step(run_id, node).error for node, status in statuses.items() if status == "failed"]
    assert all(error["class"] == "network" and name in error["retry"] for error in errors)
    engine.check(run_id)


@pytest.mark.req("B4.2", "B5.2")
def test_an_input_is_the_same_for_one_version_of_tool_and_code_alone():
    same = ("pay@1", b"1" * 32, "1.0+a")
    others = {
        input_fingerprint(*one) for one in (("pay@2", *same[1:]), ("pay@1", b"2" * 32, "1.0+a"), (*same[:2], "2"))
    }
    assert len(others | {input_fingerprint(*same)}) == 4


def test_a_budget_begins_anew_with_its_window(engine, limits, clock: Clock):
    limits(retries_per_tool=2)
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(4))))
    broken(engine, engine.claim(2))
    clock.advance(61)
    broken(engine, engine.claim(2))
    assert set(engine.statuses(run_id).values()) == {"waiting(retry_scheduled)"}


def test_giving_back_is_no_try(engine):
    run_id = engine.submit(workflow(tool("a")))
    for _ in range(3):
        (claimed,) = engine.claim()
        engine.report(claimed, "given_back")
        fire_timers()
    (claimed,) = engine.claim()
    assert (claimed.attempt, claimed.tries) == (4, 1)
    engine.report(claimed, "retry", not_before=claimed.now)
    fire_timers()
    (claimed,) = engine.claim()
    assert (claimed.attempt, claimed.tries) == (5, 2)
    engine.check(run_id)


def test_one_call_is_the_probe_of_all_breakers_of_its_tool(engine, clock: Clock, limits):
    """Each is due at its own time: probes that are won one after the other would keep each other shut for ever."""
    limits(breaker_failures=2)
    engine.submit(MANY)
    first, second = engine.claim(2), engine.claim(2)
    broken(engine, first, error_class="network")
    clock.advance(5)
    broken(engine, second, error_class="timeout")
    clock.advance(26)
    Turnstile().run_once()
    assert engine.claim() == [], "the second is not due yet"
    clock.advance(6)
    assert Turnstile().run_once() == 1
    (probe,) = engine.claim()
    complete(engine.tenant.id, [success(probe)])
    with tenant_tx(engine.tenant.id):
        assert set(Breaker.objects.values_list("state", flat=True)) == {"closed"}


def failing(engine: Engine, claimed: list[Claimed]) -> list[Report]:
    reports = []
    for one in claimed:
        report = Report(one, "retry", error={"class": "network", "message": "away"}, input_sha256=b"1" * 32)
        report.cause, report.not_before = "retry_scheduled", one.now + timedelta(hours=1)
        reports.append(report)
    return reports


@pytest.fixture
def two(engine: Engine) -> tuple[list[Claimed], list[Claimed], dict[str, uuid.UUID]]:
    """Claimed calls of two tools that have failed before, and their breakers; the names are in this order."""
    names = ("core.echo@1", "core.noop@1")
    engine.submit(workflow(*(tool(f"n{i}{name[5]}", tool=name, input={}) for i in range(5) for name in names)))
    claimed = engine.claim()
    mine = [[one for one in claimed if one.node.tool == name] for name in names]
    for calls in mine:
        complete(engine.tenant.id, failing(engine, [calls.pop()]))
    with tenant_tx(engine.tenant.id):
        return mine[0], mine[1], dict(Breaker.objects.values_list("tool", "id"))


def test_tellers_of_several_tools_take_them_in_one_order(engine, test_database: Any, two):
    """The one that mends a later tool waits for the earlier one first, with nothing in its hands."""
    first, second, breakers = two
    reports = [*failing(engine, first[:1]), success(second[0])]
    with held(test_database, "qd_breaker", breakers["core.echo@1"]) as row:
        teller = row.queue(lambda: complete(engine.tenant.id, reports))
        with psycopg.connect(server().admin_url(test_database.name)) as onlooker:
            query = "SELECT FROM qd_breaker WHERE id = %s FOR UPDATE NOWAIT"
            assert onlooker.execute(query, [breakers["core.noop@1"]]).rowcount == 1, "nobody has it"
    teller.outcome()
    with tenant_tx(engine.tenant.id):
        found = dict(Breaker.objects.values_list("tool", "failures"))
    assert found == {"core.echo@1": 2, "core.noop@1": 0}


def test_who_would_be_the_probe_waits_for_nobody(engine, test_database: Any, clock: Clock):
    run_id = engine.submit(MANY)
    broken(engine, engine.claim(10))
    clock.advance(31)
    Turnstile().run_once()
    with held(test_database, "qd_breaker", breaker(engine).id):
        assert Contender(engine.claim).outcome(20) == []
    assert waiting(engine, run_id) == 10
    Turnstile().run_once()
    assert len(engine.claim()) == 1


def test_the_first_failure_of_many_at_once_is_counted_for_each(engine, limits):
    limits(breaker_failures=100)
    for _ in range(8):
        engine.submit(workflow(tool("a")))
    together(*(lambda one=one: broken(engine, [one]) for one in engine.claim()))
    found = breaker(engine)
    assert (found.failures, found.state, found.opens) == (8, "closed", 0)
