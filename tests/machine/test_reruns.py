"""Reruns: the next execution version in an open run, a new run of the task after the end (A9.6, C1.1)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.reruns import new_run, rerun_task
from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.steps import force_step, rerun_step, resolve_hold, skip_step
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import Conflict, MoveRefused, NotFound, OperationOpen, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.models import AuditEntry, Checkpoint, Run, Step
from runtime.store.tx import tenant_tx
from runtime.tools.registry import tool_of
from runtime.worker.complete import complete
from runtime.worker.execute import begin
from runtime.worker.work import Report
from tests.support.actors import member, outsider
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A9.6", "C1.1"), pytest.mark.django_db(transaction=True)]


# -- in an open run


def test_the_step_is_queued_and_what_follows_waits_again_in_new_versions(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a"), tool("c", "b"), tool("d", "c", "z")))
    for node in ("a", "b"):
        engine.finish(node)
    engine.claim()
    answer = engine.act(rerun_step, run, "a", reason="wrong input")
    assert (answer["status"], answer["execution_version"]) == ("queued", 2)
    assert engine.statuses(run) == {"z": "running", "a": "queued", "b": "waiting", "c": "waiting", "d": "waiting"}
    versions = {n: engine.step(run, n).execution_version for n in "abcdz"}
    assert versions == {"a": 2, "b": 2, "c": 2, "d": 2, "z": 1}
    # The older versions stay readable as they ended.
    old = {n: (engine.step(run, n, 1).status, engine.step(run, n, 1).superseded) for n in "abcd"}
    assert old == {
        "a": ("succeeded", True),
        "b": ("succeeded", True),
        "c": ("killed", True),
        "d": ("skipped", True),
    }
    event = next(e for e in engine.events(run, "a") if e.type == "STEP_RERUN")
    assert (event.actor, event.reason, event.execution_version) == ("service:test", "wrong input", 2)
    engine.check(run)
    for node in ("a", "b", "c", "z", "d"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_the_late_result_of_a_killed_descendant_is_used_by_nobody(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    [late] = engine.claim()
    engine.act(rerun_step, run, "a")
    engine.report(late, "succeeded")
    assert engine.statuses(run) == {"a": "queued", "b": "waiting"}
    assert engine.types(run)[-1] == "STALE_SUBMIT"
    engine.finish("a")
    [again] = engine.claim()
    assert again.owner_epoch > late.owner_epoch
    engine.check(run)


def test_upstream_failed_skips_revive(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a"), tool("c", "b")))
    engine.finish("a", "failed")
    assert engine.statuses(run)["c"] == "skipped(upstream_failed)"
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run) == {"z": "running", "a": "queued", "b": "waiting", "c": "waiting"}
    for node in ("a", "b", "c", "z"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    engine.check(run)


@pytest.mark.parametrize("status", ["intended", "sent", "unknown"])
def test_refused_while_the_effect_is_not_settled(engine, status, test_database):
    from tests.support.engine import force_columns

    run = engine.submit(workflow(tool("z"), tool("a")))
    claimed = {one.node.id: one for one in engine.claim()}
    operation = send(engine, claimed["a"], "order:1")
    engine.report(claimed["a"], "failed")
    force_columns(test_database, "qd_operation", operation, status=status)
    with pytest.raises(OperationOpen) as refusal:
        engine.act(rerun_step, run, "a")
    assert refusal.value.extra["operation_id"] == str(operation)
    assert engine.step(run, "a").execution_version == 1


def test_refused_while_the_effect_of_a_descendant_is_not_settled(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a")))
    engine.finish("a")
    [claimed] = engine.claim()
    send(engine, claimed, "order:1")
    with pytest.raises(OperationOpen, match="order:1"):
        engine.act(rerun_step, run, "a")
    engine.report(claimed, "unknown", operation_status="unknown")
    with pytest.raises(OperationOpen):
        engine.act(rerun_step, run, "a")
    assert engine.statuses(run)["b"] == "unknown(receipt_unknown)"
    engine.check(run)


def test_a_persons_decisions_stay_and_so_does_what_only_they_lead_to(engine):
    run = engine.submit(workflow(tool("a"), tool("f", "a"), tool("s", "a"), tool("x", "f", "s"), tool("y", "a", "x")))
    engine.finish("a")
    engine.act(force_step, run, "f")
    engine.act(skip_step, run, "s")
    engine.finish("x")
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run) == {
        "a": "queued",
        "f": "mark_successed",
        "s": "skipped(user)",
        "x": "succeeded",
        "y": "waiting",
    }
    engine.check(run)
    engine.finish("a")
    engine.finish("y")
    assert engine.run(run).status == "completed"
    engine.check(run)


def test_an_or_join_that_another_branch_satisfied_is_left_alone(engine):
    run = engine.submit(workflow(tool("a"), tool("b"), tool("j", "a", "b", join={"mode": "any"}), tool("z", "j", "b")))
    claimed = {one.node.id: one for one in engine.claim()}
    engine.report(claimed["b"], "failed")
    engine.report(claimed["a"], "succeeded")
    engine.claim()
    engine.act(rerun_step, run, "b")
    statuses = engine.statuses(run)
    assert (statuses["j"], statuses["b"]) == ("running", "queued")
    engine.check(run)
    engine.finish("b")
    assert "LATE_RESULT" in engine.types(run)
    engine.check(run)


def test_an_approval_asks_again(engine):
    ask = {"id": "ask", "kind": "approval", "title": "?"}
    run = engine.submit(workflow(tool("z"), ask, tool("b", "ask")))
    resolve_hold(actor=engine.actor, step_id=engine.step(run, "ask").id, granted=True, reason="fine")
    engine.finish("ask")
    engine.act(rerun_step, run, "ask")
    assert engine.statuses(run)["ask"] == "hold(approval)"
    assert engine.step(run, "ask").execution_version == 2
    engine.check(run)


def test_a_switch_chooses_anew(engine):
    route = {
        "id": "route",
        "kind": "switch",
        "cases": [{"when": "input.big", "to": ["ask"]}],
        "default": ["pay"],
    }
    run = engine.submit(workflow(tool("z"), route, tool("ask"), tool("pay")), {"big": False})
    engine.finish("route", choice=["pay"])
    engine.finish("pay")
    assert engine.statuses(run)["ask"] == "skipped(branch)"
    engine.act(rerun_step, run, "route")
    assert engine.statuses(run) == {"z": "running", "route": "queued", "ask": "waiting", "pay": "waiting"}
    engine.finish("route", choice=["ask"])
    assert engine.statuses(run) == {"z": "running", "route": "succeeded", "ask": "queued", "pay": "skipped(branch)"}
    engine.check(run)


def test_not_in_a_run_that_is_being_cancelled_and_parked_in_a_paused_one(engine):
    run = engine.submit(workflow(tool("z"), tool("a")))
    claimed = {one.node.id: one for one in engine.claim()}
    engine.report(claimed["a"], "failed")
    pause_run(actor=engine.actor, run_id=run, reason="")
    engine.act(rerun_step, run, "a")
    assert engine.claim() == []
    engine.check(run)
    other = engine.submit(workflow(tool("z"), tool("a")))
    claimed = {one.node.id: one for one in engine.claim()}
    engine.report(claimed["a"], "failed")
    send(engine, claimed["z"], "order:1")
    cancel_run(actor=engine.actor, run_id=other, reason="")
    with pytest.raises(Conflict, match="cancelled"):
        engine.act(rerun_step, other, "a")


def test_a_third_version_follows_the_second(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a")))
    for expected in (2, 3):
        engine.finish("a", "failed")
        assert engine.act(rerun_step, run, "a")["execution_version"] == expected
    assert engine.step(run, "b").execution_version == 3
    engine.check(run)


# -- after the end


def work(engine: Engine, fail: str | None = None) -> list[str]:
    """Work until nothing is ready, as a worker does; returns the nodes whose results were taken over."""
    adopted = []
    while claimed := engine.claim():
        for one in claimed:
            with tenant_tx(engine.tenant.id) as tx:
                begun = begin(one, lambda reference, tx=tx: tool_of(tx, reference))
            if isinstance(begun, Report):
                adopted += [one.node.id] if begun.adopted_from else []
                complete(engine.tenant.id, [begun])
            elif one.node.id == fail:
                engine.report(one, "failed")
            else:
                output = canonical_bytes({"of": one.node.id, "run": str(one.run_id)})
                report = Report(one, "succeeded", output, digest(output), begun.input_sha256)
                complete(engine.tenant.id, [report])
    return adopted


CHAIN = workflow(
    tool("a", input={"x": {"$": "input.x"}}),
    tool("b", "a", input={"of": {"$": "nodes.a.output"}}),
    tool("c", "b", input={"of": {"$": "nodes.b.output"}}),
    tool("side", "a", input={"run": {"$": "run.id"}}),
)


@pytest.fixture
def failed(engine) -> Run:
    run = engine.submit(CHAIN, {"x": 1})
    work(engine, fail="c")
    assert engine.run(run).status == "failed"
    return engine.run(run)


def started(engine: Engine, answer: dict[str, Any], old: Run) -> Run:
    row = engine.run(uuid.UUID(answer["run_id"]))
    assert (row.task_id, row.rerun_of_id) == (old.task_id, old.id)
    assert row.id != old.id
    return row


@pytest.mark.req("A1.1", "A1.3")
def test_a_rerun_of_the_task_takes_over_what_is_still_valid(engine, failed):
    answer = rerun_task(actor=engine.actor, task_id=failed.task_id, reason="tool is back")
    run = started(engine, answer, failed)
    assert answer["adopts"] == ["a", "b", "side"]
    # ``side`` reads the run's id: its input is another one now, so it is called.
    assert work(engine) == ["a", "b"]
    assert engine.run(run.id).status == "completed"
    with tenant_tx(engine.tenant.id):
        adopted = dict(Checkpoint.objects.filter(run_id=run.id).values_list("node", "adopted_from"))
        outputs = {bytes(c.output) for c in Checkpoint.objects.filter(node="b", run_id__in=[run.id, failed.id])}
        steps = Step.objects.filter(run_id=run.id)
        assert {s.status for s in steps} == {"succeeded"}
    assert adopted == {"a": failed.id, "b": failed.id, "c": None, "side": None}
    assert len(outputs) == 1
    engine.check(run.id)
    engine.check(failed.id)
    assert engine.run(failed.id).status == "failed"


def test_a_rerun_of_a_step_after_the_end_takes_over_all_but_it_and_what_follows(engine, failed):
    old = engine.step(failed.id, "b")
    answer = engine.act(rerun_step, failed.id, "b", reason="wrong")
    run = started(engine, answer, failed)
    assert (answer["node"], answer["adopts"]) == ("b", ["a", "side"])
    assert answer["step_id"] == str(engine.step(run.id, "b").id) != str(old.id)
    assert work(engine) == ["a"]
    assert engine.run(run.id).status == "completed"
    with tenant_tx(engine.tenant.id):
        entry = AuditEntry.objects.get(run_id=run.id)
    assert (entry.verb, entry.subject_id, entry.reason) == ("step.rerun", str(old.id), "wrong")
    engine.check(run.id)


def test_a_fresh_run_takes_over_nothing(engine, failed):
    answer = new_run(actor=engine.actor, task_id=failed.task_id)
    started(engine, answer, failed)
    assert answer["adopts"] == []
    assert work(engine) == []
    engine.check(uuid.UUID(answer["run_id"]))


def test_results_of_another_manifest_are_not_taken_over(engine, failed, monkeypatch):
    from runtime.actions import manifests

    monkeypatch.setattr(manifests, "code_version", lambda: "another")
    manifests._bound.clear()
    try:
        answer = rerun_task(actor=engine.actor, task_id=failed.task_id, reason="")
    finally:
        manifests._bound.clear()
    assert answer["adopts"] == []
    assert work(engine) == []


def test_an_adopted_step_that_is_run_again_is_called(engine, failed):
    run = started(engine, rerun_task(actor=engine.actor, task_id=failed.task_id, reason=""), failed)
    [claimed] = engine.claim()
    with tenant_tx(engine.tenant.id) as tx:
        report = begin(claimed, lambda reference: tool_of(tx, reference))
    assert isinstance(report, Report)
    complete(engine.tenant.id, [report])
    engine.act(rerun_step, run.id, "a")
    assert work(engine) == []
    assert engine.run(run.id).status == "completed"
    engine.check(run.id)


def test_a_rerun_of_a_rerun_takes_over_what_that_took_over(engine, failed):
    first = started(engine, rerun_task(actor=engine.actor, task_id=failed.task_id, reason=""), failed)
    work(engine, fail="c")
    second = rerun_task(actor=engine.actor, task_id=failed.task_id, reason="")
    assert second["rerun_of"] == str(first.id)
    assert work(engine) == ["a", "b"]


@pytest.mark.req("A1.1")
@pytest.mark.parametrize("start", [new_run, rerun_task])
def test_a_task_has_one_open_run(engine, start):
    run = engine.submit(CHAIN, {"x": 1})
    task_id = engine.run(run).task_id
    with pytest.raises(Conflict, match="open run") as refusal:
        start(actor=engine.actor, task_id=task_id, reason="")
    assert refusal.value.run_id == run
    with tenant_tx(engine.tenant.id):
        assert Run.objects.filter(task_id=task_id).count() == 1


@pytest.mark.parametrize("start", [new_run, rerun_task])
def test_who_may_not_start_a_run_does_not(engine, other_tenant, failed, start):
    for actor in (outsider(engine.tenant), member(engine.tenant, "viewer")):
        with pytest.raises(PermissionDenied):
            start(actor=actor, task_id=failed.task_id, reason="")
    for actor, task_id in ((member(other_tenant, "admin"), failed.task_id), (engine.actor, uuid7())):
        with pytest.raises(NotFound):
            start(actor=actor, task_id=task_id, reason="")


def test_a_skipped_step_of_an_ended_run_is_not_run_again_by_itself(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a", "failed")
    with pytest.raises(MoveRefused):
        engine.act(rerun_step, run, "b")


def test_the_time_limit_of_a_rerun_is_counted_anew(engine, clock):
    run = engine.submit(workflow(tool("a")), timeout=60.0)
    engine.finish("a", "failed")
    clock.advance(3600)
    answer = rerun_task(actor=engine.actor, task_id=engine.run(run).task_id, reason="")
    assert abs((engine.run(uuid.UUID(answer["run_id"])).deadline - clock.now()).total_seconds() - 60) < 5
