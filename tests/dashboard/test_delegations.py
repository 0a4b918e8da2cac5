"""The page of delegations: what stands, is coming and was; the form; the inbox says who decides for whom now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape

import pytest

from approvals.actions.delegations import add_delegation
from approvals.standing import list_delegations
from runtime.kernel.actor import Actor
from tests.support.actors import member
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "C8.5"), pytest.mark.django_db(transaction=True)]
PAGE = "/delegations/"


@pytest.fixture
def office(tenant) -> Office:
    return Office(tenant)


@pytest.fixture
def other(office) -> Actor:
    return member(office.tenant, "approver")


def at(office: Office, **ahead: float) -> str:
    """Return a time in UTC as the browser's field writes it."""
    return (office.run_now() + timedelta(**ahead)).strftime("%Y-%m-%dT%H:%M")


def errors(page: str) -> dict[str, str]:
    """Return the field → what is said beside it."""
    found = re.findall(r'<div id="id_(\w+)_error"><p class="err"><svg.*?</svg>(.*?)</p>', page, re.DOTALL)
    return {field: unescape(text) for field, text in found}


def test_one_lets_another_decide_and_ends_it(office, tenant, other):
    reader = Reader(tenant, "approver")
    page = reader.get(PAGE)
    assert "Nobody decides in another" in page
    assert 'name="whose"' not in page, "in whose place is an admin's to say"
    form = {"to": other.name, "starts_at": "", "ends_at": at(office, days=3), "reason": "on leave"}
    answer = reader.post(PAGE, form, follow=True, status=200).content.decode()
    assert f"{other.name} decides in your place in that time." in unescape(answer)
    # A second click that got through makes no second one, and says so.
    answer = reader.post(PAGE, form, follow=True, status=200).content.decode()
    assert "all that time already. Nothing was changed." in unescape(answer)
    (one,) = list_delegations(actor=office.admin)
    page = reader.get(PAGE)
    assert "active now" in page
    assert "on leave" in page
    reader.post(f"{PAGE}{one['delegation_id']}/end/", {})
    assert "Nobody decides in another" in reader.get(PAGE)
    page = reader.get(f"{PAGE}?view=ended")
    assert "ended early by" in page
    # A tab from before: it says that it is over, and changes nothing.
    stale = reader.post(f"{PAGE}{one['delegation_id']}/end/", {}, 409).content.decode()
    assert "It was over already" in stale
    assert f'id="delegation-{one["delegation_id"]}"' not in stale, "the list is that of now"


@pytest.mark.parametrize(
    ("field", "starts", "ends", "says"),
    [
        ("ends_at", {"days": 3}, {"days": 2}, "It would end before it begins."),
        ("ends_at", None, {"days": -1}, "This end is over already."),
        ("ends_at", None, {"days": 400}, "A delegation lasts 366 days at most."),
        ("ends_at", None, "", "Give a day and a time."),
        ("ends_at", None, "soon", "Give a day and a time."),
        ("starts_at", "9999-99-99T00:00", {"days": 2}, "Give a day and a time."),
        ("ends_at", "0001-01-01T00:00", "9999-12-31T23:59", "A delegation lasts 366 days at most."),
    ],
)
def test_bad_dates_are_named_beside_their_field_and_what_was_typed_is_kept(
    office, tenant, other, field, starts, ends, says
):
    reader = Reader(tenant, "approver")
    words = [at(office, **one) if isinstance(one, dict) else one or "" for one in (starts, ends)]
    form = {"to": other.name, "starts_at": words[0], "ends_at": words[1], "reason": "on leave"}
    page = reader.post(PAGE, form, 400).content.decode()
    assert errors(page) == {field: says}
    assert f'value="{other.name}"' in page
    assert list_delegations(actor=office.admin) == []
    reader.post("/preferences/", {"language": "zh-hans", "next": PAGE})
    for text in errors(reader.post(PAGE, form, 400).content.decode()).values():
        assert re.search(r"[\u4e00-\u9fff]", text)


def test_names_that_decide_nothing_are_named_beside_their_field(office, tenant, other):
    admin, viewer = Reader(tenant, "admin"), member(tenant, "viewer")
    form = {"whose": office.approver.name, "to": other.name, "ends_at": at(office, days=1), "reason": "ill"}
    for field in ("whose", "to"):
        for name in (viewer.name, "nobody-here"):
            page = admin.post(PAGE, {**form, field: name}, 400).content.decode()
            assert errors(page) == {field: f"{name} is no member who decides requests here."}
    page = admin.post(PAGE, {**form, "whose": other.name}, 400).content.decode()
    assert errors(page) == {"to": "Name another person: nobody stands in for themselves."}
    page = admin.post(PAGE, {**form, "reason": ""}, 400).content.decode()
    assert errors(page) == {"reason": "Say why, in one sentence."}


