"""The takeover drills: two people, each in a browser of their own, over one case; nothing is done twice (C8.5)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from approvals.duties import expire_requests
from approvals.models import Decision
from repair.duties import escalate_overdue
from repair.models import Entry
from runtime.actions.reruns import rerun_task
from runtime.models import Compensation
from runtime.store.tx import tenant_tx
from tests.support.db import Database
from tests.support.desk import Desk
from tests.support.pages import Scene
from tests.support.screens import Screen
from tests.support.web import Web

pytestmark = [pytest.mark.req("C8.5"), pytest.mark.timeout(280)]


@dataclass
class Drill:
    """A desk alone in its database, and two windows on it in which nobody has signed in yet."""

    desk: Desk
    one: Screen
    other: Screen

    def case(self, run_id: uuid.UUID) -> str:
        """Return the address of the run's open case."""
        return f"/repairs/{self.desk.case(run_id)['id']}/"

    def told(self, path: str, *types: str) -> list[Entry]:
        """Return what happened to a case, of these types."""
        with tenant_tx(self.desk.tenant.id):
            rows = Entry.objects.filter(case_id=path.split("/")[2], type__in=types).order_by("id")
            return list(rows)


@pytest.fixture
def drill(fresh_db: Database, tenant: Any, browser: Browser) -> Iterator[Drill]:
    desk = Desk(tenant)
    with ExitStack() as open_ones:
        web = open_ones.enter_context(Web(fresh_db))
        screens = []
        for _ in range(2):
            context = browser.new_context()
            open_ones.callback(context.close)
            screens.append(Screen(web, context, context.new_page(), Scene(desk)))
        yield Drill(desk, *screens)
        assert [screen.complaints for screen in screens] == [[], []]


# -- what a person does on a case's page


