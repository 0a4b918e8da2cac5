"""A run's budget of calls and effects is counted in the ledger; what goes beyond it is refused, unsent (C3.2, B4.2)."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from runtime.actions.reruns import new_run, rerun_task
from runtime.actions.steps import rerun_step
from runtime.actions.workflows import authorise_verifier
from runtime.kernel.errors import BadInput
from runtime.models import AuditEntry, Operation
from runtime.queries.runs import read_run
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.timers import fire_timers
from tests.support.clock import Clock
from tests.support.engine import force_columns
from tests.support.office import Office, asking
from tests.support.race import together
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C1.2", "C3.2", "B4.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(tenant: Any) -> Office:
    """A tenant with writing tools, driven by hand."""
    return Office(tenant)


def call(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": "tool", "tool": "core.echo@1", "after": list(after), "input": {}, **more}


def pay(name: str, *after: str, key: str | None = None) -> dict[str, Any]:
    return call(name, *after, tool="office.pay@1", business_key=f"'{key or name}:' + run.id", input={"to": key or name})


def used(office: Office, run_id: Any) -> dict[str, int]:
    return read_run(actor=office.actor, run_id=run_id)["budget_used"]


def error(office: Office, run_id: Any, node: str) -> tuple[Any, ...]:
    found = office.step(run_id, node).error or {}
    return found.get("class"), found.get("code"), found.get("sent")


def operations(office: Office, run_id: Any) -> set[str]:
    with tenant_tx(office.tenant.id):
        return {one.business_key.split(":")[0] for one in Operation.objects.filter(run_id=run_id)}


def test_the_call_beyond_the_budget_is_refused_for_good_and_nothing_is_sent(office):
    run_id = office.submit(workflow(call("a"), call("b", "a"), call("c", "b")), budget={"calls": 2})
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "succeeded", "c": "failed"}
    assert error(office, run_id, "c") == ("budget", "calls_exhausted", False)
    assert used(office, run_id) == {"calls": 2}, "what was refused is no call"
    assert office.run(run_id).status == "failed"
    office.check(run_id)


def finish(office: Office, clock: Clock) -> None:
    """Work until what waits for calls in hand has been looked at again."""
    for _ in range(4):
        office.work()
        clock.advance(60)
        fire_timers()
    office.work()


def test_calls_that_start_together_share_the_budget(office, clock):
    run_id = office.submit(workflow(*(call(f"n{i}") for i in range(6))), budget={"calls": 4})
    finish(office, clock)
    assert sorted(office.statuses(run_id).values()) == ["failed"] * 2 + ["succeeded"] * 4
    assert used(office, run_id) == {"calls": 4}


def test_a_retry_is_a_call(office):
    run_id = office.submit(workflow(call("a"), call("b", "a")), budget={"calls": 2})
    (first,) = office.claim()
    office.report(first, "retry", seconds=0.1, not_before=first.now)
    office.claim()
    assert used(office, run_id) == {"calls": 1}


def test_what_was_given_back_is_no_call(office):
    run_id = office.submit(workflow(call("a")), budget={"calls": 1})
    (first,) = office.claim()
    assert used(office, run_id) == {"calls": 1}, "it is under way"
    office.report(first, "given_back", cause="given_back")
    assert used(office, run_id) == {"calls": 0}


def test_an_effect_beyond_the_budget_is_refused_before_any_intent(office):
    run_id = office.submit(workflow(pay("a"), pay("b", "a"), call("c", "a")), budget={"effects": 1})
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "failed", "c": "succeeded"}
    assert error(office, run_id, "b") == ("budget", "effects_exhausted", False)
    assert operations(office, run_id) == {"a"}
    assert used(office, run_id) == {"effects": 1}
    office.check(run_id)


def test_effects_that_start_together_share_the_budget(office):
    run_id = office.submit(workflow(*(pay(f"n{i}") for i in range(5))), budget={"effects": 3})
    office.work()
    assert sorted(office.statuses(run_id).values()) == ["failed"] * 2 + ["succeeded"] * 3
    assert len(operations(office, run_id)) == 3


def test_two_workers_do_not_begin_one_effect_too_many(office):
    """Both hold a claimed writing step of the run; its lock lets their intents be written one after the other."""
    run_id = office.submit(workflow(pay("a"), pay("b")), budget={"effects": 1})
    claimed = office.claim()
    together(*(lambda one=one: office.call([one]) for one in claimed))
    assert sorted(office.statuses(run_id).values()) == ["failed", "succeeded"]
    assert len(operations(office, run_id)) == 1


def test_a_budget_of_no_effects_lets_a_run_read(office):
    run_id = office.submit(workflow(call("a"), pay("b", "a")), budget={"effects": 0})
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "failed"}
    assert operations(office, run_id) == set()


def test_an_answer_from_the_ledger_is_no_further_effect(office):
    run_id = office.submit(workflow(pay("a", key="one"), pay("b", "a", key="one")), budget={"effects": 1})
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "succeeded"}
    assert operations(office, run_id) == {"one"}
    assert used(office, run_id) == {"effects": 1}


@pytest.mark.req("C5.6")
def test_nobody_is_asked_for_what_the_budget_refuses_anyway(office):
    run_id = office.submit(asking(), {"to": "Di"}, budget={"effects": 1})
    office.work()
    office.decide(office.pending(run_id))
    office.work()
    assert office.statuses(run_id)["pay"] == "succeeded"
    assert error(office, run_id, "tell") == ("budget", "effects_exhausted", False)
    assert [one["node"] for one in office.requests(run_id)] == ["ask"]


@pytest.mark.req("A9.6", "C4.10")
def test_a_new_run_has_the_tasks_budget_anew_or_one_of_its_own(office):
    run_id = office.submit(workflow(call("a"), call("b", "a")), budget={"calls": 1})
    office.work()
    task_id = office.run(run_id).task_id
    again = new_run(actor=office.actor, task_id=task_id)["run_id"]
    office.work()
    assert (used(office, again), office.run(again).status) == ({"calls": 1}, "failed")
    wider = new_run(actor=office.actor, task_id=task_id, budget={"calls": 9})["run_id"]
    office.work()
    assert (used(office, wider), office.run(wider).status) == ({"calls": 2}, "completed")
    assert office.events(wider)[0].payload["budget"] == {"calls": 9}
    with pytest.raises(BadInput) as refused:
        new_run(actor=office.actor, task_id=task_id, budget={"call": 9})
    assert refused.value.where == "/budget"


def test_of_a_budget_that_an_older_version_kept_as_it_came_what_has_todays_form_counts(office, database):
    run_id = office.submit(workflow(call("a"), call("b", "a")), budget={"calls": 1})
    office.work()
    task_id = office.run(run_id).task_id
    force_columns(database, "qd_task", task_id, budget='{"calls": "5", "effects": 2, "currency": 7, "team": "x"}')
    again = new_run(actor=office.actor, task_id=task_id)["run_id"]
    office.work()
    assert office.run(again).status == "completed"
    assert (office.run(again).budget, used(office, again)) == ({"effects": 2}, {"effects": 0})
    with tenant_tx(office.tenant.id):
        bodies = AuditEntry.objects.filter(run_id=again, verb="run.create").values_list("body", flat=True)
        assert [json.loads(bytes(one))["details"]["budget"] for one in bodies] == [{"effects": 2}]


def test_a_step_that_is_called_again_in_its_run_uses_the_same_budget(office):
    run_id = office.submit(workflow(call("a"), pay("b", "a")), budget={"calls": 2})
    (first,) = office.claim()
    office.call([first])
    office.act(rerun_step, run_id, "a")
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "failed"}
    assert error(office, run_id, "b") == ("budget", "calls_exhausted", False)
    assert operations(office, run_id) == set()


@pytest.mark.req("A9.6", "C4.10")
def test_what_is_run_again_keeps_the_budget_of_the_run_it_repeats(office):
    run_id = office.submit(workflow(call("a"), pay("p", "a")), budget={"calls": 1})
    office.work()
    own = {"calls": 9, "effects": 0}
    wide = new_run(actor=office.actor, task_id=office.run(run_id).task_id, budget=own)["run_id"]
    office.work()
    again = [office.act(rerun_step, uuid.UUID(wide), "p")["run_id"]]
    office.work()
    again.append(rerun_task(actor=office.actor, task_id=office.run(run_id).task_id, reason="again")["run_id"])
    office.work()
    for one in again:
        assert read_run(actor=office.actor, run_id=uuid.UUID(one))["budget"] == own
        assert error(office, uuid.UUID(one), "p") == ("budget", "effects_exhausted", False)
        assert operations(office, uuid.UUID(one)) == set()


@pytest.mark.req("A9.6")
def test_what_is_adopted_takes_no_room_from_what_is_called(office, clock):
    run_id = office.submit(workflow(call("a"), call("b"), call("c")), budget={"calls": 2})
    finish(office, clock)
    assert sorted(office.statuses(run_id).values()) == ["failed", "succeeded", "succeeded"]
    again = uuid.UUID(rerun_task(actor=office.actor, task_id=office.run(run_id).task_id, reason="again")["run_id"])
    finish(office, clock)
    assert set(office.statuses(again).values()) == {"succeeded"}
    assert used(office, again) == {"calls": 1}


def test_what_another_worker_has_in_hand_is_waited_for(office, clock):
    """The call in hand is given back uncalled; had it been made, the other would have been refused for good."""
    run_id = office.submit(workflow(call("a"), call("b")), budget={"calls": 1})
    first, second = office.claim()
    office.call([second])
    assert office.statuses(run_id)[second.node.id] == "waiting(given_back)"
    office.report(first, "given_back", cause="given_back")
    finish(office, clock)
    assert sorted(office.statuses(run_id).values()) == ["failed", "succeeded"]
    assert used(office, run_id) == {"calls": 1}


def test_a_call_whose_verdict_cannot_be_reached_is_a_call(office):
    authorise_verifier(actor=office.admin, name="paid", version=1, method="machine_check")
    judge = call("judge", kind="verifier", verifier="paid@1", criterion="output.total.x.y > 40", input={"total": 1})
    run_id = office.submit(workflow(judge, {"id": "ask", "kind": "wait", "seconds": 100000}), budget={"calls": 1})
    office.work()
    assert error(office, run_id, "judge")[0] == "validation"
    assert used(office, run_id) == {"calls": 1}
    office.act(rerun_step, run_id, "judge")
    office.work()
    assert error(office, run_id, "judge") == ("budget", "calls_exhausted", False)
