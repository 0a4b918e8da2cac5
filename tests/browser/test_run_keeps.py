"""A run with a parent, children, a budget, permissions and a criterion that is not met, as people meet it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from runtime.actions.workflows import authorise_verifier
from tests.support.screens import Screen
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C1.2", "A2.1", "A4.1")]


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_what_a_run_keeps_is_readable(screen: Screen, width: int, theme: str):
    engine = screen.made.engine
    authorise_verifier(actor=engine.actor, name="arrived", version=1, method="human_review")
    document = workflow(tool("a"), name="kept")
    above = engine.submit(document)
    run = engine.submit(
        document,
        parent=above,
        budget={"calls": 20, "effects": 2, "limit": "12.50", "currency": "EUR"},
        scope={"tools": ["core.noop", "core.echo@1", "shop.payments"], "scopes": ["orders.read", "orders.write"]},
        success={"criterion": "The parcel arrived.", "verifier": "arrived@1", "evidence": ["checkpoint", "artifact"]},
    )
    for _ in range(3):
        engine.submit(document, parent=run)
    while claimed := engine.claim():
        for one in claimed:
            engine.report(one, "succeeded", seconds=0.1)
    screen.page.set_viewport_size({"width": width, "height": 900})
    screen.prefer(theme=theme)
    screen.sign_in("admin")
    for language in ("en", "zh-hans"):
        screen.prefer(language=language)
        for path in (f"/runs/{run}/", f"/tasks/{engine.run(run).task_id}/", "/runs/?workflow=kept"):
            page = screen.open(path)
            mark = page.locator(".badge.tint.st-waiting")
            expect(mark.first).to_be_visible()
            assert (screen.violations(), screen.overflow()) == ([], []), path
            if width < 400:
                assert screen.small_targets() == [], path
    screen.open(f"/runs/{run}/")
    screen.page.locator(f".rh a[href='/runs/{above}/']").click()
    expect(screen.page.locator(f".rh a[href='/runs/{run}/']")).to_be_visible()
