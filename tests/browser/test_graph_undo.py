"""Steps that undo an effect, drawn where their step is: live, by keyboard, on a phone, in the past, in large graphs."""

from __future__ import annotations

import re
import uuid
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from runtime.actions.runs import cancel_run
from runtime.tools.registry import register_tool
from runtime.worker.work import Claimed
from tests.browser.test_graph import LIVE, WATCH, chips, draw, seq_of, states, watch
from tests.support.operations import send
from tests.support.pages import Scene
from tests.support.screens import Screen, settles
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("A9.7", "B9.2", "C4.5")]
# Every box with its place and size in the drawing, and every line of it.
PLACES = """() => {
  const { source } = document.getElementById('graph').graph;
  return {
    boxes: source.nodes.map((n) => [n.id, n.x, n.y, ...(n.box || source.box)]),
    lines: source.edges.map((e) => e.points), size: [source.width, source.height] };
}"""

FOCUS = """(name) => {
  const { graph } = document.getElementById('graph');
  graph.scene.focus(graph.model.byId.get(name));
}"""


def tools(made: Scene) -> None:
    for name in ("effect", "undo"):
        register_tool(actor=made.engine.actor, contract={**python_tool("effect", writes=True), "name": f"test.{name}"})


def paid(made: Scene, run_id: uuid.UUID, *names: str) -> None:
    """Claim what is ready, and let steps of the run have their effect."""
    for claimed in made.engine.claim():
        if claimed.run_id == run_id and claimed.node.id in names:
            succeed(made, claimed)


def succeed(made: Scene, claimed: Claimed) -> None:
    key = claimed.undo.business_key if claimed.undo is not None else f"{claimed.node.id}:{claimed.run_id}"
    send(made.engine, claimed, key)
    made.engine.report(claimed, "succeeded", operation_status="succeeded")


def undone(made: Scene, run_id: uuid.UUID, most: int = 100) -> int:
    """Let effects be undone, the newest first, each when the one before it is; return how many were."""
    for done in range(most):
        claimed = [one for one in made.engine.claim() if one.run_id == run_id and one.undo is not None]
        if not claimed:
            return done
        succeed(made, claimed[0])
    return most


def undoes(id: str, *after: Any, **more: Any) -> dict[str, Any]:
    return tool(id, *after, tool="test.effect@1", compensation={"tool": "test.undo@1"}, **more)


def shop(made: Scene, **more: Any) -> uuid.UUID:
    """Submit book and pay side by side, and mail behind both; let both have their effect, pay the later one."""
    tools(made)
    nodes = [undoes("book"), undoes("pay", title="Pay the order"), tool("mail", "pay", "book")]
    run_id = made.engine.submit(workflow(*nodes, name="undone", defaults={"on_failure": "compensate"}, **more), {})
    ready = {one.node.id: one for one in made.engine.claim() if one.run_id == run_id}
    for name in ("book", "pay"):
        succeed(made, ready[name])
    return run_id


def cancel(made: Scene, run_id: uuid.UUID) -> None:
    cancel_run(actor=made.engine.actor, run_id=run_id, reason="")


def apart(page: Page) -> None:
    """Nothing that is drawn lies on anything else, and every line is straight."""
    found = page.evaluate(PLACES)
    boxes = found["boxes"]
    for at, (name, x, y, w, h) in enumerate(boxes):
        assert x >= 0, name
        assert y >= 0, name
        assert x + w <= found["size"][0], name
        assert y + h <= found["size"][1], name
        for other, ox, oy, ow, oh in boxes[at + 1 :]:
            assert x + w <= ox or ox + ow <= x or y + h <= oy or oy + oh <= y, (name, other)
    for points in found["lines"]:
        pairs = list(zip(points[::2], points[1::2], strict=True))
        for (ax, ay), (bx, by) in pairwise(pairs):
            assert abs(ax - bx) < 0.01 or abs(ay - by) < 0.01


def test_what_undoes_a_step_comes_live_and_hangs_on_it(screen: Screen):
    made = screen.made
    run_id = shop(made)
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    assert "undo:pay" not in states(page)
    before = page.evaluate(PLACES)
    page.evaluate(FOCUS, "mail")
    cancel(made, run_id)
    seq_of(page, made.engine.run(run_id).seq)
    assert page.evaluate("() => document.activeElement.node?.id") == "mail", "who walks by keyboard stays there"
    assert states(page)["undo:pay"] == "queued"
    apart(page)
    small = page.locator(".nd.undo").first
    expect(small).to_have_attribute("aria-label", re.compile("^Undoing: "))
    expect(page.locator(".edges path.e.e-undo")).to_have_attribute("d", re.compile("M"))
    after = page.evaluate(PLACES)
    assert len(after["boxes"]) > len(before["boxes"])
    at = {name: (x, y) for name, x, y, _w, _h in after["boxes"]}
    # Beneath or beside its step, and nearer to it than to any other.
    ax, ay = at["undo:pay"]
    far = {name: abs(ax - at[name][0]) + abs(ay - at[name][1]) for name in ("pay", "book", "mail")}
    assert min(far, key=lambda name: far[name]) == "pay"
    assert undone(made, run_id) == 2
    seq_of(page, made.engine.run(run_id).seq)
    expect(page.locator(".nd.undo.st-succeeded")).to_have_count(2)
    shown = states(page)
    assert shown == {name: state.split("(")[0] for name, state in made.engine.statuses(run_id).items()}
    assert sum(chips(page).values()) == len(shown)
    page.reload()
    page.wait_for_selector(LIVE)
    assert states(page) == shown
    apart(page)


