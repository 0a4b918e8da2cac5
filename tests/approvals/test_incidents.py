"""What went wrong elsewhere with approvals, replayed here (C8.5); the other incidents: ``tests/repair``."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from approvals.queries import get_request
from runtime.actions.hold import release_step
from runtime.actions.rerun import rerun_step
from runtime.actions.steps import skip_step
from runtime.kernel.canonical import digest
from runtime.kernel.errors import Conflict, QuarterdeckError
from runtime.store.tx import plain_tx
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared
from runtime.worker.intents import intend
from runtime.worker.maintenance import lost, timers
from tests.support.api import caller
from tests.support.duties import expire_requests
from tests.support.incidents import holds
from tests.support.office import Office, asking
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C8.5", "A7.1", "C5.3"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(fresh_db, tenant) -> Office:
    """An office alone in its database: duties look at every tenant."""
    return Office(tenant)


def ask_for(node_id: str, **more: Any) -> dict[str, Any]:
    ask = {"id": node_id, "kind": "approval", "title": "Pay out", "role": "approver", "expires_s": 3600,
           "payload": {"to": {"$": "input.to"}}}  # fmt: skip
    return {**ask, **more}


def pay(node_id: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": node_id, "kind": "tool", "tool": "office.pay@1", "after": list(after),
            "business_key": f"'{node_id}:' + input.to", "input": {"to": {"$": "input.to"}}, **more}  # fmt: skip


def document(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"format": "quarterdeck/1", "name": name, "nodes": list(nodes)}


def test_waiting_for_a_person_is_no_execution(office, clock):
    """INC-15: the limit of execution was the person's too; a slow notifier ended the task before it asked."""
    nodes = asking("slow")["nodes"]
    nodes[0]["timeout_s"] = 1
    nodes[1]["expires_s"] = 60
    run_id = office.submit(document("slow", *nodes), {"to": "Ann"})
    office.work()
    # Nobody has been told yet: the message waits in the outbox, for three seconds and for longer.
    clock.advance(3)
    with holds("INC-15", "Approval reaches pending"):
        assert office.pending(run_id)["state"] == "pending"
    with holds("INC-15", "wait ends only by decision or approval expiry"):
        for _ in range(5):
            clock.advance(10)
            timers.fire_timers()
            timers.enforce_deadlines()
            lost.return_orphans()
            expire_requests()
            assert (office.states(run_id), office.statuses(run_id)["ask"]) == (["pending"], "hold(approval)")
        clock.advance(10)
        expire_requests()
        request = get_request(actor=office.admin, request_id=office.requests(run_id)[0]["id"])
        assert (request["state"], request["outcome_reason"]) == ("rejected", "timeout")
    other = office.ask()
    office.decide(office.pending(other))
    office.work()
    assert office.run(other).status == "completed"


def test_what_ran_beside_a_wait_for_a_person_is_not_run_again(office):
    """INC-17: one of several parallel tools waited for a person; on resume the others were executed twice."""
    run_id = office.submit(
        document("beside", {**pay("a"), "tool": "office.tell@1"}, ask_for("ask"), pay("b", "ask")), {"to": "Bea"}
    )
    office.work()
    assert office.run(run_id).status == "waiting_approval"
    office.decide(office.pending(run_id))
    office.work()
    with holds("INC-17", "A executed once"):
        assert office.sends(run_id)["a:Bea"] == 1
        assert office.step(run_id, "a").attempt == 1
    with holds("INC-17", "B executed once"):
        assert office.sends(run_id)["b:Bea"] == 1
    assert office.run(run_id).status == "completed"


def from_load(name: str) -> dict[str, Any]:
    """Return a workflow whose payment takes what the step before it proposes."""
    proposed = {"to": {"$": "nodes.load.output.to"}, "amount": {"$": "nodes.load.output.amount"}}
    load = {"id": "load", "kind": "tool", "tool": "core.noop@1"}
    key = "'pay:' + nodes.load.output.to"
    asked = ask_for("ask", after=["load"], payload=proposed)
    return document(name, load, asked, pay("pay", "ask", input=proposed, business_key=key))


def approved(office, name: str):
    """Propose 10 for a, have it approved, and claim the payment; returns the run, the request and the claim."""
    run_id = office.submit(from_load(name), {})
    office.finish("load", value={"to": f"a-{name}", "amount": 10})
    request = office.pending(run_id)
    office.decide(request)
    office.finish("ask", value={"approved": True})
    [claimed] = [one for one in office.claim() if one.run_id == run_id]
    return run_id, request, claimed


def test_an_approval_is_for_what_was_shown(office):
    """INC-19: a person approved X; on resume the model wrote Y, and Y was executed under the approval."""
    run_id, request, _claimed = approved(office, "bound")
    # Its worker dies before the call, and the step before it proposes something else.
    lose_worker(office)
    office.act(rerun_step, run_id, "load")
    office.finish("load", value={"to": "b", "amount": 10})
    office.work()
    with holds("INC-19", "no execution for b"):
        assert office.sends(run_id) == {}
    with holds("INC-19", "new pending Approval for b"):
        again = office.pending(run_id)
        assert again["id"] != request["id"]
        assert again["shown"]["calls"][0]["arguments"] == {"amount": 10, "to": "b"}
        assert office.run(run_id).status == "waiting_approval"
    other, request, first = approved(office, "same")
    lose_worker(office)
    [second] = [one for one in office.claim() if one.run_id == other]
    assert (second.step_id, second.attempt) == (first.step_id, first.attempt + 1)
    with holds("INC-19", "same content with another call id still resumes"):
        office.call([second])
        assert (office.run(other).status, office.states(other)) == ("completed", ["consumed"])
        assert office.sends(other) == {"pay:a-same": 1}