def claim(page: Page) -> None:
    page.get_by_role("button", name="Claim", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("The case is yours")


def record(page: Page, answer: str, reference: str = "") -> None:
    """Say what was seen outside."""
    page.locator("details.seen").evaluate("node => { node.open = true; }")
    page.locator("#answer").select_option(answer)
    page.locator("#reference").fill(reference)
    page.locator("#source").fill("the shop's books")
    page.locator("#evidence").fill(f"they say {answer}")
    page.get_by_role("button", name="Record", exact=True).click()


def recorded(page: Page) -> None:
    expect(page.locator(".toast")).to_contain_text("Recorded under your name")


def propose(page: Page, move: str, *, twice: bool = False) -> None:
    """Open a move, give the reason and send it, with a double click where that is asked for."""
    reason = page.locator(f"#reason-{move}")
    reason.locator("xpath=ancestor::details").evaluate("node => { node.open = true; }")
    reason.fill("looked it up")
    button = reason.locator("xpath=ancestor::form").get_by_role("button")
    if twice:
        button.dblclick()
    else:
        button.click()


def approve(page: Page, *, twice: bool = False) -> None:
    button = page.get_by_role("button", name="Approve and carry out")
    if twice:
        button.dblclick()
    else:
        button.click()
    expect(page.locator("main header .chip").first).to_contain_text("Resolved")


def hand_over(page: Page, to: str) -> None:
    page.get_by_text("Hand over…").click()
    page.locator("#to").select_option(to)
    page.locator("#why-over").fill("the shift ends")
    page.get_by_role("button", name="Hand over", exact=True).click()
    expect(page.locator(".toast")).to_contain_text(f"Handed over to {to}")


def refused(page: Page, *words: str) -> None:
    """The page says that nothing was done, and why."""
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done.")
    for one in words:
        expect(page.get_by_role("alert")).to_contain_text(one)


def in_review(page: Page) -> None:
    expect(page.locator("main header .chip").first).to_contain_text("In review")


# -- the drills


def test_a_case_is_handed_over_in_the_middle(drill: Drill):
    desk, ada, bob = drill.desk, drill.one, drill.other
    run_id = desk.lost("human")
    path = drill.case(run_id)
    ada.sign_in("oncall")
    to = bob.sign_in("oncall")
    ada.open(path)
    claim(ada.page)
    record(ada.page, "done", "P-77")
    recorded(ada.page)
    # What she left open in another tab shows the case as it was hers.
    old = ada.context.new_page()
    old.goto(f"{ada.site.url}{path}")
    old.wait_for_selector("html[data-ready]")
    hand_over(ada.page, to)
    propose(old, "record_success")
    refused(old, to)
    bob.open(path)
    expect(bob.page.locator(".rp-r")).to_contain_text("Handed over")
    # What was seen so far is there, and needs not be typed again.
    expect(bob.page.locator("#external_ref")).to_have_value("P-77")
    propose(bob.page, "record_success", twice=True)
    in_review(bob.page)
    ada.open(path)
    approve(ada.page, twice=True)
    desk.work()
    assert (desk.run(run_id).status, desk.operation(run_id).sends) == ("completed", 1)
    assert [one.type for one in drill.told(path, "proposed", "resolved")] == ["proposed", "resolved"]
    epochs = [one.data["epoch"] for one in drill.told(path, "claimed", "handed_over")]
    assert epochs == [epochs[0], epochs[0] + 1], "the line of epochs has no gap"
    desk.check(run_id)


def test_an_approver_comes_back_after_the_deadline(drill: Drill, clock, as_role):
    desk, approver, oncall = drill.desk, drill.one, drill.other
    run_id = desk.ask()
    request = desk.pending(run_id)
    approver.sign_in("approver")
    oncall.sign_in("oncall")
    approver.expected.add(409)
    approver.open(f"/inbox/{request['id']}/")
    clock.advance(3601)
    with as_role("worker"):
        expire_requests()
    approver.page.get_by_role("button", name=re.compile("^Approve")).first.dblclick()
    expect(approver.page.locator("main")).to_contain_text("Decision is too late")
    desk.work()
    assert (desk.states(run_id), desk.sends(run_id)) == (["rejected"], {})
    oncall.open(f"/runs/{run_id}/approvals/")
    expect(oncall.page.locator("main")).to_contain_text("deadline passed")
    # Asked anew, it is decided anew: the word that came too late counts for nothing.
    again = uuid.UUID(str(rerun_task(actor=desk.admin, task_id=desk.run(run_id).task_id, reason="again")["run_id"]))
    desk.work()
    approver.open(f"/inbox/{desk.pending(again)['id']}/")
    approver.page.get_by_role("button", name=re.compile("^Approve")).first.dblclick()
    expect(approver.page.locator(".chip").first).to_contain_text("approved")
    desk.work()
    assert [number for key, number in desk.sends(again).items() if key.startswith("pay:")] == [1]
    with tenant_tx(desk.tenant.id):
        assert Decision.objects.count() == 1


def test_the_other_side_still_cannot_tell(drill: Drill, clock, as_role):
    desk, ada, bob = drill.desk, drill.one, drill.other
    run_id = desk.lost("human")
    path = drill.case(run_id)
    name = ada.sign_in("oncall")
    bob.sign_in("oncall")
    bob.expected.add(409)
    bob.open(path)
    ada.open(path)
    claim(ada.page)
    bob.page.get_by_role("button", name="Claim", exact=True).click()
    refused(bob.page, name)
    record(ada.page, "unknown")
    recorded(ada.page)
    for move in ("Record success", "Resume the step", "Confirm absent"):
        expect(ada.page.locator(".mv.off", has_text=move)).to_have_count(1)
    ada.page.locator("#hours").evaluate("node => { node.value = '24'; }")
    propose(ada.page, "keep_pending", twice=True)
    expect(ada.page.locator(".toast")).to_contain_text("Kept pending")
    assert len(drill.told(path, "kept_pending")) == 1
    bob.open("/repairs/shift/?hours=8")
    expect(bob.page.locator("main")).to_contain_text("Kept pending: looked it up")
    # A day later it is overdue, and on the first screen of both.
    clock.advance(25 * 3600)
    with as_role("worker"):
        escalate_overdue()
    for screen in (ada, bob):
        expect(screen.open("/now/").locator("main")).to_contain_text("desk.human@1")
    assert desk.operation(run_id).sends == 1
    ada.open(path)
    record(ada.page, "absent")
    recorded(ada.page)
    propose(ada.page, "resume_step", twice=True)
    in_review(ada.page)
    bob.open(path)
    approve(bob.page, twice=True)
    desk.work()
    assert (desk.run(run_id).status, desk.operation(run_id).sends) == ("completed", 2)
    desk.check(run_id)


def test_what_was_to_be_undone_cannot_be(drill: Drill):
    desk, ada, bob = drill.desk, drill.one, drill.other
    run_id = desk.lost("compensable")
    first = drill.case(run_id)
    ada.sign_in("oncall")
    bob.sign_in("oncall")

    def ordered(path: str, owner: Screen, second: Screen) -> None:
        owner.open(path)
        claim(owner.page)
        record(owner.page, "done", "P-77")
        recorded(owner.page)
        propose(owner.page, "compensate", twice=True)
        in_review(owner.page)
        second.open(path)
        approve(second.page, twice=True)

    ordered(first, ada, bob)
    [claimed] = [one for one in desk.claim() if one.node.id == "undo:pay"]
    desk.report(claimed, "failed")
    ada.open(first)
    expect(ada.page.locator("main")).to_contain_text("it failed")
    ada.page.get_by_role("link", name="the case about that").click()
    expect(ada.page.locator("main")).to_contain_text("Could not be undone")
    later = drill.case(run_id)
    assert ada.page.url.endswith(later)
    assert later != first
    ordered(later, bob, ada)
    with tenant_tx(desk.tenant.id):
        assert Compensation.objects.filter(run_id=run_id).count() == 2, "one order a case, however often it was clicked"
    desk.work()
    ada.open(f"/runs/{run_id}/repairs/")
    expect(ada.page.locator("main")).to_contain_text("undone by")
    assert desk.run(run_id).status == "failed"
    desk.check(run_id)


def test_its_owner_cannot_be_reached(drill: Drill, clock, as_role):
    desk, ada, chief = drill.desk, drill.one, drill.other
    run_id = desk.lost("human")
    path = drill.case(run_id)
    ada.sign_in("oncall")
    to = chief.sign_in("admin")
    ada.expected.add(409)
    ada.open(path)
    claim(ada.page)
    for hours in (1.1, 0.6, 0.6):
        clock.advance(hours * 3600)
        with as_role("worker"):
            escalate_overdue()
    assert [one.data["to"] for one in drill.told(path, "escalated")] == ["oncall", "admin", "admin"]
    chief.open("/repairs/?view=overdue")
    expect(chief.page.locator("main")).to_contain_text("desk.human@1")
    chief.page.locator("a.go").first.click()
    expect(chief.page).to_have_url(re.compile(re.escape(path)))
    before = drill.told(path, "claimed")[0].data["epoch"]
    hand_over(chief.page, to)
    assert drill.told(path, "handed_over")[0].data["epoch"] == before + 1
    # Her tab is still open; she is told, and does nothing with it.
    record(ada.page, "done", "P-1")
    refused(ada.page, to)
    record(chief.page, "absent")
    recorded(chief.page)
    propose(chief.page, "resume_step")
    in_review(chief.page)
    ada.open(path)
    approve(ada.page, twice=True)
    desk.work()
    assert (desk.run(run_id).status, desk.operation(run_id).sends) == ("completed", 2)
    desk.check(run_id)