def test_it_is_reached_and_opened_by_keyboard(screen: Screen):
    made = screen.made
    run_id = shop(made)
    cancel(made, run_id)
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    expect(page.locator(".canvas")).to_have_attribute("aria-label", re.compile("1 more undoes an effect"))
    along, across = (
        ("ArrowUp", "ArrowRight")
        if page.evaluate("() => document.getElementById('graph').graph.source.direction === 'TB'")
        else ("ArrowLeft", "ArrowDown")
    )
    focused = "() => document.activeElement.node?.id"
    page.evaluate(FOCUS, "pay")
    page.keyboard.press(across)
    settles(page, focused, "undo:pay")
    page.keyboard.press(along)
    settles(page, focused, "pay")
    page.keyboard.press(across)
    page.keyboard.press("Enter")
    expect(page.locator("#drawer h2")).to_have_text("Undoing: Pay the order")
    assert "step=undo%3Apay" in page.url
    page.keyboard.press("Escape")
    # Its address opens it again, and search finds it.
    undone(made, run_id)
    screen.open(f"/runs/{run_id}/?step=undo%3Abook")
    page.wait_for_selector(LIVE)
    expect(page.locator(".nd.undo.sel")).to_have_count(1)
    page.get_by_role("searchbox").fill("undoing")
    expect(page.locator(".findstep .n")).to_have_text("1 of 2")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_no_serious_finding_and_speaks_chinese(screen: Screen, theme: str):
    made = screen.made
    run_id = shop(made)
    cancel(made, run_id)
    screen.prefer(theme=theme, language="zh-hans")
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    expect(page.locator(".nd.undo .nu").first).to_have_text("撤销")
    assert screen.violations() == []


def test_on_a_phone_it_is_a_row_behind_its_step(screen: Screen):
    made = screen.made
    run_id = shop(made)
    screen.page.set_viewport_size({"width": 390, "height": 844})
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    expect(page.locator(".lrow")).to_have_count(3)
    cancel(made, run_id)
    expect(page.locator(".lrow")).to_have_count(4)
    undone(made, run_id)
    expect(page.locator(".lrow")).to_have_count(5)
    rows = page.locator(".lrow").all()
    names = [row.locator("b").inner_text() for row in sorted(rows, key=lambda row: row.bounding_box()["y"])]  # type: ignore[index]
    assert names[names.index("Pay the order") + 1] == "Undoing: Pay the order"
    assert screen.overflow() == []
    page.locator(".lrow.undo").first.click()
    expect(page.locator("#drawer h2")).to_contain_text("Undoing: ")


def test_the_past_has_it_from_when_it_was_ordered(screen: Screen):
    made = screen.made
    run_id = shop(made)
    before = made.engine.run(run_id).seq
    cancel(made, run_id)
    ordered = made.engine.run(run_id).seq
    undone(made, run_id)
    screen.sign_in("oncall")
    for seq, number in ((before, 0), (ordered, 1), (made.engine.run(run_id).seq, 2)):
        page = screen.open(f"/runs/{run_id}/?until={seq}")
        page.wait_for_selector('#graph[data-ready="true"]')
        expect(page.locator(".nd.undo")).to_have_count(number)


def test_in_a_large_graph_only_what_hangs_there_is_new(screen: Screen):
    """Five hundred steps, forty of them undone: what a patch brings is drawn, and all else only makes room once."""
    made = screen.made
    tools(made)
    nodes = [undoes(f"a{n}") for n in range(40)]
    for layer, before in enumerate(["a", *(f"b{n}-" for n in range(11))]):
        nodes += [tool(f"b{layer}-{n}", f"{before}{n}") for n in range(40)]
    run_id = made.engine.submit(workflow(*nodes, name="wide-undo", defaults={"on_failure": "compensate"}), {})
    draw(made, run_id)
    paid(made, run_id, *(f"a{n}" for n in range(40)))
    screen.sign_in("oncall")
    page = watch(screen, run_id)
    cancel(made, run_id)
    seq_of(page, made.engine.run(run_id).seq)
    assert page.evaluate("() => document.getElementById('graph').graph.model.undoing.length") == 1
    apart(page)
    page.evaluate(WATCH)
    # The next one's order comes with this one's end.
    assert undone(made, run_id, most=1) == 1
    seq_of(page, made.engine.run(run_id).seq)
    seen = page.evaluate("() => window.seen")
    assert (seen["sizes"], seen["moves"]) == (1, 0)
    assert seen["most"] <= 4, "a patch touches what changed"
    assert undone(made, run_id) == 39
    seq_of(page, made.engine.run(run_id).seq)
    assert page.evaluate("() => document.getElementById('graph').graph.model.undoing.length") == 40
    apart(page)
    page.locator(".zoom button").last.click()
    settles(page, "() => document.querySelectorAll('.nd').length", 0)
    assert page.evaluate("() => document.querySelectorAll('#graph *').length") < 400
