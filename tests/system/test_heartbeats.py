"""What a worker's heartbeat tells of the steps in its hands, with real worker processes (C2.8)."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runtime.access.verbs import STOP_GLOBAL
from runtime.queries.people import list_workers
from runtime.queries.steps import read_step
from runtime.store.tx import plain_tx
from runtime.worker.drain import Drain
from runtime.worker.lease import HEAD, lease_path
from runtime.worker.places import SIZE, Seen, read_places
from runtime.worker.session import Session, host_name, renew_host
from tests.support.actors import member
from tests.support.engine import Engine
from tests.support.nodes import node, sleeping
from tests.support.pages import Reader
from tests.support.race import Contender
from tests.support.specs import tool, workflow
from tests.support.statements import captured
from tests.support.workers import Stack, python_tool, until

pytestmark = pytest.mark.req("C2.8")
# It bounds the worker's own loop too: a machine that stands still for seconds must not reach it.
QUIET = 10
OF_ALL_TENANTS = ("progress_seq", "cpu_s", "rss_bytes")


@pytest.fixture
def beating(fresh_db) -> Iterator[Stack]:
    """One worker process, and of its tools nothing is heard for long after ten seconds."""
    with Stack(fresh_db, workers=1, stall_seconds=QUIET) as stack:
        yield stack.wait_ready()


def attempts(actor) -> list[dict[str, Any]]:
    return [one for worker in list_workers(actor=actor) for one in worker["attempts"]]


def counting(node_id: str, reference: str, until_there: Path, *told: list[Any], **more: Any) -> dict[str, Any]:
    return node(node_id, reference, input={"told": list(told), "until": str(until_there)}, **more)


@pytest.mark.slow
def test_a_running_step_shows_attempt_progress_use_checkpoint_and_when_it_may_end(
    beating, desk, tenant, other_tenant, tmp_path
):
    reference, go = desk.tool(python_tool("counting", runs="process", timeout_s=600)), tmp_path / "go"
    run_id = desk.submit(
        desk.workflow(
            tool("first"), counting("long", reference, go, [1, 4, "loading"], [3, 4, "writing"], after=["first"])
        )
    )
    (one,) = until(
        lambda: [a for a in attempts(desk.actor) if a["cpu_s"] and a["progress"] and a["progress"]["seq"] == 2],
        60,
        "a beat told of the call",
    )
    step = desk.step(run_id, "long")
    assert (one["run_id"], one["step_id"], one["node"], one["attempt"]) == (run_id, step.id, "long", 1)
    told = {name: one["progress"][name] for name in ("seq", "done", "total", "share", "stage")}
    assert told == {"seq": 2, "done": 3.0, "total": 4.0, "share": 0.75, "stage": "writing"}
    assert one["started_at"] <= one["progress"]["at"] <= one["at"] < one["eta"], "a third of the time is still to come"
    assert one["rss_bytes"] > 1_000_000
    kept = [event.seq for event in desk.events(run_id) if event.type == "STEP_SUCCEEDED"]
    begun = [event.seq for event in desk.events(run_id) if event.type == "STEP_STARTED" and event.node == "long"]
    assert kept[0] < one["checkpoint"] == begun[0]
    assert one["usual_s"] is None
    assert read_step(actor=desk.actor, step_id=step.id)["heartbeat"]["step_id"] == step.id

    (worker,) = list_workers(actor=desk.actor)
    assert [worker[name] for name in OF_ALL_TENANTS] == [None, None, None]
    (worker,) = list_workers(actor=replace(desk.actor, verbs=desk.actor.verbs | {STOP_GLOBAL}))
    assert (worker["busy"], worker["progress_seq"], worker["alive"]) == (1, 1, True)
    assert worker["cpu_s"] > 0
    assert worker["rss_bytes"] > 10_000_000

    until(lambda: [one["standing"] for one in attempts(desk.actor)] == ["quiet"], 30, "it lives and does not come on")
    assert desk.step(run_id, "long").status == "running"
    shown_everywhere(run_id, one, Reader(tenant, "admin"), Reader(other_tenant, "admin"))
    go.touch()
    assert desk.wait(run_id).status == "completed"
    assert attempts(desk.actor) == []
    assert read_step(actor=desk.actor, step_id=step.id)["heartbeat"] is None


def shown_everywhere(run_id: uuid.UUID, beat: dict[str, Any], reader: Reader, stranger: Reader) -> None:
    """The API, the page of workers and the step's drawer tell it, and only to its tenant."""
    (worker,) = json.loads(reader.get("/api/v1/workers/"))["items"]
    (told,) = worker["attempts"]
    assert (told["step_id"], told["progress"]["share"], told["standing"]) == (str(beat["step_id"]), 0.75, "quiet")
    assert json.loads(reader.get(f"/api/v1/steps/{beat['step_id']}/"))["heartbeat"]["checkpoint"] == beat["checkpoint"]
    workers, drawer = reader.get("/workers/"), reader.get(f"/runs/{run_id}/?step=long")
    for page in (workers, drawer):
        assert '3<span class="faint">/4</span>' in page
        assert "writing" in page
        assert "no progress for" in page
    assert f"event {beat['checkpoint']} " in drawer
    (worker,) = json.loads(stranger.get("/api/v1/workers/"))["items"]
    assert worker["attempts"] == [], "the worker is everybody's, what it does is not"
    assert [worker[name] for name in OF_ALL_TENANTS] == [None, None, None]
    assert "writing" not in stranger.get("/workers/")
    assert attempts(member(stranger.tenant, "admin")) == []


