"""The page of groups and managers: an admin changes them there, others read them; a rule's words name the group."""

from __future__ import annotations

from html import unescape

import pytest

from approvals.teams import list_groups, list_managers
from tests.support.actors import member
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C8.5"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


def test_an_admin_makes_changes_and_removes_a_group(office, tenant):
    admin, name, other = Reader(tenant, "admin"), office.approver.name, member(tenant, "approver").name
    form = {"act": "group", "name": "payments", "members": f"{name}, {other}"}
    answer = admin.post("/members/groups/", form, follow=True, status=200)
    assert "The group payments was made." in answer.content.decode()
    assert list_groups(actor=office.admin)[0]["members"] == sorted([name, other])
    page = admin.post("/members/groups/", {**form, "members": "nobody-here"}, 400).content.decode()
    assert "Nothing was changed." in page
    assert "nobody-here" in page, "what was typed is kept"
    stale = admin.post("/members/groups/", {**form, "members": name}, 409).content.decode()
    assert f"In it now: {', '.join(sorted([name, other]))}" in unescape(stale), "the form of a new group replaces none"
    admin.post("/members/groups/", {**form, "members": name, "were": f"{other} {name}"})
    assert list_groups(actor=office.admin)[0]["members"] == [name]
    admin.post("/members/groups/", {"act": "manager", "user": name, "manager": other})
    assert [(one["user"], one["manager"]) for one in list_managers(actor=office.admin)] == [(name, other)]
    admin.post("/members/groups/", {"act": "manager", "user": name, "manager": ""})
    assert list_managers(actor=office.admin) == []
    admin.post("/members/groups/", {"act": "remove", "name": "payments"})
    assert list_groups(actor=office.admin) == []


def test_others_read_and_change_nothing(office, tenant):
    Reader(tenant, "admin").post("/members/groups/", {"act": "group", "name": "payments", "members": ""})
    approver = Reader(tenant, "approver")
    page = approver.get("/members/groups/")
    assert "payments" in page
    assert "Make a group" not in page
    approver.post("/members/groups/", {"act": "remove", "name": "payments"}, 403)
    assert len(list_groups(actor=office.admin)) == 1


def test_the_dialog_escalates_to_a_group_and_pages_say_so(office, tenant):
    form = {"act": "group", "name": "on-call", "members": office.approver.name}
    Reader(tenant, "admin").post("/members/groups/", form)
    request, approver = office.pending(office.ask()), Reader(tenant, "approver")
    address = f"/inbox/{request['id']}/acts/escalate/"
    page = unescape(approver.get(address))
    assert 'value="group:on-call"' in page
    assert 'value="manager"' in page
    form = {**approver.form(page), "role": "manager", "reason": "above me"}
    refused = unescape(approver.post(address, form, 400).content.decode())
    assert "has no manager who may decide this" in refused
    approver.post(address, {**form, "role": "group:on-call"})
    assert "It waits for: group on-call." in unescape(approver.get(f"/inbox/{request['id']}/"))
