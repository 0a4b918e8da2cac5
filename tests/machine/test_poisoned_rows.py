"""A row whose bytes are no JSON fails the step that reads it, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kernel import seams
from runtime.worker.drain import Drain
from runtime.worker.session import Session
from tests.support.engine import Engine, past_every_guard
from tests.support.nodes import echo, node
from tests.support.office import Office
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]
POISONS = {
    "undecodable": b"\xff\xfe{}",
    "too deep": b"[" * 5000 + b"]" * 5000,
    "nul": b'{"a": "\x00"}',
    "half a pair": b'"\\ud800"',
    "not a number": b'{"a": NaN}',
    "cut": b'{"a": ',
    "nothing": b"",
}


def drain() -> None:
    session = Session()
    Drain(session).run()
    session.end()


def test_a_poisoned_input_fails_its_step_alone(fresh_db, tenant):
    engine = Engine(tenant)
    document = workflow(echo("a", input={"v": {"$": "input"}}), echo("b"))
    good = [engine.submit(document) for _ in range(3)]
    bad = {name: engine.submit(document) for name in POISONS}
    with past_every_guard(fresh_db) as connection:
        for name, run_id in bad.items():
            connection.execute(
                "UPDATE qd_task SET input = %s WHERE id = (SELECT task_id FROM qd_run WHERE id = %s)",
                [POISONS[name], run_id],
            )
    drain()
    assert {engine.run(run_id).status for run_id in good} == {"completed"}
    for name, run_id in bad.items():
        assert engine.statuses(run_id) == {"a": "failed", "b": "succeeded"}, name


def test_a_poisoned_output_fails_who_reads_it(fresh_db, tenant):
    engine = Engine(tenant)
    document = workflow(echo("a"), echo("b", "a", input={"v": {"$": "nodes.a.output"}}), echo("c", "a"))
    runs: dict[str, Any] = {name: engine.submit(document) for name in [*POISONS, "good"]}
    for one in engine.claim():
        engine.report(one, "succeeded")
    with past_every_guard(fresh_db) as connection:
        for name, poison in POISONS.items():
            connection.execute("UPDATE qd_checkpoint SET output = %s WHERE run_id = %s", [poison, runs[name]])
    drain()
    assert engine.statuses(runs.pop("good")) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
    for name, run_id in runs.items():
        assert engine.statuses(run_id) == {"a": "succeeded", "b": "failed", "c": "succeeded"}, name
        error = engine.step(run_id, "b").error
        assert error is not None
        assert error["code"] == "poisoned_payload"


@pytest.mark.req("C3.3")
@pytest.mark.parametrize("problem", [AttributeError, AssertionError, RuntimeError, ZeroDivisionError])
def test_a_gate_that_breaks_on_one_call_fails_that_call_alone(fresh_db, tenant, monkeypatch, problem):
    office = Office(tenant)

    def gate(question: str, tx: Any, subjects: Any) -> list[seams.GateAnswer]:
        if any(one.claimed.node.id == "b" for one in subjects):
            raise problem("the gate has not thought of this one")
        return [seams.ALLOW] * len(subjects)

    monkeypatch.setitem(seams._gates, "test", gate)
    run_id = office.submit(workflow(*(node(name, "office.tell@1", input={"text": name}) for name in "abc")))
    drain()
    assert office.statuses(run_id) == {"a": "succeeded", "b": "failed", "c": "succeeded"}
    assert office.step(run_id, "b").error["code"] == "intent_refused"


@pytest.mark.parametrize("problem", [AttributeError, AssertionError, RuntimeError, KeyError])
def test_whoever_breaks_on_one_hold_fails_the_step_before_it_alone(fresh_db, tenant, monkeypatch, problem):
    """An upper app hears of holds inside the completion's transaction; its fault must not undo the others' results."""
    engine = Engine(tenant)
    ask = {"id": "ask", "kind": "approval", "title": "Go on?", "role": "approver", "payload": {}, "after": ["a"]}
    good, bad = (engine.submit(workflow(tool("a"), ask, name=name)) for name in ("good", "bad"))

    def hear(frame: Any, news: seams.HoldNews) -> None:
        if any(run.id == bad for run, _step in news.began):
            raise problem("nobody has thought of this one")

    monkeypatch.setitem(seams._hold_listeners, "test", hear)
    drain()
    assert engine.statuses(good) == {"a": "succeeded", "ask": "hold(approval)"}
    assert engine.statuses(bad)["a"] == "failed"
    assert engine.step(bad, "a").error["code"] == "report_refused"
