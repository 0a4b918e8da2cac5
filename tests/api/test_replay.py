"""A run told again from its events: as it was after each of them, without a call and without a write."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from runtime.actions.hold import hold_step, release_step
from runtime.actions.runs import pause_run, resume_run
from runtime.actions.steps import force_step, rerun_step, skip_step
from runtime.api.http import dump
from runtime.kernel.errors import BadInput
from runtime.models import Attempt, Event, Operation
from runtime.queries.replay import replay_run
from runtime.queries.runs import read_snapshot
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.api.test_commands import run as command
from tests.support.api import Caller, caller, problem
from tests.support.engine import Engine, force_columns, past_every_guard
from tests.support.operations import send
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("C6.1", "C7.9"), pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[2]
OF_RUN = "status reason version seq paused cancel_requested attention counts created_at started_at finished_at".split()


@pytest.fixture
def engine(tenant) -> Engine:
    return Engine(tenant)


@pytest.fixture
def api(tenant) -> Caller:
    return caller(tenant)


class Diary:
    """Writes down how a run stands, by the seq at which it stands so."""

    def __init__(self, engine: Engine, run_id: uuid.UUID) -> None:
        self.engine, self.run_id, self.pages = engine, run_id, {}
        self.note()

    def note(self) -> None:
        found = read_snapshot(actor=self.engine.actor, run_id=self.run_id)
        self.pages[found["last_included_seq"]] = found


def without_clock(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step without what only the moment of reading says."""
    error = step["error"] and {name: value for name, value in step["error"].items() if name != "retry_after"}
    return {**{name: value for name, value in step.items() if name != "now"}, "error": error}


def plain(value: Any) -> Any:
    """Return what the API makes of a value."""
    return json.loads(dump(value))


def undone(engine: Engine) -> tuple[uuid.UUID, Diary]:
    """Run a saga with a retry, a switch, a pause, verbs of people and an undone effect; return its run and diary."""
    for name in ("effect", "undo"):
        register_tool(actor=engine.actor, contract={**python_tool("effect", writes=True), "name": f"test.{name}"})
    way = {
        "id": "way",
        "kind": "switch",
        "after": ["look"],
        "cases": [{"when": "nodes.look.output.seen > 1", "to": ["book"]}],
        "default": ["never"],
    }
    book = tool("book", "way", tool="test.effect@1", compensation={"tool": "test.undo@1"})
    run_id = engine.submit(
        workflow(
            tool("look"), way, book, tool("never", "way"), tool("mail", "book"), tool("extra"),
            defaults={"on_failure": "compensate"},
        )
    )  # fmt: skip
    diary = Diary(engine, run_id)

    def step(act: Any, *arguments: Any, **more: Any) -> None:
        act(*arguments, **more)
        diary.note()

    step(engine.act, hold_step, run_id, "extra")
    step(engine.act, release_step, run_id, "extra")
    step(engine.act, skip_step, run_id, "extra")
    step(engine.finish, "look", value={"seen": 1})
    step(engine.act, rerun_step, run_id, "look")
    step(engine.finish, "look", value={"seen": 2})
    step(pause_run, actor=engine.actor, run_id=run_id, reason="wait")
    step(resume_run, actor=engine.actor, run_id=run_id, reason="on")
    step(engine.finish, "way", choice=["book"])
    (claimed,) = [one for one in engine.claim() if one.node.id == "book"]
    diary.note()
    step(send, engine, claimed, f"book:{run_id}")
    step(engine.report, claimed, "succeeded", operation_status="succeeded")
    step(engine.finish, "mail", "failed", error={"class": "business", "message": "no such address"})
    (undoing,) = [one for one in engine.claim() if one.node.id == "undo@2:book"]
    assert undoing.undo is not None
    diary.note()
    step(send, engine, undoing, undoing.undo.business_key)
    step(engine.report, undoing, "succeeded", operation_status="succeeded")
    return run_id, diary


