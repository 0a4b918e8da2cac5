"""The repair desk in a browser without scripts: two people, one case, every refusal told on the page (C8.4)."""

from __future__ import annotations

import re

import pytest

from tests.support.desk import Desk
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C8.4", "C8.5"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def desk(tenant) -> Desk:
    return Desk(tenant)


def fields(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form that posts to ``…/action/``."""
    form = re.search(rf'<form[^>]*action="[^"]*/{action}/">(.*?)</form>', page, re.DOTALL)
    assert form is not None, f"no form for {action}"
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1])
    return {name: value for name, value in found if name != "csrfmiddlewaretoken"}


def test_two_people_repair_one_lost_answer(desk, tenant):
    run_id = desk.lost("human")
    case = desk.case(run_id)
    path = f"/repairs/{case['id']}/"
    ada, bob = Reader(tenant, "oncall"), Reader(tenant, "oncall")
    listed = ada.get("/repairs/")
    assert path in listed
    assert "Effect unknown" in listed
    assert path in ada.get("/now/")
    page = ada.get(path)
    assert "Nobody holds it." in page
    assert "Was it applied?" in page
    assert "a second send: not told apart" in page
    assert "no tool to ask" in page
    assert "no tool undoes it" in page
    ada.post(f"{path}claim/", fields(page, "claim"))
    # The other tab is told who holds it, and nothing happens.
    refused = bob.post(f"{path}claim/", fields(page, "claim"), 409)
    assert ada.user.username in refused.content.decode()
    page = ada.get(path)
    assert "Only who holds" not in page
    assert "Record success" in page
    seen = {"answer": "done", "source": "the shop's books", "evidence": "one payment", "reference": "P-77"}
    missing = ada.post(f"{path}answer/", {**fields(page, "answer"), **seen, "reference": ""}, 400).content.decode()
    assert "has a reference there" in missing
    assert "one payment" in missing
    ada.post(f"{path}answer/", {**fields(page, "answer"), **seen})
    page = ada.get(path)
    asked = {**fields(page, "propose"), "resolution": "record_success", "external_ref": "P-77", "reason": "it is there"}
    ada.post(f"{path}propose/", asked)
    # A second click on the same page is answered like the first.
    ada.post(f"{path}propose/", asked)
    page = ada.get(path)
    assert "Another person than who proposed it" in page
    assert 'name="decision"' not in page
    page = bob.get(path)
    bob.post(f"{path}review/", {**fields(page, "review"), "decision": "approve", "comment": ""})
    page = bob.get(path)
    assert "on the word of" in page
    assert path not in ada.get("/repairs/")
    assert path in ada.get("/repairs/?view=resolved")
    tab = ada.get(f"/runs/{run_id}/repairs/")
    assert path in tab
    assert "done, can&#x27;t be undone" in tab
    desk.work()
    assert (desk.run(run_id).status, desk.operation(run_id).sends) == ("completed", 1)


def test_a_hand_over_mid_case_and_a_case_opened_by_hand(desk, tenant):
    run_id = desk.lost("query")
    ada, bob = Reader(tenant, "oncall"), Reader(tenant, "oncall")
    page = ada.get(f"/runs/{run_id}/repairs/")
    assert "This run has no repair case" in page
    step = desk.step(run_id, "pay").id
    opened = ada.post(f"/runs/{run_id}/repairs/open/", {"step": str(step), "reason": "the customer calls"})
    path = opened["Location"]
    ada.post(f"{path}claim/", fields(ada.get(path), "claim"))
    page = ada.get(path)
    ada.post(f"{path}ask/", fields(page, "ask"))
    assert "Tool asked" in ada.get(path)
    ada.post(
        f"{path}hand-over/", {**fields(ada.get(path), "hand-over"), "to": bob.user.username, "reason": "shift ends"}
    )
    # The hand that gave it away does nothing more with it.
    stale = ada.post(f"{path}keep-pending/", {**fields(page, "keep-pending"), "hours": "4", "reason": "later"}, 409)
    assert "holds it" in stale.content.decode()
    # Nor does the one who has it by a form that does not say what it was shown for.
    before = desk.read(path.split("/")[2])["version"]
    for shown in ("", "one", "\u0661"):
        unsaid = bob.post(f"{path}keep-pending/", {"version": shown, "hours": "4", "reason": "later"}, 400)
        assert "The form does not say which version it was shown." in unsaid.content.decode()
    assert desk.read(path.split("/")[2])["version"] == before
    page = bob.get(path)
    bob.post(f"{path}keep-pending/", {**fields(page, "keep-pending"), "hours": "24", "reason": "the bank is closed"})
    page = bob.get(path)
    assert "Kept pending" in page
    assert "Handed over" in page
    report = bob.get("/repairs/shift/?hours=8")
    assert path in report
    assert "Kept pending: the bank is closed" in report
    bob.post(f"{path}release/", {**fields(page, "release"), "reason": "ill"})
    assert "Nobody holds it." in bob.get(path)


def test_a_resolved_case_counts_only_others_and_says_what_was_believed_then(desk, tenant):
    reader = Reader(tenant, "viewer")
    run_id = desk.lost("human")
    other = desk.case(desk.lost("human"))
    case = desk.taken(run_id)
    assert case["alike"] == 1
    page = reader.get(f"/repairs/{case['id']}/")
    assert "1 more of this cause" in page
    assert "at that time" not in page
    desk.finish_case(desk.saw(case, "done"), "record_success")
    assert desk.read(case["id"])["alike"] == 1
    assert desk.read(other["id"])["alike"] == 0
    page = reader.get(f"/repairs/{case['id']}/")
    assert "-1 more" not in page
    assert re.search(r"What the ledger believes: unknown\s*<span[^>]*>\(at that time; it has moved since\)", page)
    assert "more of this cause" not in reader.get(f"/repairs/{other['id']}/")


def test_a_reader_without_the_verb_looks_and_does_nothing(desk, tenant):
    case = desk.case(desk.lost("human"))
    path = f"/repairs/{case['id']}/"
    viewer = Reader(tenant, "viewer")
    page = viewer.get(path)
    assert "/claim/" not in page
    assert viewer.post(f"{path}claim/", {"version": "1"}, 403) is not None
    viewer.get(f"{path}claim/", 405)
    viewer.get("/repairs/?view=overdue")
    assert "No case fits" in viewer.get("/repairs/?kind=stuck")
    assert desk.read(case["id"])["version"] == case["version"]
