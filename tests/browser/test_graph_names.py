"""Names in the drawing: a long one goes on in a second line before anything of it is left out."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.pages import node
from tests.support.screens import Screen

NAMES = {
    "pay": "Pay the customer's money back",
    "write": "Write the customer a letter",
    "short": "Tell",
    "han": "把全部款项退还给这位客户并且通知她",
}


@pytest.mark.req("A9.4")
def test_a_name_of_two_lines_is_read_whole(screen: Screen):
    nodes = [node(name, title=title) for name, title in NAMES.items()]
    endless = "Look again whether the other side has really booked what it said it would book"
    nodes.append(node("endless", title=endless))
    run_id = screen.made.engine.submit({"format": "quarterdeck/1", "name": "names", "nodes": nodes}, {})
    screen.sign_in("viewer")
    page = screen.open(f"/runs/{run_id}/")
    expect(page.locator(".nd text.nt")).to_have_count(len(nodes))
    shown = page.locator(".nd text.nt").all_text_contents()
    assert set(NAMES.values()) <= set(shown)
    cut = next(one for one in shown if one not in NAMES.values())
    assert cut.startswith("Look again")
    assert "…" in cut
    # Every line stays inside of its box, and no line lies over another.
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll('.nd')].filter((box) => {
          const outer = box.querySelector('.bx').getBoundingClientRect();
          const parts = [...box.querySelectorAll('.nt tspan'), box.querySelector('.ns')];
          const lines = parts.map((one) => one.getBoundingClientRect());
          const inside = lines.every((one) => one.right <= outer.right + 1
            && one.bottom <= outer.bottom + 1 && one.top >= outer.top - 1);
          return !inside || new Set(lines.map((one) => Math.round(one.y))).size !== lines.length;
        }).map((box) => box.textContent)"""
        )
        == []
    )
