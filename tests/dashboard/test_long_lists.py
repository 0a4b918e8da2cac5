"""Lists that are longer than a page: each goes on, none ends without a word."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from dashboard.pages import estate, limits, people, run_tabs, stops
from runtime.actions.limits import set_limit
from runtime.actions.stops import lift_stop, set_stop
from runtime.queries import run_parts
from runtime.queries.definitions import list_whole_tools
from runtime.queries.people import list_audit, list_members
from tests.support.actors import member
from tests.support.factories import make_member
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


def test_every_member_and_token_is_on_some_page(made, admin, monkeypatch):
    monkeypatch.setattr(people, "PAGE", 3)
    for _ in range(7):
        make_member(made.tenant, "viewer")
    found = pages(admin, "/members/")
    assert "more than 3" in found[0]
    names = [name for page in found for name in re.findall(r'name="username" value="([^"]+)"', page)]
    everybody = [one["username"] for one in list_members(actor=made.engine.actor)]
    assert names == everybody == sorted(everybody)
    for number in range(7):
        admin.post("/tokens/", {"name": f"token {number}", "days": "3"}, 200)
    found = pages(admin, "/tokens/")
    assert len(found) == 3
    listed = [name for page in found for name in re.findall(r'<b class="med trunc">(token \d)</b>', page)]
    assert listed == [f"token {number}" for number in reversed(range(7))]
    admin.get("/members/?cursor=nonsense", 400)


def test_every_stop_that_was_is_on_some_page_and_all_that_stand_on_the_first(made, admin, monkeypatch):
    monkeypatch.setattr(stops, "PAGE", 2)
    actor = made.engine.actor
    for number in range(5):
        stop = set_stop(actor=actor, scope="tool", name="core.echo", reason=f"past {number}")
        lift_stop(actor=actor, stop_id=uuid.UUID(stop["stop_id"]), reason="mended")
    for number in range(3):
        set_stop(actor=actor, scope="workflow", name=f"plain{number}", reason=f"stands {number}")
    found = pages(admin, "/stops/")
    assert [len(re.findall(r"past \d", page)) for page in found] == [2, 2, 1]
    assert len(re.findall(r"stands \d", found[0])) == 3


def test_a_list_of_limits_breakers_or_messages_that_is_cut_says_so(made, admin, monkeypatch):
    for name in ("core.echo", "core.noop", "core.fail"):
        set_limit(actor=member(made.tenant, "admin"), scope="tool", name=name, most=4, reason="a small shop")
    assert "there are more" not in admin.get("/limits/")
    monkeypatch.setattr(limits, "MOST_LIMITS", 2)
    page = admin.get("/limits/")
    assert "The first 2 are listed; there are more." in page
    assert len(re.findall(r'action="/limits/[0-9a-f-]+/lift/"', page)) == 2


def test_the_audit_begins_thirty_days_ago_unless_asked_for_more(made, admin, clock):
    before = admin.get("/audit/")
    assert "workflow.register" in before
    clock.advance(31 * 86400)
    try:
        fresh = Reader(made.tenant, "admin")
        assert "Your filters hide all entries" in fresh.get("/audit/?verb=workflow.register")
        assert 'href="/audit/?within=all"' in fresh.get("/audit/?verb=workflow.register")
        assert "workflow.register" in fresh.get("/audit/?within=all")
        set_limit(actor=member(made.tenant, "admin"), scope="tool", name="core.echo", most=4, reason="a small shop")
        page = fresh.get("/audit/")
        assert "limit.set" in page
        assert 'href="/audit/export.json?within=30d"' in page, "the file has what the page has"
        seen = json.loads(fresh.get("/audit/export.json?within=30d"))["items"]
        chain = json.loads(fresh.get("/audit/export.json"))["items"]
        assert len(seen) < len(chain) == len(json.loads(fresh.get("/audit/export.json?within=all"))["items"])
    finally:
        clock.reset()


def test_the_first_entry_since_a_time_is_found_by_halves(made, admin):
    entries = list(reversed(list_audit(actor=made.engine.actor, limit=500).items))
    assert len(entries) > 2
    for one in (entries[0], entries[len(entries) // 2], entries[-1]):
        found = list_audit(actor=made.engine.actor, since=one["at"], limit=500).items
        assert [row["number"] for row in found] == [
            row["number"] for row in reversed(entries) if row["at"] >= one["at"]
        ]
    assert list_audit(actor=made.engine.actor, since=entries[-1]["at"] + timedelta(seconds=1)).items == []
