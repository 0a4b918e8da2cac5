"""The event stream: every event once and in order, continued by Last-Event-ID, refused where it must be."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dashboard.live.access import Credential
from runtime.kernel.errors import PermissionDenied
from tests.live.test_sockets import chain, revoke, token_for
from tests.support.actors import member
from tests.support.engine import Engine
from tests.support.patience import patient
from tests.support.specs import tool, workflow
from tests.support.web import Web

pytestmark = [pytest.mark.req("C6.2"), pytest.mark.usefixtures("db")]


@pytest.fixture
def engine(tenant: Any) -> Engine:
    return Engine(tenant)


class Stream:
    """Reads a stream line by line."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer, self.comments = answer, 0

    def event(self) -> dict[str, Any]:
        """Return the next event: {id, event, data}."""
        found: dict[str, Any] = {}
        while line := self.answer.readline().decode():
            line = line.rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif "data" in found:
                return {**found, "data": json.loads(found["data"])}
            else:
                found = {}
        raise EOFError

    def events(self, count: int) -> list[dict[str, Any]]:
        return [self.event() for _ in range(count)]


@contextmanager
def stream(web: Web, run_id: uuid.UUID, token: str, query: str = "", **headers: str) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=patient(15))
    sent = {"Authorization": f"Bearer {token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    connection.request("GET", f"/api/v1/runs/{run_id}/stream/{query}", headers=sent)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    try:
        yield Stream(answer)
    finally:
        connection.close()


def test_events_come_after_commit_once_and_in_order(web, engine):
    run_id, token = engine.submit(workflow(*(tool(f"n{i}") for i in range(30)))), token_for(engine.tenant)
    with stream(web, run_id, token) as reader:
        head = engine.run(run_id).seq
        assert [int(e["id"]) for e in reader.events(head)] == list(range(1, head + 1))
        for i in range(30):
            engine.finish(f"n{i}")
        last = engine.run(run_id).seq
        rest = reader.events(last - head)
        assert [int(e["id"]) for e in rest] == list(range(head + 1, last + 1))
        told = [(e["data"]["seq"], e["data"]["type"], e["data"]["node"], e["data"]["to_status"]) for e in rest]
        assert told == [(e.seq, e.type, e.node, e.to_status) for e in engine.events(run_id)][head:]
        status, answer = web.get(f"/api/v1/runs/{run_id}/events/?after={last - 3}", Authorization=f"Bearer {token}")
        assert status == 200, "a stream keeps nobody waiting"
        assert answer["events"][-1] == rest[-1]["data"]


def test_a_head_request_has_headers_and_no_stream_behind_them(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=patient(15))
    try:
        for path, kind in ((f"/api/v1/runs/{run_id}/stream/", "text/event-stream"), ("/healthz", "application/json")):
            connection.request("HEAD", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
            assert answer.headers["Content-Type"].startswith(kind), "the connection goes on with the next request"
    finally:
        connection.close()


def test_the_stream_of_a_run_that_ends_says_so_and_ends(web, engine):
    run_id, token = engine.submit(workflow(tool("only"), name="short")), token_for(engine.tenant)
    with stream(web, run_id, token) as reader:
        reader.events(engine.run(run_id).seq)
        engine.finish("only")
        last = engine.run(run_id).seq
        seen = [reader.event()]
        while "event" not in seen[-1]:
            seen.append(reader.event())
        assert int(seen[-2]["id"]) == last
        assert (seen[-1]["event"], seen[-1]["data"]) == ("end", {"run_status": "completed", "last_seq": last})
        assert "id" not in seen[-1]
        with pytest.raises(EOFError):
            reader.event()


def test_of_a_run_that_has_ended_all_is_sent_and_who_comes_back_is_told_that_nothing_follows(web, engine):
    run_id, token = engine.submit(workflow(tool("only"), name="short")), token_for(engine.tenant)
    engine.finish("only")
    last = engine.run(run_id).seq
    with stream(web, run_id, token) as reader:
        assert [int(e["id"]) for e in reader.events(last)] == list(range(1, last + 1))
        assert reader.event()["event"] == "end"
        with pytest.raises(EOFError):
            reader.event()
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=patient(15))
    try:
        sent = {"Authorization": f"Bearer {token}", "Last-Event-ID": str(last)}
        connection.request("GET", f"/api/v1/runs/{run_id}/stream/", headers=sent)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
    finally:
        connection.close()
    _status, told = web.get(f"/api/v1/runs/{run_id}/events/", Authorization=f"Bearer {token}")
    assert (told["run_status"], told["ended"]) == ("completed", True)


@pytest.mark.parametrize("how", ["header", "query"])
def test_a_stream_is_continued(web, engine, how):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    head = engine.run(run_id).seq
    query, headers = (f"?after={head - 1}", {}) if how == "query" else ("?after=0", {"Last_Event_ID": str(head - 1)})
    with stream(web, run_id, token, query, **headers) as reader:
        assert int(reader.event()["id"]) == head
        engine.finish("n0")
        assert int(reader.event()["id"]) == head + 1


def test_many_streams_at_once_hold_no_connections(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    head = engine.run(run_id).seq
    open_ = [stream(web, run_id, token) for _ in range(30)]
    readers = [one.__enter__() for one in open_]
    try:
        for reader in readers:
            assert [int(e["id"]) for e in reader.events(head)][-1] == head
        engine.finish("n0")
        last = engine.run(run_id).seq
        for reader in readers:
            assert int(reader.events(last - head)[-1]["id"]) == last
    finally:
        for one in open_:
            one.__exit__(None, None, None)


def test_refusals_are_problems(web, engine, other_tenant):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    def ask(path: str, token: str | None = token, **headers: str) -> tuple[int, str]:
        given = {"Authorization": f"Bearer {token}"} if token else {}
        status, body = web.get(f"/api/v1/runs/{path}", **given, **headers)
        return status, body["code"]

    assert ask(f"{run_id}/stream/?after=99999") == (410, "cursor_expired")
    assert ask(f"{run_id}/stream/", Last_Event_ID="99999") == (410, "cursor_expired")
    assert ask(f"{run_id}/stream/", Last_Event_ID="x") == (400, "bad_input")
    assert ask(f"{run_id}/stream/?after=-1") == (400, "bad_input")
    assert ask(f"{run_id}/stream/?since=1") == (400, "bad_input")
    assert ask(f"{uuid.uuid4()}/stream/") == (404, "not_found")
    assert ask(f"{run_id}/stream/", token_for(other_tenant, "admin")) == (404, "not_found")
    assert ask(f"{run_id}/stream/", token_for(engine.tenant, verbs=["task.read"])) == (403, "permission_denied")
    assert ask(f"{run_id}/stream/", None) == (401, "not_authenticated")


def test_a_right_that_is_taken_away_ends_the_stream(test_database, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    with Web(test_database, QUARTERDECK_LIVE_RECHECK_SECONDS="0.3") as web, stream(web, run_id, token) as reader:
        reader.events(engine.run(run_id).seq)
        revoke(engine.tenant, "token")
        problem = reader.event()
        assert (problem["event"], problem["data"]["code"]) == ("problem", "not_authenticated")
        with pytest.raises(EOFError):
            reader.event()


def test_a_session_is_bound_to_no_other_tenant_than_the_one_it_was_used_in(tenant, other_tenant):
    """Who has left the tenant between the first question and the next follows nothing in the name of another one."""
    actor = member(tenant, "viewer")
    bound = Credential(session_key="s").bound_to(actor)
    assert bound.tenant == tenant.slug
    with pytest.raises(PermissionDenied):
        Credential(session_key="s").bound_to(replace(actor, tenant_id=other_tenant.id))
