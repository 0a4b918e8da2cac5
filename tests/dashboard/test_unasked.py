"""Pages say where people would be asked in vain: a workflow's, a policy's, a request's; in the reader's language."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from approvals.actions.groups import put_group
from approvals.queries import list_policies
from dashboard.presenters import unasked
from runtime.actions.workflows import register_workflow
from tests.support.actors import member
from tests.support.factories import make_tenant
from tests.support.office import Office, asking
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "A7.3", "C8.5"), pytest.mark.django_db(transaction=True)]

WORKFLOW, RULES = "As it stands today, it would ask in vain", "As it stands today, these rules would ask in vain"


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


@pytest.fixture
def admin(office) -> Reader:
    return Reader(office.tenant, "admin")


def register(office: Office, **ask: Any) -> None:
    register_workflow(actor=office.actor, raw=json.dumps(asking("people", **ask)))


def test_the_workflows_page_shows_what_the_newest_version_would_ask_in_vain(office, admin):
    register(office, role="aprover")
    page = admin.get("/workflows/people/")
    for text in (
        WORKFLOW,
        "There is no role “aprover”.",
        "A request would wait for an admin.",
        "Did you mean approver?",
    ):
        assert text in page, text
    assert '<b class="med">Pay out</b><p>There is no role' in page, "the step's title says where"
    register(office)
    assert WORKFLOW not in admin.get("/workflows/people/")
    assert WORKFLOW not in admin.get("/workflows/people/?version=1"), "nobody starts an old version"


def test_the_page_tells_of_today(office, admin):
    register(office, role="group:buyers")
    assert "There is no group “buyers” now." in admin.get("/workflows/people/")
    put_group(actor=office.admin, name="buyers", members=[office.approver.name])
    assert WORKFLOW not in admin.get("/workflows/people/")


def test_more_places_than_are_listed_are_counted(office, admin):
    nodes = [{"id": f"n{i}", "kind": "approval", "title": "Look", "role": "boss"} for i in range(27)]
    document = {"format": "quarterdeck/1", "name": "people", "nodes": nodes}
    register_workflow(actor=office.actor, raw=json.dumps(document))
    page = admin.get("/workflows/people/")
    assert "and 2 more places" in page
    assert page.count("There is no role “boss”.") == 25


@pytest.mark.req("A10.2")
def test_the_policys_page_says_it_when_tried_and_of_what_waits_or_judges(office, admin):
    rules = [{"name": "pay", "when": "true", "decide": "approval", "role": "finance"}]
    tried = admin.post("/policy/", {"rules": json.dumps(rules), "try": "1"}, 200).content.decode()
    assert RULES in tried
    assert "The role finance lacks approval.decide." in tried
    form = {"rules": json.dumps(rules), "note": "new", "propose": "1"}
    page = admin.post("/policy/", form, 200, follow=True).content.decode()
    assert RULES in page
    assert [one["state"] for one in list_policies(actor=office.admin)] == ["proposed"]
    fine = [{**rules[0], "role": "approver"}]
    tried = admin.post("/policy/?version=1", {"rules": json.dumps(fine), "try": "1"}, 200).content.decode()
    assert tried.count(RULES) == 1, "of the version that waits, and not of what was tried"


def test_a_request_that_only_an_admin_can_decide_says_so(office, admin):
    request = office.pending(office.ask())
    told = "Today only an administrator can decide it."
    assert told not in admin.get(f"/inbox/{request['id']}/")
    User.objects.filter(pk=office.approver.user_id).update(is_active=False)
    for role in ("admin", "oncall"):
        assert told in Reader(office.tenant, role).get(f"/inbox/{request['id']}/"), role
    few = office.pending(office.ask(name="many", quorum=9))
    assert "Today too few people can decide it." in admin.get(f"/inbox/{few['id']}/")
    office.decide(request, actor=office.admin)
    assert told not in admin.get(f"/inbox/{request['id']}/")


def every_warning(office: Office) -> list[dict[str, str]]:
    """Return warnings of every kind."""
    viewer = member(office.tenant, "viewer")
    put_group(actor=office.admin, name="empty", members=[viewer.name])
    ladder = [{"role": one} for one in ("manager", "manager:ann", "group:none", "finance", "group:empty")]
    form = {"type": "object"}
    nodes = [
        {"id": "a", "kind": "approval", "title": "Look", "role": "aprover", "escalation": ladder, "quorum": 9},
        {"id": "b", "kind": "input", "title": "Say", "role": "finance", "form": form},
        {"id": "c", "kind": "approval", "title": "Look", "role": "manager"},
        {"id": "d", "kind": "approval", "title": "Look", "role": "o'brien's"},
        {"id": "e", "kind": "approval", "title": "Look"},
    ]
    document = json.dumps({"format": "quarterdeck/1", "name": "people", "nodes": nodes})
    there = make_tenant()
    return [
        *register_workflow(actor=office.actor, raw=document)["warnings"],
        *register_workflow(actor=member(there, "integrator"), raw=document)["warnings"],
    ]


def test_every_warning_is_told_in_the_readers_language(office, admin):
    found = every_warning(office)
    assert len({re.sub(r"'.+'|\d", "", one["detail"]) for one in found}) >= 13
    for one in found:
        with translation.override("zh-hans"):
            for text in (unasked.detail(one["detail"]), unasked.remediation(one["remediation"])):
                assert re.search(r"[\u4e00-\u9fff]", text), text
                assert not re.search(r"[A-Za-z]+ [a-z]+ [a-z]+", text), text
    admin.post("/preferences/", {"language": "zh-hans", "next": "/now/"})
    page = admin.get("/workflows/people/")
    assert "以今天的情况，它会问不到人" in page
    assert "没有角色“aprover”。" in page