def test_what_is_usual_tells_the_end_of_a_call_that_tells_nothing_and_a_slow_one_by_name(beating, desk, tmp_path):
    reference = desk.tool(python_tool("counting", timeout_s=600))
    there, go = tmp_path / "there", tmp_path / "go"
    there.touch()
    quick = desk.submit(desk.workflow(counting("a", reference, there), name="quick"))
    assert desk.wait(quick).status == "completed"
    slow = desk.submit(desk.workflow(counting("a", reference, go), name="slow"))
    (one,) = until(lambda: attempts(desk.actor), 30, "a beat told of the call")
    assert one["progress"] is None
    assert one["usual_s"] is not None
    (one,) = until(lambda: [a for a in attempts(desk.actor) if a["standing"] == "slow"], 30, "it is not like its like")
    assert one["eta"] is None, "what is over its time says nothing of its end"
    go.touch()
    assert desk.wait(slow).status == "completed"


def test_a_beat_makes_no_statement_more_for_what_it_tells(fresh_db, tenant):
    engine, drain = Engine(tenant), Drain(Session())

    def beat() -> list[str]:
        with captured() as asked:
            assert renew_host(host_name()) == (1, [])
        return [statement for statement, _parameters in asked]

    idle = beat()
    for number in range(3):
        engine.submit(workflow(sleeping("s", 30), name=f"w{number}"))
    stop = threading.Event()
    worker = Contender(lambda: drain.run(stop=stop))
    until(lambda: len(read_places(drain.session.id)) == 3, 10, "three calls are in its slots")
    busy = beat()
    for call in drain.running.copy().values():
        call.cancel.set()
    assert worker.outcome() == 3
    # A worker that has nothing in hand is asked whether it has forgotten a step.
    assert [one for one in idle if "forgetful" not in one] == busy
    assert read_places(drain.session.id) == []
    drain.session.end()


@pytest.mark.req("A1.4")
def test_what_comes_of_the_work_of_all_tenants_is_told_to_operators_alone(fresh_db, tenant, other_tenant):
    session, admin = Session(), member(tenant, "admin")
    assert renew_host(host_name()) == (1, [])
    operator = replace(admin, verbs=admin.verbs | {STOP_GLOBAL})
    (theirs,), (everybodys,) = list_workers(actor=admin), list_workers(actor=operator)
    assert [theirs[name] for name in OF_ALL_TENANTS] == [None, None, None]
    assert None not in [everybodys[name] for name in OF_ALL_TENANTS]
    reader = Reader(tenant, "admin")
    (told,) = json.loads(reader.get("/api/v1/workers/"))["items"]
    assert [told[name] for name in OF_ALL_TENANTS] == [None, None, None]
    assert "MB" not in reader.get("/workers/")
    session.end()


def test_a_record_that_is_half_written_is_left_out(fresh_db, tenant):
    engine, drain = Engine(tenant), Drain(Session())
    engine.submit(workflow(sleeping("s", 30)))
    worker = Contender(drain.run)
    (seen,) = until(lambda: read_places(drain.session.id), 10, "the call is in its slot")
    with lease_path(drain.session.id).open("r+b", buffering=0) as file:
        whole = file.read()
        (at,) = (one for one in range(HEAD, len(whole), SIZE) if whole[one : one + 4] != bytes(4))
        os.pwrite(file.fileno(), bytes([whole[at + 30] ^ 255]), at + 30)
        assert read_places(drain.session.id) == []
        os.pwrite(file.fileno(), whole[at + 30 : at + 31], at + 30)
        assert read_places(drain.session.id) == [seen]
    for call in drain.running.copy().values():
        call.cancel.set()
    worker.outcome()
    drain.session.end()
    assert read_places(drain.session.id) == []


@pytest.mark.parametrize("role", ["web", "worker"])
def test_no_process_reads_what_workers_tell_of_every_tenant(fresh_db, as_role, role):
    with as_role(role), plain_tx() as tx:
        assert tx.conn.execute("SELECT id, busy, cpu_seconds FROM qd_worker_session").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tx.conn.execute("SELECT in_hand FROM qd_worker_session")


def test_a_call_that_was_given_up_on_tells_nothing_more(fresh_db, tenant):
    """Its thread may go on; its place is another's by then."""
    engine, drain = Engine(tenant), Drain(Session())
    engine.submit(workflow(tool("a")))
    (claimed,) = drain.claimer.claim(tenant.id, "default", 1)
    places = drain.running.places
    first = places.take(claimed)
    assert first.progress(1, 2, "loading") is True
    places.leave(first, None)
    second = places.take(claimed)
    first.progress(2, 2, "writing")
    (seen,) = read_places(drain.session.id)
    assert (seen.seq, seen.done, seen.step) == (0, 0.0, claimed.step_id.bytes)
    places.leave(second, None)
    drain.session.end()


@pytest.mark.parametrize(
    ("done", "total", "usual", "took", "left"),
    [
        (3.0, 4.0, 0.0, 30.0, 10.0),
        (4.0, 4.0, 0.0, 30.0, 0.0),
        (0.0, 4.0, 0.0, 30.0, None),
        (3.0, 0.0, 50.0, 30.0, 20.0),
        (0.0, 4.0, 50.0, 30.0, 20.0),
        (0.0, 0.0, 20.0, 30.0, None),
        (1e-15, 1e15, 0.0, 30.0, None),
    ],
)
def test_when_a_call_may_end(done, total, usual, took, left):
    seen = Seen(1, 0, 9, 1, uuid.uuid4().bytes, uuid.uuid4().bytes, 100.0, usual, 100.0, done, total, b"")
    assert seen.eta(100.0 + took) == left
    shown = seen.shown(100.0 + took)
    assert (shown["eta_s"], shown["quiet_s"], shown["stage"]) == (left, took, None)
