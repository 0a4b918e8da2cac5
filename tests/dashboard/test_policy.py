"""The policy's page: rules as people read them, tried, proposed, and activated by another admin; all by POST."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from approvals.policy import NAMES
from approvals.queries import list_policies
from dashboard.presenters import policy as words
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "A10.2"), pytest.mark.django_db(transaction=True)]

RULES = [
    {"name": "tell", "when": "tool.name == 'office.tell'", "decide": "allow"},
    {
        "name": "pay", "when": "tool.name == 'office.pay' && !(amount != null && amount < 5)", "decide": "approval",
        "role": "finance", "quorum": 2, "expires_s": 7200, "on_timeout": "keep", "separation": "two_people",
    },
]  # fmt: skip


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


@pytest.fixture
def admin(office) -> Reader:
    return Reader(office.tenant, "admin")


def propose(reader: Reader, rules: Any, note: str = "from the handbook", status: int = 302) -> Any:
    form = {"rules": json.dumps(rules), "note": note, "propose": "1"}
    return reader.post("/policy/", form, status)


def decide(reader: Reader, version: int, decision: str = "approve", status: int = 302, **more: Any) -> Any:
    form = reader.form(reader.get(f"/policy/?version={version}"))
    return reader.post(f"/policy/{version}/decide/", {**form, "decision": decision, **more}, status)


def states(office: Office) -> list[str]:
    return [row["state"] for row in list_policies(actor=office.admin)]


def test_without_rules_the_page_says_who_asks(office, admin):
    page = admin.get("/policy/")
    for text in ("There are no rules yet", "No version is active", "small", "What rules read"):
        assert text in page, text
    assert 'href="/policy/"' in admin.get("/now/")
    assert 'href="/policy/"' not in Reader(office.tenant, "approver").get("/now/")
    admin.get("/policy/?version=3", 404)
    assert set(words.FACTS) == NAMES


def test_trying_shows_the_past_and_writes_nothing(office, admin):
    run_id = office.ask({"to": "Ada"})
    office.decide(office.pending(run_id))
    office.work()
    page = admin.post("/policy/", {"rules": json.dumps(RULES[:1]), "try": "1"}, 200).content.decode()
    assert "Tried on the past; nothing was changed." in page
    assert "It was let through; the rules would deny it." in page
    assert "sent unasked" in page
    assert re.search(r"<b>2</b>\s*calls looked at", page)
    assert states(office) == []


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("[", "expected a value at line 1, column 2"),
        ('[{"name": "a", "name": "b"}]', "the key is given twice (line 1, column 16)"),
        (json.dumps([{"name": "a", "when": "nothing.there", "decide": "allow"}]), "/rules/0/when"),
        (json.dumps([{"name": "a", "when": "true", "decide": "perhaps"}]), "/rules/0/decide"),
    ],
    ids=["syntax", "twice", "names", "verdict"],
)
def test_what_cannot_be_used_says_where_and_is_kept_in_the_form(office, admin, rules, told):
    for act in ("try", "propose"):
        page = admin.post("/policy/", {"rules": rules, "note": "x", act: "1"}, 400).content.decode()
        assert told in page
        assert 'name="rules"' in page
        assert 0 < page.index('id="propose"') < page.index(told), "told where the answer's address leads"
    propose(admin, RULES, note="", status=400)
    assert states(office) == []


def test_one_admin_proposes_and_another_activates(office, admin):
    propose(admin, RULES)
    page = admin.get("/policy/")
    for text in ("Rules of version 1", "office.tell", "2 people", "decide within 2 h", "keeps waiting",
                 "nor whoever edited it", "You asked for it yourself", "from the handbook"):  # fmt: skip
        assert text in page, text
    assert 'value="approve"' not in page
    answer = decide(admin, 1, status=403).content.decode()
    assert "Nothing was changed." in answer
    other = Reader(office.tenant, "admin")
    decide(other, 1)
    assert states(office) == ["active"]
    assert "Version 1 judges every writing call" in other.get("/policy/")
    run_id = office.ask({"to": "Bo"})
    request = office.pending(run_id)
    page = other.get(f"/inbox/{request['id']}/")
    assert 'href="/policy/?version=1"' in page
    assert "pay (ask people)" in page
    # An approver reads which rule it was, and has no way to the page.
    shown = Reader(office.tenant, "approver").get(f"/inbox/{request['id']}/")
    assert "pay (ask people)" in shown
    assert 'href="/policy/' not in shown


def test_a_new_version_shows_what_it_changes_and_can_be_rejected(office, admin):
    other = Reader(office.tenant, "admin")
    propose(admin, RULES)
    decide(other, 1)
    propose(other, [{**RULES[1], "quorum": 1}, {"name": "all", "when": "true", "decide": "deny"}])
    assert "Version 2 waits for another administrator" in admin.get("/policy/")
    page = admin.get("/policy/?version=2")
    for text in ("changed", "new", "No longer there:", "It takes the place of version 1", "1 person"):
        assert text in page, text
    decide(admin, 2, "reject", 400)
    decide(admin, 2, "reject", comment="too strict")
    assert states(office) == ["rejected", "active"]
    stale = {"version": "1", "payload_hash": "00" * 32, "decision": "approve"}
    admin.post("/policy/2/decide/", stale, 409)
    admin.post("/policy/9/decide/", stale, 404)
    request = list_policies(actor=office.admin)[0]["approval_id"]
    page = admin.get(f"/inbox/{request}/")
    assert "Read its rules on the policy" in page
    assert "Nothing changes: the rules stay as they are." in page


def test_who_may_not_propose_sees_and_changes_nothing(office, admin):
    for role in ("viewer", "approver", "oncall", "finance", "integrator", "verifier"):
        reader = Reader(office.tenant, role)
        reader.get("/policy/", 403)
        propose(reader, RULES, status=403)
    propose(admin, RULES)
    Reader(office.tenant, "approver").post("/policy/1/decide/", {"decision": "approve"}, 403)
    for address in ("/policy/", "/policy/?version=1"):
        admin.get(address)
    admin.get("/policy/1/decide/", 405)
    assert states(office) == ["proposed"]


def test_another_tenants_admin_finds_no_version(office, admin, other_tenant):
    propose(admin, RULES)
    stranger = Reader(other_tenant, "admin")
    assert "There are no rules yet" in stranger.get("/policy/")
    stranger.get("/policy/?version=1", 404)
    stranger.post("/policy/1/decide/", {"decision": "approve"}, 404)


def test_it_is_told_in_chinese(office, admin):
    propose(admin, RULES)
    admin.post("/preferences/", {"language": "zh-hans", "next": "/policy/"})
    page = admin.get("/policy/")
    for text in ("策略", "版本 1 的规则", "询问人", "2 人", "用过往调用试算"):
        assert text in page, text


def test_a_proposal_sent_twice_is_one(office, admin):
    form = admin.form(admin.get("/policy/"))
    asked = {**form, "rules": json.dumps(RULES), "note": "from the handbook"}
    admin.post("/policy/", {**asked, "try": "1"}, 200)
    first, second = (admin.post("/policy/", {**asked, "propose": "1"}) for _click in range(2))
    assert first["Location"] == second["Location"]
    assert states(office) == ["proposed"]
    # The same form with other rules is told so, and is another proposal when it is sent from there.
    changed = {**asked, "rules": json.dumps(RULES[:1]), "propose": "1"}
    page = admin.post("/policy/", changed, 409).content.decode()
    assert "This policy_id was used for version 1." in page
    (fresh,) = re.findall(r'name="policy_id" value="([^"]+)"', page)
    admin.post("/policy/", {**changed, "policy_id": fresh})
    assert states(office) == ["proposed", "proposed"]
