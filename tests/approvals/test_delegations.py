"""Delegations: who decides in whose place, and when; made once, ended once, seen by whom they concern (C5.3, C8.5)."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command

from approvals.actions.delegations import add_delegation, end_delegation
from approvals.standing import list_delegations, names_to_ask, page_delegations, standing_now
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.queries.people import list_audit
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "C8.5"), pytest.mark.django_db(transaction=True)]
DAY = timedelta(days=1)


@pytest.fixture
def second(office) -> Actor:
    return member(office.tenant, "approver")


def lend(office, second, **more):
    words = {"to": second.name, "ends_at": office.run_now() + DAY, "reason": "on leave", **more}
    return add_delegation(actor=office.approver, **words)


def test_the_same_sent_twice_is_made_once(office, second):
    ends = office.run_now() + DAY
    first = lend(office, second, ends_at=ends)
    again = lend(office, second, ends_at=ends)
    assert (first["created"], again["created"]) == (True, False)
    assert {**again, "created": True} == first
    longer = lend(office, second, ends_at=ends + DAY)
    assert longer["created"], "what was not lent so far is another one"
    assert len(list_audit(actor=office.admin, verb="approval.stand_in").items) == 2
    end_delegation(actor=second, delegation_id=uuid.UUID(longer["delegation_id"]))
    end_delegation(actor=second, delegation_id=uuid.UUID(first["delegation_id"]))
    assert lend(office, second, ends_at=ends)["created"], "one that was ended is none"


def test_two_at_once_make_one(office, second):
    ends, starts = office.run_now() + 2 * DAY, office.run_now() + DAY
    made = together(*[lambda: lend(office, second, starts_at=starts, ends_at=ends)] * 3)
    assert sorted(one["created"] for one in made) == [False, False, True]
    assert len({one["delegation_id"] for one in made}) == 1


@pytest.mark.parametrize(
    ("starts", "ends", "says"),
    [
        (timedelta(days=2), timedelta(days=1), "before it begins"),
        (timedelta(days=1), timedelta(days=1), "before it begins"),
        (None, timedelta(hours=-1), "before it begins"),
        (timedelta(days=-2), timedelta(hours=-1), "over already"),
        (None, timedelta(days=367), "366 days at most"),
    ],
)
def test_dates_that_make_no_time_are_named(office, second, starts, ends, says):
    now = office.run_now()
    begins = None if starts is None else now + starts
    with pytest.raises(BadInput, match=says) as refused:
        lend(office, second, starts_at=begins, ends_at=now + ends)
    assert refused.value.where == "/ends_at"
    assert list_delegations(actor=office.admin) == []


def test_only_who_decides_something_stands_in_and_lends(office, second):
    viewer, oncall = member(office.tenant, "viewer"), office.oncall
    for name in ("nobody-of-that-name", viewer.name, office.approver.name):
        with pytest.raises(BadInput) as refused:
            lend(office, second, to=name)
        assert refused.value.where == "/to"
    with pytest.raises(PermissionDenied):
        add_delegation(actor=viewer, to=second.name, ends_at=office.run_now() + DAY, reason="x")
    with pytest.raises(PermissionDenied):
        lend(office, second, whose=office.admin.name)
    with pytest.raises(BadInput) as refused:
        add_delegation(
            actor=office.admin, whose=viewer.name, to=second.name, ends_at=office.run_now() + DAY, reason="x"
        )
    assert refused.value.where == "/from"
    # Whoever answers what is asked of their role stands in as well.
    assert lend(office, second, to=oncall.name)["to"] == oncall.label
    names = names_to_ask(actor=office.approver)
    assert {office.approver.name, second.name, oncall.name, office.admin.name} <= set(names)
    assert viewer.name not in names


def test_it_is_coming_then_active_then_ended_and_is_ended_once(office, second, clock):
    now = office.run_now()
    given = lend(office, second, starts_at=now + DAY, ends_at=now + 2 * DAY)
    off = lend(office, second, to=office.oncall.name, starts_at=now + DAY, ends_at=now + 2 * DAY)

    def state(delegation) -> str:
        rows = list_delegations(actor=office.approver)
        return next(one["state"] for one in rows if str(one["delegation_id"]) == delegation["delegation_id"])

    assert state(given) == state(off) == "coming"
    assert standing_now(actor=second) == {"given": [], "taken": []}
    end_delegation(actor=office.approver, delegation_id=uuid.UUID(off["delegation_id"]))
    assert state(off) == "ended", "it was called off before it began"
    clock.advance(DAY.total_seconds() + 60)
    assert state(given) == "active"
    assert [one["from"] for one in standing_now(actor=second)["taken"]] == [office.approver.label]
    assert [one["to"] for one in standing_now(actor=office.approver)["given"]] == [second.label]
    assert standing_now(actor=office.admin) == {"given": [], "taken": []}, "an admin's note is of the admin alone"
    clock.advance(DAY.total_seconds())
    assert state(given) == "ended"
    for one in (given, off):
        with pytest.raises(Conflict, match="ended already"):
            end_delegation(actor=office.admin, delegation_id=uuid.UUID(one["delegation_id"]))


def test_a_list_is_narrowed_and_goes_on_to_its_end(office, second, other_tenant):
    now, third = office.run_now(), member(office.tenant, "approver")
    for days in range(1, 5):
        lend(office, second, starts_at=now + days * 9 * DAY, ends_at=now + (days * 9 + 1) * DAY)
    lend(office, third)
    admin = office.admin
    assert len(page_delegations(actor=admin, state="open").items) == 5
    assert len(page_delegations(actor=admin, state="coming").items) == 4
    assert [one["to"] for one in page_delegations(actor=admin, state="active").items] == [third.label]
    assert page_delegations(actor=admin, state="ended").items == []
    assert len(page_delegations(actor=admin, member=second.name).items) == 4
    assert len(page_delegations(actor=third, member=office.approver.name).items) == 1
    assert page_delegations(actor=admin, own=True).items == []
    seen, cursor = [], None
    while True:
        page = page_delegations(actor=second, cursor=cursor, limit=3)
        seen += [one["delegation_id"] for one in page.items]
        if (cursor := page.next) is None:
            break
    assert (len(seen), seen) == (4, sorted(seen, reverse=True))
    stranger = member(other_tenant, "admin")
    assert page_delegations(actor=stranger).items == []
    with pytest.raises(NotFound):
        end_delegation(actor=stranger, delegation_id=seen[0])
    with pytest.raises(BadInput):
        page_delegations(actor=stranger, cursor=page_delegations(actor=admin, limit=1).next)


def test_the_api_narrows_pages_and_answers_what_stands_already(office):
    approver, other = caller(office.tenant, "approver"), caller(office.tenant, "approver")
    body = {"to": other.actor.name, "ends_at": (office.run_now() + DAY).isoformat(), "reason": "leave"}
    assert [approver.post("delegations/", body).status_code for _ in range(2)] == [201, 200]
    answer = other.get("delegations/?state=active&limit=1").json()
    assert ([one["state"] for one in answer["items"]], answer["next"]) == (["active"], None)
    assert other.get("delegations/?state=ended").json()["items"] == []
    problem(other.get("delegations/?state=some"), 400)


def test_the_command_does_the_same(office, second):
    def said(*words: str) -> list[dict]:
        out = StringIO()
        call_command("approvals", *words, "--tenant", office.tenant.slug, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    until = (office.run_now() + DAY).isoformat()
    words = ("delegate", office.approver.name, second.name, "--until", until, "--reason", "ill")
    (made,) = said(*words)
    assert (made["from"], made["to"], made["created"]) == (office.approver.label, second.label, True)
    (listed,) = said("delegations", "--state", "open", "--member", second.name)
    assert (listed["created_by"], listed["state"]) == ("service:cli", "active")
    assert said("undelegate", made["delegation_id"])[0]["ended"] is True
    assert said("delegations", "--state", "open") == []
    with pytest.raises(SystemExit):
        said(*words[:3], "--until", "tomorrow", "--reason", "ill")


@pytest.mark.req("A7.2")
def test_who_stands_in_is_told_of_what_they_decide(office, fresh_db, settings, clock):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []
    clerk, boss = member(office.tenant, "approver"), member(office.tenant, "finance")
    for actor, box in ((clerk, "clerk"), (boss, "boss")):
        User.objects.filter(pk=actor.user_id).update(email=f"{box}@office.example")
    add_delegation(
        actor=office.admin, whose=clerk.name, to=boss.name, ends_at=office.run_now() + DAY, reason="on leave"
    )

    def told(name: str) -> list[str]:
        mail.outbox.clear()
        office.pending(office.ask(name=name))
        deliver()
        return sorted(address for one in mail.outbox for address in one.recipients())

    assert told("now") == ["boss@office.example", "clerk@office.example"]
    clock.advance(2 * DAY.total_seconds())
    assert told("later") == ["clerk@office.example"]
