"""What agents write is shown without hidden characters: on every page; and looking changes none of it."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from approvals.queries import get_request
from dashboard.presenters.unseen import visible
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C8.5"), pytest.mark.django_db(transaction=True)]

HIDDEN = "Ada\u202eadE\u200b"
DRAWN = (
    'Ada<span class="unseen" title="RIGHT-TO-LEFT OVERRIDE">⟨U+202E⟩</span>adE'
    '<span class="unseen" title="ZERO WIDTH SPACE">⟨U+200B⟩</span>'
)


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


@pytest.fixture
def approver(tenant) -> Reader:
    return Reader(tenant, "approver")


def test_a_page_is_gone_through_as_a_whole():
    page = (
        '<title>a\u202e</title><p title="b\u202e" data-x=\'1\'>c\u202e</p><input value="d\u202e">'
        '<textarea>e\u202e</textarea><script>f\u202e</script><option value="g\u202e">h\u202e</option>'
        '<svg><title>i\u202e</title><text>j\u202e</text></svg><a href="/k\u202e">l\u0085</a>'
    )
    drawn = visible(page)
    for part in ("<title>a⟨U+202E⟩</title>", 'title="b⟨U+202E⟩"', ">c<span", "j⟨U+202E⟩</text>", ">h⟨U+202E⟩<"):
        assert part in drawn, part
    assert 'l<span class="unseen" title="control character">⟨U+0085⟩</span>' in drawn
    # What goes back to the server, or leads somewhere, stays what it is.
    for part in ('value="d\u202e"', "e\u202e</textarea>", "f\u202e</script>", 'value="g\u202e"', 'href="/k\u202e"'):
        assert part in drawn, part
    assert visible("<p>plain – text ⚠️</p>") == "<p>plain – text ⚠️</p>"


def test_a_payload_shows_what_it_hides_and_the_decision_quotes_its_own_hash(office, approver):
    request = office.pending(office.ask({"to": HIDDEN}))
    path = f"/inbox/{request['id']}/"
    page = approver.get(path)
    table = page.partition("<tbody>")[2]
    assert DRAWN in table
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert "It has characters that nobody sees." in page
    assert request["payload_hash"] in page
    # The canonical bytes below are drawn alike, and the stored ones are not changed by being looked at.
    assert DRAWN in page.partition("Canonical bytes</summary>")[2]
    stored = get_request(actor=office.admin, request_id=request["id"])
    assert (stored["payload_hash"], stored["shown"]["payload"]["to"]) == (request["payload_hash"], HIDDEN)
    approver.post(path, {**approver.form(page), "decision": "approve"})
    office.work()
    assert f"pay:{HIDDEN}" in office.sends(request["run_id"])


def test_a_payload_of_plain_characters_has_no_warning(office, approver):
    page = approver.get(f"/inbox/{office.pending(office.ask({'to': 'Ada ⚠️'}))['id']}/")
    assert "It has characters that nobody sees." not in page
    assert 'class="unseen"' not in page


def test_titles_goals_and_targets_are_shown_by_marks_in_the_inbox_too(office, approver):
    ask: dict[str, Any] = {"title": "Pay\u2066 out", "target": {"id": "acc\u200bount"}}
    request = office.pending(office.ask(**ask))
    for page in (approver.get("/inbox/"), approver.get(f"/inbox/{request['id']}/")):
        assert 'Pay<span class="unseen" title="LEFT-TO-RIGHT ISOLATE">⟨U+2066⟩</span> out' in page
        assert 'acc<span class="unseen" title="ZERO WIDTH SPACE">⟨U+200B⟩</span>ount' in page
        assert not re.search("[\u2066\u200b]", page)


def test_an_edit_keeps_what_was_hidden_and_shows_it_to_the_editor(office, approver):
    request = office.pending(office.ask({"to": HIDDEN}))
    address = f"/inbox/{request['id']}/acts/propose/"
    page = approver.get(address)
    (text,) = re.findall(r"<textarea[^>]*name=\"arguments\"[^>]*>(.*?)</textarea>", page, re.DOTALL)
    assert "\\u202e" in text
    assert "\u202e" not in page
    arguments = json.loads(unescape(text))
    assert arguments["to"] == HIDDEN
    form = {**approver.form(page), "arguments": unescape(text).replace("2.50", "3.50"), "reason": "the new rate"}
    answer = approver.post(address, form)
    proposal = get_request(actor=office.admin, request_id=answer["Location"].split("/")[2])
    assert proposal["shown"]["calls"][0]["arguments"] == {"to": HIDDEN, "rate": "3.50"}


@pytest.mark.parametrize("reason", ["\u200b", "\u2060 \u3000", "\u202e", "\u2800"], ids=ascii)
def test_a_reason_that_shows_nothing_is_asked_for_again(office, approver, reason):
    request = office.pending(office.ask())
    path = f"/inbox/{request['id']}/"
    page = approver.post(path, {**approver.form(approver.get(path)), "decision": "reject", "comment": reason}, 400)
    assert "Say why you reject, in one sentence." in page.content.decode()
    approver.post(f"{path}comments/", {"text": reason}, 400)
    approver.post(f"{path}acts/extend/", {"seconds": "3600", "reason": reason, "revision": "1"}, 400)
    whole = get_request(actor=office.admin, request_id=request["id"])
    assert (whole["state"], whole["notes"]) == ("pending", [])
