"""Review limits: what one person holds at once and decides within an hour; what is over them is another person's."""

from __future__ import annotations

import pytest

from approvals.actions.answer import answer_input
from approvals.actions.bulk import decide_many
from approvals.actions.handling import claim_request, delegate_request
from approvals.actions.quota import set_review_limits
from approvals.errors import ReviewLimitReached
from approvals.queries import get_request, review_load
from runtime.kernel.errors import BadInput, PermissionDenied
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C7.1"), pytest.mark.django_db(transaction=True)]

ASKS = {
    "format": "quarterdeck/1",
    "name": "seats",
    "nodes": [{"id": "which", "kind": "input", "title": "Which?", "role": "approver", "form": {"type": "string"}}],
}


@pytest.fixture
def second(tenant):
    """Another approver."""
    return member(tenant, "approver")


def limit(office, most_held=None, most_decided=None):
    return set_review_limits(actor=office.admin, most_held=most_held, most_decided=most_decided)


def test_nobody_holds_more_than_one_person_may_and_the_next_takes_it(office, second):
    limit(office, most_held=1)
    first, other = (office.pending(office.ask()) for _ in range(2))
    claim_request(actor=office.approver, request_id=first["id"])
    claim_request(actor=office.approver, request_id=first["id"])  # what one has is no second one
    with pytest.raises(ReviewLimitReached) as refused:
        claim_request(actor=office.approver, request_id=other["id"])
    assert "at most 1" in refused.value.detail
    name = office.approver.name
    with pytest.raises(ReviewLimitReached):
        delegate_request(actor=office.admin, request_id=other["id"], to=name, reason="yours")
    assert claim_request(actor=second, request_id=other["id"])["assignee"] == second.label
    office.decide(first)
    third = office.pending(office.ask())
    assert claim_request(actor=office.approver, request_id=third["id"])["assignee"] == office.approver.label


def test_over_the_hours_limit_nothing_is_decided_and_the_request_goes_to_the_others(office, second, clock):
    limit(office, most_decided=2)
    for _ in range(2):
        office.decide(office.pending(office.ask()))
    request = office.pending(office.ask())
    claim_request(actor=office.approver, request_id=request["id"])
    with pytest.raises(ReviewLimitReached) as refused:
        office.decide(request)
    assert refused.value.code == "review_limit"
    there = get_request(actor=office.admin, request_id=request["id"])
    assert (there["state"], there["assignee"], there["decisions"]) == ("pending", None, [])
    assert [one["kind"] for one in there["notes"]] == ["claim", "release"]
    office.decide(request, actor=second)
    later = office.pending(office.ask(name="unhurried", expires_s=9000))
    clock.advance(3601)
    assert office.decide(later)["state"] == "approved"


def test_a_held_input_goes_back_as_well_when_its_holder_may_answer_no_more(office, second):
    limit(office, most_decided=1)
    run_id = office.submit(ASKS)
    office.work()
    request = office.pending(run_id)
    claim_request(actor=office.approver, request_id=request["id"])
    office.decide(office.pending(office.ask()))
    step_id = office.step(run_id, "which").id
    with pytest.raises(ReviewLimitReached):
        answer_input(actor=office.approver, step_id=step_id, value="12A")
    assert (office.pending(run_id)["assignee"], office.pending(run_id)["decisions"]) == (None, [])
    assert answer_input(actor=second, step_id=step_id, value="12A")["state"] == "approved"


def test_several_at_once_are_counted_one_by_one(office):
    limit(office, most_decided=2)
    rows = [office.pending(office.ask()) for _ in range(3)]
    items = [{name: row[name] for name in ("id", "version", "payload_hash")} for row in rows]
    answer = decide_many(actor=office.approver, decision="approve", items=items, confirm="approve 3")
    assert [one["ok"] for one in answer["items"]] == [True, True, False]
    assert answer["items"][2]["code"] == "review_limit"


def test_a_decision_that_was_made_is_answered_again_beyond_the_limit(office):
    limit(office, most_decided=1)
    request = office.pending(office.ask())
    office.decide(request)
    assert office.decide(request)["replayed"]


def test_limits_are_read_with_ones_own_load_and_set_by_whoever_sets_limits(office, tenant):
    approver, admin = caller(tenant, "approver"), caller(tenant, "admin")
    assert approver.get("approvals/limits/").json() == {
        "most_held": None, "most_decided": None, "held": 0, "decided": 0,
    }  # fmt: skip
    problem(approver.send("PUT", "approvals/limits/", {"most_held": 3, "most_decided": None}), 403)
    problem(admin.send("PUT", "approvals/limits/", {"most_held": 0, "most_decided": None}), 400)
    answer = admin.send("PUT", "approvals/limits/", {"most_held": 3, "most_decided": None}).json()
    assert (answer["most_held"], answer["most_decided"]) == (3, None)
    claim_request(actor=office.approver, request_id=office.pending(office.ask())["id"])
    assert review_load(actor=office.approver) == {"most_held": 3, "most_decided": None, "held": 1, "decided": 0}
    with pytest.raises(BadInput):
        limit(office, most_decided=0)
    with pytest.raises(PermissionDenied):
        set_review_limits(actor=office.approver, most_held=None, most_decided=None)


def test_the_inbox_shows_the_limits_and_sets_them(office, tenant):
    admin, reader = Reader(tenant, "admin"), Reader(tenant, "approver")
    assert 'id="load"' not in reader.get("/inbox/")
    admin.post("/inbox/limits/", {"most_held": "4", "most_decided": ""}, 302)
    page = reader.get("/inbox/")
    assert "You hold 0 of 4" in page
    assert "within the hour" not in page.split('id="load"')[1].split("</p>")[0]
    admin.post("/inbox/limits/", {"most_held": "many"}, 400)
    reader.post("/inbox/limits/", {"most_held": "9"}, 403)
    assert "You hold 0 of 4" in reader.get("/inbox/")
