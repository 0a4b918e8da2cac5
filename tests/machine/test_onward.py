"""Who completes steps goes on with their successors: as far as there is room, and never past more urgent work."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.runs import pause_run
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import tool_of
from runtime.worker.complete import Completed, complete
from runtime.worker.onward import Onward
from runtime.worker.work import Claimed, Report
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A9.2", "C2.9"), pytest.mark.django_db(transaction=True)]

FAN = workflow(tool("a"), tool("b", "a"), tool("c", "a"), tool("d", "b", "c"))


def go_on(engine: Engine, claimed: Claimed, *, steps: int = 10, slots: int = 10, value: Any = None) -> Completed:
    """Report a success and go on; ``steps`` and ``slots`` are the room there is."""
    with tenant_tx(engine.tenant.id) as tx:
        tool_of(tx, "core.noop@1")
    output = canonical_bytes({} if value is None else value)
    report = Report(claimed, "succeeded", output=output, output_sha256=digest(output), input_sha256=digest(b"{}"))
    return complete(engine.tenant.id, [report], Onward(engine.claimer, ["default"], steps, slots))


def nodes(found: list[Claimed]) -> list[str]:
    return sorted(one.node.id for one in found)


def begin(engine: Engine, document: dict[str, Any], **more: Any) -> tuple[uuid.UUID, Claimed]:
    """Submit a run and claim its first step."""
    run = engine.submit(document, **more)
    return run, next(one for one in engine.claim() if one.run_id == run)


def test_successors_are_started_with_every_event(engine):
    run, first = begin(engine, FAN)
    ready, taken, _freed = go_on(engine, first)
    assert (ready, nodes(taken)) == (0, ["b", "c"])
    assert engine.statuses(run) == {"a": "succeeded", "b": "running", "c": "running", "d": "waiting"}
    assert engine.types(run, "b") == ["STEP_QUEUED", "STEP_STARTED"]
    engine.check(run)
    assert go_on(engine, taken[0]) == (0, [], {})
    last = go_on(engine, taken[1]).taken
    assert nodes(last) == ["d"]
    assert go_on(engine, last[0]) == (0, [], {})
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_what_there_is_no_room_for_stays_in_the_queue(engine):
    run, first = begin(engine, FAN)
    ready, taken, _freed = go_on(engine, first, steps=1)
    assert (ready, len(taken)) == (1, 1)
    assert sorted(engine.statuses(run).values()) == ["queued", "running", "succeeded", "waiting"]
    assert len(engine.claim()) == 1
    engine.check(run)


def test_a_call_that_waits_needs_a_slot_and_an_inline_one_does_not(engine):
    slow = {"id": "slow", "kind": "tool", "tool": "core.sleep@1", "input": {"seconds": 0}, "after": ["a"]}
    run, first = begin(engine, workflow(tool("a"), tool("quick", "a"), slow))
    ready, taken, _freed = go_on(engine, first, slots=0)
    assert (ready, nodes(taken)) == (1, ["quick"])
    assert engine.statuses(run)["slow"] == "queued"


def test_a_claim_leaves_what_it_has_no_slot_for(engine):
    slow = {"kind": "tool", "tool": "core.sleep@1", "input": {"seconds": 0}}
    run = engine.submit(workflow({"id": "s1", **slow}, {"id": "s2", **slow}))
    assert len(engine.claimer.claim(engine.tenant.id, "default", 10, slots=1)) == 1
    assert sorted(engine.statuses(run).values()) == ["queued", "running"]


@pytest.mark.parametrize(("priority", "goes_on"), [(1, False), (0, True), (-1, True)])
def test_it_does_not_pass_more_urgent_work(engine, priority, goes_on):
    run, first = begin(engine, FAN)
    other = engine.submit(workflow(tool("x"), name="other"), priority=priority)
    ready, taken, _freed = go_on(engine, first)
    assert bool(taken) is goes_on
    assert ready == (0 if goes_on else 2)
    assert engine.statuses(other) == {"x": "queued"}
    engine.check(run)


def test_a_paused_run_does_not_go_on(engine):
    run, first = begin(engine, FAN)
    pause_run(actor=engine.actor, run_id=run, reason="wait")
    assert go_on(engine, first).taken == []
    assert engine.statuses(run)["b"] == "queued"
    assert engine.claim() == []
    engine.check(run)


def test_a_session_that_is_over_does_not_go_on(engine):
    run, first = begin(engine, FAN)
    with plain_tx() as tx:
        tx.send("end_sessions", ("stopped", [engine.session_id]))
    ready, taken, _freed = go_on(engine, first)
    assert (ready, taken) == (2, [])
    assert engine.statuses(run)["a"] == "succeeded"


def test_the_next_step_reads_what_this_transaction_brought(engine):
    reader = tool("b", "a", input={"was": {"$": "nodes.a.output.answer"}})
    _run, first = begin(engine, workflow(tool("a"), reader))
    taken = go_on(engine, first, value={"answer": 42}).taken
    assert taken[0].upstream["a"]["output"] == {"answer": 42}
