"""The inbox and a request's page: who, how many, what changes, what else can be done, several at once."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.translation import override

from approvals.actions.handling import claim_request
from approvals.actions.revoke import revoke_grant
from approvals.law import REASONS
from approvals.queries import get_request, list_requests
from dashboard.presenters.terms import OUTCOME, term
from tests.support.actors import member
from tests.support.office import Office, asking
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C5.4", "C8.5"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


@pytest.fixture
def approver(tenant) -> Reader:
    return Reader(tenant, "approver")


def state(office: Office, request: dict[str, Any]) -> str:
    return get_request(actor=office.admin, request_id=request["id"])["state"]


def act(reader: Reader, address: str, form: dict[str, str], status: int = 302) -> None:
    """Send the dialog of an act as it is shown now."""
    reader.post(address, {**reader.form(reader.get(address)), **form}, status)


def frozen(page: str) -> str:
    (text,) = re.findall(r'name="frozen" value="([^"]*)"', page)
    return unescape(text)


def test_the_page_says_risk_undoing_quorum_and_both_clocks(office, approver):
    request = office.pending(office.ask(name="pair", quorum=2, start_within_s=1800))
    page = approver.get(f"/inbox/{request['id']}/")
    for words in ("nothing undoes it", "0 of 2", "No tool undoes it", "Start within", "of approval, else it lapses"):
        assert words in page, words
    form = approver.form(page)
    answer = approver.post(f"/inbox/{request['id']}/", {**form, "decision": "approve"}, follow=True, status=200)
    assert "Your approval counts. Still needed: 1." in answer.content.decode()
    assert state(office, request) == "pending"
    assert "1 of 2" in approver.get("/inbox/")


def test_why_a_request_ended_is_told_in_the_readers_language():
    """Whatever the code writes as the reason is named once more for the catalog; nothing English is left."""
    assert set(REASONS) <= set(OUTCOME)
    ends = {"taken back by user:李": "李", "withdrawn by user:李": "李", "target changed: 1 → 2": "1 → 2"}
    with override("zh-hans"):
        said = {reason: term(reason, "outcome") for reason in (*REASONS, *ends)}
    assert {reason: text for reason, text in said.items() if re.search("[A-Za-z]", text)} == {}
    assert all(rest in said[reason] for reason, rest in ends.items())


def test_the_page_of_a_closed_request_says_why(office, approver):
    request = office.pending(office.ask())
    office.decide(request)
    revoke_grant(actor=office.approver, request_id=request["id"], reason="wrong month")
    page = unescape(approver.get(f"/inbox/{request['id']}/"))
    assert f"It is closed: revoked, taken back by {office.approver.name}." in page


def test_a_change_is_proposed_and_shown_beside_the_one_before(office, approver):
    run_id = office.ask({"to": "Ada"})
    request = office.pending(run_id)
    address = f"/inbox/{request['id']}/acts/propose/"
    page = approver.get(address)
    form = {**approver.form(page), "reason": "less"}
    for wrong in ("{", '{"to": "Ada", "to": "Bo"}', '{"n": 1e999}', '{"n": 12345678901234567890}'):
        approver.post(address, {**form, "arguments": wrong}, 400)
    approver.post(address, {**form, "arguments": '{"to": "Ada", "rate": "1.10"}', "reason": ""}, 400)
    approver.post(address, {**form, "arguments": '{"to": "Ada", "rate": "1.10"}'})
    fresh = office.pending(run_id)
    page = approver.get(f"/inbox/{fresh['id']}/")
    assert "Proposal 2, to decide" in page
    assert "1.40 less" in page
    assert "Open the new proposal" in approver.get(f"/inbox/{request['id']}/")
    stale = {**form, "arguments": '{"to": "Ada", "rate": "9"}'}
    assert "Refused. Nothing was done." in approver.post(address, stale, 409).content.decode()


@pytest.mark.parametrize(
    ("name", "form", "told"),
    [
        ("claim", {}, "It is yours"),
        ("extend", {"seconds": "86400", "reason": "asking"}, "The deadline was moved."),
        ("escalate", {"role": "", "reason": "above me"}, "Escalated"),
    ],
    ids=["claim", "extend", "escalate"],
)
def test_each_act_asks_first_and_says_what_it_did(office, approver, name, form, told):
    request = office.pending(office.ask())
    address = f"/inbox/{request['id']}/acts/{name}/"
    page = approver.get(address)
    assert "Not now" in page
    assert 'hx-sync="this:drop"' in page, "a second click while the first is on its way is no second act"
    assert state(office, request) == "pending"
    approver.post(address, form, 400)
    answer = approver.post(address, {**approver.form(page), **form}, follow=True, status=200)
    assert told in answer.content.decode()


def test_escalating_offers_the_roles_that_could_decide_by_their_words(office, approver):
    request = office.pending(office.ask())
    address = f"/inbox/{request['id']}/acts/escalate/"
    page = approver.get(address)
    offered = re.findall(r'<option value="(\w*)"[^>]*>([^<]+)<', page)
    manager = ("manager", "the manager of who has it, else of who asked")
    assert offered == [("", "whoever is next"), ("admin", "Administrator"), ("approver", "Approver"), manager]
    sent = {**approver.form(page), "role": "viewer", "reason": "x"}
    approver.post(address, sent, 400)
    assert get_request(actor=office.admin, request_id=request["id"])["level"] == 0


def test_an_act_on_what_somebody_changed_meanwhile_is_refused(office, approver):
    """A stale dialog does nothing: it was asked about another state of the request."""
    request = office.pending(office.ask())
    address = f"/inbox/{request['id']}/acts/extend/"
    form = {**approver.form(approver.get(address)), "seconds": "86400", "reason": "asking"}
    claim_request(actor=office.approver, request_id=request["id"])
    page = approver.post(address, form, 409).content.decode()
    assert f"{office.approver.label} has it now." in unescape(page)
    assert "Show what is there now" in page
    assert "asking" in page, "what was typed is kept"
    now = get_request(actor=office.admin, request_id=request["id"])
    assert now["deadline"] == request["deadline"]
    assert int(form["revision"]) + 1 == now["revision"]
    approver.post(address, {**form, **approver.form(approver.get(address))})


def test_handing_over_closes_ones_own_tab(office, approver, tenant):
    request = office.pending(office.ask())
    address = f"/inbox/{request['id']}/"
    form = approver.form(approver.get(address))
    other = member(tenant, "approver")
    assert f'value="{other.name}"' in approver.get(f"{address}acts/delegate/")
    act(approver, f"{address}acts/delegate/", {"to": "nobody", "reason": "x"}, 400)
    act(approver, f"{address}acts/delegate/", {"to": other.name, "reason": "yours"})
    page = approver.post(address, {**form, "decision": "approve"}, 409).content.decode()
    assert "Nothing was decided." in page
    assert "Somebody else has it." in page
    act(approver, f"{address}acts/release/", {"reason": "back"})
    approver.post(address, {**form, "decision": "approve"})
    act(approver, f"{address}acts/revoke/", {"reason": "wrong one"})
    assert state(office, request) == "revoked"


def test_comments_are_kept_and_decide_nothing(office, approver):
    request = office.pending(office.ask())
    approver.post(f"/inbox/{request['id']}/comments/", {"text": "approve <b>this</b>"})
    page = approver.get(f"/inbox/{request['id']}/")
    assert "approve &lt;b&gt;this&lt;/b&gt;" in page
    assert state(office, request) == "pending"
    approver.post(f"/inbox/{request['id']}/comments/", {"text": " "}, 400)


def test_who_may_not_decide_sees_no_act(office, tenant):
    request = office.pending(office.ask())
    viewer = Reader(tenant, "viewer")
    page = viewer.get(f"/inbox/{request['id']}/")
    assert "/acts/" not in page
    for name in ("claim", "extend", "propose", "revoke"):
        viewer.get(f"/inbox/{request['id']}/acts/{name}/", 403)
        viewer.post(f"/inbox/{request['id']}/acts/{name}/", {"reason": "x"}, 403)
    viewer.post("/inbox/several/", {"ask": request["id"]}, 403)


def test_nobody_decides_their_own_request_on_the_page(office, tenant):
    admin = Reader(tenant, "admin")
    office.actor = member(tenant, "admin")
    request = office.pending(office.ask())
    admin.client.force_login(_user(office.actor))
    page = admin.get(f"/inbox/{request['id']}/")
    assert "You asked for it yourself" in page
    form = admin.form(page)
    admin.post(f"/inbox/{request['id']}/", {**form, "decision": "approve"}, 403)
    assert state(office, request) == "pending"


def _user(actor: Any) -> User:
    return User.objects.get(pk=actor.user_id)


def test_several_are_shown_whole_frozen_and_answered_each(office, approver):
    shown = [office.pending(office.ask({"to": f"P{i}"})) for i in range(3)]
    assert "Decide several" in approver.get("/inbox/")
    page = approver.post("/inbox/several/", {"ask": [str(one["id"]) for one in shown]}, 200).content.decode()
    for i in range(3):
        assert f"P{i}" in page
    assert "Type “approve 3” or “reject 3”" in page
    form = {"frozen": frozen(page), "decision": "approve", "comment": "all good"}
    again = approver.post("/inbox/several/", form, 400).content.decode()
    assert "These are risky" in again
    assert re.search(r'<input[^>]* name="confirm"[^>]* aria-invalid="true"', again), "the page leads to what is wrong"
    assert ">all good</textarea>" in again, "what was typed is kept"
    silent = approver.post("/inbox/several/", {**form, "decision": "reject", "comment": " "}, 400).content.decode()
    assert re.search(r'<textarea[^>]* name="comment"[^>]* aria-invalid="true"', silent)
    office.decide(shown[1], "reject", comment="not this one")
    done = approver.post("/inbox/several/", {**form, "confirm": "approve 3"}, 200).content.decode()
    assert "2 decided, 1 refused" in done
    assert [state(office, one) for one in shown] == ["approved", "rejected", "approved"]


@pytest.mark.req("C5.6")
def test_what_is_too_long_to_list_is_read_whole_and_by_itself(office, approver):
    """An approval is of the whole payload: nothing of it may be out of sight where it is approved."""
    rows = {"$": "input.rows"}
    long = {"to": "Ada", "rows": {f"line{i:03}": i for i in range(201)} | {"line999": "to another account"}}
    first = office.pending(office.ask({"to": "Bo", "rows": {"line000": 0}}, payload=rows))
    request = office.pending(office.ask(long, payload=rows))
    page = approver.post("/inbox/several/", {"ask": [first["id"], request["id"]]}, 200).content.decode()
    assert "Too long to be decided with others" in page
    assert "Only the first 200 fields are listed." in page
    assert "Type “approve 1” or “reject 1”" in page
    page = approver.get(f"/inbox/{request['id']}/")
    assert "It is too long to be listed whole." in page
    assert '<details class="mt3" open>' in page
    assert "to another account" in page
    assert "too long to be listed" not in approver.get(f"/inbox/{first['id']}/")


def test_a_list_of_nothing_decided_says_so_though_others_wait(office, approver):
    office.ask()
    page = approver.get("/inbox/?view=decided")
    assert "Nothing is decided yet" in page
    assert "There are no requests" not in page


def test_several_of_one_title_are_told_apart_by_their_runs_before_and_after(office, approver):
    runs = [office.submit(asking(), {"to": "Ada"}, name=name) for name in ("Order of Ada", "Order of Bo")]
    office.work()
    shown = [str(office.pending(run)["id"]) for run in runs]
    page = approver.post("/inbox/several/", {"ask": shown}, 200).content.decode()
    form = {"frozen": frozen(page), "decision": "reject", "comment": "not now", "confirm": "reject 2"}
    done = approver.post("/inbox/several/", form, 200).content.decode()
    for text in (page, done):
        assert "Order of Ada" in text
        assert "Order of Bo" in text


def test_several_show_what_each_is_bound_to(office, approver, tenant):
    from runtime.actions.artifacts import upload_artifact
    from runtime.kernel.canonical import digest

    file = upload_artifact(
        actor=member(tenant, "integrator"), body=b"offer", media_type="text/plain", sha256=digest(b"offer")
    )["artifact_id"]
    target = {"id": {"$": "'account ' + input.to"}, "version": "7"}
    request = office.pending(office.ask({"to": "Ada"}, target=target, evidence=[file]))
    page = approver.post("/inbox/several/", {"ask": [request["id"]]}, 200).content.decode()
    for words in ("account Ada", "in version 7</span>", f"/artifacts/{file}/content/", "pay:Ada"):
        assert words in page, words


def test_several_are_of_one_shape_and_ones_own(office, approver, tenant):
    approver.post("/inbox/several/", {}, 400)
    first = office.pending(office.ask())
    other = office.pending(office.ask(name="other", title="Another thing"))
    held = office.pending(office.ask())
    claim_request(actor=office.approver, request_id=held["id"])
    page = approver.post("/inbox/several/", {"ask": [first["id"], other["id"], held["id"]]}, 200).content.decode()
    assert "It is of another shape than the first" in page
    assert "It can&#x27;t be approved by you" in page
    assert "Type “approve 1”" in page
    stranger = Reader(tenant, "approver")
    stranger.post("/inbox/several/", {"frozen": frozen(page), "decision": "approve"}, 400)


def test_the_inbox_filters_sorts_and_keeps_views(office, approver):
    office.ask(name="risky", title="Very risky", risk="high", expires_s=9000)
    office.ask(name="calm", title="Quite calm", gates=[], expires_s=600)
    high = approver.get("/inbox/?risk=high")
    assert "Very risky" in high
    assert "Quite calm" not in high
    assert "Quite calm" not in approver.get("/inbox/?workflow=risky")
    by_deadline, by_risk = approver.get("/inbox/"), approver.get("/inbox/?sort=risk")
    assert by_deadline.index("Quite calm") < by_deadline.index("Very risky")
    assert by_risk.index("Very risky") < by_risk.index("Quite calm")
    assert "Your filters hide what is here" in approver.get("/inbox/?risk=low")
    approver.post("/inbox/views/", {"name": "Hot", "query": "risk=high&sort=age&x=1"})
    assert "/inbox/?risk=high&amp;sort=age" in approver.get("/inbox/")
    approver.post("/inbox/views/", {"forget": "Hot"})
    assert "Hot" not in approver.get("/inbox/")


def test_what_was_decided_is_found_behind_many_that_wait(office, approver):
    request = office.pending(office.ask(name="old", title="Decided long ago"))
    office.decide(request)
    for _ in range(51):
        office.submit(asking("waiting"), {"to": "Ada"})
    office.work(rounds=60)
    page = approver.get("/inbox/?view=decided")
    assert "Decided long ago" in page
    assert f"/inbox/{request['id']}/" in approver.get("/inbox/")
    found = list_requests(actor=office.admin, state=None, decided=True, count=True)
    assert (found.count, [one["id"] for one in found.items]) == (1, [request["id"]])


def test_what_was_decided_stands_in_the_order_of_its_decisions(office, approver):
    first, second, third = (office.pending(office.ask(name="same", title=f"Number {n}")) for n in (1, 2, 3))
    for request in (third, first, second):
        office.decide(request)
    wanted = [one["id"] for one in (second, first, third)]
    found = list_requests(actor=office.admin, state=None, decided=True, limit=2)
    rest = list_requests(actor=office.admin, state=None, decided=True, limit=2, cursor=found.next)
    assert [one["id"] for one in [*found.items, *rest.items]] == wanted
    for page in (approver.get("/inbox/"), approver.get("/inbox/?view=decided")):
        assert re.findall(r'<tr data-href="/inbox/([0-9a-f-]{36})/"', page) == [str(one) for one in wanted]


def test_a_decision_on_nothing_leads_back_to_the_inbox(office, approver):
    page = approver.post("/inbox/several/", {}, 400).content.decode()
    assert re.search(r'<a class="btn btn-primary" href="/inbox/">Back to Inbox</a>', page)
    page = Reader(office.tenant, "admin").post("/runs/bulk/", {"verb": "pause"}, 400).content.decode()
    assert re.search(r'<a class="btn btn-primary" href="/runs/">Back to Runs</a>', page)


def test_an_input_is_answered_on_its_page(office, tenant):
    form = {
        "type": "object",
        "required": ["seat"],
        "properties": {
            "seat": {"type": "string", "pattern": "^[0-9]+[A-F]$"},
            "bags": {"type": "integer"},
            "meal": {"enum": ["none", "vegan"]},
        },
    }
    nodes = [{"id": "which", "kind": "input", "title": "Which seat?", "role": "oncall", "form": form}]
    run_id = office.submit({"format": "quarterdeck/1", "name": "seats", "nodes": nodes}, {})
    request = office.pending(run_id)
    oncall, address = Reader(tenant, "oncall"), f"/inbox/{request['id']}/"
    page = oncall.get(address)
    assert "It approves nothing." in page
    assert 'value="approve"' not in page
    said = {"version": "1", "payload_hash": request["payload_hash"], "f.seat": "12A", "f.bags": "2", "f.meal": ""}
    oncall.post(f"{address}answer/", {**said, "f.bags": "2x"}, 400)
    wrong = oncall.post(f"{address}answer/", {**said, "f.seat": "window"}, 400).content.decode()
    assert "Nothing was decided." in wrong
    assert state(office, request) == "pending"
    Reader(tenant, "viewer").post(f"{address}answer/", said, 403)
    oncall.post(f"{address}answer/", said)
    assert get_request(actor=office.admin, request_id=request["id"])["answer"] == {"seat": "12A", "bags": 2}
    assert "12A" in oncall.get(address)
