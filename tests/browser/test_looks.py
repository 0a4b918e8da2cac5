"""Every page as people meet it: readable, reachable, on a phone, in the dark, in Chinese, without a complaint."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import resolve, reverse
from playwright.sync_api import expect

from approvals.actions.delegations import add_delegation, end_delegation
from approvals.models import Request
from dashboard import urls
from dashboard.pages.ask_acts import KINDS
from dashboard.pages.step import PARTS
from dashboard.presenters.consequences import RUN_VERBS, STEP_VERBS, question
from repair.actions.bulk import prepare_bulk
from repair.actions.claim import claim_case
from repair.actions.open import open_case
from repair.actions.runbooks import write_runbook
from runtime.actions.limits import set_limit
from runtime.actions.stops import set_stop
from runtime.models import Breaker, Step
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.alarms import about, alert, heal
from tests.support.pages import Reader, Scene
from tests.support.patience import patient
from tests.support.screens import Screen, settles

# The browser tells the status of the pages that say what is missing, and of acts that do not fit.
REFUSED = {403, 404, 409}
# Addresses that answer with a page and are no page of their own, and why.
PARTS_OF_PAGES = {
    "run-drawer": "the drawer alone; it is looked at on the run's page",
    "step": "leads to the run's page with the drawer open",
}
FORM = {
    "type": "object",
    "required": ["seat"],
    "properties": {"seat": {"type": "string"}, "bags": {"type": "integer"}, "meal": {"enum": ["none", "vegan"]}},
}
TABS = ("graph", "timeline", "steps", "events", "operations", "approvals", "repairs", "artifacts", "why", "audit")


def pages(made: Scene) -> list[str]:
    """Return every page of the console, each once."""
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    run, failed = made.runs["asks"], made.runs["failed"]
    desk = member(made.tenant, "oncall")
    step = made.engine.step(failed, "a").id
    case = open_case(actor=desk, run_id=failed, step_id=step, reason="The customer calls.")["case_id"]
    claim_case(actor=desk, case_id=uuid.UUID(case))
    bulk = prepare_bulk(actor=desk, resolution="keep_pending", filter={}, reason="Wait for the bank.", hours=4.0)
    book = "# Ask first\n\n- the shop\n- the bank\n\n```\nrun rebuild\n```"
    write_runbook(actor=member(made.tenant, "admin"), tool="core.echo", error_class="", text=book, expected_version=0)
    bound(made)
    lend(made)
    set_stop(actor=desk, scope="workflow", name="trip", reason="The airline books every trip twice, says its desk.")
    warn(made)
    return [
        "/now/",
        "/alerts/",
        "/alerts/?state=all&within=all",
        "/runs/",
        "/runs/?status=compensating",
        *[f"/runs/{run}/{tab}/" for tab in TABS],
        f"/runs/{run}/?until=3",
        f"/runs/{failed}/steps/?step=a",
        *[f"/runs/{failed}/?step=a&part={part}" for part in PARTS],
        *[f"/runs/{run}/verbs/{verb}/" for verb in RUN_VERBS],
        *[f"/steps/{step}/verbs/{verb}/" for verb in STEP_VERBS],
        f"/steps/{made.engine.step(made.runs['runs'], 'a').id}/verbs/kill/",
        f"/steps/{made.engine.step(made.runs['held'], 'b').id}/verbs/skip/",
        f"/inbox/{asked(made)}/",
        f"/tasks/{made.engine.run(run).task_id}/",
        "/tasks/",
        "/inbox/",
        "/inbox/statistics/",
        "/delegations/",
        "/delegations/?view=ended",
        "/repairs/",
        "/repairs/shift/",
        "/repairs/several/?kind=by_hand",
        f"/repairs/several/{bulk['bulk_id']}/",
        "/repairs/runbooks/?tool=core.echo",
        "/repairs/escalation/",
        f"/repairs/{case}/",
        f"/inbox/{request.id}/",
        "/workflows/",
        "/workflows/trip/",
        "/workflows/trip/start/",
        "/tools/",
        "/tools/core.echo/",
        "/workers/",
        "/members/",
        "/members/groups/",
        "/tokens/",
        "/password/",
        "/policy/",
        "/webhooks/",
        "/stops/",
        "/limits/?scope=tool&name=core.echo",
        "/messages/",
        *[f"/inbox/{request.id}/acts/{name}/" for name in KINDS],
        "/no/such/page/",
        f"/runs/{uuid.uuid4()}/",
        "/audit/",
        "/states/",
    ]


def asked(made: Scene) -> uuid.UUID:
    """Ask for an input and return the request's id."""
    nodes = [{"id": "which", "kind": "input", "title": "Which seat?", "role": "admin", "form": FORM}]
    run_id = made.engine.submit({"format": "quarterdeck/1", "name": "seats", "nodes": nodes}, {}, name="Seats")
    with tenant_tx(made.tenant.id):
        return Request.objects.get(run_id=run_id).id


