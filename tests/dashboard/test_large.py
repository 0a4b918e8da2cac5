"""A run of a thousand steps: its pages stay small, and a list is never the whole of it."""

from __future__ import annotations

import re

from tests.support.engine import Engine
from tests.support.pages import Reader, node

STEPS = 1000


def test_pages_of_a_large_run_stay_small(tenant):
    engine = Engine(tenant)
    nodes = [node(f"n{i}", *([f"n{(i - 1) // 3}"] if i else [])) for i in range(STEPS)]
    run_id = engine.submit({"format": "quarterdeck/1", "name": "large", "nodes": nodes}, {})
    engine.finish("n0")
    engine.claim()
    reader = Reader(tenant, "oncall")
    for tab in ("graph", "timeline", "steps", "events", "why"):
        page = reader.get(f"/runs/{run_id}/{tab}/")
        assert len(page) < 600_000, tab
    seen: set[str] = set()
    address = f"/runs/{run_id}/steps/"
    while address:
        page = reader.get(address)
        seen |= set(re.findall(r'<tr data-href="\?(?:at=\d+&amp;)?step=(\w+)"', page))
        following = re.search(r'href="(\?at=\d+)"[^>]*>Next', page)
        address = f"/runs/{run_id}/steps/{following.group(1)}" if following else ""
    assert len(seen) == STEPS
    assert len(reader.get(f"/runs/{run_id}/?step=n500")) < 300_000
