"""What a person does: by keyboard alone, in dialogs, in the palette; nothing is done by accident."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from approvals.models import Request
from runtime.actions.runs import pause_run
from runtime.models import Membership
from runtime.store.tx import tenant_tx
from tests.support.screens import PASSWORD, Screen


def state_of(screen: Screen) -> str:
    with tenant_tx(screen.made.tenant.id):
        return Request.objects.get(run_id=screen.made.runs["asks"]).state


def tab_to(screen: Screen, name: str, most: int = 60) -> None:
    """Press Tab until the control of that name has the focus."""
    for _ in range(most):
        screen.page.keyboard.press("Tab")
        if screen.page.evaluate("() => document.activeElement.innerText.trim()").startswith(name):
            return
    raise AssertionError(f"Tab never came to {name!r}")


def test_sign_in_inbox_approve_by_keyboard_alone(screen: Screen):
    name = screen.person("approver")
    page, keys = screen.page, screen.page.keyboard
    page.goto(f"{screen.site.url}/inbox/")
    page.wait_for_selector("html[data-ready]")
    keys.type(name)
    keys.press("Tab")
    keys.type(PASSWORD)
    keys.press("Enter")
    page.wait_for_url("**/inbox/")
    page.wait_for_selector("html[data-ready]")
    keys.press("g")
    keys.press("n")
    page.wait_for_url("**/now/")
    page.wait_for_selector("html[data-ready]")
    keys.press("g")
    keys.press("i")
    page.wait_for_url("**/inbox/")
    page.wait_for_selector("html[data-ready]")
    keys.press("j")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Book the <b>trip</b>")
    assert state_of(screen) == "pending", "opening a request decides nothing"
    tab_to(screen, "Approve EUR 412.60")
    keys.press("Enter")
    expect(page.locator(".toast")).to_contain_text("Approved. The step goes on.")
    assert state_of(screen) == "approved"


def test_a_double_click_decides_once(screen: Screen):
    screen.sign_in("approver")
    screen.open("/inbox/")
    screen.page.locator("a.go").first.click()
    screen.page.get_by_role("button", name=re.compile("^Approve")).first.dblclick()
    expect(screen.page.locator(".chip").first).to_contain_text("approved")
    with tenant_tx(screen.made.tenant.id):
        assert Request.objects.get(run_id=screen.made.runs["asks"]).decisions.count() == 1


def test_a_dialog_names_what_follows_and_can_be_left(screen: Screen):
    run = screen.made.runs["asks"]
    screen.sign_in("oncall")
    screen.open(f"/runs/{run}/steps/")
    screen.page.get_by_role("button", name="Cancel run…").first.click()
    dialog = screen.page.locator("#dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("steps that have not started")
    expect(dialog.get_by_role("link", name=re.compile("^Keep"))).to_be_focused()
    assert screen.violations() == []
    screen.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    assert screen.made.engine.run(run).status == "waiting_approval"
    screen.page.get_by_role("button", name="Cancel run…").first.click()
    dialog.get_by_label("Reason").fill("the passenger withdrew")
    dialog.get_by_role("button", name="Cancel run", exact=True).click()
    expect(screen.page.locator(".toast")).to_contain_text("is now cancelled")
    assert screen.made.engine.run(run).status == "cancelled"


def test_a_double_click_in_a_dialog_sends_once(screen: Screen):
    sent: list[str] = []
    screen.sign_in("oncall")
    page = screen.open(f"/runs/{screen.made.runs['asks']}/steps/")
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.get_by_role("button", name="Pause…").first.click()
    page.locator("#dialog").get_by_role("button", name="Pause", exact=True).dblclick()
    expect(page.locator(".toast")).to_contain_text("is now paused")
    assert len(sent) == 1


def test_a_stale_dialog_shows_what_changed_and_keeps_the_text(screen: Screen):
    run = screen.made.runs["asks"]
    screen.expected.add(409)
    screen.sign_in("oncall")
    screen.open(f"/runs/{run}/steps/")
    screen.page.get_by_role("button", name="Cancel run…").first.click()
    dialog = screen.page.locator("#dialog")
    dialog.get_by_label("Reason").fill("the passenger withdrew")
    pause_run(actor=screen.made.engine.actor, run_id=run, reason="fare desk asked")
    dialog.get_by_role("button", name="Cancel run", exact=True).click()
    expect(dialog).to_contain_text("This moved while you read. Nothing was done.")
    expect(dialog).to_contain_text("fare desk asked")
    expect(dialog.get_by_role("alert")).to_be_focused()
    expect(dialog.get_by_label("Reason")).to_have_value("the passenger withdrew")
    assert screen.made.engine.run(run).status == "paused"


def test_a_right_that_is_gone_is_told_inside_the_dialog(screen: Screen):
    run = screen.made.runs["asks"]
    screen.expected.add(403)
    screen.sign_in("oncall")
    page = screen.open(f"/runs/{run}/steps/")
    page.get_by_role("button", name="Cancel run…").first.click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill("the passenger withdrew")
    with tenant_tx(screen.made.tenant.id, using="owner"):
        Membership.objects.using("owner").filter(role="oncall", ended_at=None).update(role="viewer")
    dialog.get_by_role("button", name="Cancel run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_focused()
    expect(dialog.get_by_label("Reason")).to_have_value("the passenger withdrew")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Pause…").first.click()
    expect(dialog.get_by_role("alert")).to_be_focused()
    assert screen.violations() == []
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).not_to_be_visible()
    assert screen.made.engine.run(run).status == "waiting_approval"


def test_a_lost_request_says_that_nothing_is_known(screen: Screen):
    screen.sign_in("oncall")
    page = screen.open(f"/runs/{screen.made.runs['asks']}/steps/")
    page.get_by_role("button", name="Pause…").first.click()
    dialog = page.locator("#dialog")
    send = dialog.get_by_role("button", name="Pause", exact=True)
    lost = lambda route: route.abort() if route.request.method == "POST" else route.continue_()  # noqa: E731
    page.route("**/verbs/pause/", lost)
    send.click()
    expect(dialog.get_by_role("alert")).to_contain_text("Not known whether it was done; look again.")
    expect(dialog.get_by_role("alert")).to_be_focused()
    page.unroute("**/verbs/pause/")
    send.click()
    expect(page.locator(".toast")).to_contain_text("is now paused")
    # What browser and htmx log of it themselves.
    screen.complaints = [one for one in screen.complaints if "ERR_FAILED" not in one and "error: htmx:" not in one]


def test_the_palette_finds_pages_and_things(screen: Screen):
    screen.sign_in("viewer")
    screen.open("/now/")
    keys = screen.page.keyboard
    keys.press("Control+k")
    expect(screen.page.locator("#palette")).to_be_visible()
    keys.type("4711")
    expect(screen.page.locator("#palette [role=option]").first).to_contain_text("Trip 4711")
    keys.press("Enter")
    screen.page.wait_for_url(f"**/runs/{screen.made.runs['asks']}/")
    screen.page.wait_for_selector("html[data-ready]")
    keys.press("/")
    keys.type("workfl")
    keys.press("Enter")
    screen.page.wait_for_url("**/workflows/")
    screen.page.wait_for_selector("html[data-ready]")
    keys.press("?")
    expect(screen.page.locator("#shortcuts")).to_be_visible()


def test_a_search_that_is_not_answered_says_so_and_goes_on(screen: Screen):
    screen.sign_in("viewer")
    screen.open("/now/")
    screen.page.keyboard.press("Control+k")
    palette, asked = screen.page.locator("#palette"), screen.page.locator("#palette input")
    # A session that is over leads to the sign-in page; a database that is away answers 503.
    screen.expected.add(503)
    for status, body in ((200, "<html>"), (503, "{}")):
        screen.page.route("**/search.json*", lambda route, _request, s=status, b=body: route.fulfill(status=s, body=b))
        asked.fill(f"4711 {status}")
        expect(palette).to_contain_text("The search did not answer.")
        screen.page.unroute("**/search.json*")
    asked.fill("4711")
    expect(palette.get_by_role("option").first).to_contain_text("Trip 4711")
    expect(palette.locator(".away")).to_be_hidden()


def test_no_single_key_acts(screen: Screen):
    """Every letter and digit pressed on a run's page sends nothing but reads."""
    sent: list[str] = []
    screen.sign_in("admin")
    screen.page.on("request", lambda request: sent.append(request.method))
    screen.open(f"/runs/{screen.made.runs['asks']}/steps/")
    for key in "abcdefhlmopqrstuvwxyz0123456789":
        screen.page.keyboard.press(key)
    for key in ("Delete", "Backspace", "Escape", "Space"):
        screen.page.keyboard.press(key)
    screen.page.wait_for_timeout(200)
    assert set(sent) <= {"GET"}


