"""Whoever writes much hides nothing by it and stops nobody: delegations, comments, proposals, lines are bounded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from approvals import queries
from approvals.actions import comments, delegations, propose
from approvals.actions.comments import comment_request
from approvals.actions.delegations import add_delegation, end_delegation
from approvals.actions.groups import put_group
from approvals.actions.propose import propose_edit
from approvals.errors import NotUsable
from approvals.queries import get_request, list_requests
from runtime.kernel.errors import Conflict
from runtime.kernel.ids import uuid7
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "C7.1"), pytest.mark.django_db(transaction=True)]


def test_a_thousand_delegations_from_one_person_are_one_to_whom_they_are_given(office):
    taker = member(office.tenant, "approver")
    with tenant_tx(office.tenant.id) as tx:
        until = tx.now() + timedelta(days=2)
        for _ in range(1_000):
            row = (
                uuid7(),
                office.tenant.id,
                office.approver.user_id,
                office.approver.label,
                taker.user_id,
                taker.label,
            )
            tx.send("delegation_insert", (*row, None, until, "again", office.approver.label))
        assert tx.rows("delegations_to", (taker.user_id,)) == [(office.approver.user_id, office.approver.label)]
    request = office.pending(office.ask())
    assert [one["id"] for one in list_requests(actor=taker, mine=True).items] == [request["id"]]


def test_so_many_delegations_from_one_person_are_open_at_once(office, monkeypatch):
    monkeypatch.setattr(delegations, "MOST_OPEN", 2)
    until = office.run_now() + timedelta(days=2)

    def lend():
        to = member(office.tenant, "approver").name
        try:
            return add_delegation(actor=office.approver, to=to, ends_at=until, reason="away")["delegation_id"]
        except Conflict:
            return None

    made = [one for one in together(lend, lend, lend, lend) if one is not None]
    assert len(made) == 2
    end_delegation(actor=office.approver, delegation_id=made[0])
    assert lend() is not None


def test_who_stands_in_for_two_speaks_for_the_one_that_was_not_heard(office):
    """One who lent their right and decided all the same takes nobody's voice away."""
    first, second, taker = office.approver, member(office.tenant, "approver"), member(office.tenant, "approver")
    put_group(actor=office.admin, name="payments", members=[first.name, second.name])
    until = office.run_now() + timedelta(days=2)
    for giver in (first, second):
        add_delegation(actor=giver, to=taker.name, ends_at=until, reason="away")
    request = office.pending(office.ask(name="pair", role="group:payments", quorum=2))
    office.decide(request, actor=first)
    assert office.decide(request, actor=taker)["state"] == "approved"
    said = get_request(actor=office.admin, request_id=request["id"])["decisions"]
    assert [one["for_actor"] for one in said] == [None, second.label]


def test_one_person_writes_so_many_comments_on_a_request(office, monkeypatch):
    monkeypatch.setattr(comments, "MOST_COMMENTS", 2)
    request = office.pending(office.ask())
    for actor in (office.approver, office.approver, office.oncall):
        comment_request(actor=actor, request_id=request["id"], text="look")
    with pytest.raises(NotUsable, match="2 comments"):
        comment_request(actor=office.approver, request_id=request["id"], text="look")
    assert comment_request(actor=office.oncall, request_id=request["id"], text="look")["mentions"] == []


def test_of_a_long_history_the_newest_lines_are_read(office, monkeypatch):
    monkeypatch.setattr(queries, "MOST_NOTES", 2)
    request = office.pending(office.ask())
    for text in ("one", "two"):
        comment_request(actor=office.oncall, request_id=request["id"], text=text)
    assert not get_request(actor=office.admin, request_id=request["id"])["notes_cut"]
    comment_request(actor=office.oncall, request_id=request["id"], text="three")
    whole = get_request(actor=office.admin, request_id=request["id"])
    assert ([one["text"] for one in whole["notes"]], whole["notes_cut"]) == (["two", "three"], True)


@pytest.mark.req("C5.4")
def test_a_request_is_edited_so_many_times_and_shows_what_the_last_one_changed(office, monkeypatch):
    monkeypatch.setattr(propose, "MOST_PROPOSALS", 3)
    run_id = office.ask({"to": "Gil"})
    for rate in ("1", "2"):
        request = office.pending(run_id)
        quoted = {"version": request["version"], "payload_hash": request["payload_hash"], "comment": "less"}
        arguments = {"to": "Gil", "rate": rate}
        propose_edit(actor=office.approver, request_id=request["id"], arguments=arguments, **quoted)
    request = office.pending(run_id)
    assert [(one["path"], one["before"], one["after"]) for one in request["changes"]] == [
        ("/calls/0/arguments/rate", "1", "2")
    ]
    quoted = {"version": request["version"], "payload_hash": request["payload_hash"], "comment": "less"}
    with pytest.raises(NotUsable, match="edited 2 times"):
        propose_edit(actor=office.approver, request_id=request["id"], arguments={"to": "Gil", "rate": "3"}, **quoted)
    assert office.decide(request)["state"] == "approved"
