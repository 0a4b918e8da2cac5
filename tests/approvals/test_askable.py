"""Whom a workflow or a policy would ask in vain is told when it is registered or proposed, and refused for nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from approvals.actions.groups import put_group, set_manager
from approvals.actions.policies import propose_policy, try_policy
from approvals.queries import warnings_of_rules
from dashboard.example.setup import PEOPLE
from dashboard.example.workflows import workflows as example_workflows
from runtime.actions.tenants import end_membership
from runtime.actions.workflows import check, register_workflow
from runtime.api.schemas import components
from runtime.kernel import seams
from runtime.kernel.schemas import compile_schema
from runtime.models import Membership
from runtime.queries.definitions import read_version
from runtime.queries.people import list_members
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller
from tests.support.factories import make_tenant
from tests.support.statements import captured

pytestmark = [pytest.mark.req("C5.3", "A7.3", "C4.7"), pytest.mark.django_db(transaction=True)]

FORM = {"type": "object"}


def asking(*nodes: dict[str, Any]) -> dict[str, Any]:
    """Return a workflow of nothing but people."""
    named = [{"id": f"n{i}", "title": "Look at it", "kind": "approval", **node} for i, node in enumerate(nodes)]
    return {"format": "quarterdeck/1", "name": "people", "nodes": named}


def warned(office, *nodes: dict[str, Any]) -> list[dict[str, str]]:
    answer = register_workflow(actor=office.actor, raw=json.dumps(asking(*nodes)))
    return answer["warnings"]


def told(office, *nodes: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["where"], one["detail"]) for one in warned(office, *nodes)]


def leave(office, actor) -> None:
    (there,) = [one for one in list_members(actor=office.admin) if one["username"] == actor.name]
    end_membership(actor=office.admin, membership_id=there["id"])


@pytest.mark.parametrize(
    ("role", "detail", "mend"),
    [
        ("aprover", "There is no role 'aprover': a request would wait for an admin.", "Did you mean `approver`?"),
        ("manager", "There is no role 'manager': a request would wait for an admin.", "Only a rung of `escalation`"),
        ("group:", "There is no role 'group:': a request would wait for an admin.", "Use one of: admin, approver."),
        (
            "finance",
            "The role finance does not carry `approval.decide`: a request would wait for an admin.",
            "Use one of: admin, approver.",
        ),
        ("group:buyers", "There is no group 'buyers' now: a request would wait for an admin.", "Make the group"),
        (
            "manager:ann",
            "Nobody with `approval.decide` is the manager of 'ann' now: a request would wait for an admin.",
            "Say who is whose manager",
        ),
    ],
)
def test_whom_an_approval_would_ask_in_vain_is_told_and_the_workflow_registered(office, role, detail, mend):
    answer = register_workflow(actor=office.actor, raw=json.dumps(asking({}, {"role": role})))
    assert answer["created"] is True
    (one,) = answer["warnings"]
    assert (one["where"], one["detail"]) == ("/nodes/1/role", detail)
    assert mend in one["remediation"]


def test_without_people_that_are_missing_there_is_an_empty_list(office):
    one = member(office.tenant, "approver")
    put_group(actor=office.admin, name="buyers", members=[one.name])
    set_manager(actor=office.admin, username=office.approver.name, manager=one.name)
    ladder = [{"role": "manager"}, {"role": "group:buyers"}, {"role": "admin"}]
    asks = ({"role": "approver", "escalation": ladder}, {"role": f"manager:{office.approver.name}"})
    assert warned(office, {}, *asks, {"kind": "input", "form": FORM, "role": "oncall"}) == []


def test_an_input_is_asked_of_those_who_answer(office):
    ask = {"kind": "input", "form": FORM}
    assert told(office, {**ask, "role": "finance"}, {**ask, "role": "viewer"}, {"role": "oncall"}) == [
        ("/nodes/0/role", "Nobody has the role finance now: a request would wait for an admin."),
        ("/nodes/1/role", "The role viewer does not carry `approval.answer`: a request would wait for an admin."),
        ("/nodes/2/role", "The role oncall does not carry `approval.decide`: a request would wait for an admin."),
    ]


def test_who_may_decide_by_themselves_counts_and_whose_account_is_closed_does_not(office):
    clerk = member(office.tenant, "finance")
    with tenant_tx(office.tenant.id, using="owner"):
        rows = Membership.objects.using("owner").filter(user_id=clerk.user_id)
        rows.update(extra_verbs=["approval.decide"])
    assert warned(office, {"role": "finance"}) == []
    User.objects.filter(pk=clerk.user_id).update(is_active=False)
    assert [where for where, _detail in told(office, {"role": "finance"})] == ["/nodes/0/role"]
    leave(office, office.approver)
    nobody = "Nobody has the role approver now: a request would wait for an admin."
    assert told(office, {"role": "approver"}) == [("/nodes/0/role", nobody)]


def test_a_group_counts_by_who_in_it_may_decide(office):
    viewer, one = member(office.tenant, "viewer"), member(office.tenant, "approver")
    put_group(actor=office.admin, name="buyers", members=[viewer.name])
    nobody = "Nobody in the group 'buyers' has `approval.decide` now: a request would wait for an admin."
    assert told(office, {"role": "group:buyers"}) == [("/nodes/0/role", nobody)]
    put_group(actor=office.admin, name="buyers", members=[viewer.name, one.name])
    assert warned(office, {"role": "group:buyers"}) == []
    leave(office, one)
    assert told(office, {"role": "group:buyers"}) == [("/nodes/0/role", nobody)]


def test_every_rung_of_the_ladder_is_looked_at(office):
    ladder = [{"role": "manager"}, {"role": "approver"}, {"role": "group:none"}, {"role": "boss"}]
    found = dict(told(office, {"role": "approver", "escalation": ladder}))
    assert list(found) == [f"/nodes/0/escalation/{n}/role" for n in (0, 2, 3)]
    assert found["/nodes/0/escalation/0/role"] == (
        "Nobody with `approval.decide` is anybody's manager now: this rung would be passed over."
    )
    viewer = member(office.tenant, "viewer")
    set_manager(actor=office.admin, username=office.approver.name, manager=viewer.name)
    assert "/nodes/0/escalation/0/role" in dict(told(office, {"escalation": ladder})), "one who may not decide is none"


def test_a_quorum_that_nobody_could_make_up_is_told_with_both_numbers(office):
    """The approver and the admin could: an admin's voice counts as any other."""
    assert warned(office, {"role": "approver", "quorum": 2}) == []
    short = "3 people have to approve, and 2 could now."
    assert told(office, {"role": "approver", "quorum": 3}, {"quorum": 3}) == [
        ("/nodes/0/quorum", short),
        ("/nodes/1/quorum", short),
    ]
    put_group(actor=office.admin, name="buyers", members=[office.admin.name])
    rung = {"quorum": 2, "role": "approver", "escalation": [{"role": "group:buyers"}]}
    one = "2 people have to approve, and 1 could now."
    assert told(office, rung) == [("/nodes/0/escalation/0/role", one)], "an admin in the group is one person"