def lose_worker(office) -> None:
    """Let the worker die; another one takes its place."""
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [office.session_id]))
    lost.return_orphans()
    office.renew()


def at_the_edge(office, run_id, arguments: bytes | None = None) -> list[Prepared]:
    """Bring a run's payment before the edge that executes, without asking anybody; returns what it let through."""
    [claimed] = [one for one in office.claim() if one.run_id == run_id and one.node.id == "pay"]
    begun = office._begin(claimed)
    assert isinstance(begun, Prepared)
    if arguments is not None:
        begun.arguments, begun.arguments_bytes = orjson.loads(arguments), arguments
        begun.input_sha256 = digest(arguments)
    calls, reports = intend(office.tenant.id, [begun])
    complete(office.tenant.id, reports)
    return calls


def test_the_edge_that_executes_asks_for_the_grant(office):
    """INC-21: the service that ran the tools took direct calls without an approval."""
    without = office.ask({"to": "Cai"}, name="without")
    used, others = office.ask({"to": "Eve"}, name="used"), office.ask({"to": "Dan"}, name="others")
    office.act(skip_step, without, "ask")
    with holds("INC-21", "all three refused, logged"):
        assert at_the_edge(office, without) == []
        office.decide(office.pending(used))
        office.finish("ask", value={"approved": True})
        [first] = [one for one in office.claim() if one.run_id == used]
        office.call([first])
        office.act(rerun_step, used, "pay")
        # The grant is used: what it was for is answered by the ledger, and not called a second time.
        assert at_the_edge(office, used) == []
        assert (office.sends(used)["pay:Eve"], office.states(used)) == (1, ["consumed"])
        office.decide(office.pending(others))
        office.finish("ask", value={"approved": True})
        assert at_the_edge(office, others, b'{"rate":"2.50","to":"Mallory"}') == []
        for run_id in (without, others):
            assert office.statuses(run_id)["pay"] == "hold(approval)"
            assert "APPROVAL_REQUIRED" in office.types(run_id, "pay")
            assert office.sends(run_id) == {}


def test_a_rejection_is_final_by_every_way(office, tenant):
    """INC-23: after a run had finished with a rejected tool, it was resumed as approved, and the tool was run."""
    run_id = office.ask({"to": "Fay"}, name="rejected")
    request = office.pending(run_id)
    office.decide(request, "reject")
    office.work()
    assert office.run(run_id).finished_at is not None
    body = {"decision": "approve", "version": request["version"], "payload_hash": request["payload_hash"]}
    with holds("INC-23", "refused 3 times"):
        answer = caller(tenant, "approver").post(f"approvals/{request['id']}/decide/", body)
        assert answer.status_code == 409
        page = Reader(tenant, "approver").post(f"/inbox/{request['id']}/", {**body, "comment": ""}, 409)
        assert page.status_code == 409
        with pytest.raises(QuarterdeckError):
            office.act(release_step, run_id, "pay")
    with pytest.raises(Conflict):
        office.decide(request)
    office.work()
    with holds("INC-23", "effects==0"):
        assert office.sends(run_id) == {}
        assert office.claim() == []


def test_a_decision_at_the_first_moment_is_kept(office):
    """INC-25: an approval that came before the workflow waited for it was dropped, and the transfer hung."""
    run_id = office.submit(asking("early"), {"to": "Gus"})
    [load] = office.claim()
    office.call([load])
    # Request and hold are one transaction: the moment the request can be seen, its answer counts.
    request = office.pending(run_id)
    office.decide(request)
    with holds("INC-25", "Run proceeds without a second decision"):
        office.work()
        assert (office.run(run_id).status, office.states(run_id)) == ("completed", ["consumed"])
        assert office.sends(run_id)["pay:Gus"] == 1


def test_an_approval_lets_one_step_go_on(office):
    """INC-27: two suspended steps were resumed by one approval."""
    nodes = [ask_for("ask1"), ask_for("ask2"), pay("b1", "ask1"), pay("b2", "ask2")]
    run_id = office.submit(document("parallel", *nodes), {"to": "Hua"})
    office.work()
    first, second = office.requests(run_id)
    assert {first["state"], second["state"]} == {"pending"}
    whole = get_request(actor=office.admin, request_id=first["id"])
    office.decide(whole)
    office.work()
    with holds("INC-27", "the other stays pending"):
        states = {one["id"]: one["state"] for one in office.requests(run_id)}
        assert states == {first["id"]: "consumed", second["id"]: "pending"}
        assert sorted(office.sends(run_id).values()) == [1]
    office.decide(get_request(actor=office.admin, request_id=second["id"]))
    office.work()
    assert office.run(run_id).status == "completed"
