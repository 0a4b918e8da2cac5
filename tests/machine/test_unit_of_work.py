"""What one transaction of the machine promises: all or nothing, and nothing over somebody else's move (B5.1, B2.3)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from runtime.actions.runs import cancel_run
from runtime.actions.steps import hold_step, kill_step, skip_step
from runtime.graph.plans import plan_of
from runtime.kernel.errors import QuarterdeckError, Stale
from runtime.machine.apply import flush, move_step, note
from runtime.machine.frame import Frame
from runtime.models import Event
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine, force_columns
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B5.1", "B2.3"), pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("changed", [{"status": "killed"}, {"version": 9}])
def test_zero_rows_is_stale_and_nothing_else_happens(engine, test_database, changed):
    run_id = engine.submit(workflow(tool("a"), tool("b")))
    before = engine.types(run_id)

    def skip_both() -> None:
        with tenant_tx(engine.tenant.id) as tx:
            frame = Frame(tx, plan_of)
            run = frame.run(run_id)
            frame.load([(run_id, "a"), (run_id, "b")])
            # Somebody who does not take the run's lock changes the row in between.
            force_columns(test_database, "qd_step", run.steps["a"].id, **changed)
            move_step(run, run.steps["b"], "skipped", by="operator", cause="user")
            move_step(run, run.steps["a"], "skipped", by="operator", cause="user")
            frame.flush()

    with pytest.raises(Stale):
        skip_both()
    assert engine.types(run_id) == before
    assert engine.step(run_id, "b").status == "queued"


def test_a_run_row_changed_without_its_lock_is_stale_too(engine):
    run_id = engine.submit(workflow(tool("a")))
    before = engine.types(run_id)

    def append() -> None:
        with tenant_tx(engine.tenant.id) as tx:
            frame = Frame(tx, plan_of)
            run = frame.run(run_id)
            run.read_seq -= 1
            note(run, "NOTE")
            frame.flush()

    with pytest.raises(Stale):
        append()
    assert engine.types(run_id) == before


def test_moves_of_one_transaction_are_updates_of_their_own(engine):
    """Two moves of a row in one transaction are two events and two versions, seen one by one by the guard."""
    run_id = engine.submit(workflow(tool("a")))
    with tenant_tx(engine.tenant.id) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(run_id)
        frame.load([(run_id, "a")])
        move_step(run, run.steps["a"], "running", by="engine", worker=engine.session_id)
        move_step(run, run.steps["a"], "unknown", by="engine", cause="lease_lost", fence=True)
        move_step(run, run.steps["a"], "waiting", by="engine", cause="reconciled")
        move_step(run, run.steps["a"], "queued", by="engine")
        flush(tx, [run])
        flush(tx, [run])
    row = engine.step(run_id, "a")
    assert (row.status, row.version, row.owner_epoch, row.attempt) == ("queued", 6, 2, 1)
    assert engine.types(run_id, "a")[-4:] == ["STEP_STARTED", "STEP_UNKNOWN", "STEP_WAITING", "STEP_QUEUED"]


def test_events_of_a_rolled_back_transaction_leave_no_gap(engine):
    run_id = engine.submit(workflow(tool("a")))

    def broken() -> None:
        with tenant_tx(engine.tenant.id) as tx:
            frame = Frame(tx, plan_of)
            run = frame.run(run_id)
            frame.load([(run_id, "a")])
            move_step(run, run.steps["a"], "killed", by="operator")
            frame.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    engine.finish("a")
    with tenant_tx(engine.tenant.id):
        seqs = list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    engine.check(run_id)


@pytest.mark.req("C8.2")
def test_verbs_at_once_leave_one_story(engine):
    """Operators, a cancel and the worker act at the same moment: each wins or is told so, and the events add up."""
    run_id = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a"), tool("d", "b", "c")))
    claimed = {one.node.id: one for one in engine.claim()}
    steps = {node: engine.step(run_id, node) for node in "abcd"}
    refused: list[BaseException] = []
    go = threading.Barrier(6)

    def at_once(work: Any) -> None:
        try:
            go.wait()
            work()
        except QuarterdeckError as problem:
            refused.append(problem)
        finally:
            connections.close_all()

    def verb(call: Any, node: str) -> Any:
        step = steps[node]
        return lambda: call(actor=engine.actor, step_id=step.id, expected_version=step.version, reason="now")

    acts = [
        verb(kill_step, "a"),
        verb(skip_step, "c"),
        verb(hold_step, "c"),
        lambda: engine.report(claimed["a"], "succeeded"),
        lambda: engine.report(claimed["b"], "succeeded"),
        lambda: cancel_run(actor=engine.actor, run_id=run_id, reason="now"),
    ]
    threads = [threading.Thread(target=at_once, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(problem.http_status == 409 for problem in refused)
    assert engine.run(run_id).status in ("cancelled", "failed", "completed", "partially_completed")
    _no_open_step(engine, run_id)
    engine.check(run_id)


def _no_open_step(engine: Engine, run_id: Any) -> None:
    assert not {s.split("(")[0] for s in engine.statuses(run_id).values()} & {
        "waiting",
        "queued",
        "running",
        "hold",
        "unknown",
    }
