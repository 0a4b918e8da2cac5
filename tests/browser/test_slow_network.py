"""A network that is slow, and a server that falls silent without a word: the page stays true and loses nothing."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from runtime.actions.runs import resume_run
from tests.browser.test_graph import LIVE, chain, seq_of, states, watch
from tests.support.patience import patient
from tests.support.screens import Screen
from tests.support.web import Web

pytestmark = [pytest.mark.req("A9.7", "C6.2")]
QUICK = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
SLOW = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
WAIT_MS = 1_000 * patient(60)


def agrees(screen: Screen, run_id: Any) -> None:
    """Assert that the picture, once it includes the last event, says what the rows say."""
    seq_of(screen.page, screen.made.engine.run(run_id).seq)
    rows = screen.made.engine.statuses(run_id)
    assert states(screen.page) == {name: status.split("(")[0] for name, status in rows.items()}


def age_of(page: Page) -> int:
    """Return how many seconds old the page says that its picture is."""
    found = re.search(r"(\d+) s old", page.locator("#live").inner_text())
    assert found is not None
    return int(found.group(1))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_on_a_slow_network_a_run_is_watched_and_steered_and_nothing_is_lost(screen: Screen):
    """400 ms and 50 kB/s, with nothing kept from an earlier visit."""
    engine, page = screen.made.engine, screen.page
    run_id = engine.submit(chain(6))
    screen.sign_in("oncall")
    network = screen.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.clearBrowserCache")
    network.send("Network.emulateNetworkConditions", SLOW)
    page.goto(f"{screen.site.url}/runs/{run_id}/", wait_until="commit", timeout=WAIT_MS)
    page.wait_for_selector(LIVE, timeout=WAIT_MS)
    for name in ("n0", "n1"):
        engine.finish(name)
    agrees(screen, run_id)
    expect(page.locator("#live")).to_contain_text(re.compile(r"Live\s*[0-4] s old"))

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.locator(".rh").get_by_role("button", name="Pause…").dblclick()
    dialog = page.locator("#dialog")
    expect(dialog).to_be_visible(timeout=WAIT_MS)
    send = dialog.get_by_role("button", name="Pause", exact=True)
    send.dblclick()
    expect(page.locator(".toast")).to_contain_text("is now paused", timeout=WAIT_MS)
    assert [url for url in sent if url.endswith("/verbs/pause/")] == sent
    assert len(sent) == 1
    assert engine.types(run_id).count("PAUSE_REQUESTED") == 1

    network.send("Network.emulateNetworkConditions", QUICK)
    page.wait_for_selector(LIVE, timeout=WAIT_MS)
    agrees(screen, run_id)
    expect(page.locator(".rh .chip").first).to_contain_text("paused")
    resume_run(actor=engine.actor, run_id=run_id, reason="the fare desk is open")
    for name in ("n2", "n3", "n4", "n5"):
        engine.finish(name)
    agrees(screen, run_id)
    expect(page.locator(".rh .chip").first).to_contain_text("completed")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_server_that_falls_silent_is_told_and_caught_up_with(screen: Screen, database: Any):
    """Frozen it closes nothing: for the browser the socket is as open as before, and no answer is a refusal."""
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("viewer")
    with Web(database) as own:
        screen.site = own
        page = watch(screen, run_id)
        listing = screen.context.new_page()
        listing.goto(f"{own.url}/inbox/")
        expect(listing.locator("#live")).to_contain_text("Live")
        page.bring_to_front()
        assert own.process is not None
        os.killpg(own.process.pid, signal.SIGSTOP)
        try:
            # Four seconds without a sign of life, which comes each second, are a loss.
            expect(page.locator("#graph")).to_have_attribute("data-state", "lost", timeout=1_000 * patient(8))
            expect(page.locator("#live")).to_contain_text("Reconnecting")
            assert age_of(page) >= 3, "the age is that of the last sign of life, not of the loss"
            engine.finish("n0")
            older = age_of(page)
            page.wait_for_function(
                "(age) => Number(/\\d+/.exec(document.getElementById('live').textContent)) > age", arg=older
            )
            assert states(page)["n0"] == "queued", "nothing is invented while nothing is known"
            listing.bring_to_front()
            expect(listing.locator("#live")).to_contain_text("Reconnecting", timeout=1_000 * patient(25))
        finally:
            os.killpg(own.process.pid, signal.SIGCONT)
        expect(listing.locator("#live")).to_contain_text("Live", timeout=WAIT_MS)
        page.bring_to_front()
        page.wait_for_selector(LIVE, timeout=WAIT_MS)
        agrees(screen, run_id)
        engine.finish("n1")
        agrees(screen, run_id)
        listing.close()
    screen.complaints = [one for one in screen.complaints if "WebSocket" not in one and "ERR_" not in one]
