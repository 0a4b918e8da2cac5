"""A run's budget bounds the runs below it too: what a child uses is used of its parent's budget (C1.2, C3.2, B4.2)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.actions.reruns import new_run
from runtime.queries.runs import read_run
from tests.machine.test_run_budget import call, error, finish, operations, pay, used
from tests.support.engine import Engine
from tests.support.office import Office
from tests.support.race import together
from tests.support.specs import workflow
from tests.support.statements import captured

pytestmark = [pytest.mark.req("C1.2", "C3.2", "B4.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(tenant: Any) -> Office:
    return Office(tenant)


def above(office: Office, **budget: int) -> Any:
    """Return a run with a budget, of which one call is used."""
    run_id = office.submit(workflow(call("first"), name="above"), budget=budget)
    office.work()
    return run_id


def below(office: Office, parent: Any, *nodes: dict[str, Any], **more: Any) -> Any:
    return office.submit(
        workflow(*(nodes or (call("x"), call("y", "x"), call("z", "y"))), name="below"), parent=parent, **more
    )


def test_calls_of_a_child_are_calls_of_its_parent(office):
    parent = above(office, calls=3)
    child = below(office, parent)
    office.work()
    assert office.statuses(child) == {"x": "succeeded", "y": "succeeded", "z": "failed"}
    assert error(office, child, "z") == ("budget", "calls_exhausted", False)
    assert str(parent) in office.step(child, "z").error["message"], "it says whose budget that is"
    assert used(office, parent) == {"calls": 3}
    office.check(child)


def test_a_child_is_bounded_by_its_own_budget_and_by_what_is_left_above_it(office):
    parent = above(office, calls=4)
    narrow = below(office, parent, budget={"calls": 1})
    office.work()
    assert list(office.statuses(narrow).values()).count("succeeded") == 1
    assert "The run's budget" in office.step(narrow, "y").error["message"]
    wide = below(office, parent, budget={"calls": 100})
    office.work()
    assert list(office.statuses(wide).values()).count("succeeded") == 2, "1 + 1 of 4 were used"
    assert (used(office, narrow), used(office, wide), used(office, parent)) == (
        {"calls": 1},
        {"calls": 2},
        {"calls": 4},
    )


def test_generations_and_new_runs_of_a_child_evade_nothing(office):
    parent = above(office, calls=4)
    child = below(office, parent, call("x"))
    office.work()
    grandchild = below(office, child, call("x"))
    office.work()
    assert list(office.statuses(grandchild).values()) == ["succeeded"]
    again = new_run(actor=office.admin, task_id=office.run(child).task_id, budget={"calls": 50})
    office.work()
    assert read_run(actor=office.actor, run_id=again["run_id"])["status"] == "completed"
    again = new_run(actor=office.admin, task_id=office.run(grandchild).task_id)
    office.work()
    assert error(office, again["run_id"], "x") == ("budget", "calls_exhausted", False)
    assert used(office, parent) == {"calls": 4}


def test_what_a_parent_calls_is_no_longer_there_for_its_children_and_the_other_way_round(office, clock):
    parent = office.submit(workflow(call("a"), call("b", "a"), call("c", "b"), name="above"), budget={"calls": 3})
    (a,) = office.claim()
    child = below(office, parent, call("x"), call("y", "x"))
    office.call([a])
    finish(office, clock)
    ended = [*office.statuses(parent).values(), *office.statuses(child).values()]
    assert ended.count("succeeded") == 3
    assert used(office, parent) == {"calls": 3}


def test_effects_of_a_child_are_effects_of_its_parent(office):
    parent = office.submit(workflow(pay("a"), name="above"), budget={"effects": 2})
    office.work()
    child = below(office, parent, pay("b"), pay("c", "b"))
    office.work()
    assert office.statuses(child) == {"b": "succeeded", "c": "failed"}
    assert error(office, child, "c") == ("budget", "effects_exhausted", False)
    assert operations(office, child) == {"b"}
    assert used(office, parent) == {"effects": 2}


def test_two_children_that_write_at_once_do_not_begin_one_effect_too_many(office):
    """Each holds its own run's lock; the budget's lets their intents be written one after the other."""
    parent = above(office, effects=1)
    children = [below(office, parent, pay(name)) for name in ("a", "b")]
    claimed = office.claim()
    assert len(claimed) == 2
    together(*(lambda one=one: office.call([one]) for one in claimed))
    assert sorted(status for child in children for status in office.statuses(child).values()) == ["failed", "succeeded"]
    assert used(office, parent) == {"effects": 1}


@pytest.mark.usefixtures("fresh_db")
def test_two_workers_that_claim_in_two_children_count_one_after_the_other(office, tenant):
    parent = above(office, calls=2)
    for _ in range(2):
        below(office, parent, call("x"))
    workers = [Engine(tenant), Engine(tenant)]
    found = together(*(lambda one=one: one.claim(1) for one in workers))
    claimed = [one for batch in found for one in batch]
    while len(claimed) < 2:  # one may have found everything locked by the other
        claimed += workers[0].claim(1)
    counts = [one.calls[0] for one in claimed]
    assert sorted(one.before for one in counts) == [1, 2]
    assert {(one.run_id, one.most) for one in counts} == {(parent, 2)}


def test_a_run_that_nothing_bounds_asks_nothing(office):
    parent = above(office)
    with captured() as statements:
        below(office, parent)
        office.work()
    assert not [sql for sql, _params in statements if "family" in sql or "calls:" in sql or "effects:" in sql]
