"""The whole story with everything that is real: web, workers, heartbeat, scheduler, a browser and a person in it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.test_graph import states, watch
from tests.support import invariants
from tests.support.db import Database
from tests.support.engine import Engine
from tests.support.pages import TRIP, Scene
from tests.support.patience import patient
from tests.support.screens import Screen
from tests.support.web import Web
from tests.support.workers import Desk, Stack, until


@pytest.mark.slow
@pytest.mark.req("A9.7", "B1.2")
def test_a_person_signs_in_watches_approves_and_sees_it_finish(
    fresh_db: Database, tenant, context: BrowserContext, page: Page
):
    desk = Desk(tenant)
    desk.register(TRIP)
    with Stack(fresh_db, workers=1) as stack, Web(fresh_db) as web:
        stack.wait_ready()
        screen = Screen(web, context, page, Scene(Engine(tenant)))
        screen.sign_in("approver")
        run_id = desk.submit("trip", name="Trip 4711")
        watch(screen, run_id)
        # Nobody reloads anything: the picture moves as the workers do.
        waits = page.get_by_role("button", name=re.compile("^Book the .*, approval, on hold"))
        expect(waits).to_be_visible(timeout=1_000 * patient(60))
        assert states(page) == {
            "load": "succeeded",
            "price": "succeeded",
            "ask": "hold",
            "book": "waiting",
            "tell": "waiting",
        }
        page.locator(".side").get_by_role("link", name=re.compile("^Inbox")).click()
        page.locator("a.go").first.click()
        page.get_by_role("button", name=re.compile("^Approve EUR 412.60")).first.click()
        expect(page.locator(".toast")).to_contain_text("Approved. The step goes on.")
        page.get_by_role("link", name="Follow the run").first.click()
        page.wait_for_selector('#graph[data-state="live"]')
        expect(page.locator(".rh .chip").first).to_contain_text("completed", timeout=1_000 * patient(60))
        until(lambda: set(states(page).values()) == {"succeeded"}, 30, "the picture of the end")
        assert desk.run(run_id).status == "completed"
        screen.open("/runs/")
        expect(page.locator("tr", has_text="Trip 4711").locator(".chip")).to_contain_text("completed")
        assert screen.complaints == []
    invariants.check(tenant.id)