def test_a_run_is_told_exactly_as_it_stood_at_every_moment_that_was_noted(engine, api):
    run_id, diary = undone(engine)
    engine.check(run_id)
    assert len(diary.pages) > 12
    for seq, page in diary.pages.items():
        found = api.get(f"runs/{run_id}/replay/?until={seq}").json()
        assert (found["until"], found["head_seq"]) == (seq, max(diary.pages))
        then = plain(page)
        assert {name: found["run"][name] for name in OF_RUN} == {name: then["run"][name] for name in OF_RUN}, seq
        by_node = {one["node"]: without_clock(one) for one in found["steps"]}
        assert by_node == {one["node"]: without_clock(one) for one in then["steps"]}, seq
        assert found["stored"] == {"seq": max(diary.pages), "ok": True, "differences": []}
    first, last = (api.get(f"runs/{run_id}/replay/?until={seq}").json() for seq in (1, max(diary.pages)))
    assert first["event"]["type"] == "RUN_CREATED"
    assert {one["now"]["status"] for one in first["steps"] if one["node"] == "mail"} == {"failed"}
    assert sorted(one["status"] for one in last["operations"]) == ["compensated", "succeeded"]
    assert first["operations"] == []


def test_it_writes_nothing_and_calls_no_tool(engine, api):
    run_id, _diary = undone(engine)

    def everything() -> Any:
        with tenant_tx(engine.tenant.id):
            return (
                list(Event.objects.filter(run_id=run_id).values_list("seq", flat=True)),
                list(Attempt.objects.filter(run_id=run_id).order_by("step_id", "number").values()),
                list(Operation.objects.filter(run_id=run_id).order_by("id").values("id", "status", "version", "sends")),
                engine.run(run_id).version,
            )

    before = everything()
    seqs = range(1, len(before[0]) + 1)
    by_get = [api.get(f"runs/{run_id}/replay/?until={seq}") for seq in seqs]
    by_post = [api.post(f"runs/{run_id}/replay/", {"until": seq}) for seq in seqs]
    assert {one.status_code for one in (*by_get, *by_post)} == {200}
    assert [one.json() for one in by_get] == [one.json() for one in by_post]
    assert {one.json()["results"] for one in by_get} == {"recorded"}
    assert api.post(f"runs/{run_id}/replay/").json() == by_get[-1].json(), "without a number it is the newest"
    assert everything() == before
    assert engine.claim() == []


