"""Groups as deciders, and the manager's rung: who it is, is asked when they decide; nobody else's word counts."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command

from approvals.actions.groups import put_group, remove_group, set_manager
from approvals.actions.handling import claim_request
from approvals.actions.policies import propose_policy, try_policy
from approvals.actions.times import escalate_request
from approvals.queries import get_request, list_policies, list_requests
from approvals.teams import list_groups, list_managers
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.actions.tenants import end_membership
from runtime.actions.workflows import register_workflow
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, Stale
from runtime.queries.people import list_audit, list_members
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.duties import expire_requests
from tests.support.office import Office, asking

pytestmark = [pytest.mark.req("C5.3", "A7.3", "C8.5"), pytest.mark.django_db(transaction=True)]
# The expiry duty looks at every tenant, the oldest first.
alone = pytest.mark.usefixtures("fresh_db")

PLAIN: dict[str, Any] = {
    "format": "quarterdeck/1",
    "name": "plain",
    "nodes": [{"id": "pay", "kind": "tool", "tool": "office.pay@1", "input": {"to": {"$": "input.to"}}}],
}
RULES = [{"name": "payments", "when": "true", "decide": "approval", "group": "payments"}]


@pytest.fixture
def payer(office) -> Actor:
    """Return somebody in the group ``payments``, which a rule asks for every writing call."""
    one = member(office.tenant, "approver")
    put_group(actor=office.admin, name="payments", members=[one.name])
    office.activate(RULES)
    return one


def asked(office: Office) -> Any:
    run_id = office.submit(PLAIN, {"to": "Ada"})
    office.work()
    return run_id


def test_who_is_in_the_group_decides_and_nobody_else_of_the_role(office, payer):
    request = office.pending(asked(office))
    assert request["role"] == "group:payments"
    assert [one["actor"] for one in request["deciders"] if one["role"] == "group:payments"] == [payer.label]
    with pytest.raises(PermissionDenied, match="the group payments"):
        office.decide(request)
    assert [one["id"] for one in list_requests(actor=payer, mine=True).items] == [request["id"]]
    assert list_requests(actor=office.approver, mine=True).items == []
    assert office.decide(request, actor=payer)["state"] == "approved"
    office.work()
    assert office.run(request["run_id"]).status == "completed"


def test_the_group_is_that_of_the_moment_of_the_decision(office, payer):
    request = office.pending(asked(office))
    put_group(actor=office.admin, name="payments", members=[office.approver.name])
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=payer)
    assert office.decide(request)["state"] == "approved", "who joined since it was asked decides"


def test_who_leaves_the_group_before_the_call_has_approved_nothing(office, payer):
    """As with a role: the voice is asked again where the call is sent (C5.6)."""
    run_id = asked(office)
    office.decide(office.pending(run_id), actor=payer)
    put_group(actor=office.admin, name="payments", members=[office.approver.name])
    office.work()
    assert office.states(run_id) == ["revoked", "pending"]
    assert office.sends(run_id) == {}


def test_a_group_gives_no_permission_of_its_own(office, payer):
    viewer = member(office.tenant, "viewer")
    put_group(actor=office.admin, name="payments", members=[viewer.name, payer.name])
    request = office.pending(asked(office))
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=viewer)
    assert list_requests(actor=viewer, mine=True).items == []


def test_a_member_who_left_the_tenant_decides_in_no_group(office, payer):
    request = office.pending(asked(office))
    (there,) = [one for one in list_members(actor=office.admin) if one["username"] == payer.name]
    end_membership(actor=office.admin, membership_id=there["id"])
    with pytest.raises(PermissionDenied):
        office.decide(request, actor=payer)
    assert list_groups(actor=office.admin)[0]["members"] == [payer.name], "an admin sees that somebody has to go"


@alone
def test_the_mail_goes_to_the_group(office, payer, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    deliver()
    mail.outbox = []
    User.objects.filter(pk=payer.user_id).update(email="payer@example.org")
    User.objects.filter(pk=office.approver.user_id).update(email="approver@example.org")
    asked(office)
    deliver()
    assert [one.to for one in mail.outbox if "Approval needed" in one.subject] == [["payer@example.org"]]


@pytest.mark.parametrize(
    ("rule", "where", "told"),
    [
        ({"group": "nobody"}, "/rules/0/group", "There is no group 'nobody'"),
        ({"role": "boss"}, "/rules/0/role", ""),
        ({"role": "approver", "group": "payments"}, "/rules/0/group", "a role or a group"),
        ({"group": "Payments!"}, "/rules/0/group", ""),
    ],
    ids=["unknown group", "unknown role", "both", "no name"],
)
def test_a_policy_that_asks_nobody_known_is_refused_and_changes_nothing(office, rule, where, told):
    put_group(actor=office.admin, name="payments", members=[office.approver.name])
    rules = [{"name": "all", "when": "true", "decide": "approval", **rule}]
    for refused in (
        lambda: propose_policy(actor=office.admin, rules=rules, note="x"),
        lambda: try_policy(actor=office.admin, rules=rules),
    ):
        with pytest.raises(BadInput) as found:
            refused()
        assert found.value.where == where
        assert found.value.remediation
        assert told in found.value.detail
    assert list_policies(actor=office.admin) == []


def test_a_group_that_is_named_is_not_removed(office, payer):
    with pytest.raises(Conflict, match="Policy 1 names"):
        remove_group(actor=office.admin, name="payments")
    put_group(actor=office.admin, name="spare", members=[payer.name], reason="who is left")
    request = office.pending(office.ask())
    escalate_request(actor=office.approver, request_id=request["id"], reason="theirs", role="group:spare")
    with pytest.raises(Conflict, match="1 requests wait"):
        remove_group(actor=office.admin, name="spare")
    put_group(actor=office.admin, name="idle", members=[])
    assert remove_group(actor=office.admin, name="idle") == {"name": "idle", "removed": True}
    assert [one["name"] for one in list_groups(actor=office.admin)] == ["payments", "spare"]


def test_a_group_that_a_workflow_or_a_requests_way_up_names_is_not_removed(office):
    one = member(office.tenant, "approver")
    for name in ("next", "nextone"):
        put_group(actor=office.admin, name=name, members=[one.name])
    ladder = [{"role": "group:next"}]
    office.ask(name="climbs", on_timeout="escalate", escalation=ladder)
    with pytest.raises(Conflict, match="The workflow climbs names the group next"):
        remove_group(actor=office.admin, name="next")
    register_workflow(actor=office.actor, raw=json.dumps(asking("climbs")))
    with pytest.raises(Conflict, match="1 requests wait for the group next, or would ask it next"):
        remove_group(actor=office.admin, name="next")
    assert remove_group(actor=office.admin, name="nextone")["removed"]


def test_who_is_in_a_group_is_not_changed_back_unseen(office):
    """Two admins, one after the other, from pages that showed the same (C7.4)."""
    ann, bo, cy = (member(office.tenant, "approver").name for _ in range(3))
    put = partial(put_group, actor=office.admin, name="payments")
    put(members=[ann, bo], expected_members=[])
    put(members=[ann], expected_members=[bo, ann], reason="bo left the team")
    for members, shown in (([ann, bo, cy], [ann, bo]), ([cy], [])):
        with pytest.raises(Stale, match=f"In it now: {ann}") as refused:
            put(members=members, expected_members=shown)
        assert refused.value.http_status == 409
    assert [one["members"] for one in list_groups(actor=office.admin)] == [[ann]]
    assert put(members=[ann], expected_members=[ann, bo])["ended"] == [], "it is as it was asked for already"
    assert put(members=[ann, cy], expected_members=[ann])["added"] == [cy]


def test_changes_are_audited_and_a_repeat_is_none(office):
    for _again in range(2):
        answer = put_group(actor=office.admin, name="payments", members=[office.approver.name], reason="new team")
    assert (answer["created"], answer["added"], answer["ended"]) == (False, [], [])
    (entry,) = list_audit(actor=office.admin, verb="approval.group").items
    assert entry["details"]["added"] == [office.approver.name]
    assert entry["reason"] == "new team"
    with pytest.raises(PermissionDenied):
        put_group(actor=office.approver, name="payments", members=[])
    with pytest.raises(BadInput) as refused:
        put_group(actor=office.admin, name="payments", members=["nobody-here"])
    assert refused.value.where == "/members/0"


@alone
def test_the_ladder_goes_to_the_next_role_the_manager_and_on_call(office, clock):
    boss, on_duty = (member(office.tenant, "approver") for _ in range(2))
    asker = office.actor.label.partition(":")[2]
    set_manager(actor=office.admin, username=office.approver.name, manager=boss.name)
    put_group(actor=office.admin, name="on-call", members=[on_duty.name])
    ladder = [{"role": "manager", "expires_s": 600}, {"role": "group:on-call", "expires_s": 600}]
    request = office.pending(office.ask(on_timeout="escalate", escalation=ladder))
    claim_request(actor=office.approver, request_id=request["id"])
    clock.advance(3601)
    expire_requests()
    now = get_request(actor=office.admin, request_id=request["id"])
    assert (now["state"], now["role"], now["level"]) == ("pending", f"manager:{office.approver.name}", 1), asker
    with pytest.raises(PermissionDenied, match="the manager of"):
        office.decide(now)
    clock.advance(601)
    expire_requests()
    now = get_request(actor=office.admin, request_id=request["id"])
    assert (now["role"], now["level"]) == ("group:on-call", 2)
    with pytest.raises(PermissionDenied):
        office.decide(now, actor=boss)
    assert office.decide(now, actor=on_duty)["state"] == "approved"


@alone
def test_a_rung_on_which_nobody_stands_is_passed_and_at_last_an_admin_is_asked(office, clock):
    viewer = member(office.tenant, "viewer")
    set_manager(actor=office.admin, username=office.approver.name, manager=viewer.name)
    put_group(actor=office.admin, name="on-call", members=[office.approver.name])
    two, one = [{"role": "manager"}, {"role": "group:on-call"}], [{"role": "manager"}]
    seen = []
    for ladder in (two, one):
        request = office.pending(office.ask(name=f"l{len(ladder)}", on_timeout="escalate", escalation=ladder))
        claim_request(actor=office.approver, request_id=request["id"])
        escalate_request(actor=office.approver, request_id=request["id"], reason="too big")
        seen.append(get_request(actor=office.admin, request_id=request["id"])["role"])
    assert seen == ["group:on-call", "admin"], "a manager who may decide nothing is no rung"


@alone
def test_time_passes_rungs_of_groups_and_roles_in_which_nobody_could_decide(office, clock):
    """Whoever is in them without a right, or asked for it themselves, is nobody (A7.3)."""
    viewer = member(office.tenant, "viewer")
    asker = member(office.tenant, "admin")
    for name, members in (("empty", []), ("lookers", [viewer.name]), ("askers", [asker.name])):
        put_group(actor=office.admin, name=name, members=members)
    ladder = [{"role": "finance"}, *({"role": f"group:{name}"} for name in ("empty", "lookers", "askers"))]
    document = asking(on_timeout="escalate", escalation=[*ladder, {"role": "approver", "expires_s": 700}])
    register_workflow(actor=office.actor, raw=json.dumps(document))
    told = submit_task(actor=asker, request=SubmitRequest(workflow="pay-out", input={"to": "Ada"}))
    office.work()
    clock.advance(3601)
    expire_requests()
    now = office.pending(told.run_id)
    assert (now["requested_by"], now["role"], now["level"]) == (asker.label, "approver", 1)
    clock.advance(701)
    expire_requests()
    assert office.states(told.run_id) == ["rejected"], "the rungs that were passed are behind it"


def test_a_person_cannot_escalate_to_a_group_in_which_nobody_may_decide(office):
    viewer = member(office.tenant, "viewer")
    request = office.pending(office.ask())
    for members in ([], [viewer.name]):
        put_group(actor=office.admin, name="spare", members=members)
        with pytest.raises(BadInput, match="Nobody in the group spare") as refused:
            escalate_request(actor=office.approver, request_id=request["id"], reason="x", role="group:spare")
        assert refused.value.where == "/role"
    assert office.pending(request["run_id"])["level"] == 0


def test_a_person_escalates_to_a_manager_who_decides_as_long_as_they_are_it(office):
    boss, other = (member(office.tenant, "approver") for _ in range(2))
    request = office.pending(office.ask())
    claim_request(actor=office.approver, request_id=request["id"])
    for role in ("manager", "boss", "group:none"):
        with pytest.raises(BadInput) as refused:
            escalate_request(actor=office.approver, request_id=request["id"], reason="x", role=role)
        assert refused.value.where == "/role"
    set_manager(actor=office.admin, username=office.approver.name, manager=boss.name)
    escalate_request(actor=office.approver, request_id=request["id"], reason="too big", role="manager")
    set_manager(actor=office.admin, username=office.approver.name, manager=other.name)
    now = get_request(actor=office.admin, request_id=request["id"])
    with pytest.raises(PermissionDenied):
        office.decide(now, actor=boss)
    assert office.decide(now, actor=other)["state"] == "approved"


def test_nobody_stands_above_themselves(office):
    ann, bo, cy = (member(office.tenant, "approver").name for _ in range(3))
    set_manager(actor=office.admin, username=ann, manager=bo)
    set_manager(actor=office.admin, username=bo, manager=cy)
    for manager in (ann, cy):
        with pytest.raises(BadInput) as refused:
            set_manager(actor=office.admin, username=cy, manager=manager)
        assert refused.value.where == "/manager"
    assert [(one["user"], one["manager"]) for one in list_managers(actor=office.admin)] == sorted([(ann, bo), (bo, cy)])
    assert set_manager(actor=office.admin, username=bo, manager=None)["before"] == cy
    set_manager(actor=office.admin, username=cy, manager=ann)


def test_the_api_and_the_command_do_the_same(office, tenant):
    api, name = caller(tenant), office.approver.name
    made = api.post("approvals/groups/", {"name": "payments", "members": [name]})
    assert (made.status_code, made.json()["created"]) == (201, True)
    assert [one["members"] for one in api.get("approvals/groups/").json()["items"]] == [[name]]
    refused = api.post("approvals/groups/", {"name": "payments", "members": ["nobody"]})
    assert problem(refused, 400)["where"] == "/members/0"
    boss = member(tenant, "admin").name
    assert api.post("approvals/managers/", {"user": name, "manager": boss}).json()["manager"] == boss
    assert [one["manager"] for one in api.get("approvals/managers/").json()["items"]] == [boss]
    said = StringIO()
    call_command("approvals", "group", "payments", "--members", boss, "--tenant", tenant.slug, stdout=said)
    assert json.loads(said.getvalue())["ended"] == [name]
    said = StringIO()
    call_command("approvals", "groups", "--tenant", tenant.slug, stdout=said)
    answer = json.loads(said.getvalue())
    assert [one["members"] for one in answer["groups"]] == [[boss]]
    assert [one["user"] for one in answer["managers"]] == [name]
    assert api.send("DELETE", "approvals/groups/payments/").json() == {"name": "payments", "removed": True}


def test_a_group_in_which_nobody_may_decide_is_no_rung(office):
    """Emptied, or of people who decide nothing, or of the one who asked: it would wait there for nobody."""
    asker = office.approver
    office.actor, before = member(office.tenant, "admin"), office.actor
    requester = office.actor.name
    put_group(actor=office.admin, name="gone", members=[asker.name])
    put_group(actor=office.admin, name="viewers", members=[member(office.tenant, "viewer").name])
    put_group(actor=office.admin, name="askers", members=[requester])
    put_group(actor=office.admin, name="there", members=[asker.name])
    rungs = ["group:gone", "group:viewers", "group:askers", "group:there"]
    ladder = [{"role": role} for role in rungs]
    request = office.pending(office.ask(on_timeout="escalate", escalation=ladder))
    office.actor = before
    put_group(actor=office.admin, name="gone", members=[])
    for role in rungs[:3]:
        with pytest.raises(BadInput) as refused:
            escalate_request(actor=asker, request_id=request["id"], reason="x", role=role)
        assert refused.value.where == "/role"
    escalate_request(actor=asker, request_id=request["id"], reason="too big")
    assert get_request(actor=office.admin, request_id=request["id"])["role"] == "group:there"
