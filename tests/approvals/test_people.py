"""Several people: quorum, separation of duties, claims, hand-overs and delegations (C5.3, C8.5)."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User

from approvals.actions.bulk import decide_many
from approvals.actions.comments import comment_request
from approvals.actions.delegations import add_delegation, end_delegation
from approvals.actions.handling import claim_request, delegate_request, release_request
from approvals.actions.revoke import revoke_grant
from approvals.errors import AlreadyClosed, AlreadySpoken, HandedOver, NotUsable, OwnRequest
from approvals.queries import count_pending, get_request, list_requests
from approvals.standing import list_delegations
from runtime.actions.tenants import add_member
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.office import asking

pytestmark = [pytest.mark.req("C5.3", "C5.6", "A10.1"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def second(office) -> Actor:
    return member(office.tenant, "approver")


@pytest.fixture
def third(office) -> Actor:
    return member(office.tenant, "approver")


def asked_by(office, actor: Actor, **ask: Any) -> Any:
    """Submit as ``actor`` and work until it waits; returns the request."""
    office.actor, before = actor, office.actor
    try:
        return office.pending(office.ask(**ask))
    finally:
        office.actor = before


def codes(office, verb: str) -> list[str]:
    acts = list_audit(actor=office.admin, verb=verb, result="refused").items
    return [entry["details"]["code"] for entry in reversed(acts)]


def past_the_actions(office, query: str, row: Any) -> None:
    with tenant_tx(office.tenant.id) as tx:
        tx.send(query, row)


def test_two_of_three_have_to_agree(office, second, third):
    run_id = office.ask({"to": "Ada"}, name="pair", quorum=2)
    request = office.pending(run_id)
    first = office.decide(request, comment="one")
    assert (first["state"], first["approvals"], first["quorum"], first["decided_by"]) == ("pending", 1, 2, None)
    office.work()
    assert office.sends(run_id) == {}
    assert office.decide(request)["replayed"]
    with pytest.raises(AlreadySpoken):
        office.decide(request, "reject")
    again = office.decide(request, actor=second)
    assert (again["state"], again["approvals"], again["decided_by"]) == ("approved", 2, second.label)
    with pytest.raises(AlreadyClosed):
        office.decide(request, actor=third)
    office.work()
    assert office.sends(run_id)["pay:Ada"] == 1
    whole = get_request(actor=office.admin, request_id=request["id"])
    assert [one["actor"] for one in whole["decisions"]] == [office.approver.label, second.label]
    assert (whole["approvals"], whole["state"]) == (2, "consumed")
    results = [e["result"] for e in list_audit(actor=office.admin, verb="approval.decide").items]
    assert sorted(results) == ["approved", "heard", "refused", "refused"]
    office.check(run_id)


def test_one_rejection_ends_it(office, second):
    run_id = office.ask(name="pair", quorum=2)
    request = office.pending(run_id)
    office.decide(request)
    assert office.decide(request, "reject", actor=second, comment="no")["state"] == "rejected"
    office.work()
    assert office.sends(run_id) == {}


def test_who_leaves_the_role_in_between_counts_no_more(office, second, third):
    run_id = office.ask({"to": "Bo"}, name="pair", quorum=2)
    request = office.pending(run_id)
    office.decide(request)
    add_member(actor=office.admin, username=office.approver.name, role="viewer")
    assert office.decide(request, actor=second)["state"] == "pending"
    assert office.decide(request, actor=third)["state"] == "approved"
    # One of the two that counted leaves before the call is sent: one voice is not two.
    add_member(actor=office.admin, username=third.name, role="viewer")
    office.work()
    assert office.sends(run_id) == {}
    assert office.states(run_id) == ["revoked", "pending"]


def test_whose_account_is_closed_counts_no_more(office, second, third):
    """The membership stays and the person is gone: no voice of theirs, no grant by it, no right they lent."""
    run_id = office.ask({"to": "Al"}, name="pair", quorum=2)
    request = office.pending(run_id)
    office.decide(request)
    User.objects.filter(pk=office.approver.user_id).update(is_active=False)
    assert office.decide(request, actor=second)["state"] == "pending"
    assert office.decide(request, actor=third)["state"] == "approved"
    User.objects.filter(pk=third.user_id).update(is_active=False)
    office.work()
    assert office.sends(run_id) == {}
    assert office.states(run_id) == ["revoked", "pending"]
    lent = office.pending(office.ask(name="by-admin", role="admin"))
    add_delegation(actor=office.admin, to=second.name, ends_at=office.run_now() + timedelta(days=1), reason="away")
    User.objects.filter(pk=office.admin.user_id).update(is_active=False)
    with pytest.raises(PermissionDenied):
        office.decide(lent, actor=second)


def test_two_at_once_are_two_voices(office, second):
    for _ in range(5):
        request = office.pending(office.ask(name="pair", quorum=2))
        start, answers = threading.Barrier(2), []

        def say(actor: Actor, start=start, request=request, answers=answers) -> None:
            start.wait()
            answers.append(office.decide(request, actor=actor))

        threads = [threading.Thread(target=say, args=(actor,)) for actor in (office.approver, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one["state"] for one in answers) == ["approved", "pending"]
        assert sorted(one["approvals"] for one in answers) == [1, 2]


def test_the_database_counts_as_well(office):
    request = office.pending(office.ask(name="pair", quorum=2))
    row = {"id": request["id"], "state": "approved", "by": "user:x", "comment": "", "revision": 1}
    with pytest.raises(psycopg.DatabaseError, match="fewer people have approved"):
        past_the_actions(office, "approval_decide", row)


@pytest.mark.parametrize("way", ["plain", "bulk", "quorum"])
def test_nobody_decides_what_they_asked_for(office, way):
    request = asked_by(office, office.admin, name="own", quorum=2 if way == "quorum" else 1)
    assert (request["may_decide"], request["blocked"]) == (False, "own_request")
    if way == "bulk":
        item = {name: request[name] for name in ("id", "version", "payload_hash")}
        answer = decide_many(actor=office.admin, decision="approve", items=[item], confirm="approve 1")
        assert (answer["decided"], answer["items"][0]["code"]) == (0, "own_request")
    else:
        with pytest.raises(OwnRequest):
            office.decide(request, actor=office.admin)
    assert codes(office, "approval.decide") == ["own_request"]
    assert office.decide(request)["approvals"] == 1


def test_nor_through_a_delegation(office, second):
    """The requester lends their right to another, or is lent another's: neither decides."""
    request = asked_by(office, office.admin, name="own", role="admin")
    add_delegation(actor=office.admin, to=second.name, ends_at=office.run_now() + timedelta(days=1), reason="away")
    with pytest.raises(OwnRequest):
        office.decide(request, actor=second)
    with pytest.raises(BadInput):
        delegate_request(actor=office.admin, request_id=request["id"], to=second.name, reason="you do it")
    other = member(office.tenant, "admin")
    with pytest.raises(BadInput):
        delegate_request(actor=other, request_id=request["id"], to=office.admin.name, reason="yours")
    assert office.decide(request, actor=other)["state"] == "approved"