def test_without_an_admin_a_request_would_wait_for_nobody(office):
    tenant = make_tenant()
    author = member(tenant, "integrator")
    answer = register_workflow(actor=author, raw=json.dumps(asking({}, {"role": "approver"}, {"role": "admin"})))
    assert [(one["where"], one["detail"]) for one in answer["warnings"]] == [
        ("/nodes/0", "Nobody has `approval.decide` now: a request would wait for nobody."),
        ("/nodes/1/role", "Nobody has the role approver now: a request would wait for nobody."),
        ("/nodes/2/role", "Nobody has the role admin now: a request would wait for nobody."),
    ]


def test_other_tenants_people_and_groups_are_nobody_here(office):
    there = make_tenant()
    boss, one = member(there, "admin"), member(there, "finance")
    put_group(actor=boss, name="buyers", members=[boss.name])
    set_manager(actor=boss, username=one.name, manager=boss.name)
    ladder = [{"role": "manager"}, {"role": f"manager:{one.name}"}]
    ask = {"kind": "input", "form": FORM, "role": "finance"}
    assert [where for where, _detail in told(office, ask, {"role": "group:buyers", "escalation": ladder})] == [
        "/nodes/0/role", "/nodes/1/role", "/nodes/1/escalation/0/role", "/nodes/1/escalation/1/role",
    ]  # fmt: skip


def test_the_same_content_again_is_told_what_holds_today(office):
    first = register_workflow(actor=office.actor, raw=json.dumps(asking({"role": "group:buyers"})))
    assert (first["created"], len(first["warnings"])) == (True, 1)
    put_group(actor=office.admin, name="buyers", members=[office.approver.name])
    again = register_workflow(actor=office.actor, raw=json.dumps(asking({"role": "group:buyers"})))
    assert (again["created"], again["version"], again["warnings"]) == (False, first["version"], [])
    assert read_version(actor=office.actor, name="people", number=first["version"])["warnings"] == []


def test_many_places_are_counted_and_not_all_listed(office):
    answer = register_workflow(actor=office.actor, raw=json.dumps(asking(*[{"role": "boss"}] * 30)))
    assert (len(answer["warnings"]), answer["warnings_left_out"]) == (25, 5)


