"""The business State is the task's: a workflow says what it is, the run's end writes it, and it outlives the run."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from runtime.actions.reruns import new_run
from runtime.actions.runs import cancel_run
from runtime.actions.workflows import check
from runtime.kernel.canonical import digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import InvalidWorkflow
from runtime.models import Task
from runtime.queries.tasks import read_task
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.engine import Engine, refuse_writes
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A1.1", "A1.3"), pytest.mark.django_db(transaction=True)]

STATE = {"paid": {"$": "nodes.a.output.paid"}, "order": {"$": "input.order"}}


def state(engine: Engine, run_id: uuid.UUID) -> Any:
    return read_task(actor=engine.actor, task_id=engine.run(run_id).task_id)["state"]


def test_the_end_of_a_run_writes_it_and_whoever_may_read_payloads_sees_it(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), state=STATE), {"order": "W1"})
    engine.finish("a", value={"paid": "40.00"})
    assert state(engine, run) == {}, "nothing is written before the end"
    engine.finish("b")
    assert state(engine, run) == {"paid": "40.00", "order": "W1"}
    told = engine.events(run)[-1]
    assert (told.type, told.payload) == (
        "RUN_COMPLETED",
        {"state_sha256": digest(b'{"order":"W1","paid":"40.00"}').hex()},
    )
    viewer = member(engine.tenant, "viewer")
    assert "state" not in read_task(actor=viewer, task_id=engine.run(run).task_id)
    engine.check(run)


def test_it_outlives_the_run_and_the_next_completed_run_replaces_it(engine):
    run = engine.submit(workflow(tool("a"), state=STATE), {"order": "W1"})
    engine.finish("a", value={"paid": "40.00"})
    task = engine.run(run).task_id
    second = uuid.UUID(new_run(actor=engine.actor, task_id=task)["run_id"])
    engine.finish("a", "failed")
    assert (engine.run(second).status, state(engine, run)["paid"]) == ("failed", "40.00")
    third = uuid.UUID(new_run(actor=engine.actor, task_id=task)["run_id"])
    cancel_run(actor=engine.actor, run_id=third, reason="not now")
    assert state(engine, run)["paid"] == "40.00"
    fourth = uuid.UUID(new_run(actor=engine.actor, task_id=task)["run_id"])
    engine.finish("a", value={"paid": "0.00"})
    assert (engine.run(fourth).status, state(engine, run)["paid"]) == ("completed", "0.00")


def test_with_an_output_both_are_told(engine):
    run = engine.submit(workflow(tool("a"), state={"n": 1}, output={"$": "nodes.a.output"}))
    engine.finish("a", value={"n": 7})
    told = engine.events(run)[-1]
    assert set(told.payload) == {"state_sha256", "artifact_id"}
    assert bytes(told.output_sha256) == digest(b'{"n":7}')
    assert state(engine, run) == {"n": 1}


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"paid": {"$": "nodes.a.output.missing"}}, "missing"),
        ({"$": "nodes.a.output.paid"}, "no object"),
        ({"text": {"$": "nodes.a.output.text"}}, "the limit"),
    ],
)
def test_one_that_cannot_be_written_takes_nothing_from_the_run_and_leaves_what_was(engine, template, says):
    run = engine.submit(workflow(tool("a"), state=template))
    engine.finish("a", value={"paid": "40.00", "text": "x" * conf().inline_result_bytes})
    assert (engine.run(run).status, state(engine, run)) == ("completed", {})
    assert says in engine.events(run)[-1].payload["state_error"]
    engine.check(run)


def test_many_runs_that_end_together_have_their_own(engine):
    runs = [engine.submit(workflow(tool("a"), state=STATE), {"order": f"W{n}"}) for n in range(5)]
    for number, claimed in enumerate(sorted(engine.claim(), key=lambda one: runs.index(one.run_id))):
        engine.report(claimed, "succeeded", {"paid": str(number)})
    assert [state(engine, run) for run in runs] == [{"order": f"W{n}", "paid": str(n)} for n in range(5)]


def test_without_its_run_it_is_not_written(engine, fresh_db):
    """One transaction: where the run's end is not written, the State is not either."""
    run = engine.submit(workflow(tool("a"), state=STATE), {"order": "W1"})
    task = engine.run(run).task_id
    refuse_writes(fresh_db, "qd_task", "id", task)
    engine.finish("a", value={"paid": "40.00"})
    assert engine.run(run).status != "completed"
    with tenant_tx(engine.tenant.id):
        assert Task.objects.get(id=task).state == {}


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ({"x": {"$": "nodes.z.output"}}, "/state/x/$"),
        ({"x": {"$": "1 +"}}, "/state/x/$"),
        ([1], "/state"),
        ("x", "/state"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_registered(engine, template, where):
    with pytest.raises(InvalidWorkflow) as refused:
        check(actor=engine.actor, raw=json.dumps(workflow(tool("a"), state=template)))
    assert refused.value.where == where
