"""Deciding as people do it: on a phone with the bar at the thumb, and by keyboard alone."""

from __future__ import annotations

import re
import uuid

from playwright.sync_api import expect

from approvals.models import Request
from runtime.store.tx import tenant_tx
from tests.browser.test_hands import state_of, tab_to
from tests.support.factories import make_member
from tests.support.pages import TRIP
from tests.support.screens import Screen

TITLE = "Book the <b>trip</b>"


def more_trips(screen: Screen, count: int) -> list[uuid.UUID]:
    """Let more trips wait for a decision; returns their runs."""
    engine = screen.made.engine
    runs = [engine.submit(TRIP, {}, name=f"Trip {n}") for n in range(count)]
    for name in ("load", "price"):
        for claimed in [one for one in engine.claim() if one.run_id in runs]:
            assert claimed.node.id == name
            engine.report(claimed, "succeeded")
    return runs


def states(screen: Screen) -> list[str]:
    with tenant_tx(screen.made.tenant.id):
        return sorted(Request.objects.values_list("state", flat=True))


def tab_into(screen: Screen, name: str, most: int = 60, key: str = "Tab") -> None:
    """Press Tab until the field of that name has the focus."""
    for _ in range(most):
        screen.page.keyboard.press(key)
        if screen.page.evaluate("() => document.activeElement.name || ''") == name:
            return
    raise AssertionError(f"{key} never came to {name!r}")


def opened(screen: Screen) -> None:
    """Open the one request of the inbox by its keys."""
    screen.open("/inbox/")
    screen.page.keyboard.press("j")
    screen.page.keyboard.press("Enter")
    expect(screen.page.get_by_role("heading", level=1)).to_have_text(TITLE)
    screen.page.wait_for_selector("html[data-ready]")


def test_on_a_phone_a_request_is_opened_read_and_decided_at_the_thumb(screen: Screen):
    page = screen.page
    page.set_viewport_size({"width": 390, "height": 844})
    screen.expected.add(400)
    screen.sign_in("approver")
    screen.open("/inbox/")
    page.locator("a.go", has_text="trip").first.click()
    page.wait_for_selector("html[data-ready]")
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    bar = page.locator(".actbar")
    expect(bar).to_be_visible()
    assert screen.overflow() == []
    assert screen.violations() == []
    bar.get_by_role("button", name="Reject").click()
    page.wait_for_selector("html[data-ready]")
    comment = page.locator("#id_comment")
    expect(comment).to_be_focused()
    expect(comment).to_be_in_viewport()
    expect(page.locator(".err").first).to_be_in_viewport()
    assert state_of(screen) == "pending", "a rejection needs a reason"
    comment.fill("The fare is right.")
    bar.get_by_role("button", name=re.compile("^Approve EUR 412.60")).click()
    expect(page.locator(".toast")).to_contain_text("Approved. The step goes on.")
    expect(page.locator(".actbar")).to_have_count(0)
    expect(page.locator(".tabbar")).to_be_visible()
    expect(page.locator("main")).to_contain_text("The fare is right.")
    assert state_of(screen) == "approved"
    assert screen.overflow() == []


def test_on_a_phone_a_rejection_is_sent_with_its_reason(screen: Screen):
    page = screen.page
    page.set_viewport_size({"width": 390, "height": 844})
    screen.sign_in("approver")
    screen.open("/inbox/")
    page.locator("a.go", has_text="trip").first.click()
    page.wait_for_selector("html[data-ready]")
    page.locator(".actbar").get_by_role("link", name="Add a reason").click()
    page.locator("#id_comment").fill("Too dear.")
    page.locator(".actbar").get_by_role("button", name="Reject").click()
    expect(page.locator(".toast")).to_contain_text("Rejected. Nothing is sent.")
    assert state_of(screen) == "rejected"


