"""A pending request says who could decide it today: somebody it asks, of those only admins, or too few."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from approvals.actions.groups import put_group
from approvals.actions.handling import claim_request, delegate_request
from approvals.askable import LEFT_TO
from approvals.queries import get_request
from runtime.actions.submit import SubmitRequest, submit_task
from tests.support.actors import member
from tests.support.api import caller

pytestmark = [pytest.mark.req("C5.3", "A7.3", "C8.5"), pytest.mark.django_db(transaction=True)]


def left(office, request):
    return get_request(actor=office.admin, request_id=request["id"])["waits_for"]


def close(*people):
    """Close people's accounts."""
    User.objects.filter(pk__in=[one.user_id for one in people]).update(is_active=False)


def test_it_waits_for_those_it_asks_while_there_is_one(office):
    request = office.pending(office.ask())
    assert left(office, request) == "asked"
    close(office.approver)
    assert left(office, request) == "admins"
    office.decide(request, actor=office.admin)
    assert left(office, request) is None


@pytest.mark.parametrize("role", ["boss", "finance", "group:none", "manager:nobody"])
def test_whom_nobody_knows_leaves_it_to_admins(office, role):
    request = office.pending(office.ask(role=role))
    assert left(office, request) == "admins"
    office.decide(request, actor=office.admin)


def test_a_request_for_admins_asks_them_and_one_for_no_role_everybody_who_decides(office):
    assert left(office, office.pending(office.ask(name="a", role="admin"))) == "asked"
    plain = office.ask(name="b", kind="input", form={"type": "object"}, role="oncall")
    assert left(office, office.pending(plain)) == "asked"


def test_who_is_in_the_group_counts_only_with_the_permission(office):
    viewer = member(office.tenant, "viewer")
    put_group(actor=office.admin, name="buyers", members=[viewer.name])
    request = office.pending(office.ask(role="group:buyers"))
    assert left(office, request) == "admins"
    put_group(actor=office.admin, name="buyers", members=[viewer.name, office.approver.name])
    assert left(office, request) == "asked"


def test_whoever_asked_for_it_is_not_who_decides_it(office):
    office.ask(name="own")
    for actor, wanted in ((office.admin, "too_few"), (office.oncall, "admins")):
        close(office.approver)
        asked = SubmitRequest(workflow="own", input={"to": f"for {actor.name}"})
        run_id = submit_task(actor=actor, request=asked).run_id
        office.work()
        assert left(office, office.pending(run_id)) == wanted


def test_a_voice_that_was_given_is_used_up(office):
    request = office.pending(office.ask(quorum=2))
    assert left(office, request) == "asked"
    office.decide(request)
    assert left(office, request) == "admins"
    few = office.pending(office.ask(name="three", quorum=3))
    assert left(office, few) == "too_few"
    member(office.tenant, "approver")
    assert left(office, few) == "asked"


def test_one_who_has_it_decides_it_alone(office):
    clerk = member(office.tenant, "approver")
    request = office.pending(office.ask(role="group:none"))
    delegate_request(actor=office.admin, request_id=request["id"], to=clerk.name, reason="theirs")
    assert left(office, request) == "asked"
    close(clerk)
    assert left(office, request) == "admins"
    mine = office.pending(office.ask(name="mine"))
    claim_request(actor=office.approver, request_id=mine["id"])
    assert left(office, mine) == "asked"


def test_one_who_has_it_by_the_right_of_another_has_it_as_long_as_they_do(office):
    clerk, giver = member(office.tenant, "approver"), member(office.tenant, "approver")
    put_group(actor=office.admin, name="buyers", members=[giver.name])
    request = office.pending(office.ask(role="group:buyers"))
    delegate_request(actor=giver, request_id=request["id"], to=clerk.name, reason="away")
    assert left(office, request) == "asked"
    put_group(actor=office.admin, name="buyers", members=[])
    assert left(office, request) == "admins"


@pytest.mark.req("C6.1")
def test_the_api_says_it(office):
    request = office.pending(office.ask(role="boss"))
    api = caller(office.tenant, "approver")
    assert api.get(f"approvals/{request['id']}/").json()["waits_for"] == "admins"
    shape = api.get("schema/").json()["paths"]["/api/v1/approvals/{approval_id}/"]["get"]
    assert f"'enum': {[*LEFT_TO, None]}" in str(shape)
