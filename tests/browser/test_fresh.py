"""A list that is being read: what is new waits, what has gone stays in its place, and nobody's hand is moved."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from approvals.actions.handling import claim_request
from approvals.models import Request
from runtime.actions.runs import cancel_run
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.pages import TRIP, Scene, node
from tests.support.screens import Screen, settles

pytestmark = [pytest.mark.req("A9.7")]
FIRST = "main table[data-kept] a.go"


def ask(made: Scene, name: str) -> uuid.UUID:
    """Let another run come to where it asks; returns the request's id."""
    run_id = made.engine.submit(TRIP, {}, name=name)
    made.engine.finish("load")
    made.engine.finish("price")
    with tenant_tx(made.tenant.id):
        return Request.objects.get(run_id=run_id).id


def listed(page: Page) -> list[str]:
    """Return the addresses of the rows, in their order."""
    return page.evaluate(
        "() => [...document.querySelectorAll('table[data-kept] [data-href]')].map((o) => o.dataset.href)"
    )


def place_of(page: Page) -> Any:
    """Return where the first row lies in the window."""
    box = page.locator(FIRST).first.bounding_box()
    assert box is not None
    return round(box["x"]), round(box["y"])


def refreshed(page: Page) -> None:
    """Let the page look for what is new."""
    with page.expect_response(lambda answer: "x-refresh" in answer.request.headers):
        page.clock.run_for(6_000)


def reading(screen: Screen, path: str, role: str) -> Page:
    screen.sign_in(role)
    screen.page.clock.install()
    return screen.open(path)


def test_new_requests_wait_until_they_are_asked_for(screen: Screen):
    page = reading(screen, "/inbox/", "approver")
    before, place = listed(page), place_of(page)
    expect(page.locator("#fresh")).to_be_hidden()
    page.locator(FIRST).first.focus()
    new = ask(screen.made, "Trip 4712")
    refreshed(page)
    expect(page.locator("#fresh")).to_contain_text("1 new")
    assert (listed(page), place_of(page)) == (before, place)
    expect(page.locator(FIRST).first).to_be_focused()
    for _ in range(2):
        ask(screen.made, "Trip 4713")
    refreshed(page)
    expect(page.locator("#fresh")).to_contain_text("3 new")
    assert (listed(page), place_of(page)) == (before, place)
    # By keys alone: n leads to the button and changes nothing, Enter brings the rows in.
    page.keyboard.press("n")
    expect(page.locator("#fresh button")).to_be_focused()
    assert listed(page) == before
    page.keyboard.press("Enter")
    expect(page.locator(f'tr.new[data-href="/inbox/{new}/"]')).to_be_visible()
    assert len(listed(page)) == len(before) + 3
    expect(page.locator(f'tr[data-href="{before[0]}"] a.go')).to_be_focused()
    expect(page.locator("#fresh")).to_be_hidden()


def test_what_is_ticked_stays_ticked_when_new_rows_come_in(screen: Screen):
    page = reading(screen, "/inbox/", "approver")
    page.get_by_role("checkbox").first.check()
    chosen = page.get_by_role("checkbox").first.get_attribute("value")
    ask(screen.made, "Trip 4712")
    refreshed(page)
    page.locator("#fresh button").click()
    expect(page.locator("main table[data-kept] [data-href]")).to_have_count(2)
    ticked = "() => [...document.querySelectorAll('table[data-kept] input:checked')].map((one) => one.value)"
    settles(page, ticked, [chosen])


def test_a_row_under_the_pointer_stays_until_somebody_lets_it_go(screen: Screen):
    page = reading(screen, "/inbox/", "approver")
    other = ask(screen.made, "Trip 4712")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    before = listed(page)
    page.locator(FIRST).last.hover()
    engine, run = screen.made.engine, screen.made.runs["asks"]
    cancel_run(actor=engine.actor, run_id=run, reason="the passenger withdrew")
    refreshed(page)
    assert listed(page) == before
    expect(page.locator("tr.gone")).to_have_count(1)
    expect(page.locator("#fresh")).to_contain_text("1 no longer here")
    assert screen.violations() == []
    page.locator("#fresh button").click()
    expect(page.locator("tr.gone")).to_have_count(0)
    assert listed(page) == [f"/inbox/{other}/"]


def test_a_row_that_changes_says_so_where_it_stands(screen: Screen):
    page = reading(screen, "/inbox/?view=all", "approver")
    page.locator(FIRST).first.hover()
    with tenant_tx(screen.made.tenant.id):
        request = Request.objects.get(run_id=screen.made.runs["asks"])
    other = member(screen.made.tenant, "approver")
    claim_request(actor=other, request_id=request.id)
    refreshed(page)
    row = page.locator("main table[data-kept] [data-href]").first
    expect(row).to_contain_text(other.label.removeprefix("user:"))
    expect(page.locator("#fresh")).to_be_hidden()


def test_the_list_of_runs_brings_new_ones_in_without_losing_a_hand(screen: Screen):
    page = reading(screen, "/runs/", "oncall")
    before = listed(page)
    chosen = page.locator("input[name=run]").first
    chosen.check()
    value = chosen.get_attribute("value")
    simple = {"format": "quarterdeck/1", "name": "plain", "nodes": [node("a"), node("b", "a")]}
    new = screen.made.engine.submit(simple, {}, name="Just now")
    with page.expect_response("**/runs/fresh.json*"):
        page.clock.run_for(11_000)
    expect(page.locator("#fresh")).to_contain_text("1 new")
    assert listed(page) == before
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    expect(page.locator("tr.new")).to_have_attribute("data-href", f"/runs/{new}/")
    assert listed(page) == [f"/runs/{new}/", *before]
    expect(page.locator(f'input[name=run][value="{value}"]')).to_be_checked()
    expect(page.locator("input[name=run]:checked")).to_have_count(1)
