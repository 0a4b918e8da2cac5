"""Whom an overdue case goes up to is a tenant's own to say; without a word of it everybody's default counts (C8.4)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from repair.actions.chain import MOST_LINKS, set_chain
from repair.actions.claim import claim_case
from repair.chains import chain_versions, read_chain
from repair.duties import escalate_overdue
from repair.mails import overdue
from repair.models import Chain
from runtime.actions.tenants import end_membership
from runtime.kernel.errors import BadInput, PermissionDenied, Stale
from runtime.models import Membership
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.api.test_commands import run
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.desk import Desk
from tests.support.pages import Reader
from tests.support.race import together

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]

DEFAULT = [("oncall", 0), ("admin", 30), ("admin", 60)]


def links(*pairs):
    return [{"to": to, "after_minutes": minutes} for to, minutes in pairs]


def pairs(chain):
    return [(one["to"], one["after_minutes"]) for one in chain["links"]]


def put(desk, *chain, actor=None, expected=0, reason=""):
    return set_chain(actor=actor or desk.admin, links=links(*chain), expected_version=expected, reason=reason)


def up(desk, case_id):
    return [(one["to"], one["state"]) for one in desk.read(case_id)["escalation"]]


def test_an_overdue_case_goes_up_its_tenants_own_chain_at_its_times(fresh_db, tenant, other_tenant, clock, as_role):
    desk, other = Desk(tenant), Desk(other_tenant)
    put(desk, ("owner", 10), (f"user:{desk.second.name}", 25), ("approver", 90), ("admin", 600))
    case, elsewhere = desk.case(desk.lost("human")), other.case(other.lost("human"))
    assert up(desk, case["id"])[0] == ("owner", "next")
    due = [one["at"] - case["due_at"] for one in desk.read(case["id"])["escalation"]]
    assert due == [timedelta(minutes=m) for m in (10, 25, 90, 600)]
    clock.advance(60 * 60 + 1)
    with as_role("worker"):
        # Due, and its first link not yet; without a chain of its own the other tenant's is told at once.
        assert escalate_overdue() == 1
        assert (desk.read(case["id"])["escalated_to"], other.read(elsewhere["id"])["escalated_to"]) == ("", "oncall")
        clock.advance(10 * 60)
        assert escalate_overdue() == 1
        assert desk.read(case["id"])["escalated_to"] == "owner"
        clock.advance(15 * 60)
        assert escalate_overdue() == 1
        clock.advance(5 * 60)
        assert escalate_overdue() == 1, "the other tenant's administrators"
        clock.advance(60 * 60)
        assert escalate_overdue() == 2
        clock.advance(600 * 60)
        assert escalate_overdue() == 1
        assert escalate_overdue() == 0
    assert up(desk, case["id"]) == [
        ("owner", "told"), (f"user:{desk.second.name}", "told"), ("approver", "told"), ("admin", "told"),
    ]  # fmt: skip
    told = [one["data"]["to"] for one in desk.read(case["id"])["entries"] if one["type"] == "escalated"]
    assert told == ["owner", f"user:{desk.second.name}", "approver", "admin"]
    assert [one["state"] for one in other.read(elsewhere["id"])["escalation"]] == ["told"] * 3


def test_what_is_open_follows_the_newest_chain_and_what_was_told_stays_told(fresh_db, tenant, clock, as_role):
    desk = Desk(tenant)
    case = desk.case(desk.lost("human"))
    clock.advance(61 * 60)

    def escalated():
        # A worker escalates; people set the chain, by the web.
        with as_role("worker"):
            return escalate_overdue()

    assert escalated() == 1
    put(desk, ("admin", 0))
    clock.advance(300 * 60)
    assert escalated() == 1, "who was not told yet is told"
    assert escalated() == 0
    put(desk, ("admin", 0), ("approver", 5), expected=1)
    assert escalated() == 1
    assert desk.read(case["id"])["escalated_to"] == "approver"
    set_chain(actor=desk.admin, links=[], expected_version=2)
    assert escalated() == 1
    assert (desk.read(case["id"])["escalated_to"], desk.read(case["id"])["escalations"]) == ("admin", 3)


def test_each_version_is_kept_and_audited_and_an_empty_one_is_the_default(desk):
    assert (read_chain(actor=desk.oncall)["version"], pairs(read_chain(actor=desk.oncall))) == (0, DEFAULT)
    assert put(desk, ("admin", 5), reason="nobody is on call")["version"] == 1
    assert put(desk, ("admin", 5)) == {
        "version": 1, "links": links(("admin", 5)), "default": False, "replayed": True,
    }  # fmt: skip
    with pytest.raises(Stale) as refused:
        put(desk, ("approver", 5))
    assert refused.value.extra["current_version"] == 1
    back = set_chain(actor=desk.admin, links=[], expected_version=1)
    assert (back["version"], back["default"]) == (2, True)
    assert (read_chain(actor=desk.oncall)["default"], pairs(read_chain(actor=desk.oncall))) == (True, DEFAULT)
    versions = chain_versions(actor=desk.oncall)
    assert [(one["version"], one["default"], one["set_by"]) for one in versions] == [
        (2, True, desk.admin.label), (1, False, desk.admin.label),
    ]  # fmt: skip
    acts = [one for one in list_audit(actor=desk.admin).items if one["subject_kind"] == "escalation_chain"]
    assert [(one["verb"], one["result"], one["reason"]) for one in acts] == [
        ("tenant.set", "unset", ""), ("tenant.set", "set", "nobody is on call"),
    ]  # fmt: skip


def test_a_case_shows_whom_it_was_told_to_and_a_new_chains_due_links_are_told(fresh_db, tenant, clock, as_role):
    desk = Desk(tenant)
    case = desk.case(desk.lost("human"))
    clock.advance(61 * 60)

    def escalated():
        with as_role("worker"):
            return escalate_overdue()

    assert escalated() == 1
    put(desk, ("approver", 5), ("oncall", 90), ("admin", 200))
    assert up(desk, case["id"]) == [("oncall", "told"), ("approver", "next"), ("admin", "later")]
    clock.advance(5 * 60)
    assert escalated() == 1
    assert up(desk, case["id"]) == [("oncall", "told"), ("approver", "told"), ("admin", "next")]
    clock.advance(90 * 60)
    assert escalated() == 0, "who is on call was told"
    clock.advance(110 * 60)
    assert escalated() == 1
    assert escalated() == 0
    told = [one["data"]["to"] for one in desk.read(case["id"])["entries"] if one["type"] == "escalated"]
    assert told == ["oncall", "approver", "admin"]


@pytest.mark.parametrize(
    ("chain", "where"),
    [
        ([("nobody", 0)], "/links/0/to"),
        ([("admin", 0), ("user:nobody", 30)], "/links/1/to"),
        ([("user:", 0)], "/links/0/to"),
        ([("user:" + "n" * 36, 0)], "/links/0/to"),
        ([("admin", -1)], "/links/0/after_minutes"),
        ([("admin", 7 * 24 * 60 + 1)], "/links/0/after_minutes"),
        ([("admin", 1.5)], "/links/0/after_minutes"),
        ([("admin", True)], "/links/0/after_minutes"),
        ([("admin", 30), ("admin", 30)], "/links/1/after_minutes"),
        ([("admin", minute) for minute in range(MOST_LINKS + 1)], "/links"),
    ],
)
def test_a_chain_that_makes_no_sense_is_told_where_and_changes_nothing(desk, chain, where):
    with pytest.raises(BadInput) as refused:
        put(desk, *chain)
    assert refused.value.where == where
    assert refused.value.remediation
    assert read_chain(actor=desk.admin)["version"] == 0


def test_admins_alone_set_it_and_no_other_tenant_sees_it(desk, other_tenant):
    for actor in (desk.oncall, desk.approver, desk.integrator):
        with pytest.raises(PermissionDenied):
            put(desk, ("admin", 5), actor=actor)
    stranger = member(other_tenant, "oncall")
    with pytest.raises(BadInput, match="no member"):
        put(desk, (f"user:{stranger.name}", 5))
    put(desk, ("admin", 5))
    assert read_chain(actor=stranger)["version"] == 0


def test_of_two_who_set_it_at_once_one_is_told(desk):
    def one(minutes):
        def call():
            try:
                return put(desk, ("admin", minutes))
            except Stale as refusal:
                return refusal

        return call

    assert sorted(type(one).__name__ for one in together(one(1), one(2))) == ["Stale", "dict"]
    with tenant_tx(desk.tenant.id):
        assert Chain.objects.count() == 1


def test_the_mail_goes_to_whom_the_link_names_and_to_admins_where_that_one_is_gone(tenant):
    desk = Desk(tenant)
    for actor, address in ((desk.oncall, "on@desk"), (desk.second, "second@desk"), (desk.admin, "admin@desk")):
        User.objects.filter(pk=actor.user_id).update(email=address)
    case = desk.case(desk.lost("human"))

    def to(link):
        with tenant_tx(tenant.id) as tx:
            tx.conn.execute(
                "UPDATE qd_case SET escalated_to = %s, version = version + 1 WHERE id = %s", [link, case["id"]]
            )
            return [address for mail in overdue(tx, {"case_id": str(case["id"])}) for address in mail.to]

    assert to(f"user:{desk.second.name}") == ["second@desk"]
    assert set(to("owner")) == {"on@desk", "second@desk"}
    claim_case(actor=desk.oncall, case_id=case["id"])
    assert to("owner") == ["on@desk"]
    assert to("admin") == ["admin@desk"]
    # A role that nobody has, or has no address in, is no silence.
    assert to("integrator") == ["admin@desk"]
    with tenant_tx(tenant.id):
        gone = Membership.objects.values_list("id", flat=True).get(user_id=desk.second.user_id)
    end_membership(actor=desk.admin, membership_id=gone)
    assert to(f"user:{desk.second.name}") == ["admin@desk"]


def test_over_http_and_by_the_command(desk, tenant):
    admin, oncall = caller(tenant, "admin"), caller(tenant, "oncall")
    assert pairs(oncall.get("escalation-chain/").json()) == DEFAULT
    body = {"links": links(("owner", 0), ("admin", 15)), "expected_version": 0, "reason": "nights"}
    assert admin.post("escalation-chain/", body).json()["version"] == 1
    refusal = problem(oncall.post("escalation-chain/", body), 403)
    assert refusal["code"] == "permission_denied"
    assert (
        problem(admin.post("escalation-chain/", {**body, "expected_version": 7, "links": []}), 409)["code"] == "stale"
    )
    wrong = {**body, "links": [{"to": "admin", "after_minutes": "soon"}]}
    assert problem(admin.post("escalation-chain/", wrong), 400)["where"] == "/links/0/after_minutes"
    more = {**body, "links": [{"to": "admin", "after_minutes": 0, "typo": 1}]}
    assert problem(admin.post("escalation-chain/", more), 400)["where"].startswith("/links/0")
    long = {**body, "links": links(*[("admin", minute) for minute in range(MOST_LINKS + 1)])}
    assert problem(admin.post("escalation-chain/", long), 400)["where"] == "/links"
    slug = ("--tenant", tenant.slug)
    assert pairs(run("escalation", "show", *slug)[0]) == [("owner", 0), ("admin", 15)]
    run("escalation", "set", "oncall", "admin+20", "--reason", "days", *slug)
    assert pairs(oncall.get("escalation-chain/").json()) == [("oncall", 0), ("admin", 20)]
    assert run("escalation", "set", "admin+soon", *slug, fails=True)[0]["where"] == "admin+soon"
    assert run("escalation", "unset", *slug)[0]["default"] is True
    assert [one["version"] for one in oncall.get("escalation-chain/versions/").json()["items"]] == [3, 2, 1]


def test_the_pages_show_it_and_an_admin_sets_it(desk, tenant, clock):
    case = desk.case(desk.lost("human"))
    admin, oncall = Reader(tenant, "admin"), Reader(tenant, "oncall")
    assert "Administrators set the chain." in oncall.get("/repairs/escalation/")
    form = {
        "to": ["oncall", "", "admin"],
        "after_minutes": ["0", "", "45"],
        "expected_version": "0",
        "reason": "nights",
    }
    admin.post("/repairs/escalation/", form)
    page = admin.get("/repairs/escalation/")
    assert "Set as version 1." in page
    assert "45 minutes after it is due" in page
    shown = oncall.get(f"/repairs/{case['id']}/")
    assert "While it is open, it goes up its chain; next: On call." in shown
    steps = shown[shown.index('<ol class="line">') :]
    assert steps.index('aria-current="step"') < steps.index("next") < steps.index("then")
    bad = admin.post("/repairs/escalation/", {**form, "to": ["king"], "after_minutes": ["x"]}, 400).content.decode()
    assert "Nothing was written." in bad
    assert 'value="king"' in bad
    assert admin.post("/repairs/escalation/", {"to": [""], "after_minutes": [""]}, 400)
    admin.post("/repairs/escalation/", {"default": "1", "expected_version": "1"})
    assert read_chain(actor=desk.admin)["default"] is True
