"""The picture of the past in a real Chromium: drawn as it was, standing still, reached and left by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_graph import LIVE, box, states
from tests.support.screens import Screen
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C6.1", "C7.9")]


def test_the_drawing_of_the_past_stands_still_and_is_walked_by_keyboard(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(workflow(tool("a"), tool("b", "a"), name="short"))
    engine.claim()
    started = engine.run(run_id).seq
    screen.sign_in("viewer")
    page = screen.open(f"/runs/{run_id}/events/")
    page.locator("#until").fill(str(started))
    page.locator("#until").press("Enter")
    page.wait_for_selector('#graph[data-ready="true"]')
    assert states(page) == {"a": "running", "b": "waiting"}
    frozen = box(page, "a").locator(".ns").text_content()
    engine.finish("a")
    page.get_by_role("link", name="Back to now").focus()
    opened: list[str] = []
    page.on("websocket", lambda socket: opened.append(socket.url))
    page.reload()
    page.wait_for_selector('#graph[data-ready="true"]')
    assert states(page) == {"a": "running", "b": "waiting"}
    assert box(page, "a").locator(".ns").text_content() == frozen, "its clock is that of the event"
    page.wait_for_load_state("networkidle")
    assert opened == [], "nothing tells it of what happens now"
    box(page, "a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/events/\?node=a$"))
    screen.open(f"/runs/{run_id}/")
    page.wait_for_selector(LIVE)
    assert [f"/ws/runs/{run_id}/" in url for url in opened] == [True], "the present is told by a stream"


def test_the_past_fits_a_phone(screen: Screen):
    run_id, engine = screen.made.runs["runs"], screen.made.engine
    started = next(one.seq for one in engine.events(run_id) if one.type == "STEP_STARTED")
    screen.page.set_viewport_size({"width": 390, "height": 844})
    screen.sign_in("viewer")
    page = screen.open(f"/runs/{run_id}/?until={started}")
    page.wait_for_selector('#graph[data-ready="true"]')
    assert screen.overflow() == []
    assert screen.small_targets() == []
    row = page.locator(".lrow").first
    expect(row).to_be_visible()
    expect(row.locator(".r")).to_have_text("running 0 s")
    (back,) = page.get_by_role("link", name="Back to now").all()
    place = back.bounding_box()
    assert place is not None
    assert place["x"] + place["width"] <= 390
    assert re.search(r"/events/\?node=a$", row.get_attribute("href") or "")
