"""The live graph in a real Chromium: it moves with the run, survives what happens to connections, obeys every hand."""

from __future__ import annotations

import re
import signal
import uuid
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from runtime.actions.hold import hold_step
from runtime.actions.skip import skip_step
from runtime.graph.layout import FORMAT, shape_of
from runtime.graph.plans import plan_of
from runtime.models import Membership, Step
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.layouts import drawings
from tests.support import dags
from tests.support.pages import Scene
from tests.support.patience import patient
from tests.support.screens import Screen, settles
from tests.support.specs import tool, workflow
from tests.support.web import Web

pytestmark = [pytest.mark.req("A9.7", "C6.2", "B1.2")]
LIVE = '#graph[data-state="live"]'


def chain(n: int = 4, **more: Any) -> dict[str, Any]:
    nodes = [tool(f"n{i}", *([f"n{i - 1}"] if i else [])) for i in range(n)]
    return workflow(*nodes, name=f"chain{n}", **more)


def watch(screen: Screen, run_id: uuid.UUID, query: str = "") -> Page:
    """Open a run's graph and wait until it is live."""
    screen.open(f"/runs/{run_id}/{query}")
    screen.page.wait_for_selector(LIVE)
    return screen.page


def draw(made: Scene, run_id: uuid.UUID) -> None:
    """Draw a run's graph as the layout duty does, and none of those that other tests left undrawn."""
    version = made.engine.run(run_id).workflow_version_id
    with tenant_tx(made.tenant.id, using="owner") as tx:
        (drawing,) = drawings([shape_of(plan_of(tx, version))], seconds=patient(20))
        tx.send("store_layout", (version, made.tenant.id, FORMAT, drawing))


def box(page: Page, name: str) -> Locator:
    return page.locator(".nd", has=page.locator("text.nt", has_text=re.compile(f"^{re.escape(name)}$")))


def states(page: Page) -> dict[str, str]:
    """Return node → state as the picture shows it."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.nd')].map((one) => [
          one.node.id, one.getAttribute('class').match(/st-(\\w+)/)[1]]))"""
    )


def chips(page: Page) -> dict[str, int]:
    """Return state → count as the filters show it."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.tools .filter')].filter((one) => !one.hidden)
          .map((one) => [one.querySelector('use').getAttribute('href').slice(3), Number(one.innerText)]))"""
    )


def seq_of(page: Page, seq: int) -> None:
    """Wait until the picture includes a seq."""
    page.wait_for_function("(seq) => Number(document.getElementById('graph').dataset.seq || 0) >= seq", arg=seq)


def act(made: Scene, verb: Any, run_id: uuid.UUID, node: str) -> None:
    made.engine.act(verb, run_id, node)


def test_the_picture_moves_with_the_run_and_agrees_with_it(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    assert states(page) == {"n0": "queued", "n1": "waiting", "n2": "waiting", "n3": "waiting"}
    engine.claim()
    expect(box(page, "n0")).to_have_class(re.compile("st-running"))
    expect(box(page, "n0").locator(".ns")).to_contain_text(re.compile(r"tool · running \d"))
    engine.finish("n0")
    engine.finish("n1", "failed")
    seq_of(page, engine.run(run_id).seq)
    assert states(page) == {name: state.split("(")[0] for name, state in engine.statuses(run_id).items()}
    assert chips(page) == {"succeeded": 1, "failed": 1, "skipped": 2}
    expect(box(page, "n2").locator(".ns")).to_contain_text("upstream failed")
    expect(page.locator(".rh .chip").first).to_contain_text("failed")
    expect(page.locator('.tabs a[href$="/events/"] .n')).to_have_text(str(engine.run(run_id).seq))
    page.reload()
    page.wait_for_selector(LIVE)
    assert states(page)["n1"] == "failed"


def test_two_browsers_see_the_same(screen: Screen, browser: Any):
    engine = screen.made.engine
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(12)), name="dozen"))
    screen.sign_in("viewer")
    one = watch(screen, run_id)
    context: BrowserContext = browser.new_context()
    context.add_cookies(screen.context.cookies())  # type: ignore[arg-type]
    two = context.new_page()
    two.goto(f"{screen.site.url}/runs/{run_id}/")
    two.wait_for_selector(LIVE)
    for i in range(12):
        engine.finish(f"n{i}", "failed" if i % 5 == 2 else "succeeded")
    for page in (one, two):
        seq_of(page, engine.run(run_id).seq)
    assert states(one) == states(two) == {k: v.split("(")[0] for k, v in engine.statuses(run_id).items()}
    context.close()


