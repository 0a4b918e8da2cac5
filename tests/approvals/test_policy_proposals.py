"""Proposed policies: withdrawn, in a defined order, and told when nobody could activate them."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from django.contrib.auth.models import User

from approvals.actions.policies import NO_OTHER_ADMIN, propose_policy, withdraw_policy
from approvals.errors import AlreadyClosed, NotUsable
from approvals.queries import get_request, list_policies
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.queries.people import list_audit
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.pages import Reader
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "A10.2"), pytest.mark.django_db(transaction=True)]

ALL = [{"name": "all", "when": "true", "decide": "allow"}]


@pytest.fixture
def second(office):
    """Another admin."""
    return member(office.tenant, "admin")


def propose(office, note="new"):
    return propose_policy(actor=office.admin, rules=ALL, note=note)


def request_of(office, proposed):
    return get_request(actor=office.admin, request_id=proposed["approval_id"])


def states(office):
    return {row["version"]: row["state"] for row in list_policies(actor=office.admin)}


def test_a_withdrawn_proposal_is_activated_by_nobody(office, second):
    proposed = propose(office)
    request = request_of(office, proposed)
    with pytest.raises(BadInput):
        withdraw_policy(actor=office.admin, policy_id=proposed["policy_id"], reason=" ")
    with pytest.raises(PermissionDenied):
        withdraw_policy(actor=office.approver, policy_id=proposed["policy_id"], reason="x")
    answer = withdraw_policy(actor=office.admin, policy_id=proposed["policy_id"], reason="a mistake in it")
    assert (answer["version"], answer["state"], states(office)) == (1, "withdrawn", {1: "withdrawn"})
    closed = request_of(office, proposed)
    assert (closed["state"], closed["outcome_reason"]) == ("cancelled", f"withdrawn by {office.admin.label}")
    with pytest.raises(AlreadyClosed):
        office.decide(request, actor=second)
    with pytest.raises(NotUsable):
        withdraw_policy(actor=second, policy_id=proposed["policy_id"], reason="again")
    told = [(one["result"], one["reason"]) for one in list_audit(actor=office.admin, verb="policy.propose").items]
    assert ("withdrawn", "a mistake in it") in told


def test_what_is_active_is_not_withdrawn(office, second):
    proposed = propose(office)
    office.decide(request_of(office, proposed), actor=second)
    with pytest.raises(NotUsable):
        withdraw_policy(actor=office.admin, policy_id=proposed["policy_id"], reason="x")
    assert states(office) == {1: "active"}
    with pytest.raises(NotFound):
        withdraw_policy(actor=office.admin, policy_id=office.tenant.id, reason="x")


def test_an_older_proposal_never_takes_the_place_of_a_newer_version(office, second):
    older, newer = propose(office), propose(office)
    office.decide(request_of(office, newer), actor=second)
    with pytest.raises(NotUsable) as refused:
        office.decide(request_of(office, older), actor=second)
    assert "Version 2 was activated since" in refused.value.detail
    assert (states(office), request_of(office, older)["state"]) == ({1: "proposed", 2: "active"}, "pending")
    office.decide(request_of(office, older), "reject", actor=second, comment="overtaken")
    assert states(office) == {1: "rejected", 2: "active"}


def test_in_their_order_both_are_activated(office, second):
    first, then = propose(office), propose(office)
    office.decide(request_of(office, first), actor=second)
    office.decide(request_of(office, then), actor=second)
    assert states(office) == {1: "retired", 2: "active"}


def test_withdrawing_races_activating_and_one_wins(office, second):
    proposed = propose(office)
    request = request_of(office, proposed)

    def withdraw():
        with suppress(Conflict):
            return withdraw_policy(actor=office.admin, policy_id=proposed["policy_id"], reason="x")["state"]

    def activate():
        with suppress(Conflict):
            return office.decide(request, actor=second)["state"]

    won = [one for one in together(withdraw, activate) if one is not None]
    assert len(won) == 1
    assert states(office) == {1: "active" if won == ["approved"] else "withdrawn"}


def test_the_only_admin_is_told_that_nobody_can_activate_it(office):
    assert propose(office)["warning"] == NO_OTHER_ADMIN
    other = member(office.tenant, "admin")
    assert "warning" not in propose(office)
    User.objects.filter(pk=other.user_id).update(is_active=False)
    assert propose(office)["warning"] == NO_OTHER_ADMIN


def test_the_page_withdraws_and_says_what_was_overtaken(office, second):
    older, newer = propose(office), propose(office)
    reader = Reader(office.tenant, "admin")
    office.decide(request_of(office, newer), actor=second)
    page = reader.get("/policy/?version=1")
    assert "can't be activated any more" in page.replace("&#x27;", "'")
    reader.post("/policy/1/withdraw/", {"reason": ""}, 400)
    reader.post("/policy/1/withdraw/", {"reason": "overtaken"}, 302)
    assert states(office)[1] == "withdrawn"
    assert "withdrawn" in reader.get("/policy/?version=1")
    assert request_of(office, older)["state"] == "cancelled"


def test_the_api_withdraws(office):
    admin = caller(office.tenant, "admin")
    made = admin.post("policies/", {"rules": ALL, "note": "new"}).json()
    path = f"policies/{made['policy_id']}/withdraw/"
    problem(caller(office.tenant, "approver").post(path, {"reason": "x"}), 403)
    assert admin.post(path, {"reason": "a mistake"}).json()["state"] == "withdrawn"
    problem(admin.post(path, {"reason": "a mistake"}), 409, "approval_refused")


def test_a_proposal_under_an_id_of_its_own_is_made_once(office, second, other_tenant):
    admin, given = caller(office.tenant), str(uuid.uuid4())
    body = {"rules": ALL, "note": "new", "policy_id": given}
    made, again = admin.post("policies/", body), admin.post("policies/", body)
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json() == {**made.json(), "replayed": True}
    for other in ({**body, "note": "another"}, {**body, "rules": [{**ALL[0], "decide": "deny"}]}):
        assert problem(admin.post("policies/", other), 409, "conflict")["where"] == "/policy_id"
    problem(caller(office.tenant).post("policies/", body), 409, "conflict")
    problem(caller(other_tenant).post("policies/", body), 409, "conflict")
    assert problem(admin.post("policies/", {**body, "policy_id": "mine"}), 400)["where"] == "/policy_id"
    assert states(office) == {1: "proposed"}


def test_of_many_proposals_at_once_under_one_id_one_is_made(office):
    given = uuid.uuid4()

    def work():
        return propose_policy(actor=office.admin, rules=ALL, note="new", policy_id=given)["version"]

    assert together(*[work] * 4) == [1, 1, 1, 1]
    assert states(office) == {1: "proposed"}