def test_what_tells_a_run_again_cannot_reach_a_tool():
    code = (
        "import django, sys; django.setup(); before = set(sys.modules); import runtime.queries.replay; "
        "above = ('runtime.tools', 'runtime.worker', 'runtime.actions'); "
        "sys.exit(any(one.startswith(above) for one in set(sys.modules) - before))"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "dashboard.config.settings", "SECRET_KEY": "x", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_rows_that_differ_from_the_events_are_named(engine, api, database):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    force_columns(database, "qd_step", engine.step(run_id, "a").id, attempt=7)
    stored = api.get(f"runs/{run_id}/replay/?until=1").json()["stored"]
    assert not stored["ok"]
    assert stored["differences"] == ["step a@1 attempt: events say 1, the row says 7"]
    assert command("run", "replay", str(run_id), "--tenant", engine.tenant.slug)[0]["stored"] == stored
    force_columns(database, "qd_step", engine.step(run_id, "a").id, attempt=1)


def test_an_event_that_is_not_there_is_refused_with_the_range(engine, api):
    run_id = engine.submit(workflow(tool("a")))
    head = engine.run(run_id).seq
    for answer, where in (
        (api.get(f"runs/{run_id}/replay/?until={head + 1}"), "query until"),
        (api.post(f"runs/{run_id}/replay/", {"until": head + 1}), "/until"),
        (api.get(f"runs/{run_id}/graph/?until={head + 1}"), "query until"),
    ):
        told = problem(answer, 400, "bad_input")
        assert told["where"] == where
        assert told["remediation"] == f"Give a number from 1 to {head}."
        assert told["run_id"] == str(run_id)
    for answer in (
        api.get(f"runs/{run_id}/replay/?until=0"),
        api.get(f"runs/{run_id}/replay/?until=x"),
        api.get(f"runs/{run_id}/replay/?untill=1"),
        api.post(f"runs/{run_id}/replay/", {"until": 0}),
        api.post(f"runs/{run_id}/replay/", {"until": "1"}),
        api.post(f"runs/{run_id}/replay/", {"tool": "a"}),
    ):
        problem(answer, 400, "bad_input")
    problem(api.get(f"runs/{uuid.uuid4()}/replay/"), 404, "not_found")
    told = command("run", "replay", str(run_id), "--until", str(head + 1), "--tenant", engine.tenant.slug, fails=True)
    assert told[0]["code"] == "bad_input"


@pytest.mark.parametrize("which", ["seq <= 2", "seq = 2", "true"])
def test_events_that_are_no_longer_kept_are_said_to_be_gone(engine, api, database, which):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    with past_every_guard(database) as connection:
        connection.execute(f"DELETE FROM qd_event WHERE run_id = %s AND {which}", [run_id])
    for path in ("replay/", "replay/?until=1", "graph/?until=3"):
        told = problem(api.get(f"runs/{run_id}/{path}"), 410, "events_gone")
        assert told["links"] == {"snapshot": f"/api/v1/runs/{run_id}/snapshot/"}
        assert told["available"]["first"] == {"seq <= 2": 3, "seq = 2": 1, "true": None}[which]
        assert told["remediation"]
    assert api.get(f"runs/{run_id}/snapshot/").status_code == 200
    told = command("run", "replay", str(run_id), "--tenant", engine.tenant.slug, fails=True)
    assert told[0]["code"] == "events_gone"
    with past_every_guard(database) as connection:
        connection.execute("DELETE FROM qd_step WHERE run_id = %s", [run_id])
        connection.execute("DELETE FROM qd_run WHERE id = %s", [run_id])


def test_the_graph_is_drawn_as_it_was(engine, api):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    engine.act(force_step, run_id, "b", "by telephone")
    events = engine.events(run_id)
    started = next(one for one in events if one.type == "STEP_STARTED")
    found = api.get(f"runs/{run_id}/graph/?until={started.seq}&steps=brief").json()
    assert found["last_included_seq"] == found["run"]["seq"] == started.seq
    assert {one["id"]: one["step"]["status"] for one in found["nodes"]} == {"a": "running", "b": "waiting"}
    now = api.get(f"runs/{run_id}/graph/?steps=brief").json()
    assert {one["id"]: one["step"]["status"] for one in now["nodes"]} == {"a": "succeeded", "b": "mark_successed"}
    whole = api.get(f"runs/{run_id}/graph/?steps=brief&until={now['last_included_seq']}").json()
    assert whole["nodes"] == now["nodes"]


def test_the_command_tells_the_same(engine, api):
    run_id = engine.submit(workflow(tool("a")))
    engine.finish("a")
    (told,) = command("run", "replay", str(run_id), "--until", "2", "--tenant", engine.tenant.slug)
    assert told == api.get(f"runs/{run_id}/replay/?until=2").json()
    (newest,) = command("run", "replay", str(run_id), "--tenant", engine.tenant.slug)
    assert newest["run"]["status"] == "completed"
    assert newest["run"]["output_kind"] == "final"


def test_a_run_of_too_many_events_is_told_by_the_command_alone(engine):
    run_id = engine.submit(workflow(tool("a")))
    engine.finish("a")
    head = engine.run(run_id).seq
    assert replay_run(actor=engine.actor, run_id=run_id, most=head)["head_seq"] == head
    with pytest.raises(BadInput) as refused:
        replay_run(actor=engine.actor, run_id=run_id, most=head - 1)
    assert (refused.value.where, "run replay" in refused.value.remediation) == ("run_id", True)
    assert replay_run(actor=engine.actor, run_id=run_id, most=None)["head_seq"] == head
