"""Lists that are longer than a page: each goes on, none ends without a word."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from dashboard.pages import estate, run_tabs
from runtime.queries import run_parts
from runtime.queries.definitions import list_whole_tools
from tests.support.operations import send
from tests.support.pages import Reader, node


def pages(reader: Reader, path: str) -> list[str]:
    """Return a list's pages, following each one's link to the next."""
    found = [reader.get(path)]
    while link := re.search(r'rel="next" href="([^"]+)"', found[-1]):
        found.append(reader.get(path + unescape(link.group(1))))
    return found


def keys(page: str) -> list[str]:
    return re.findall(r'<section class="op" aria-label="([^"]+)"', page)


@pytest.fixture
def effects(made: Any) -> Any:
    """A run with five effects: the last is open."""
    names = [f"n{i}" for i in range(5)]
    document = {"format": "quarterdeck/1", "name": "five", "nodes": [node(name) for name in names]}
    run_id = made.engine.submit(document, {})
    claims = {one.node.id: one for one in made.engine.claim() if one.run_id == run_id}
    for name in names:
        send(made.engine, claims[name], f"key:{name}")
        status = "unknown" if name == "n4" else "succeeded"
        made.engine.report(claims[name], status, operation_status=status)
    return run_id


def test_every_effect_of_a_run_is_on_some_page(effects, admin, monkeypatch):
    monkeypatch.setattr(run_tabs, "OPERATION_PAGE", 2)
    found = [keys(page) for page in pages(admin, f"/runs/{effects}/operations/")]
    assert [len(one) for one in found] == [2, 2, 1]
    assert sorted(key for page in found for key in page) == [f"key:n{i}" for i in range(5)]


def test_an_open_effect_is_known_however_many_there_are(made, effects, admin, monkeypatch):
    monkeypatch.setattr(run_parts, "OPERATION_BOUND", 2)
    rows = run_parts.list_operations(actor=made.engine.actor, run_id=effects)
    assert len(rows) == 2
    open_ones = [one for one in rows if one["status"] == "unknown"]
    assert [one["business_key"] for one in open_ones] == ["key:n4"]
    page = admin.get(f"/runs/{effects}/operations/")
    assert ">1+<" in page, "the tab counts no more than it knows"
    assert keys(admin.get(f"/runs/{effects}/?step=n3")) == ["key:n3"]


def test_every_request_of_a_run_is_on_some_page(made, admin, monkeypatch):
    monkeypatch.setattr(run_tabs, "REQUEST_PAGE", 2)
    asks = [{"id": f"a{i}", "kind": "approval", "title": f"Ask {i}", "role": "approver"} for i in range(5)]
    run_id = made.engine.submit({"format": "quarterdeck/1", "name": "asks", "nodes": asks}, {})
    found = pages(admin, f"/runs/{run_id}/approvals/")
    assert len(found) == 3
    assert sorted(name for page in found for name in re.findall(r">(Ask \d)</a>", page)) == [
        f"Ask {i}" for i in range(5)
    ]


def test_every_tool_is_on_some_page_with_all_its_versions(made, admin, monkeypatch):
    monkeypatch.setattr(estate, "TOOL_PAGE", 2)
    everything = list_whole_tools(actor=made.engine.actor, limit=500)
    names = list(dict.fromkeys(one["name"] for one in everything.items))
    assert len(names) > 2
    assert everything.next is None
    found = [re.findall(r'<tr class="two-line" data-href="/tools/([^/"]+)/"', page) for page in pages(admin, "/tools/")]
    assert [len(one) for one in found[:-1]] == [2] * (len(found) - 1)
    assert [name for page in found for name in page] == names