@pytest.mark.slow
def test_a_lost_server_is_said_and_then_caught_up_with(screen: Screen, database: Any):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("viewer")
    with Web(database) as own:
        screen.site = own
        page = watch(screen, run_id)
        own.stop(signal.SIGKILL)
        expect(page.locator("#graph")).to_have_attribute("data-state", "lost", timeout=1_000 * patient(10))
        expect(page.locator("#live")).to_contain_text("Reconnecting")
        engine.finish("n0")
        assert states(page)["n0"] == "queued", "nothing is invented while nothing is known"
        own.start()
        page.wait_for_selector(LIVE, timeout=1_000 * patient(20))
        seq_of(page, engine.run(run_id).seq)
        assert states(page)["n0"] == "succeeded"
        engine.finish("n1")
        seq_of(page, engine.run(run_id).seq)
    # What the browser itself logs of refused connections is no fault of the page.
    screen.complaints = [one for one in screen.complaints if "WebSocket" not in one and "ERR_" not in one]


def test_offline_and_back(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    page.evaluate("() => document.getElementById('graph').graph.stream.socket.close()")
    engine.finish("n0")
    seq_of(page, engine.run(run_id).seq)
    page.wait_for_selector(LIVE)
    assert states(page)["n0"] == "succeeded"


def test_paused_it_stands_still_and_says_so(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    page.locator("#live").click()
    expect(page.locator("#live")).to_contain_text("Paused")
    engine.finish("n0")
    page.wait_for_timeout(600)
    assert states(page)["n0"] == "queued"
    expect(page.locator("#live")).to_contain_text(re.compile(r"[1-9]\d* s old"))
    page.locator("#live").click()
    seq_of(page, engine.run(run_id).seq)
    assert states(page)["n0"] == "succeeded"
    expect(page.locator("#live")).to_contain_text("Live")


def test_a_right_that_is_gone_ends_the_picture(screen: Screen, database: Any):
    made = screen.made
    run_id = made.engine.submit(chain())
    screen.sign_in("viewer")
    with Web(database, QUARTERDECK_LIVE_RECHECK_SECONDS="0.5") as own:
        screen.site = own
        page = watch(screen, run_id)
        with tenant_tx(made.tenant.id, using="owner") as tx:
            Membership.objects.using("owner").filter(role="viewer").update(ended_at=tx.now())
        expect(page.locator("#graph")).to_have_attribute("data-state", "gone", timeout=1_000 * patient(10))
        expect(page.locator("#graph .gnote")).to_contain_text("no longer kept live")


def test_by_keyboard_alone(screen: Screen):
    run_id = screen.made.engine.submit(chain())
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    page.locator(".canvas").focus()
    keys = page.keyboard
    keys.press("Enter")
    focused = "() => document.activeElement.node?.id"
    first = page.evaluate(focused)
    assert first in ("n0", "n1", "n2", "n3")
    for _ in range(4):
        keys.press("ArrowUp")
    settles(page, focused, "n0")
    keys.press("ArrowDown")
    settles(page, focused, "n1")
    keys.press("Enter")
    heading = page.locator("#drawer h2")
    expect(heading).to_have_text("n1")
    expect(heading).to_be_focused()
    assert "step=n1" in page.url
    page.locator("[data-drawer-close]").first.press("Enter")
    expect(page.locator("#drawer h2")).to_have_count(0)
    settles(page, focused, "n1")  # where the focus came from
    assert "step=" not in page.url
    before = page.locator(".zoom span").inner_text()
    keys.press("+")
    expect(page.locator(".zoom span")).not_to_have_text(before)
    keys.press("0")
    expect(page.locator(".zoom span")).to_have_text(before)


def test_the_step_of_the_address_is_open_and_follows_it(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.sign_in("oncall")
    page = watch(screen, run_id, "?step=n1")
    expect(page.locator("#drawer h2")).to_have_text("n1")
    expect(box(page, "n1")).to_have_class(re.compile(r"\bsel\b"))
    told = "() => { window.told = []; document.addEventListener('qd:step', (e) => window.told.push(e.detail.node)); }"
    page.evaluate(told)
    box(page, "n2").click()
    expect(page.locator("#drawer h2")).to_have_text("n2")
    settles(page, "() => window.told", ["n2"])
    page.go_back()
    expect(page.locator("#drawer h2")).to_have_text("n1")
    expect(box(page, "n1")).to_have_class(re.compile(r"\bsel\b"))
    engine.finish("n0")
    engine.finish("n1")
    expect(page.locator("#drawer")).to_contain_text("succeeded")


def test_search_filter_and_critical_path(screen: Screen):
    engine = screen.made.engine
    spec = workflow(
        tool("load"),
        tool("quick", "load"),
        tool("slow", "load"),
        tool("slower", "slow"),
        tool("end", "quick", "slower"),
        name="paths",
    )
    run_id = engine.submit(spec)
    for name in ("load", "quick", "slow"):
        engine.finish(name)
    engine.claim()
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    crit = "() => [...document.querySelectorAll('.nd.crit')].map((one) => one.node.id).sort()"
    settles(page, crit, ["end", "load", "slow", "slower"])
    page.get_by_role("button", name="Critical path").click()
    settles(page, crit, [])
    page.get_by_role("button", name="Critical path").click()
    page.locator(".tools .filter", has=page.locator('use[href="#m-succeeded"]')).click()
    expect(page.locator(".nd.dim")).to_have_count(2)
    page.locator(".tools .filter", has=page.locator('use[href="#m-succeeded"]')).click()
    field = page.get_by_role("searchbox")
    field.fill("slow")
    expect(page.locator(".findstep .n")).to_have_text("1 of 2")
    field.press("Enter")
    expect(page.locator(".findstep .n")).to_have_text("2 of 2")
    expect(box(page, "slower")).to_have_class(re.compile(r"\bsel\b"))
    field.press("Escape")
    expect(page.locator(".nd.dim")).to_have_count(0)
    field.fill("nothing like it")
    expect(page.locator(".findstep .n")).to_have_text("none")


def test_mouse_wheel_and_drag(screen: Screen):
    run_id = screen.made.engine.submit(chain())
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    where = "() => { const v = document.getElementById('graph').graph.view; return [v.x, v.y, v.k]; }"
    x, y, k = page.evaluate(where)
    area = page.locator(".canvas").bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 40, area["y"] + 40)
    page.mouse.down()
    page.mouse.move(area["x"] + 140, area["y"] + 90, steps=4)
    page.mouse.up()
    moved = page.evaluate(where)
    assert (round(moved[0] - x), round(moved[1] - y)) == (100, 50)
    page.mouse.wheel(0, 60)
    page.wait_for_function("(y) => document.getElementById('graph').graph.view.y < y - 50", arg=moved[1])
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_function("(k) => document.getElementById('graph').graph.view.k > k * 1.2", arg=k)
    assert "step=" not in page.url, "a drag is no click"


# Counts what a patch touches: sizes of the drawing, moves of it, and the most boxes changed in one frame.
WATCH = """() => {
  window.seen = { sizes: 0, moves: 0, most: 0 };
  const drawing = document.querySelector(".drawing"), world = drawing.querySelector("g");
  new ResizeObserver(() => { window.seen.sizes += 1; }).observe(drawing);
  new MutationObserver((changes) => {
    const boxes = new Set(changes.map((change) => change.target.parentElement?.closest(".nd")).filter(Boolean));
    window.seen.most = Math.max(window.seen.most, boxes.size);
    window.seen.moves += changes.filter((change) => change.target === world && change.type === "attributes").length;
  }).observe(drawing, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def test_a_graph_of_1695_steps_is_windowed_and_grouped_and_a_patch_touches_little(screen: Screen):
    made = screen.made
    run_id = made.engine.submit(dags.to_workflow(dags.load("wf-epigenomics-chameleon-ilmn-6seq-50k-001")))
    draw(made, run_id)
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    count = "() => document.querySelectorAll('#graph *').length"
    assert page.evaluate(count) < 400
    expect(page.locator(".nd")).to_have_count(9)
    box(page, "fast2bfq").click()
    page.wait_for_function("() => document.querySelectorAll('.nd').length > 12")
    assert page.evaluate(count) < 4000, "only what is in sight has elements"
    expect(page.locator(".mini canvas")).to_be_visible()
    with tenant_tx(made.tenant.id):
        queued = list(Step.objects.filter(run_id=run_id, status="queued").values_list("node", flat=True))
    page.wait_for_function(
        "() => { const { view, waiting } = document.getElementById('graph').graph; "
        "return !view.motion && !view.frame && !waiting; }"
    )
    page.evaluate(WATCH)
    for node in queued:
        made.engine.act(skip_step, run_id, node)
        page.wait_for_timeout(30)
    seq_of(page, made.engine.run(run_id).seq)
    seen = page.evaluate("() => window.seen")
    assert seen["sizes"] == 1, "a new size would have all of it laid out anew"
    assert seen["moves"] == 0, "nor is it moved"
    assert 0 < seen["most"] <= 40, "a patch touches what changed"
    assert chips(page)["skipped"] == len(queued)
    page.locator(".zoom button").last.click()
    page.wait_for_function("() => document.querySelectorAll('.nd').length === 0")
    assert page.evaluate(count) < 400, "far away every state is one path"
    page.get_by_role("button", name="Groups").click()
    expect(page.locator(".nd")).to_have_count(9)


def test_on_a_phone_it_is_a_list_of_lanes(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.page.set_viewport_size({"width": 390, "height": 844})
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    expect(page.locator(".lrow")).to_have_count(4)
    expect(page.locator(".canvas")).to_be_hidden()
    engine.finish("n0")
    expect(page.locator(".lrow").first).to_have_class(re.compile("st-succeeded"))
    assert screen.overflow() == []
    page.get_by_role("button", name="Map").click()
    expect(page.locator(".canvas")).to_be_visible()
    expect(box(page, "n0")).to_have_class(re.compile("st-succeeded"))
    page.get_by_role("button", name="List").click()
    page.locator(".lrow").nth(1).click()
    expect(page.locator("#drawer h2")).to_have_text("n1")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_calm_when_asked_and_without_serious_findings(screen: Screen, theme: str):
    engine = screen.made.engine
    run_id = engine.submit(workflow(tool("a"), tool("b"), tool("c", "a"), name="abc"))
    engine.claim()
    screen.page.emulate_media(reduced_motion="reduce")
    screen.prefer(theme=theme)
    screen.sign_in("admin")
    page = watch(screen, run_id)
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    settles(page, moving, 0)
    act(screen.made, hold_step, run_id, "c")
    expect(box(page, "c").locator(".ns")).to_contain_text("paused")
    assert screen.violations() == []


def test_in_chinese(screen: Screen):
    engine = screen.made.engine
    run_id = engine.submit(chain())
    screen.prefer(language="zh-hans")
    screen.sign_in("viewer")
    page = watch(screen, run_id)
    expect(box(page, "n0").locator(".ns")).to_contain_text("工具 · 排队中")
    expect(page.locator(".key")).to_contain_text("关键路径")