def test_a_workflow_may_say_that_one_person_is_enough(office):
    request = asked_by(office, office.admin, name="alone", separation="none")
    assert office.decide(request, actor=office.admin)["state"] == "approved"


def test_who_claims_it_alone_decides_it(office, second):
    request = office.pending(office.ask())
    assert claim_request(actor=office.approver, request_id=request["id"])["assignee"] == office.approver.label
    assert claim_request(actor=office.approver, request_id=request["id"])["assignee"] == office.approver.label
    for act in (claim_request, release_request):
        with pytest.raises(HandedOver):
            act(actor=second, request_id=request["id"])
    with pytest.raises(HandedOver) as refused:
        office.decide(request, actor=second)
    assert refused.value.extra["assignee"] == office.approver.label
    release_request(actor=office.admin, request_id=request["id"], reason="she is away")
    with pytest.raises(NotUsable):
        release_request(actor=office.approver, request_id=request["id"])
    assert office.decide(request, actor=second)["state"] == "approved"


def test_a_stale_tab_after_a_hand_over_decides_nothing(office, second):
    request = office.pending(office.ask())
    answer = delegate_request(actor=office.approver, request_id=request["id"], to=second.name, reason="yours")
    assert (answer["assignee"], answer["assigned_by"]) == (second.label, office.approver.label)
    with pytest.raises(HandedOver):
        office.decide(request)
    assert office.decide(request, actor=second)["state"] == "approved"
    entry = list_audit(actor=office.admin, verb="approval.delegate").items[0]
    assert entry["details"] == {"from": office.approver.label, "to": second.label, "by": office.approver.label}


def test_a_hand_over_lends_the_givers_right(office, second):
    request = office.pending(office.ask(name="by-admin", role="admin"))
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=second)
    delegate_request(actor=office.admin, request_id=request["id"], to=second.name, reason="I am away")
    assert office.decide(request, actor=second)["state"] == "approved"
    (said,) = get_request(actor=office.admin, request_id=request["id"])["decisions"]
    assert (said["actor"], said["for_actor"]) == (second.label, office.admin.label)
    entry = list_audit(actor=office.admin, verb="approval.decide", result="approved").items[0]
    assert entry["details"]["in_place_of"] == office.admin.label


