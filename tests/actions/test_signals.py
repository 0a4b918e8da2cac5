"""External events: delivered once to the step that waits, kept for one that will, recorded when they come late."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.finish import kill_step
from runtime.actions.inbox import MessageConflict
from runtime.actions.runs import cancel_run
from runtime.actions.signals import signal_run
from runtime.graph import plans
from runtime.kernel.errors import BadInput, InvalidWorkflow, NotFound, PermissionDenied
from runtime.models import Inbox, Run
from runtime.store.tx import tenant_tx
from runtime.worker.execute import begin
from runtime.worker.maintenance import signals
from runtime.worker.maintenance.signals import Deliverer, end_overdue
from tests.support.actors import member
from tests.support.engine import Engine, force_columns
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C5.1", "C2.5"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database, since duties look at every tenant."""
    return Engine(tenant)


def waiting(engine, value=None, **wait):
    """Submit a run that looks and then waits for ``settled``; it waits already."""
    node = {"id": "paid", "kind": "wait", "event": "settled", "after": ["look"], **wait}
    return engine.submit(workflow(tool("look"), node, tool("after", "paid")), value or {"order": "A-1"})


def signal(engine, run_id, event_id="e-1", name="settled", **more):
    answer = signal_run(actor=engine.actor, run_id=run_id, name=name, event_id=event_id, payload={"n": 1}, **more)
    engine.check(run_id)
    return answer


def work(engine):
    """Run what is claimed the way a worker does: the wait gives the event as its output."""
    done = {}
    for claimed in engine.claim():
        report = begin(claimed, lambda reference: None)
        done[claimed.node.id] = report
        engine.report(claimed, "succeeded")
    return done


def test_a_step_waits_without_a_worker_and_goes_on_with_the_event(engine):
    run_id = waiting(engine)
    engine.finish("look")
    assert engine.statuses(run_id)["paid"] == "hold(external)"
    assert engine.run(run_id).status == "waiting_external"
    answer = signal(engine, run_id, correlation_id="c")
    assert (answer["result"], answer["node"], answer["replayed"]) == ("delivered", "paid", False)
    report = work(engine)["paid"]
    assert b'"payload":{"n":1}' in report.output
    assert b'"event_id":"e-1"' in report.output
    assert engine.statuses(run_id)["after"] == "queued"
    assert "EVENT_RECEIVED" in engine.types(run_id, "paid")
    engine.check(run_id)


def test_the_same_event_again_does_nothing_and_says_so(engine):
    run_id = waiting(engine)
    engine.finish("look")
    signal(engine, run_id)
    before = engine.run(run_id).seq
    again = signal(engine, run_id)
    assert (again["result"], again["replayed"]) == ("delivered", True)
    assert engine.run(run_id).seq == before
    with pytest.raises(MessageConflict):
        signal_run(actor=engine.actor, run_id=run_id, name="settled", event_id="e-1", payload={"n": 2})
    assert engine.run(run_id).seq == before


def test_one_event_from_many_at_once_is_delivered_once(engine):
    run_id = waiting(engine)
    engine.finish("look")
    answers = together(*[lambda: signal(engine, run_id)] * 8)
    assert {answer["result"] for answer in answers} == {"delivered"}
    assert sum(not answer["replayed"] for answer in answers) == 1
    assert engine.types(run_id).count("EVENT_RECEIVED") == 1


def test_an_early_event_is_kept_until_its_step_waits(engine):
    run_id = waiting(engine)
    assert signal(engine, run_id)["result"] == "kept"
    assert Deliverer().run_once() == 0
    engine.finish("look")
    assert engine.statuses(run_id)["paid"] == "hold(external)"
    assert Deliverer().run_once() == 1
    assert engine.statuses(run_id)["paid"] == "queued"
    assert Deliverer().run_once() == 0
    engine.check(run_id)


def test_runs_whose_events_are_for_another_step_keep_nobody_from_theirs(engine, monkeypatch):
    """However many of them there are: each turn looks at the next page."""
    monkeypatch.setattr(signals, "_BATCH", 2)
    other = {"id": "sent", "kind": "wait", "event": "shipped", "after": ["look"]}
    paid = {"id": "paid", "kind": "wait", "event": "settled", "after": ["sent"]}
    idle = [engine.submit(workflow(tool("look"), other, paid, name="both"), {}) for _ in range(5)]
    last = waiting(engine)
    for run_id in [*idle, last]:
        assert signal(engine, run_id)["result"] == "kept"
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
    duty = Deliverer()
    assert [duty.run_once() for _ in range(4)] == [0, 0, 1, 0]
    assert engine.statuses(last)["paid"] == "queued"
    assert {engine.statuses(run_id)["sent"] for run_id in idle} == {"hold(external)"}
    for run_id in idle:
        signal(engine, run_id, "s-1", name="shipped")
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
    assert sum(duty.run_once() for _ in range(4)) == 5, "and begins anew"


