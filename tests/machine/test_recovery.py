"""Recovery looks before it goes on: what the run was bound to, and that nothing is missing (C4.4)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.retiring import retire_tool
from runtime.actions.steps import release_step
from runtime.queries.checkpoints import read_recovery_point
from runtime.store.tx import plain_tx
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, begin
from runtime.worker.maintenance import lost
from tests.support.engine import Engine, past_every_guard
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C4.4", "A9.5"), pytest.mark.django_db(transaction=True)]


def lose(engine: Engine, *nodes: dict[str, Any]) -> tuple[uuid.UUID, Any]:
    """Claim the roots of a run and lose their worker; nothing of it was sent."""
    run = engine.submit(workflow(*nodes))
    claimed = engine.claim()
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    engine.renew()
    return run, claimed[0]


def parked(engine: Engine, run: uuid.UUID, node: str, says: str) -> None:
    assert engine.statuses(run)[node] == "hold(recovery)"
    row = engine.run(run)
    assert row.status == "needs_attention"
    assert set(row.attention) == {"owner", "evidence", "due"}
    assert says in row.attention["evidence"]
    engine.check(run)


@pytest.mark.usefixtures("fresh_db")
def test_what_agrees_goes_on_under_a_new_epoch(engine):
    run, claimed = lose(engine, tool("a"))
    assert lost.return_orphans()["replayed"] == 1
    step = engine.step(run, "a")
    assert (step.status, step.owner_epoch) == ("queued", claimed.owner_epoch + 1)
    engine.check(run)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "UPDATE qd_tool_version SET contract_sha256 = sha256('x') WHERE name = 'core.noop' AND tenant_id = %s",
            "contract",
        ),
        ("UPDATE qd_workflow_version SET spec_sha256 = sha256('x') WHERE tenant_id = %s", "workflow version"),
    ],
    ids=["tool-changed", "workflow-changed"],
)
def test_what_does_not_agree_is_parked_and_never_skipped(engine, fresh_db, change, says):
    run, claimed = lose(engine, tool("a"), tool("b", "a"))
    with past_every_guard(fresh_db) as connection:
        connection.execute(change, [engine.tenant.id])
    _parked_and_released(engine, run, claimed, says)


@pytest.mark.usefixtures("fresh_db")
def test_a_step_of_a_retired_tool_is_parked_when_its_worker_is_lost(engine):
    run, claimed = lose(engine, tool("a"), tool("b", "a"))
    retire_tool(actor=engine.actor, name="core.noop", version=1, reason="it is replaced")
    _parked_and_released(engine, run, claimed, "retired")


def _parked_and_released(engine, run, claimed, says):
    assert lost.return_orphans()["parked"] == 1
    parked(engine, run, "a", says)
    assert engine.statuses(run)["b"] == "waiting"
    assert engine.step(run, "a").owner_epoch == claimed.owner_epoch + 1, "the old worker is frozen all the same"
    assert engine.claim() == []
    engine.act(release_step, run, "a")
    assert engine.statuses(run)["a"] == "queued", "a person lets it go on"
    engine.check(run)


@pytest.mark.req("C4.2", "C4.3")
def test_the_point_of_recovery_holds_what_going_on_needs(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), {"id": "t", "kind": "wait", "seconds": 60}))
    [claimed] = engine.claim()
    send(engine, claimed, f"a:{run}")
    point = read_recovery_point(actor=engine.actor, run_id=run)
    steps = {one["node"]: one for one in point["steps"]}
    assert (point["run_seq"], point["workflow"]) == (engine.run(run).seq, "w")
    assert list(point["manifest"]["tools"]) == ["core.noop@1"]
    assert steps["a"]["owner_epoch"] == claimed.owner_epoch
    assert steps["a"]["worker_session"] == str(engine.session_id)
    assert steps["a"]["lease_until"] is not None
    assert (steps["a"]["result"], steps["b"]["dependencies"]["pending"]) == (None, 1)
    assert steps["t"]["timer"] is not None
    assert [(one["business_key"], one["status"], one["sends"]) for one in point["operations"]] == [
        (f"a:{run}", "sent", 1)
    ]
    engine.report(claimed, "succeeded", {"n": 1}, operation_status="succeeded", kind="external_fact")
    point = read_recovery_point(actor=engine.actor, run_id=run)
    result = next(one for one in point["steps"] if one["node"] == "a")["result"]
    assert (result["kind"], point["operations"][0]["status"]) == ("external_fact", "succeeded")
    assert result["run_seq"] <= point["run_seq"]


def test_a_stored_output_that_is_gone_is_not_taken_for_nothing(engine, fresh_db, settings):
    from runtime.tools.registry import known_tool

    run = engine.submit(workflow(tool("a"), tool("b", "a", tool="core.echo@1", input={"x": {"$": "nodes.a.output"}})))
    engine.finish("a", value={"text": "x" * 100_000})
    with past_every_guard(fresh_db) as connection:
        connection.execute("UPDATE qd_artifact SET content = NULL WHERE tenant_id = %s", [engine.tenant.id])
    [claimed] = engine.claim()
    report = begin(claimed, lambda reference: known_tool(engine.tenant.id, reference))  # type: ignore[arg-type,return-value]
    assert not isinstance(report, Prepared)
    complete(engine.tenant.id, [report])
    parked(engine, run, "b", "output of a is gone")