@pytest.mark.req("C8.5")
def test_mine_is_exactly_what_ones_pages_let_one_decide(office, second, third):
    """A list, its count and each request's page agree, whoever has it, lent the right to it, or asked for it."""
    plain = office.pending(office.ask())
    high = office.pending(office.ask(name="by-admin", role="admin"))
    handed = office.pending(office.ask(name="handed", role="admin"))
    delegate_request(actor=office.admin, request_id=handed["id"], to=second.name, reason="you know them")
    claimed = office.pending(office.ask(name="claimed"))
    claim_request(actor=second, request_id=claimed["id"])
    asked_by(office, office.admin, name="own", role="admin")
    free = asked_by(office, office.admin, name="alone", role="admin", separation="none")
    add_delegation(actor=office.admin, to=third.name, ends_at=office.run_now() + timedelta(days=1), reason="away")
    wanted = {
        office.approver: {plain["id"]},
        second: {plain["id"], handed["id"], claimed["id"]},
        third: {plain["id"], high["id"], free["id"]},
        office.admin: {plain["id"], high["id"], free["id"]},
        office.oncall: set(),
    }
    for actor, ids in wanted.items():
        everything = list_requests(actor=actor, limit=100).items
        mine = list_requests(actor=actor, mine=True, limit=100, count=True)
        assert {one["id"] for one in mine.items} == ids, actor
        assert (mine.count, count_pending(actor=actor)) == (len(ids), len(ids))
        assert {one["id"] for one in everything if one["may_decide"]} == ids, actor
        whole = [get_request(actor=actor, request_id=one["id"]) for one in everything]
        assert {one["id"] for one in whole if one["may_decide"]} == ids, actor


def test_a_lent_right_is_not_lent_on(office, second, third):
    request = office.pending(office.ask(name="by-admin", role="admin"))
    delegate_request(actor=office.admin, request_id=request["id"], to=second.name, reason="I am away")
    with pytest.raises(BadInput, match="not yours to lend") as refused:
        delegate_request(actor=second, request_id=request["id"], to=third.name, reason="me too")
    assert refused.value.where == "/to"
    other = member(office.tenant, "admin")
    delegate_request(actor=second, request_id=request["id"], to=other.name, reason="he is an admin")
    assert office.decide(request, actor=other)["state"] == "approved"


@pytest.mark.parametrize("to", ["nobody-of-that-name", "viewer"])
def test_only_a_member_who_can_decide_gets_it(office, to):
    request = office.pending(office.ask())
    name = member(office.tenant, "viewer").name if to == "viewer" else to
    with pytest.raises(BadInput) as refused:
        delegate_request(actor=office.approver, request_id=request["id"], to=name, reason="x")
    assert refused.value.where == "/to"


def test_standing_in_lasts_as_long_as_its_dates(office, second, clock):
    start, end = office.run_now() + timedelta(hours=1), office.run_now() + timedelta(hours=2)
    request = office.pending(office.ask(name="by-admin", role="admin", expires_s=86400))
    given = add_delegation(actor=office.admin, to=second.name, starts_at=start, ends_at=end, reason="on leave")
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=second)
    clock.advance(3700)
    assert get_request(actor=second, request_id=request["id"])["may_decide"]
    clock.advance(3600)
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=second)
    clock.reset()
    clock.advance(3700)
    assert [one["active"] for one in list_delegations(actor=second)] == [True]
    with pytest.raises(PermissionDenied):
        end_delegation(actor=office.approver, delegation_id=given["delegation_id"])
    end_delegation(actor=second, delegation_id=given["delegation_id"])
    with pytest.raises(Conflict):
        end_delegation(actor=second, delegation_id=given["delegation_id"])
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=second)


def test_one_person_has_one_voice_through_two_roles(office, second):
    """For themselves and in another's place, or both in one's place: a quorum needs different people."""
    request = office.pending(office.ask(name="pair", role="admin", quorum=2))
    other = member(office.tenant, "admin")
    add_delegation(actor=office.admin, to=second.name, ends_at=office.run_now() + timedelta(days=1), reason="away")
    assert office.decide(request, actor=second)["approvals"] == 1
    with pytest.raises(AlreadySpoken):
        office.decide(request, actor=office.admin)
    row = (
        uuid.uuid4(), office.tenant.id, request["id"], "approve", office.admin.label, office.admin.user_id, None, None,
        None, 1, bytes.fromhex(request["payload_hash"]), "", None,
    )  # fmt: skip
    with pytest.raises(psycopg.DatabaseError, match="one person has one voice"):
        past_the_actions(office, "approval_decision_insert", row)
    assert office.decide(request, actor=other)["state"] == "approved"


