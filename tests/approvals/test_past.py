"""Where a request's step stands in its graph, and what was decided before about the same tool and target."""

from __future__ import annotations

import re
import uuid
from html import unescape
from typing import Any

import pytest

from approvals.actions.comments import comment_request
from approvals.actions.propose import propose_edit
from approvals.past import past_of
from approvals.queries import get_request
from runtime.kernel.errors import NotFound
from tests.support.actors import member
from tests.support.api import caller
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("B6.4", "C5.3"), pytest.mark.django_db(transaction=True)]


def decided(office: Office, decision: str, **ask: Any) -> dict[str, Any]:
    """Ask and let the approver decide; returns the request."""
    request = office.pending(office.ask(**ask))
    office.decide(request, decision, comment="too much" if decision == "reject" else "fine")
    return request


def test_requests_of_the_same_tool_are_found_with_ones_own_words(office):
    rejected, approved = decided(office, "reject"), decided(office, "approve")
    now = office.pending(office.ask())
    past = past_of(actor=office.approver, request_id=now["id"])
    assert [one["id"] for one in past["alike"]] == [approved["id"], rejected["id"]]
    own = [(one["request_id"], one["kind"], one["text"]) for one in past["own"]]
    assert own == [(approved["id"], "approve", "fine"), (rejected["id"], "reject", "too much")]
    assert past_of(actor=office.admin, request_id=now["id"])["own"] == [], "what others said is not the reader's own"


def test_another_target_is_another_history(office):
    here = {"target": {"id": "account:1", "version": "7"}}
    there = {"target": {"id": "account:2", "version": "7"}}
    first = decided(office, "approve", name="targets", **here)
    decided(office, "approve", name="targets-2", **there)
    now = office.pending(office.ask(name="targets", **here))
    assert now["target"] == "account:1"
    assert [one["id"] for one in past_of(actor=office.approver, request_id=now["id"])["alike"]] == [first["id"]]


def test_what_one_did_on_the_proposal_before_is_ones_own_on_the_next(office):
    request = office.pending(office.ask({"to": "Ada"}))
    comment_request(actor=office.approver, request_id=request["id"], text="why so much?")
    words = {"version": request["version"], "payload_hash": request["payload_hash"], "comment": "less"}
    fresh = propose_edit(actor=office.approver, request_id=request["id"], arguments={"to": "Ada", "rate": "1"}, **words)
    past = past_of(actor=office.approver, request_id=uuid.UUID(fresh["approval_id"]))
    assert [(one["kind"], one["version"]) for one in past["own"]] == [("propose", 2), ("comment", 1)]
    assert past["alike"] == [], "the proposal before is no earlier case"


def test_the_api_answers_it_and_nobody_elses(office, tenant, other_tenant):
    earlier = decided(office, "approve")
    now = office.pending(office.ask())
    answer = caller(tenant, "approver").get(f"approvals/{now['id']}/past/").json()
    assert [one["id"] for one in answer["alike"]] == [str(earlier["id"])]
    with pytest.raises(NotFound):
        past_of(actor=member(other_tenant, "admin"), request_id=now["id"])


def test_the_page_shows_neighbours_with_their_state_and_ones_own_past(office, tenant):
    reader = Reader(tenant, "approver")
    first = office.pending(office.ask())
    reader.post(
        f"/inbox/{first['id']}/",
        {**reader.form(reader.get(f"/inbox/{first['id']}/")), "decision": "reject", "comment": "no"},
    )
    now = office.pending(office.ask())
    page = unescape(reader.get(f"/inbox/{now['id']}/"))
    (stands,) = re.findall(r'class="s-place".*?</section>', page, re.DOTALL)
    nodes = re.findall(r'step=(\w+)">([^<]*)</a><small>([^<,]*)', stands)
    assert [(node, word) for node, _title, word in nodes] == [
        ("load", "succeeded"),
        ("ask", "on hold"),
        ("pay", "waiting"),
    ]
    assert "stage 2 of 4" in stands
    (past,) = re.findall(r'aria-labelledby="past".*?</section>', page, re.DOTALL)
    assert "You rejected" in past
    assert f"/inbox/{first['id']}/" in past
    assert get_request(actor=office.admin, request_id=now["id"])["state"] == "pending"
