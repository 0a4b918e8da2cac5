"""What a step was called with is shown: stored where it had an effect, else made again and compared with its hash."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.steps import rerun_step
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.queries import arguments
from runtime.tools.registry import read_tool, register_tool
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, begin, perform
from tests.support.api import Caller, caller, problem
from tests.support.engine import Engine, past_every_guard, sweep
from tests.support.nodes import echo
from tests.support.operations import send
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("A9.5", "C1.2"), pytest.mark.django_db(transaction=True)]

READS = {"order": {"$": "input.order"}, "n": {"$": "nodes.a.output.n"}, "kind": "parcel"}
LATER = {"id": "later", "kind": "wait", "event": "arrived", "after": ["b"]}


@pytest.fixture
def engine(tenant, db):
    yield Engine(tenant)
    sweep(db, tenant.id)


@pytest.fixture
def admin(engine) -> Caller:
    return caller(engine.tenant)


def perform_step(engine: Engine, node: str) -> None:
    """Run a step as a worker does: rendered, called, reported."""
    engine.claim()
    claimed = next(one for one in reversed(engine.claimed.values()) if one.node.id == node)
    prepared = begin(claimed, lambda reference: read_tool(engine.tenant.id, reference))
    assert isinstance(prepared, Prepared)
    complete(engine.tenant.id, [perform(prepared, lambda: True)])


def read(who: Caller, engine: Engine, run: uuid.UUID, node: str, version: int | None = None, query: str = "") -> Any:
    answer = who.get(f"steps/{engine.step(run, node, version).id}/arguments/{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_what_a_reading_step_was_called_with_is_made_again(engine, admin):
    run = engine.submit(workflow(tool("a"), echo("b", "a", input=READS), LATER), {"order": "W1"})
    engine.finish("a", value={"n": 7})
    assert read(admin, engine, run, "b")["why_not"] == "not_recorded"
    perform_step(engine, "b")
    told = read(admin, engine, run, "b")
    given = {"order": "W1", "n": 7, "kind": "parcel"}
    assert (told["source"], told["input"], told["attempt"]) == ("recomputed", given, 1)
    assert told["input_sha256"] == digest(canonical_bytes(given)).hex()
    assert read(admin, engine, run, "b", query="?attempt=1") == told
    assert read(admin, engine, run, "b", query="?attempt=2")["why_not"] == "not_recorded"
    assert read(admin, engine, run, "later")["why_not"] == "not_recorded", "it calls nothing"
    hidden = read(caller(engine.tenant, "viewer"), engine, run, "b")
    assert (hidden["redacted"], hidden["input_sha256"]) == (True, told["input_sha256"])
    assert (hidden["source"], hidden["why_not"], "input" in hidden) == (None, None, False)


def test_what_a_writing_step_was_called_with_is_what_was_sent(engine, admin):
    run = engine.submit(workflow(tool("pay")))
    [claimed] = engine.claim()
    send(engine, claimed, f"pay:{run}")
    engine.report(claimed, "succeeded", operation_status="succeeded")
    told = read(admin, engine, run, "pay")
    assert (told["source"], told["input"]) == ("operation", {})


def test_what_was_asked_about_an_effect_that_was_undone_is_made_again(engine, admin):
    for name in ("effect", "undo"):
        register_tool(actor=engine.actor, contract={**python_tool("effect", writes=True), "name": f"test.{name}"})
    verify = {"tool": "core.echo@1", "input": {"n": {"$": "operation.output.n"}}, "criterion": "output.n == 7"}
    pay = tool("pay", tool="test.effect@1", compensation={"tool": "test.undo@1", "verify": verify})
    run = engine.submit(workflow(pay, tool("mail", "pay"), defaults={"on_failure": "compensate"}))
    for node, value in (("pay", {"n": 7}), ("undo:pay", {})):
        claimed = next(one for one in engine.claim() if one.node.id == node)
        send(engine, claimed, claimed.undo.business_key if claimed.undo else f"pay:{run}")
        engine.report(claimed, "succeeded", value, operation_status="succeeded")
        if node == "pay":
            engine.finish("mail", "failed")
    perform_step(engine, "undo-check:pay")
    told = read(admin, engine, run, "undo-check:pay")
    assert (told["source"], told["input"]) == ("recomputed", {"n": 7})
    assert read(admin, engine, run, "undo:pay")["source"] == "operation"


def test_each_execution_version_has_its_own(engine, admin):
    run = engine.submit(workflow(tool("a"), echo("b", "a", input=READS), LATER), {"order": "W1"})
    engine.finish("a", value={"n": 1})
    perform_step(engine, "b")
    engine.act(rerun_step, run, "a")
    engine.finish("a", value={"n": 2})
    perform_step(engine, "b")
    assert [read(admin, engine, run, "b", version)["input"]["n"] for version in (1, 2)] == [1, 2]


def test_the_error_of_what_failed_before_it_is_read_too(engine, admin):
    reads = {"class": {"$": "nodes.a.error.class"}, "status": {"$": "nodes.a.status"}}
    after = {"node": "a", "on_failure": "continue_on_error"}
    run = engine.submit(workflow(tool("a"), {**echo("b", input=reads), "after": [after]}, LATER))
    engine.finish("a", "failed")
    perform_step(engine, "b")
    assert read(admin, engine, run, "b")["input"] == {"class": "business", "status": "failed"}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE qd_checkpoint SET output = '{\"n\":8}' WHERE run_id = %s AND node = 'a'",
        "UPDATE qd_checkpoint SET output = NULL WHERE run_id = %s AND node = 'a'",
        "UPDATE qd_checkpoint SET output = 'no JSON' WHERE run_id = %s AND node = 'a'",
    ],
    ids=["changed", "gone", "broken"],
)
def test_nothing_is_shown_that_has_another_hash(engine, admin, db, change):
    run = engine.submit(workflow(tool("a"), echo("b", "a", input=READS), LATER), {"order": "W1"})
    engine.finish("a", value={"n": 7})
    perform_step(engine, "b")
    with past_every_guard(db) as connection:
        assert connection.execute(change, [run]).rowcount == 1
    told = read(admin, engine, run, "b")
    assert (told["source"], told["why_not"], "input" in told) == (None, "not_the_same", False)
    assert told["input_sha256"] is not None


def test_an_output_that_is_too_large_to_read_for_it_is_not_read(engine, admin, monkeypatch):
    run = engine.submit(workflow(tool("a"), echo("b", "a", input=READS), LATER), {"order": "W1"})
    engine.finish("a", value={"n": 7})
    perform_step(engine, "b")
    monkeypatch.setattr(arguments, "LARGEST_READ", 3)
    assert read(admin, engine, run, "b")["why_not"] == "not_the_same"


def test_what_is_not_there(engine, admin):
    run = engine.submit(workflow(tool("a")))
    problem(admin.get(f"steps/{uuid.uuid4()}/arguments/"), 404)
    problem(admin.get(f"steps/{engine.step(run, 'a').id}/arguments/?attempt=0"), 400)