def test_a_grant_is_taken_back_before_it_is_used(office):
    run_id = office.ask({"to": "Cy"})
    request = office.pending(run_id)
    with pytest.raises(NotUsable):
        revoke_grant(actor=office.approver, request_id=request["id"], reason="not approved yet")
    office.decide(request)
    with pytest.raises(BadInput):
        revoke_grant(actor=office.approver, request_id=request["id"], reason=" ")
    assert revoke_grant(actor=office.approver, request_id=request["id"], reason="wrong order")["state"] == "revoked"
    office.work()
    assert office.sends(run_id) == {}
    assert office.states(run_id) == ["revoked", "pending"]
    office.decide(office.pending(run_id))
    office.work()
    with pytest.raises(NotUsable):
        revoke_grant(actor=office.approver, request_id=office.requests(run_id)[1]["id"], reason="too late")


def test_comments_decide_nothing_and_tell_whom_they_name(office, second):
    run_id = office.ask()
    request = office.pending(run_id)
    words = f"I approve. @{second.name} @nobody a@{second.name}"
    answer = comment_request(actor=office.oncall, request_id=request["id"], text=words)
    assert answer["mentions"] == [second.label]
    whole = office.pending(run_id)
    assert [(one["kind"], one["text"]) for one in whole["notes"]] == [("comment", words)]
    assert (whole["state"], whole["approvals"]) == ("pending", 0)
    with pytest.raises(BadInput):
        comment_request(actor=office.oncall, request_id=request["id"], text="  ")


def test_bulk_is_for_one_shape_and_answers_each(office):
    shown = [office.pending(office.ask()) for _ in range(3)]
    items = [{name: one[name] for name in ("id", "version", "payload_hash")} for one in shown]
    with pytest.raises(BadInput, match="risky"):
        decide_many(actor=office.approver, decision="approve", items=items)
    other = office.pending(office.ask(name="other", title="Something else"))
    mixed = [*items, {name: other[name] for name in ("id", "version", "payload_hash")}]
    with pytest.raises(BadInput, match="different shapes"):
        decide_many(actor=office.approver, decision="approve", items=mixed, confirm="approve 4")
    for wrong in ([], [items[0], items[0]], [{"id": "x", "version": 1, "payload_hash": ""}]):
        with pytest.raises(BadInput):
            decide_many(actor=office.approver, decision="approve", items=wrong, confirm=f"approve {len(wrong)}")
    items[1] = {**items[1], "payload_hash": "00" * 32}
    answer = decide_many(actor=office.approver, decision="approve", items=items, confirm="approve 3", comment="ok")
    assert (answer["decided"], answer["refused"]) == (2, 1)
    assert [one.get("code") for one in answer["items"]] == [None, "stale", None]
    assert [office.states(one["run_id"]) for one in shown] == [["approved"], ["pending"], ["approved"]]


def test_evidence_is_bound_by_hash(office, other_tenant):
    from runtime.actions.artifacts import upload_artifact
    from runtime.kernel.canonical import digest

    def upload(text: bytes, tenant=office.tenant) -> str:
        actor = member(tenant, "integrator")
        return upload_artifact(actor=actor, body=text, media_type="text/plain", sha256=digest(text))["artifact_id"]

    first, second = upload(b"offer: 5"), upload(b"offer: 6")
    evidence = [{"$": "input.file"}]
    one = office.pending(office.ask({"to": "Di", "file": first}, name="seen", evidence=evidence))
    two = office.pending(office.ask({"to": "Di", "file": second}, name="seen", evidence=evidence))
    assert one["shown"]["evidence"] == [
        {"artifact_id": first, "sha256": digest(b"offer: 5").hex(), "size": 8, "media_type": "text/plain"}
    ]
    assert one["action_hash"] != two["action_hash"]
    foreign = upload(b"theirs", other_tenant)
    spoiled = office.pending(office.ask({"to": "Di", "file": foreign}, name="seen", evidence=evidence))
    assert "no artifact of this tenant" in spoiled["problem"]
    with pytest.raises(QuarterdeckError):
        office.decide(spoiled)


def test_risk_says_why(office):
    assert office.pending(office.ask())["risk"] == "medium"
    declared = office.pending(office.ask(name="risky", risk="high"))
    assert (declared["risk"], declared["shown"]["risk"]["reasons"][-2:]) == ("high", ["declared", "nobody_can_look"])
    question = asking("idle")
    question["nodes"][1]["gates"] = []
    run_id = office.submit(question, {"to": "Ed"})
    office.work()
    assert office.pending(run_id)["risk"] == "none"