def test_times_are_those_of_the_readers_zone(office, tenant, other):
    reader = Reader(tenant, "approver")
    reader.post("/preferences/", {"zone": "Asia/Shanghai", "next": PAGE})
    assert "Times in Asia/Shanghai." in reader.get(PAGE)
    there = office.run_now() + timedelta(days=1, hours=8)
    form = {"to": other.name, "ends_at": there.strftime("%Y-%m-%dT%H:%M"), "reason": "on leave"}
    reader.post(PAGE, form)
    (one,) = list_delegations(actor=office.admin)
    assert one["ends_at"] == (there - timedelta(hours=8)).replace(second=0, microsecond=0)


def test_an_admin_sets_it_for_others_and_sees_all(office, tenant, other, other_tenant):
    admin, approver = Reader(tenant, "admin"), Reader(tenant, "approver")
    form = {"whose": office.approver.name, "to": other.name, "ends_at": at(office, days=1), "reason": "ill"}
    admin.post(PAGE, form)
    # What only an admin may say is not read from anybody else's form.
    approver.post(PAGE, form)
    rows = list_delegations(actor=office.admin)
    assert [one["from"] for one in rows] == [f"user:{approver.user.username}", office.approver.label]
    page = admin.get(f"{PAGE}?member={office.approver.name}")
    assert page.count('id="delegation-') == 1
    assert "set by" in page
    assert "Your filters hide what is here" in admin.get(f"{PAGE}?member={member(tenant, 'viewer').name}")
    assert admin.get(PAGE).count('id="delegation-') == 2
    assert approver.get(f"{PAGE}?member={office.approver.name}").count('id="delegation-') == 1
    viewer = Reader(tenant, "viewer")
    page = viewer.get(PAGE)
    assert 'id="delegation-' not in page
    assert 'name="to"' not in page
    viewer.post(PAGE, form, 403)
    one = rows[-1]["delegation_id"]
    approver.post(f"{PAGE}{one}/end/", {}, 403)
    Reader(other_tenant, "admin").post(f"{PAGE}{one}/end/", {}, 404)
    assert 'id="delegation-' not in Reader(other_tenant, "admin").get(PAGE)
    assert [row["state"] for row in list_delegations(actor=office.admin)] == ["active", "active"]


def test_the_inbox_says_who_decides_for_whom_now(office, tenant, clock):
    giver, taker = Reader(tenant, "approver"), Reader(tenant, "approver")
    given, taken = "decides in your place", "You also decide in the place of"
    assert given not in giver.get("/inbox/")
    asking = member(tenant, "admin")
    starts: datetime = office.run_now() + timedelta(hours=1)
    add_delegation(
        actor=asking, whose=giver.user.username, to=taker.user.username, starts_at=starts,
        ends_at=starts + timedelta(hours=1), reason="on leave",
    )  # fmt: skip
    assert given not in giver.get("/inbox/"), "it has not begun"
    clock.advance(3700)
    assert f"{taker.user.username} {given}" in giver.get("/inbox/")
    assert f"{taken} {giver.user.username}" in taker.get("/inbox/")
    for page in (giver.get("/inbox/"), taker.get("/now/")):
        assert 'href="/delegations/"' in page
    clock.advance(3600)
    assert given not in giver.get("/inbox/")
    assert taken not in taker.get("/inbox/")


def test_a_long_list_goes_on(office, tenant, other, monkeypatch):
    from dashboard.pages import delegations

    monkeypatch.setattr(delegations, "PAGE", 2)
    now = office.run_now()
    for days in range(1, 4):
        times = {"starts_at": now + timedelta(days=2 * days), "ends_at": now + timedelta(days=2 * days + 1)}
        add_delegation(actor=office.approver, to=other.name, reason="on leave", **times)
    admin = Reader(tenant, "admin")
    page = admin.get(PAGE)
    assert page.count('id="delegation-') == 2
    (link,) = re.findall(r'rel="next" href="([^"]+)"', page)
    assert admin.get(unescape(link)).count('id="delegation-') == 1
