"""Effects, verdicts, holds and large results under real workers (C3.3, A2.5, C2.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.actions.steps import resolve_hold
from runtime.actions.workflows import authorise_verifier
from runtime.models import Citation, Evidence, Outcome
from runtime.store.tx import tenant_tx
from tests.support.http_tool import HttpTool
from tests.support.nodes import echo, node
from tests.support.specs import tool
from tests.support.workers import told, until


@pytest.mark.req("A9.2")
def test_an_approval_holds_and_keeps_no_worker(stack, desk):
    flow = desk.workflow(
        tool("a"),
        {"id": "ask", "kind": "approval", "title": "May we?", "role": "approver", "after": ["a"]},
        tool("b", "ask"),
    )
    run_ids = desk.bulk(flow, [{}] * 100)
    for run_id in run_ids:
        desk.wait(run_id, "waiting_approval")
    other = desk.submit(desk.workflow(tool("x"), name="other"))
    assert desk.wait(other, seconds=5).status == "completed", "a hundred held runs keep no slot"
    step = desk.step(run_ids[0], "ask")
    assert (step.status, step.cause) == ("hold", "approval")
    resolve_hold(actor=desk.actor, step_id=step.id, granted=True, reason="fine")
    assert desk.wait(run_ids[0]).status == "completed"
    step = desk.step(run_ids[1], "ask")
    resolve_hold(actor=desk.actor, step_id=step.id, granted=False, reason="no")
    assert desk.wait(run_ids[1]).status == "failed"
    assert told(desk, run_ids[1]) == {"a": "succeeded", "ask": "skipped(rejected)", "b": "skipped(upstream_failed)"}


@pytest.mark.req("A2.3", "A2.4", "A2.5")
@pytest.mark.parametrize(("amount", "verdict"), [(100, "achieved"), (99, "not_achieved")])
def test_a_verifier_writes_evidence_and_outcome(stack, desk, amount, verdict):
    authorise_verifier(actor=desk.actor, name="in_books", version=1)
    flow = desk.workflow(
        {
            "id": "check",
            "kind": "verifier",
            "verifier": "in_books@1",
            "tool": "core.echo@1",
            "input": {"paid": {"$": "input.amount"}},
            "criterion": "output.paid == 100",
        }
    )
    run_id = desk.submit(flow, {"amount": amount})
    assert desk.wait(run_id).status == "completed"
    with tenant_tx(desk.tenant.id):
        outcome = Outcome.objects.get(run_id=run_id)
        evidence = Evidence.objects.get(run_id=run_id)
        assert Citation.objects.get(outcome_id=outcome.id).evidence_id == evidence.id
    assert outcome.verdict == verdict
    assert json.loads(bytes(evidence.content)) == {"paid": amount}
    assert len(desk.events(run_id, "OUTCOME_RECORDED")) == 1


@pytest.mark.req("A2.3", "A2.5")
def test_a_verifier_nobody_authorised_decides_nothing(stack, desk):
    flow = desk.workflow(
        {"id": "check", "kind": "verifier", "verifier": "stranger@1", "tool": "core.echo@1", "criterion": "true"},
        tool("b"),
    )
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    assert told(desk, run_id) == {"check": "failed", "b": "succeeded"}
    with tenant_tx(desk.tenant.id):
        assert not Outcome.objects.filter(run_id=run_id).exists()
        assert not Evidence.objects.filter(run_id=run_id).exists()


@pytest.mark.req("C2.3", "C1.2")
def test_a_large_result_becomes_an_artifact_and_is_read_downstream(stack, desk):
    flow = desk.workflow(
        echo("a", input={"text": {"$": "input.text"}}),
        echo("b", "a", input={"size": {"$": "size(nodes.a.output.text)"}}),
    )
    run_ids = [desk.submit(flow, {"text": "x" * 200_000}) for _ in range(2)]
    for run_id in run_ids:
        assert desk.wait(run_id).status == "completed"
        assert desk.output(run_id, "b") == {"size": 200_000}
    with tenant_tx(desk.tenant.id) as tx:
        rows = tx.conn.execute(
            "SELECT output IS NULL, artifact_id FROM qd_checkpoint WHERE node = 'a' AND run_id = ANY(%s)", [run_ids]
        ).fetchall()
    assert [row[0] for row in rows] == [True, True]
    assert len({row[1] for row in rows}) == 1, "the same content is stored once"


def pay(shop: HttpTool, desk, **more: Any) -> str:
    return desk.tool(shop.contract("/ok", **more))


@pytest.mark.req("C3.3", "B4.3", "A1.3")
def test_the_second_run_of_an_intent_sends_no_second_effect(stack, desk, shop):
    reference = pay(shop, desk)
    keyed = {"business_key": "'refund/' + input.order", "input": {"order": {"$": "input.order"}}}
    flow = desk.workflow(
        node("pay", reference, **keyed), echo("told", "pay", input={"n": {"$": "nodes.pay.output.number"}})
    )
    first, second = desk.submit(flow, {"order": "W1"}), desk.submit(flow, {"order": "W1"})
    for run_id in (first, second):
        assert desk.wait(run_id).status == "completed"
        assert desk.output(run_id, "told") == {"n": 1}, "both have the one answer"
    assert len(shop.effects()) == 1
    third = desk.submit(flow, {"order": "W2"})
    assert desk.wait(third).status == "completed"
    assert len(shop.effects()) == 2


@pytest.mark.req("C3.3")
def test_another_payload_under_a_used_key_is_a_conflict(stack, desk, shop):
    reference = pay(shop, desk)
    keyed = {"business_key": "'refund/' + input.order", "input": {"amount": {"$": "input.amount"}}}
    flow = desk.workflow(node("pay", reference, **keyed))
    assert desk.wait(desk.submit(flow, {"order": "W1", "amount": 10})).status == "completed"
    run_id = desk.submit(flow, {"order": "W1", "amount": 11})
    assert desk.wait(run_id).status == "failed"
    assert desk.step(run_id, "pay").error["code"] == "operation_conflict"
    assert len(shop.effects()) == 1


@pytest.mark.req("C3.3", "B4.3")
def test_many_runs_at_once_under_one_key_make_one_effect(stack, desk, shop):
    reference = pay(shop, desk)
    flow = desk.workflow(node("pay", reference, business_key="'the one'", input={}))
    run_ids = desk.bulk(flow, [{}] * 30)
    assert set(desk.wait_all(run_ids).values()) == {"completed"}
    assert len(shop.effects()) == 1


@pytest.mark.req("C3.3")
def test_a_writing_call_has_its_operation_committed_before_it(stack, desk, shop):
    slow = desk.tool(shop.contract("/hang_before", timeout_s=2))
    run_id = desk.submit(desk.workflow(node("a", slow)))
    (operation,) = until(lambda: desk.operations(run_id), 10, "an operation")
    assert (operation.status, operation.sends) == ("sent", 1)
    kinds = [e.type for e in desk.events(run_id) if e.cause == "operation"]
    assert kinds == ["OPERATION_INTENDED", "OPERATION_SENT"]
    assert desk.wait(run_id).status == "needs_attention"
