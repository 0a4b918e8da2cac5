"""The shell is as high as the window, what is ticked is seen, and a decided request says what became of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from approvals.models import Request
from runtime.store.tx import tenant_tx
from tests.support.office import Office
from tests.support.screens import Screen

SIZES = [(1280, 900), (390, 844)]


def asked(screen: Screen) -> Request:
    with tenant_tx(screen.made.tenant.id):
        return Request.objects.get(run_id=screen.made.runs["asks"])


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_comment_has_room_and_adding_a_reason_scrolls_into_no_emptiness(screen: Screen, width: int, height: int):
    page = screen.page
    page.set_viewport_size({"width": width, "height": height})
    screen.sign_in("admin")
    screen.open(f"/inbox/{asked(screen).id}/")
    for name in ("#comment-text", "#comment-file"):
        box = page.locator(name).bounding_box()
        assert box is not None
        assert box["width"] >= 180, name
    assert screen.lengthened() == []
    page.locator("#comment-text").focus()
    page.evaluate("() => { location.hash = 'id_comment'; }")
    expect(page.locator("#id_comment")).to_be_in_viewport()
    assert page.evaluate("() => [scrollY, document.querySelector('.app').scrollTop]") == [0, 0]


def test_several_wait_for_a_tick_and_boxes_are_seen(screen: Screen):
    page = screen.page
    screen.sign_in("admin")
    for path, box, button, said in (
        ("/inbox/", "input[name=ask]", "Decide several…", "Tick requests in the list first."),
        ("/runs/", "input[name=run]", "Pause…", "Tick runs in the list first."),
    ):
        screen.open(path)
        page.mouse.move(0, 0)
        first = page.locator(box).first
        assert float(first.evaluate("(one) => getComputedStyle(one).opacity")) >= 0.5
        if path == "/runs/":
            page.get_by_text("Act on several…").click()
        act = page.get_by_role("button", name=button, exact=True)
        expect(act).to_have_attribute("aria-disabled", "true")
        expect(act).to_have_attribute("title", said)
        act.click(force=True)
        assert page.url.endswith(path)
        first.check()
        if not act.is_visible():
            page.get_by_text("Act on several…").click()
        expect(act).to_have_attribute("aria-disabled", "false")
        first.uncheck()
        expect(page.locator("[data-needs]").first).to_have_attribute("aria-disabled", "true")


def test_a_decided_request_shows_by_itself_that_it_was_used(screen: Screen):
    page, office = screen.page, Office(screen.made.tenant)
    request = office.pending(office.ask())
    office.decide(request)
    screen.sign_in("admin")
    page.clock.install()
    screen.open(f"/inbox/{request['id']}/")
    chip, beside = page.locator(".s-head .chip"), page.locator("#beside")
    expect(chip).to_have_text("approved")
    expect(beside).to_contain_text("Take back")
    office.work()
    with page.expect_response(lambda answer: "x-refresh" in answer.request.headers):
        page.clock.run_for(4_000)
    expect(chip).to_have_text("approved and sent")
    expect(beside).not_to_contain_text("Take back")
    expect(beside).not_to_contain_text("Start until")


@pytest.mark.parametrize("path", ["{run}steps/?step=load", "/tasks/"])
def test_a_long_name_in_a_list_lies_under_no_other_cell(screen: Screen, path: str):
    page = screen.page
    page.set_viewport_size({"width": 1100, "height": 800})
    screen.sign_in("admin")
    screen.open(path.format(run=f"/runs/{screen.made.runs['asks']}/"))
    cells = page.locator("td.w > .go.trunc")
    cells.first.evaluate("(one) => { one.append(' a name that goes on and on'.repeat(9)); }")
    over = "(one) => one.getBoundingClientRect().right - one.closest('td').getBoundingClientRect().right"
    assert cells.first.evaluate(over) <= 0