def test_the_drawer_opens_beside_the_page_and_has_an_address(screen: Screen):
    run = screen.made.runs["failed"]
    screen.sign_in("oncall")
    screen.open(f"/runs/{run}/steps/")
    screen.page.locator("a.go", has_text="a").first.click()
    drawer = screen.page.locator("#drawer")
    expect(drawer.get_by_role("heading", level=2)).to_have_text("a")
    expect(drawer).to_contain_text("server_error")
    assert "step=a" in screen.page.url
    drawer.get_by_role("link", name="Attempts").click()
    expect(drawer).to_contain_text("Attempt 1")
    screen.page.reload()
    expect(screen.page.locator("#drawer").get_by_role("heading", level=2)).to_have_text("a")
    screen.page.wait_for_selector("html[data-ready]")
    screen.page.keyboard.press("Escape")
    expect(screen.page.locator("#drawer [data-drawer-close]")).to_have_count(0)


def test_a_step_opened_under_a_tab_leaves_the_tab_there(screen: Screen):
    """The page goes on refreshing itself: it stays the tab, also when the step's own tabs are used."""
    run = screen.made.runs["retries"]
    screen.sign_in("oncall")
    page = screen.open(f"/runs/{run}/steps/?status=waiting")
    page.locator("a.go", has_text="a").first.click()
    drawer = page.locator("#drawer")
    expect(drawer.get_by_role("heading", level=2)).to_have_text("a")
    expect(page).to_have_url(re.compile(r"/steps/\?status=waiting&step=a$"))
    drawer.get_by_role("link", name="Attempts").click()
    expect(drawer).to_contain_text("Attempt 1")
    expect(page).to_have_url(re.compile(r"/steps/\?status=waiting&step=a&part=attempts$"))
    with page.expect_response(lambda answer: "x-refresh" in answer.request.headers) as refreshed:
        pass
    assert "/steps/" in refreshed.value.url
    expect(page.locator("main table a.go").first).to_be_visible()
    expect(page.locator("main .lanes")).to_have_count(0)
    drawer.locator("[data-drawer-close]").click()
    expect(page).to_have_url(re.compile(r"/steps/\?status=waiting$"))