def test_a_letter_leads_to_a_button_and_a_rejection_carries_its_reason(screen: Screen):
    page, keys = screen.page, screen.page.keyboard
    screen.sign_in("approver")
    opened(screen)
    keys.press("a")
    expect(page.get_by_role("button", name="Approve EUR 412.60").first).to_be_focused()
    keys.press("x")
    expect(page.locator("[data-letter=x]")).to_be_focused()
    assert state_of(screen) == "pending", "a letter only leads there"
    tab_into(screen, "comment", key="Shift+Tab")
    keys.type("ax: too dear")
    expect(page.locator("#id_comment")).to_have_value("ax: too dear")
    tab_to(screen, "Reject")
    keys.press("Enter")
    expect(page.locator(".toast")).to_contain_text("Rejected. Nothing is sent.")
    assert state_of(screen) == "rejected"


def test_a_request_is_taken_on_and_handed_over_by_keyboard_alone(screen: Screen):
    other = make_member(screen.made.tenant, "approver").username
    page, keys, dialog = screen.page, screen.page.keyboard, screen.page.locator("#dialog")
    screen.sign_in("approver")
    opened(screen)
    tab_to(screen, "Take it on…")
    keys.press("Space")
    expect(dialog.locator("#dialog-title")).to_have_text("Take it on?")
    expect(dialog.get_by_role("link", name="Not now")).to_be_focused()
    keys.press("Escape")
    expect(dialog).not_to_be_visible()
    tab_to(screen, "Take it on…")
    keys.press("Enter")
    expect(dialog.get_by_role("link", name="Not now")).to_be_focused()
    assert screen.violations() == []
    tab_to(screen, "Take it on")
    keys.press("Enter")
    expect(page.locator(".toast")).to_contain_text("It is yours.")
    page.wait_for_selector("html[data-ready]")
    tab_to(screen, "Hand over…")
    keys.press("Enter")
    expect(dialog.locator("#dialog-title")).to_have_text("Hand it over?")
    expect(dialog.get_by_role("link", name="Not now")).to_be_focused()
    tab_into(screen, "to")
    keys.type(other)
    keys.press("Tab")
    if page.evaluate("() => document.activeElement.name") == "reason":
        keys.type("I am away.")
    tab_to(screen, "Hand over")
    keys.press("Enter")
    expect(page.locator(".toast")).to_contain_text("Handed over.")
    assert state_of(screen) == "pending"
    expect(page.locator(".s-dec")).to_contain_text("Somebody else has it.")


def test_several_are_decided_by_keyboard_alone(screen: Screen):
    more_trips(screen, 2)
    page, keys = screen.page, screen.page.keyboard
    screen.expected.add(400)
    screen.sign_in("approver")
    screen.open("/inbox/")
    for _ in range(2):
        tab_into(screen, "ask")
        keys.press("Space")
    tab_to(screen, "Decide several…")
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_have_text("Decide 2 requests?")
    page.wait_for_selector("html[data-ready]")
    tab_to(screen, "Reject 2")
    keys.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was decided.")
    page.wait_for_selector("html[data-ready]")
    tab_into(screen, "comment")
    keys.type("Too dear.")
    tab_to(screen, "Reject 2")
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_contain_text("2 decided")
    assert states(screen) == ["pending", "rejected", "rejected"]


def test_a_rule_that_is_refused_is_told_in_view_of_its_form(screen: Screen):
    screen.expected.add(400)
    screen.sign_in("admin")
    page = screen.open("/policy/")
    page.fill("[name=rules]", '[{"name": "a", "when": "amont > 1.0", "decide": "allow"}]')
    page.get_by_role("button", name="Try it on the past").click()
    page.wait_for_selector("html[data-ready]")
    note = page.locator("[data-refused]")
    expect(note).to_contain_text("nothing is named `amont`")
    expect(note).to_be_in_viewport()
    expect(note).to_be_focused()
    expect(page.locator("[name=rules]")).to_be_in_viewport()
