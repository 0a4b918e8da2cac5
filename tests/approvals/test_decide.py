"""A decision is made once, in time, by the right person, on exactly what they were shown (A7.2, C5.6)."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest

from approvals.actions.decide import decide_request
from approvals.errors import AlreadyClosed, CannotBeShown, OtherVersion, TooLate
from approvals.models import Decision, Request
from approvals.queries import count_pending, get_request, list_requests
from runtime.actions.runs import cancel_run, pause_run
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied, QuarterdeckError
from runtime.queries.people import list_audit
from runtime.queries.runs import read_run
from runtime.queries.steps import read_step
from runtime.store.tx import tenant_tx
from tests.support.actors import member, outsider, the_engine
from tests.support.duties import expire_requests
from tests.support.engine import past_every_guard
from tests.support.office import asking

pytestmark = [pytest.mark.req("A7.2", "B6.4", "C5.3", "C5.6"), pytest.mark.django_db(transaction=True)]


def refusals(office) -> list[str]:
    acts = list_audit(actor=office.admin, verb="approval.decide", result="refused").items
    return [entry["details"]["code"] for entry in reversed(acts)]


def test_nobody_approves_what_is_withheld_from_them_and_anybody_asked_may_reject_it(office):
    request = office.pending(office.ask({"to": "Ada"}))
    blind = replace(office.approver, verbs=office.approver.verbs - {"payload.read"})
    assert get_request(actor=blind, request_id=request["id"])["redacted"] is True
    quoted = {"request_id": request["id"], "version": request["version"], "payload_hash": request["payload_hash"]}
    with pytest.raises(PermissionDenied):
        decide_request(actor=blind, decision="approve", **quoted)
    assert refusals(office) == ["permission_denied"]
    assert office.pending(request["run_id"])["state"] == "pending"
    answer = decide_request(actor=blind, decision="reject", comment="I cannot see it", **quoted)
    assert answer["state"] == "rejected"


def test_what_is_shown_is_what_happens(office):
    run_id = office.ask({"to": "Ada"})
    request = office.pending(run_id)
    call = {
        "node": "pay",
        "tool": "office.pay@1",
        "business_key": "pay:Ada",
        "arguments": {"to": "Ada", "rate": "2.50"},
    }
    effect = {"undo": None, "recovery": "idempotent", "idempotency": "natural", "query": None}
    assert request["shown"] == {
        "title": "Pay out",
        "goal": "",
        "requested_by": office.actor.label,
        "payload": {"to": "Ada", "rate": "2.50"},
        "calls": [{**call, "effect": effect}],
        "risk": {"level": "medium", "reasons": ["cannot_be_undone", "nobody_can_look"]},
    }
    assert request["payload_hash"] == digest(canonical_bytes(request["shown"])).hex()
    assert (request["state"], request["role"], request["calls"], request["kind"]) == ("pending", "approver", 1, "node")
    assert office.run(run_id).status == "waiting_approval"
    answer = office.decide(request, comment="fine")
    assert (answer["state"], answer["step_status"], answer["replayed"]) == ("approved", "queued", False)
    office.work()
    after = get_request(actor=office.approver, request_id=request["id"])
    assert (after["state"], after["decided_by"], after["comment"]) == ("consumed", office.approver.label, "fine")
    assert [(d["decision"], d["actor"]) for d in after["decisions"]] == [("approve", office.approver.label)]
    assert office.run(run_id).status == "completed"
    assert office.sends(run_id)["pay:Ada"] == 1
    granted = next(e for e in office.events(run_id, "ask") if e.type == "STEP_GRANTED")
    assert (granted.actor, granted.payload["payload_hash"]) == (office.approver.label, request["payload_hash"])
    office.check(run_id)


def test_a_rejection_ends_the_step_and_sends_nothing(office):
    run_id = office.ask()
    answer = office.decide(office.pending(run_id), "reject", comment="too much")
    assert (answer["state"], answer["step_status"], answer["run_status"]) == ("rejected", "skipped", "failed")
    office.work()
    assert office.statuses(run_id)["ask"] == "skipped(rejected)"
    assert office.sends(run_id) == {}
    entry = list_audit(actor=office.admin, verb="approval.decide").items[0]
    assert (entry["result"], entry["reason"], entry["actor"]) == ("rejected", "too much", office.approver.label)
    office.check(run_id)


@pytest.mark.parametrize("by", ["person", "time"])
def test_a_rejection_is_a_typed_result_that_what_follows_and_the_runs_output_read(office, clock, by):
    document = asking("told")
    told = {name: {"$": f"nodes.ask.error.{name}"} for name in ("outcome", "reason", "by", "at")}
    after = {"node": "ask", "on_failure": "continue_on_error"}
    document["nodes"] = document["nodes"][:2]
    document["nodes"].append({"id": "tell", "kind": "tool", "tool": "core.echo@1", "after": [after], "input": told})
    document["output"] = {"asked": {"$": "nodes.ask.error.outcome"}, "said": {"$": "nodes.tell.output.reason"}}
    run_id = office.submit(document, {"to": "Ada"})
    office.work()
    if by == "person":
        office.decide(office.pending(run_id), "reject", comment="too much")
    else:
        clock.advance(3601)
        expire_requests()
    office.work()
    why, who = ("too much", office.approver.label) if by == "person" else ("timeout", "engine")
    error = office.step(run_id, "ask").error
    assert {name: error[name] for name in ("class", "code", "outcome", "reason", "by")} == {
        "class": "policy", "code": "rejected", "outcome": "rejected", "reason": why, "by": who,
    }  # fmt: skip
    read = read_step(actor=office.admin, step_id=office.step(run_id, "tell").id)["checkpoint"]["output"]
    assert read == {name: error[name] for name in told}
    assert read_run(actor=office.admin, run_id=run_id)["output"] == {"asked": "rejected", "said": why}
    office.check(run_id)


def test_the_same_again_is_answered_alike_and_anything_else_is_refused(office):
    request = office.pending(office.ask())
    first = office.decide(request)
    again = office.decide(request)
    assert again["replayed"]
    assert {k: again[k] for k in ("state", "decided_at", "decided_by")} == {
        k: first[k] for k in ("state", "decided_at", "decided_by")
    }
    with pytest.raises(AlreadyClosed) as refused:
        office.decide(request, "reject")
    assert refused.value.extra["current_state"] == "approved"
    with pytest.raises(AlreadyClosed):
        office.decide(request, actor=office.admin)
    assert refusals(office) == ["approval_closed", "approval_closed"]
    with tenant_tx(office.tenant.id):
        assert Decision.objects.filter(request_id=request["id"]).count() == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"version": 2}, OtherVersion),
        ({"payload_hash": "00" * 32}, OtherVersion),
        ({"payload_hash": "abc"}, BadInput),
        ({"payload_hash": ""}, BadInput),
        ({"comment": "a\x00b"}, BadInput),
    ],
)
def test_what_was_not_shown_is_not_decided(office, words, error):
    request = office.pending(office.ask())
    with pytest.raises(error):
        office.decide(request, **words)
    assert office.pending(uuid.UUID(str(request["run_id"])))["state"] == "pending"
    assert refusals(office) == (["stale"] if error is OtherVersion else [])


def test_an_unknown_decision_and_an_unknown_request(office, other_tenant):
    request = office.pending(office.ask())
    with pytest.raises(BadInput):
        office.decide(request, "maybe")
    with pytest.raises(NotFound):
        office.decide({**request, "id": uuid.uuid4()})
    with pytest.raises(NotFound):
        office.decide(request, actor=member(other_tenant, "approver"))
    with pytest.raises(NotFound):
        get_request(actor=member(other_tenant, "admin"), request_id=request["id"])
    assert list_requests(actor=member(other_tenant, "admin")).items == []


@pytest.mark.req("C8.2")
@pytest.mark.usefixtures("fresh_db")
def test_a_late_decision_is_refused_before_and_after_the_timeout(office, clock):
    run_id = office.ask()
    request = office.pending(run_id)
    clock.advance(3600)
    with pytest.raises(TooLate):
        office.decide(request)
    assert office.states(run_id) == ["pending"]
    expire_requests()
    with pytest.raises(TooLate) as refused:
        office.decide(request)
    assert refused.value.extra["outcome_reason"] == "timeout"
    assert refusals(office) == ["approval_expired", "approval_expired"]
    assert (office.states(run_id), office.run(run_id).status) == (["rejected"], "failed")
    office.check(run_id)


@pytest.mark.req("A7.3")
@pytest.mark.usefixtures("fresh_db")
def test_a_timeout_rejects_or_keeps_but_never_approves(office, clock):
    rejecting, keeping = office.ask(), office.ask(name="patient", on_timeout="keep")
    clock.advance(3000)
    expire_requests()
    assert office.states(rejecting) == ["pending"]
    clock.advance(601)
    assert expire_requests() >= 1
    assert office.states(rejecting) == ["rejected"]
    assert office.requests(rejecting)[0]["outcome_reason"] == "timeout"
    assert office.requests(rejecting)[0]["decided_by"] is None
    assert office.states(keeping) == ["pending"]
    assert office.run(keeping).status == "waiting_approval"
    assert office.sends(rejecting) == office.sends(keeping) == {}


@pytest.mark.parametrize("role", ["viewer", "oncall", "finance", "integrator", "verifier"])
@pytest.mark.req("A10.1")
def test_others_may_not_decide(office, role):
    request = office.pending(office.ask())
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=member(office.tenant, role))


@pytest.mark.req("A10.1")
def test_neither_programs_nor_strangers_decide(office):
    request = office.pending(office.ask())
    for actor in (office.actor, the_engine(office.tenant), outsider(office.tenant, ["approval.decide"])):
        with pytest.raises(PermissionDenied):
            office.decide(request, actor=actor)
    assert get_request(actor=office.admin, request_id=request["id"])["state"] == "pending"


@pytest.mark.req("A10.1")
def test_a_request_names_who_decides(office):
    request = office.pending(office.ask(name="by-finance", role="finance"))
    with pytest.raises(PermissionDenied):
        office.decide(request)
    assert list_requests(actor=office.approver, mine=True).items == []
    assert count_pending(actor=office.approver) == 0
    assert [row["may_decide"] for row in list_requests(actor=office.approver).items] == [False]
    assert [row["id"] for row in list_requests(actor=office.admin, mine=True).items] == [request["id"]]
    assert office.decide(request, actor=office.admin)["state"] == "approved"


def test_a_run_that_is_ending_decides_nothing(office):
    run_id = office.ask()
    request = office.pending(run_id)
    cancel_run(actor=office.oncall, run_id=run_id, reason="no longer wanted")
    with pytest.raises(AlreadyClosed):
        office.decide(request)
    assert (office.states(run_id), office.requests(run_id)[0]["outcome_reason"]) == (["cancelled"], "run cancelled")


def test_a_paused_run_takes_the_decision_and_sends_later(office):
    from runtime.actions.runs import resume_run

    run_id = office.ask({"to": "Bo"})
    pause_run(actor=office.oncall, run_id=run_id, reason="look")
    office.decide(office.pending(run_id))
    office.work()
    assert office.sends(run_id) == {}
    resume_run(actor=office.oncall, run_id=run_id, reason="go")
    office.work()
    assert office.sends(run_id)["pay:Bo"] == 1


def test_what_cannot_be_rendered_cannot_be_approved(office):
    payload = {"gone": {"$": "nodes.load.output.missing"}}
    run_id = office.ask(name="broken", payload=payload)
    request = office.pending(run_id)
    assert request["problem"]
    assert request["calls"] == 0
    with pytest.raises(CannotBeShown):
        office.decide(request)
    assert office.decide(request, "reject")["state"] == "rejected"


@pytest.mark.req("A9.8")
def test_payloads_are_for_those_who_may_read_them(office):
    request = office.pending(office.ask())
    seen = get_request(actor=member(office.tenant, "viewer"), request_id=request["id"])
    assert seen["redacted"]
    assert "shown" not in seen


@pytest.mark.req("C8.2")
def test_two_people_at_once_make_one_decision(office):
    """Approve against reject, many times over: one outcome, one decision row, the other refused."""
    for _ in range(8):
        request = office.pending(office.ask())
        answers: list[Any] = []
        barrier = threading.Barrier(2)

        def say(actor: Any, decision: str, request=request, answers=answers, barrier=barrier) -> None:
            from django.db import connections

            barrier.wait()
            try:
                words = {"version": 1, "payload_hash": request["payload_hash"]}
                answer = decide_request(actor=actor, request_id=request["id"], decision=decision, **words)
                answers.append(answer["state"])
            except QuarterdeckError as problem:
                answers.append(type(problem))
            finally:
                connections.close_all()

        threads = [
            threading.Thread(target=say, args=(office.approver, "approve")),
            threading.Thread(target=say, args=(office.admin, "reject")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert AlreadyClosed in answers
        assert len({"approved", "rejected"} & set(map(str, answers))) == 1
        with tenant_tx(office.tenant.id):
            assert Decision.objects.filter(request_id=request["id"]).count() == 1


@pytest.mark.req("C8.2")
def test_a_deadline_that_passes_while_deciding_is_a_late_decision(office, clock, fresh_db):
    """The program looked in time, the statement comes too late: the guard refuses; the answer is the ordinary one."""
    with past_every_guard(fresh_db) as connection:
        connection.execute(
            "CREATE FUNCTION a_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " PERFORM pg_sleep(greatest(0, extract(epoch FROM OLD.deadline - qd_now()))); RETURN NEW; END $$;"
            "CREATE TRIGGER a_slow BEFORE UPDATE ON qd_approval FOR EACH ROW EXECUTE FUNCTION a_slow()"
        )
    run_id = office.ask()
    request = office.pending(run_id)
    clock.advance(3590)  # ten seconds are left for the program to look; the statement waits them out
    with pytest.raises(TooLate):
        office.decide(request)
    assert refusals(office) == ["approval_expired"]
    assert office.states(run_id) == ["pending"]


@pytest.mark.req("C8.2")
def test_the_database_refuses_what_the_code_would_not_do(office, clock):
    """Past the actions: no decision after the deadline, no other move, no change of what was asked."""
    import psycopg

    request = office.pending(office.ask())
    row = {"id": request["id"], "state": "approved", "by": "user:x", "comment": "", "revision": 1}
    clock.advance(3601)
    with pytest.raises(psycopg.DatabaseError, match="after the deadline"):
        with tenant_tx(office.tenant.id) as tx:
            tx.send("approval_decide", row)
    clock.reset()
    changes: list[dict[str, Any]] = [
        {"state": "consumed"},
        {"shown": b"{}"},
        {"version": 2},
        {"payload_sha256": bytes(32)},
        {"state": "rejected", "outcome_reason": "timeout"},
    ]
    for change in changes:
        with pytest.raises(Exception, match=r"law of states|timeout_is_late"):
            with tenant_tx(office.tenant.id):
                Request.objects.filter(id=request["id"]).update(revision=2, **change)
    with pytest.raises(Exception, match=r"append-only|permission denied"):
        with tenant_tx(office.tenant.id):
            Request.objects.filter(id=request["id"])._raw_delete("default")
    assert office.decide(request)["state"] == "approved"


def test_the_inbox_lists_by_deadline_and_pages(office):
    runs = [office.ask(name=f"w{seconds}", expires_s=seconds) for seconds in (300, 100, 200)]
    first = list_requests(actor=office.approver, mine=True, limit=2, count=True)
    second = list_requests(actor=office.approver, mine=True, limit=2, cursor=first.next)
    listed = [row["run_id"] for row in (*first.items, *second.items)]
    assert listed == [runs[1], runs[2], runs[0]]
    assert (first.count, second.next) == (3, None)
    newest = list_requests(actor=office.approver, state=None, limit=2)
    rest = list_requests(actor=office.approver, state=None, limit=2, cursor=newest.next)
    assert [row["run_id"] for row in (*newest.items, *rest.items)] == runs[::-1]
    with pytest.raises(BadInput):
        list_requests(actor=office.approver, cursor="x")
    assert issubclass(TooLate, Conflict)