@pytest.mark.req("C5.2")
def test_a_broken_run_keeps_no_other_of_its_tenant_from_its_time_limit(fresh_db, engine, clock):
    runs = [waiting(engine, expires_s=60) for _ in range(4)]
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
    bad = engine.submit(workflow({"id": "paid", "kind": "wait", "event": "settled", "expires_s": 30}, name="bad"))
    with tenant_tx(engine.tenant.id):
        version = Run.objects.get(id=bad).workflow_version_id
    force_columns(fresh_db, "qd_workflow_version", version, spec=b"{}")
    plans._by_version.clear()
    clock.advance(61)
    assert end_overdue() == 4
    assert {engine.statuses(run_id)["paid"] for run_id in runs} == {"skipped(deadline)"}
    assert engine.statuses(bad) == {"paid": "hold(external)"}
    assert end_overdue() == 0


@pytest.mark.parametrize("end", ["cancelled", "killed"])
def test_a_late_event_is_recorded_and_changes_no_status(engine, end):
    run_id = waiting(engine)
    engine.finish("look")
    signal(engine, run_id)
    if end == "cancelled":
        cancel_run(actor=engine.actor, run_id=run_id, reason="enough", expected_version=None)
    else:
        engine.act(kill_step, run_id, "paid")
    before = engine.statuses(run_id), engine.run(run_id).status
    assert signal(engine, run_id, "e-2")["result"] == "late"
    assert (engine.statuses(run_id), engine.run(run_id).status) == before
    assert engine.types(run_id)[-1] == "EVENT_LATE"
    with tenant_tx(engine.tenant.id):
        assert Inbox.objects.get(message_id="e-2").result == "late"


def test_an_early_event_of_a_run_that_ended_is_late(engine):
    run_id = waiting(engine)
    signal(engine, run_id)
    cancel_run(actor=engine.actor, run_id=run_id, reason="enough", expected_version=None)
    assert Deliverer().run_once() == 1
    assert engine.types(run_id)[-1] == "EVENT_LATE"
    engine.check(run_id)


def test_only_the_declared_correlation_id_is_for_the_step(engine):
    run_id = waiting(engine, correlation="'order:' + input.order")
    engine.finish("look")
    for index, wrong in enumerate((None, "order:A-2", "A-1")):
        assert signal(engine, run_id, f"w-{index}", correlation_id=wrong)["result"] == "unmatched"
    assert engine.statuses(run_id)["paid"] == "hold(external)"
    assert signal(engine, run_id, correlation_id="order:A-1")["result"] == "delivered"


def test_an_event_that_does_not_come_ends_the_wait_by_the_edges_policy(engine, clock):
    run_id = waiting(engine, expires_s=60)
    engine.finish("look")
    assert end_overdue() == 0
    clock.advance(61)
    assert signal(engine, run_id)["result"] == "late"
    assert end_overdue() == 1
    assert engine.statuses(run_id) == {
        "look": "succeeded", "paid": "skipped(deadline)", "after": "skipped(upstream_failed)",
    }  # fmt: skip
    assert end_overdue() == 0
    engine.check(run_id)


def test_bad_events_are_refused_and_nothing_is_written(engine, other_tenant):
    run_id = waiting(engine)
    engine.finish("look")
    before = engine.run(run_id).seq
    with pytest.raises(NotFound):
        signal(engine, run_id, name="refunded")
    with pytest.raises(NotFound):
        signal(engine, uuid.uuid4())
    with pytest.raises(NotFound):
        signal_run(actor=Engine(other_tenant).actor, run_id=run_id, name="settled", event_id="e", payload=None)
    with pytest.raises(BadInput):
        signal(engine, run_id, name="No Name")
    for event_id in ("", "x" * 301, "a\nb"):
        with pytest.raises(BadInput):
            signal(engine, run_id, event_id)
    with pytest.raises(PermissionDenied):
        signal_run(actor=member(engine.tenant, "viewer"), run_id=run_id, name="settled", event_id="e", payload=None)
    assert engine.run(run_id).seq == before
    with tenant_tx(engine.tenant.id):
        assert Inbox.objects.count() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 1, "event": "x"},
        {"seconds": 1, "correlation": "'a'"},
        {"event": "Not A Name"},
        {"until": "'x'", "expires_s": 1},
    ],
    ids=str,
)
def test_a_wrong_wait_is_refused(engine, wrong):
    with pytest.raises(InvalidWorkflow):
        engine.submit(workflow({"id": "w", "kind": "wait", **wrong}))