def warn(made: Scene) -> None:
    """Let alerts be open about what has a page, one of them long, and one healed."""
    failed = made.runs["failed"]
    alert(made.tenant, "worker_lost", about("worker", label="process 7: lease_lost"), severity="critical")
    alert(made.tenant, "circuit_open", about("breaker", label="timeout: 7 failures"))
    alert(made.tenant, "queue_full", about("queue", label="steps of this tenant that wait: 9000"))
    many = [about("run", failed, f"the other side answered 500 to call {n} of the night's many") for n in range(9)]
    alert(made.tenant, "failed_runs", *many, count=41)
    heal(made.tenant, alert(made.tenant, "quarantined", about("message", label="mail: refused"), age=900))


def lend(made: Scene) -> None:
    """Let people decide in others' places: now, later, and no more."""
    ann, ben = member(made.tenant, "approver"), member(made.tenant, "approver")
    with tenant_tx(made.tenant.id) as tx:
        at = tx.now()
    for first, last in ((0, 9), (9, 12), (0, 3)):
        times = {"starts_at": at + timedelta(days=first), "ends_at": at + timedelta(days=last)}
        given = add_delegation(actor=ann, to=ben.name, reason="On leave; the bank's questions go to Ben.", **times)
        ann, ben = ben, member(made.tenant, "approver")
    end_delegation(actor=member(made.tenant, "admin"), delegation_id=uuid.UUID(given["delegation_id"]))


def bound(made: Scene) -> None:
    """Set a limit and let a breaker be open, another one count."""
    set_limit(actor=member(made.tenant, "admin"), scope="tool", name="core.echo", most=4, reason="a small shop")
    with tenant_tx(made.tenant.id) as tx:
        at = tx.now()
        rows = (("core.echo@1", "timeout", "open"), ("core.echo@1", "network", "closed"))
        for tool, error_class, state in rows:
            Breaker.objects.get_or_create(
                tenant=made.tenant, tool=tool, error_class=error_class,
                defaults={"state": state, "failures": 7, "last_failure_at": at, "opened_at": at, "open_until": at},
            )  # fmt: skip


def test_every_page_of_the_console_is_looked_at(made: Scene):
    """One of each address that answers GET with a page is in the list above; what acts or is a file is no page."""
    looked = {resolve(path.partition("?")[0]).url_name for path in pages(made) if not path.startswith("/no/")}
    samples = {"kind": "json", "tab": "graph", "name": "trip", "number": 1}
    reader, missing = Reader(made.tenant, "admin"), []
    for one in urls.urlpatterns:
        kwargs = {
            name: uuid.uuid4() if type(converter).__name__ == "UUIDConverter" else samples.get(name, "x")
            for name, converter in one.pattern.converters.items()
        }
        answer = reader.client.get(reverse(one.name, kwargs={**kwargs, **one.default_args}))
        is_page = answer.status_code not in (302, 405) and answer["Content-Type"].startswith("text/html")
        if is_page and one.name not in looked:
            missing.append(one.name)
    assert sorted(missing) == sorted(PARTS_OF_PAGES)


