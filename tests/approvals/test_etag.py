"""A target whose version stands in a response header alone is approved and looked at like any other."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.tools.registry import register_tool
from tests.support.http_tool import HttpTool

pytestmark = [pytest.mark.req("C5.3", "C5.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def outside(tmp_path) -> Iterator[HttpTool]:
    with HttpTool(tmp_path) as tool:
        yield tool


@pytest.fixture
def office(office, outside: HttpTool):
    """An office whose writes go to a thing outside, read as its service tells of it: by an ETag."""
    named = {"result_headers": ["etag"]}
    reads = {"tool": "thing.read@1", "input": {"id": {"$": "arguments.id"}}, "version": "answer.headers.etag"}
    place = "/versioned/{id}"
    for one in (
        outside.contract(place, writes=False, config=named, name="thing.read"),
        outside.contract(place, name="thing.write", target_version=reads),
    ):
        register_tool(actor=office.actor, contract=one)
    return office


def writing() -> dict[str, Any]:
    thing = {"id": {"$": "input.id"}}
    return {
        "format": "quarterdeck/1",
        "name": "write-thing",
        "nodes": [
            {"id": "load", "kind": "tool", "tool": "thing.read@1", "input": thing},
            {"id": "ask", "kind": "approval", "after": ["load"], "title": "Write it", "role": "approver",
             "target": {"id": {"$": "input.id"}, "version": {"$": "nodes.load.output.headers.etag"}}},
            {"id": "write", "kind": "tool", "after": ["ask"], "tool": "thing.write@1",
             "business_key": "'write:' + input.id", "input": thing},
        ],
    }  # fmt: skip


def asked(office) -> tuple[uuid.UUID, str]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    run_id = office.submit(writing(), {"id": name})
    office.work()
    assert office.pending(run_id)["target_version"] == '"v1"'
    return run_id, name


def test_an_unchanged_etag_lets_the_call_go(office, outside: HttpTool):
    run_id, name = asked(office)
    office.decide(office.pending(run_id))
    office.work()
    assert [one["path"] for one in outside.effects()] == [f"/versioned/{name}"]
    assert office.states(run_id) == ["consumed"]
    office.check(run_id)


def test_a_changed_etag_sends_nothing_and_asks_anew(office, outside: HttpTool):
    run_id, name = asked(office)
    office.decide(office.pending(run_id))
    with urllib.request.urlopen(f"http://{outside.host}/versioned/{name}", data=b'{"by":"others"}') as answer:
        assert answer.headers["etag"] == '"v2"'
    office.work()
    assert len(outside.effects()) == 1
    again = office.pending(run_id)
    assert again["shown"]["target"] == {"id": name, "version": '"v2"', "was": '"v1"'}
    office.decide(again)
    office.work()
    assert len(outside.effects()) == 2
    assert office.states(run_id) == ["voided", "consumed"]
    office.check(run_id)


def test_a_header_that_does_not_come_sends_nothing(office, outside: HttpTool):
    reads = {"tool": "thing.read@1", "input": {"id": {"$": "arguments.id"}}, "version": "answer.headers.last"}
    careless = outside.contract("/versioned/{id}", name="thing.write", version=2, target_version=reads)
    register_tool(actor=office.actor, contract=careless)
    spec = writing()
    spec["nodes"][-1]["tool"] = "thing.write@2"
    run_id = office.submit(spec, {"id": "x"})
    office.work()
    office.decide(office.pending(run_id))
    office.work()
    assert outside.effects() == []
    assert office.step(run_id, "write").error["code"] == "target_unread"