def test_the_clock_goes_by_the_chosen_zone_not_the_browsers(screen: Screen, browser: Browser):
    screen.sign_in("viewer")
    context = browser.new_context(timezone_id="Asia/Kolkata")
    context.add_cookies(screen.context.cookies())  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{screen.site.url}/now/")
    shows = """(zone) => document.querySelector("[data-clock]").textContent.slice(0, 5)
      === new Date().toLocaleTimeString("en-GB", { timeStyle: "short", timeZone: zone })"""
    page.wait_for_function(shows, arg="UTC")
    assert page.evaluate("() => Intl.DateTimeFormat().resolvedOptions().timeZone") in ("Asia/Kolkata", "Asia/Calcutta")
    page.locator(".bar details.menu summary").click()
    page.get_by_role("button", name="Asia/Shanghai").click()
    page.wait_for_function(shows, arg="Asia/Shanghai")
    context.close()


def test_what_is_ticked_stays_ticked_while_the_page_keeps_itself_fresh(screen: Screen):
    """Each refresh of the inbox reads its rows anew: not those that somebody is choosing."""
    screen.sign_in("approver")
    page = screen.page
    page.clock.install()
    screen.open("/inbox/")
    box = page.get_by_role("checkbox").first
    box.check()
    page.evaluate("() => document.activeElement.blur()")
    for _ in range(3):
        with page.expect_response(lambda answer: "x-refresh" in answer.request.headers):
            page.clock.run_for(6_000)
    expect(box).to_be_checked()


def test_a_list_says_how_old_it_is_and_counts_what_is_new(screen: Screen):
    screen.sign_in("viewer")
    screen.open("/runs/")
    expect(screen.page.locator("#live")).to_contain_text("old")