def heading_of(page: str) -> str:
    """Return what a page's one heading of the first level says."""
    found = re.findall(r"<h1\b[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert len(found) == 1, found
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def test_every_page_has_one_heading_that_names_its_act_and_its_subject(made: Scene):
    reader, stranger = Reader(made.tenant, "admin"), Client()
    assert heading_of(stranger.get("/sign-in/").content.decode())
    steps = {str(step): name for step, name in steps_of(made)}
    for path in pages(made):
        page = reader.get(path, None)
        heading = heading_of(page)
        assert heading, path
        kind, _slash, rest = path.strip("/").partition("/")
        act = rest.rpartition("/")[2]
        if "/verbs/" in path or "/acts/" in path:
            # Their names in the window and the history of a browser tell them apart as well.
            [name] = re.findall(r"<title>(.*?) · Quarterdeck</title>", page, re.DOTALL)
            assert " ".join(unescape(name).split()) == heading, path
        if "/verbs/" in path:
            subject = steps[rest[:36]] if kind == "steps" else heading_of(reader.get(f"/runs/{rest[:36]}/"))
            assert heading == question(act, subject, "step" if kind == "steps" else "run"), path
        if "/acts/" in path:
            assert heading == f"{KINDS[act].word}: {heading_of(reader.get(f'/inbox/{rest[:36]}/'))}", path


def steps_of(made: Scene) -> list[tuple[uuid.UUID, str]]:
    """Return (id, node) of every step of the scene."""
    with tenant_tx(made.tenant.id):
        return list(Step.objects.values_list("id", "node"))


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_finding(screen: Screen, theme: str):
    screen.prefer(theme=theme)
    screen.expected |= REFUSED
    screen.page.goto(f"{screen.site.url}/sign-in/")
    assert screen.violations() == []
    screen.sign_in("admin")
    for path in pages(screen.made):
        screen.open(path)
        assert screen.violations() == [], path
        assert screen.lengthened() == [], path


@pytest.mark.slow
def test_nothing_scrolls_sideways_on_a_phone(screen: Screen):
    screen.page.set_viewport_size({"width": 390, "height": 844})
    screen.page.goto(f"{screen.site.url}/sign-in/")
    assert screen.overflow() == []
    screen.expected |= REFUSED
    screen.sign_in("admin")
    for path in pages(screen.made):
        screen.open(path)
        assert screen.overflow() == [], path
        assert screen.lengthened() == [], path
        assert screen.small_targets() == [], path


@pytest.mark.slow
def test_every_page_speaks_chinese(screen: Screen):
    screen.expected |= REFUSED
    screen.sign_in("admin")
    screen.prefer(language="zh-hans", zone="Asia/Shanghai")
    for path in pages(screen.made):
        page = screen.open(path)
        assert page.locator("html").get_attribute("lang") == "zh-hans"
        if not page.locator(".side").count():
            continue  # an address that leads nowhere belongs to no tenant
        assert "Asia/Shanghai" in page.locator(".bar").inner_text()
        words = page.locator(".side").inner_text()
        assert "待办" in words
        assert "Inbox" not in words
    screen.open("/inbox/")
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("待办")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_pages_that_a_form_leads_to_have_no_serious_finding(screen: Screen, width: int, theme: str):
    screen.page.set_viewport_size({"width": width, "height": 900})
    screen.prefer(theme=theme)
    screen.expected |= {400, *REFUSED}
    screen.sign_in("admin")

    def look(what: str) -> None:
        screen.page.wait_for_selector("html[data-ready]")
        assert screen.violations() == [], what
        assert screen.overflow() == [], what

    screen.open("/runs/")
    look("the list to choose from")
    screen.page.locator("input[name=run]").first.check()
    screen.page.get_by_text("Act on several…").click()
    screen.page.locator("button[name=verb][value=pause]").click()
    expect(screen.page.locator("#dialog-title")).to_be_visible()
    look("the preview of several runs")
    screen.page.get_by_label("Reason").fill("the ledger is being moved")
    screen.page.locator("button.btn-primary").click()
    expect(screen.page.get_by_role("status").first).to_be_visible()
    look("what became of several runs")
    screen.open("/inbox/")
    screen.page.locator("input[name=ask]").first.check()
    screen.page.get_by_role("button", name="Decide several…").click()
    expect(screen.page.locator("#dialog-title")).to_be_visible()
    look("several requests")
    screen.page.locator("button[value=reject]").click()
    look("several requests without a word")
    for path in ("/tokens/", "/members/", "/stops/", "/webhooks/", "/limits/", "/alerts/", "/delegations/"):
        screen.open(path)
        screen.page.locator("main form[novalidate] button[type=submit]").last.click()
        expect(screen.page.locator("main .err").first).to_be_visible()
        look(f"{path} refused")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1440, "dark"), (390, "light")])
