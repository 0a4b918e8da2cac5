"""What stands around the live drawing is kept as new as it is, and a network that hangs is no end of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.test_graph import LIVE, chain, seq_of, states, watch
from tests.support.patience import patient
from tests.support.screens import Screen
from tests.support.tap import Tap

pytestmark = [pytest.mark.req("A9.7", "C6.2")]


@pytest.mark.slow
def test_a_network_that_never_answers_is_tried_again(screen: Screen):
    """A socket that hangs while it opens is a lost one: else "reconnecting" would last for ever."""
    engine = screen.made.engine
    run_id = engine.submit(chain())
    with Tap(screen.site.port) as tap:
        screen.site = tap  # type: ignore[assignment]
        screen.sign_in("viewer")
        page = watch(screen, run_id)
        tap.hold()
        expect(page.locator("#graph")).to_have_attribute("data-state", "lost", timeout=1_000 * patient(20))
        page.wait_for_function("() => document.getElementById('graph').graph.stream.socket?.readyState === 0")
        engine.finish("n0")
        tap.release()
        page.wait_for_selector(LIVE, timeout=1_000 * patient(60))
        seq_of(page, engine.run(run_id).seq)
        assert states(page)["n0"] == "succeeded"
    screen.complaints = [one for one in screen.complaints if "WebSocket" not in one and "ERR_" not in one]


def test_the_head_follows_each_step_and_takes_nothing_from_under_a_hand(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    head = page.locator(".rh")
    button = head.get_by_role("button", name="Cancel run…")
    button.focus()
    engine.finish("n0")
    expect(head).to_have_attribute("data-seq", str(engine.run(run_id).seq))
    expect(button).to_be_focused()
    shown = engine.run(run_id).seq
    button.press("Enter")
    dialog = page.locator("#dialog")
    expect(dialog).to_be_visible()
    engine.finish("n1")
    seq_of(page, engine.run(run_id).seq)
    expect(head).to_have_attribute("data-seq", str(shown))
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(head).to_have_attribute("data-seq", str(engine.run(run_id).seq))
