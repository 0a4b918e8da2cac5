"""A run that somebody holds for long: the scheduler's duties pass it by and look after all others (C5.2, C2.6)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from runtime.actions.runs import cancel_run
from runtime.kernel.conf import conf
from runtime.worker.maintenance import each
from runtime.worker.maintenance.timers import enforce_cancels, enforce_deadlines
from tests.support.duties import expire_requests
from tests.support.engine import Engine
from tests.support.factories import make_tenant
from tests.support.office import Office
from tests.support.operations import send
from tests.support.race import held
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C5.2")


@pytest.fixture(autouse=True)
def _nothing_is_left_alone() -> Iterator[None]:
    each.forget()
    yield
    each.forget()


@pytest.fixture
def other(engine: Engine) -> Engine:
    """The engine of another tenant."""
    return Engine(make_tenant())


def test_a_held_run_stops_no_deadline_of_others(fresh_db, engine, other, clock):
    soon, later = clock.now() + timedelta(hours=1), clock.now() + timedelta(hours=2)
    blocked = engine.submit(workflow(tool("a"), name="w"), deadline=soon)
    free = other.submit(workflow(tool("a"), name="w"), deadline=later)
    clock.advance(timedelta(hours=3))
    with held(fresh_db, "qd_run", blocked):
        assert enforce_deadlines() == 1
        assert (engine.run(blocked).status, other.run(free).status) == ("queued", "failed")
    each.forget()
    assert enforce_deadlines() == 1
    assert engine.run(blocked).status == "failed"


@pytest.mark.req("C5.5")
def test_a_held_run_stops_no_cancel_of_others(fresh_db, engine, other, clock):
    runs = [_cancelled(engine), _cancelled(other)]
    clock.advance(conf().cancel_grace_seconds + 1)
    with held(fresh_db, "qd_run", runs[0]):
        assert enforce_cancels() == 1
        assert (engine.statuses(runs[0])["a"], other.statuses(runs[1])["a"]) == ("running", "killed(cancelled)")
    each.forget()
    assert enforce_cancels() == 1
    assert engine.statuses(runs[0])["a"] == "killed(cancelled)"


def _cancelled(engine: Engine) -> uuid.UUID:
    """Return a cancelled run whose call is under way."""
    run_id = engine.submit(workflow(tool("a"), tool("b"), name="w"))
    (claimed,) = [one for one in engine.claim() if one.node.id == "a"]
    send(engine, claimed, f"a:{run_id}")
    cancel_run(actor=engine.actor, run_id=run_id, reason="no longer")
    return run_id


@pytest.mark.req("A7.3")
def test_a_held_run_stops_no_end_of_others_requests(fresh_db, clock):
    offices = [Office(make_tenant()), Office(make_tenant())]
    runs: list[Any] = [office.ask() for office in offices]
    clock.advance(timedelta(days=4))
    with held(fresh_db, "qd_run", runs[0]):
        assert expire_requests() == 1
        assert [office.states(run) for office, run in zip(offices, runs, strict=True)] == [["pending"], ["rejected"]]
    each.forget()
    assert expire_requests() == 1
    assert offices[0].states(runs[0]) == ["rejected"]