def test_what_opens_on_a_page_has_no_serious_finding(screen: Screen, width: int, theme: str):
    """Menus, and the forms of the acts on a case: each opened alone, as a person does."""
    screen.page.set_viewport_size({"width": width, "height": 900})
    screen.prefer(theme=theme)
    screen.sign_in("admin")
    every = pages(screen.made)
    cases = [path for path in every if path.startswith("/repairs/") and path.count("-") == 4 and path.count("/") == 3]
    lists = ("repairs", "tasks", "alerts", "stops", "limits", "members", "messages", "delegations")
    for path in (*cases, *(f"/{name}/" for name in lists)):
        page = screen.open(path)
        closed = page.locator("main details:not([open]) > summary:visible")
        for at in range(min(closed.count(), 8)):
            screen.open(path)
            page.locator("main details:not([open]) > summary:visible").nth(at).click()
            assert screen.violations() == [], (path, at)
            assert screen.overflow() == [], (path, at)


def test_the_dark_is_dark_and_the_system_decides_by_default(screen: Screen):
    ground = "() => getComputedStyle(document.querySelector('.main')).backgroundColor"
    screen.sign_in("viewer")
    screen.page.emulate_media(color_scheme="dark")
    settles(screen.open("/now/"), ground, "rgb(17, 21, 26)")
    screen.page.emulate_media(color_scheme="light")
    settles(screen.page, ground, "rgb(255, 255, 255)")
    screen.page.click(".me > summary")
    screen.page.get_by_role("button", name="Dark").click()
    screen.page.wait_for_selector('html[data-theme="dark"]')
    settles(screen.page, ground, "rgb(17, 21, 26)")


def test_the_reference_of_the_api_runs_under_its_own_policy(screen: Screen):
    screen.page.goto(f"{screen.site.url}/api/v1/docs/")
    expect(screen.page.locator("#swagger-ui .info .title")).to_contain_text("Quarterdeck", timeout=1_000 * patient(30))
    screen.page.locator("#swagger-ui .opblock-summary").first.click()
    expect(screen.page.locator("#swagger-ui .opblock-body").first).to_be_visible()


def test_fonts_come_from_here(screen: Screen):
    hosts: set[str] = set()
    screen.page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    screen.sign_in("viewer")
    page = screen.open("/runs/")
    assert page.evaluate("() => document.fonts.ready.then(() => document.fonts.check('13px Geist'))")
    assert hosts == {f"127.0.0.1:{screen.site.port}"}


def test_motion_stops_for_those_who_ask(screen: Screen):
    screen.page.emulate_media(reduced_motion="reduce")
    screen.sign_in("viewer")
    screen.open("/now/")
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    settles(screen.page, moving, 0)