def test_a_workflow_that_asks_nobody_looks_for_nobody(office):
    plain = {"format": "quarterdeck/1", "name": "plain", "nodes": [{"id": "a", "kind": "wait", "seconds": 1}]}
    with captured("unnest(%(asked)s") as asked:
        assert register_workflow(actor=office.actor, raw=json.dumps(plain))["warnings"] == []
        assert asked == []
        warned(office, *[{"role": "approver"}] * 20)
    assert len(asked) == 1, "however many places ask, the members are counted once"


def test_the_api_answers_as_it_publishes(office):
    known = {**components()}
    api = caller(office.tenant, "integrator")
    for body, status in ((asking({"role": "boss"}), 201), (asking({"role": "boss"}), 200)):
        answer = api.post("workflows/", body)
        assert answer.status_code == status
        assert [one["where"] for one in answer.json()["warnings"]] == ["/nodes/0/role"]
        assert compile_schema(known["WorkflowRegistered"]).fits(answer.json())
    read = api.get("workflows/people/versions/1/").json()
    assert [one["where"] for one in read["warnings"]] == ["/nodes/0/role"]
    assert compile_schema(known["WorkflowRead"]).fits(read)
    (listed,) = api.get("workflows/people/versions/").json()["items"]
    assert compile_schema(known["WorkflowVersion"]).fits(listed)


@pytest.mark.req("C6.1")
def test_the_commands_say_it_and_succeed(office, tmp_path: Path):
    path = tmp_path / "people.json"
    path.write_text(json.dumps(asking({"role": "boss"}, {"role": "approver"})))
    for act in ("check", "register", "check"):
        out = io.StringIO()
        call_command("workflow", act, str(path), "--tenant", office.tenant.slug, stdout=out)
        answer = json.loads(out.getvalue())
        assert [one["where"] for one in answer["warnings"]] == ["/nodes/0/role"], act
    path.write_text(json.dumps(asking({"role": "approver"})))
    assert check(actor=office.actor, raw=path.read_text())["warnings"] == []


def test_the_examples_workflows_ask_nobody_in_vain():
    tenant = make_tenant()
    for role in PEOPLE:
        member(tenant, role)
    with tenant_tx(tenant.id) as tx:
        for document in example_workflows(1):
            assert seams.workflow_warnings(tx, document) == [], document["name"]


RULES = [
    {"name": "small", "when": "amount != null && amount < 5", "decide": "allow", "role": "finance"},
    {"name": "pay", "when": "true", "decide": "approval", "role": "finance"},
    {"name": "group", "when": "true", "decide": "approval", "group": "buyers", "quorum": 2},
    {"name": "many", "when": "true", "decide": "approval", "quorum": 4},
    {"name": "fine", "when": "true", "decide": "approval", "role": "approver", "quorum": 2},
]
WANTED = [
    ("/rules/1/role", "The role finance does not carry `approval.decide`: a request would wait for an admin."),
    ("/rules/2/group", "Nobody in the group 'buyers' has `approval.decide` now: a request would wait for an admin."),
    ("/rules/2/quorum", "2 people have to approve, and 1 could now."),
    ("/rules/3/quorum", "4 people have to approve, and 2 could now."),
]


@pytest.mark.req("A10.2")
def test_rules_that_would_ask_in_vain_are_told_when_tried_and_when_proposed(office):
    put_group(actor=office.admin, name="buyers", members=[])
    tried = try_policy(actor=office.admin, rules=RULES)
    assert [(one["where"], one["detail"]) for one in tried["warnings"]] == WANTED
    made = propose_policy(actor=office.admin, rules=RULES, note="new")
    assert (made["state"], made["warnings"]) == ("proposed", tried["warnings"])
    assert "warnings" not in made["tried"]
    again = propose_policy(actor=office.admin, rules=RULES, note="new", policy_id=made["policy_id"])
    assert (again["replayed"], again["warnings"]) == (True, tried["warnings"])
    assert warnings_of_rules(actor=office.admin, rules=RULES) == tried["warnings"]
    fine = RULES[-1:]
    assert try_policy(actor=office.admin, rules=fine)["warnings"] == []
    assert propose_policy(actor=office.admin, rules=fine, note="less")["warnings"] == []


@pytest.mark.req("A10.2", "C6.1")
def test_the_api_of_policies_answers_as_it_publishes(office):
    api = caller(office.tenant)
    published = api.get("schema/").json()["paths"]
    rules = [{"name": "pay", "when": "true", "decide": "approval", "role": "finance"}]
    for path, body, status in (("policies/try/", {}, 200), ("policies/", {"note": "new"}, 201)):
        answer = api.post(path, {"rules": rules, **body})
        assert answer.status_code == status
        assert [one["where"] for one in answer.json()["warnings"]] == ["/rules/0/role"]
        said = published[f"/api/v1/{path}"]["post"]["responses"][str(status)]["content"]["application/json"]["schema"]
        assert "warnings" in said["required"]
        assert compile_schema(said).fits(answer.json())
