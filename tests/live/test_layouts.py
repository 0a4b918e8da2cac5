"""Drawings are stored by the layout duty, read by whoever may read the run, and stand in simply until then."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from runtime.actions.rerun import rerun_step
from runtime.graph import plans
from runtime.kernel.errors import NotFound
from runtime.models import Layout
from runtime.queries import graphs
from runtime.queries.graphs import read_graph, read_patch
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance import layouts
from runtime.worker.maintenance.layouts import Artist, draw_missing
from tests.support.actors import member
from tests.support.engine import Engine, force_columns
from tests.support.patience import patient
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A9.7"), pytest.mark.usefixtures("db")]
# The duty draws whatever version of whatever tenant has no drawing yet.
alone = pytest.mark.usefixtures("fresh_db")


@pytest.fixture
def engine(tenant: Any) -> Engine:
    return Engine(tenant)


def diamond(name: str) -> dict[str, Any]:
    return workflow(tool("a"), tool("b", "a"), tool("c", "a"), tool("d", "b", "c"), name=name)


def draw(as_role: Any) -> int:
    with as_role("worker"):
        made = 0
        while some := draw_missing():
            made += some
    return made


@alone
def test_a_simple_drawing_stands_in_until_the_duty_has_drawn(engine, other_tenant, as_role):
    run_id = engine.submit(diamond("stands-in"))
    reader = member(engine.tenant, "viewer")
    before = read_graph(actor=reader, run_id=run_id)
    assert before["layout"]["engine"] == "layered"
    assert draw(as_role) >= 1
    assert draw(as_role) == 0
    after = read_graph(actor=reader, run_id=run_id)
    assert after["layout"]["engine"] == "graphlay"
    for graph in (before, after):
        places = {(node["x"], node["y"]) for node in graph["nodes"]}
        assert len(places) == 4
        assert all(len(edge["points"]) >= 4 for edge in graph["edges"])
        assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == [
            ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"),
        ]  # fmt: skip
    with tenant_tx(other_tenant.id):
        assert not Layout.objects.exists()
    with pytest.raises(NotFound):
        read_graph(actor=member(other_tenant, "admin"), run_id=run_id)


@alone
def test_the_web_may_not_write_drawings(engine, as_role):
    engine.submit(diamond("walls"))
    draw(as_role)
    with tenant_tx(engine.tenant.id) as tx:
        version = tx.rows("read_workflow_version", ("walls", 1))[0][0]
    with pytest.raises(psycopg.errors.InsufficientPrivilege), tenant_tx(engine.tenant.id) as tx:
        tx.send("store_layout", (version, engine.tenant.id, 1, b"{}"))


@alone
def test_a_drawing_of_an_older_format_is_made_anew(engine, as_role, monkeypatch):
    engine.submit(diamond("formats"))
    draw(as_role)
    for module in ("runtime.worker.maintenance.layouts", "runtime.queries.graphs"):
        monkeypatch.setattr(f"{module}.FORMAT", 2)
    assert draw(as_role) >= 1
    with tenant_tx(engine.tenant.id):
        assert Layout.objects.get().format == 2


def test_more_unreadable_versions_than_a_batch_keep_no_other_from_being_drawn(fresh_db, engine, as_role, monkeypatch):
    """The newest are drawn first, and these are."""
    monkeypatch.setattr(layouts, "BATCH", 2)
    run_id = engine.submit(diamond("readable"))
    for number in range(5):
        engine.submit(diamond(f"unreadable-{number}"))
        with tenant_tx(engine.tenant.id) as tx:
            version = tx.rows("read_workflow_version", (f"unreadable-{number}", 1))[0][0]
        force_columns(fresh_db, "qd_workflow_version", version, spec=b"{}")
    plans._by_version.clear()
    with as_role("worker"):
        assert sum(draw_missing() for _ in range(4)) == 1
    assert read_graph(actor=member(engine.tenant, "viewer"), run_id=run_id)["layout"]["engine"] == "graphlay"
    plans._by_version.clear()


@alone
def test_the_duty_does_not_keep_the_scheduler_waiting(engine, as_role):
    engine.submit(diamond("beside"))
    with as_role("worker"):
        artist = Artist()
        artist.run_once()
        assert artist._thread is not None
        assert artist._thread.is_alive(), "it draws on beside"
        artist._thread.join(patient(60))
        assert not artist._thread.is_alive()
    with tenant_tx(engine.tenant.id):
        assert Layout.objects.count() == 1


def test_a_patch_holds_what_moved_and_a_rerun_shows_the_new_row(engine):
    run_id = engine.submit(diamond("patches"))
    for node in ("a", "b"):
        engine.finish(node)
    reader = member(engine.tenant, "viewer")
    whole = read_patch(actor=reader, run_id=run_id, after=None)
    assert {step["node"] for step in whole["steps"]} == {"a", "b", "c", "d"}
    seq = whole["run"]["seq"]
    assert read_patch(actor=reader, run_id=run_id, after=seq)["steps"] == []
    engine.act(rerun_step, run_id, "b")
    patch = read_patch(actor=reader, run_id=run_id, after=seq)
    moved = {step["node"]: step for step in patch["steps"]}
    assert moved["b"]["execution_version"] == 2
    assert moved["b"]["id"] == engine.step(run_id, "b").id
    assert patch["run"]["seq"] == engine.run(run_id).seq


def test_a_node_is_called_by_its_title_and_without_one_by_its_id(engine):
    named = {**tool("a"), "title": "Look it up"}
    wait = {"id": "w", "kind": "wait", "seconds": 5, "title": "Let it settle", "after": ["a"]}
    run_id = engine.submit(workflow(named, wait, tool("b", "w"), name="titled"))
    graph = read_graph(actor=member(engine.tenant, "viewer"), run_id=run_id)
    assert {one["id"]: one["title"] for one in graph["nodes"]} == {"a": "Look it up", "w": "Let it settle", "b": "b"}


def test_since_when_a_step_is_held(engine):
    ask = {"id": "ask", "kind": "approval", "title": "Go on?", "role": "approver", "payload": {}, "after": ["a"]}
    run_id = engine.submit(workflow(tool("a"), ask, name="held"))
    engine.finish("a")
    reader = member(engine.tenant, "viewer")
    event = next(e for e in engine.events(run_id, "ask") if e.to_status == "hold")
    for steps in (
        read_patch(actor=reader, run_id=run_id, after=None)["steps"],
        read_patch(actor=reader, run_id=run_id, after=event.seq - 1)["steps"],
        [node["step"] for node in read_graph(actor=reader, run_id=run_id, brief=True)["nodes"]],
    ):
        held = next(step for step in steps if step["node"] == "ask")
        assert (held["status"], held["since"]) == ("hold", event.occurred_at)


def test_a_large_graph_is_read_with_groups(engine):
    nodes = [tool("root"), *(tool(f"leaf_{i}", "root") for i in range(1100))]
    run_id = engine.submit(workflow(*nodes, name="large"))
    graph = read_graph(actor=member(engine.tenant, "viewer"), run_id=run_id, brief=True)
    groups = graph["layout"]["groups"]
    assert groups["labels"] == ["root", "leaf"]
    assert {node["group"] for node in graph["nodes"]} == {0, 1}
    assert groups["links"] == [[0, 1, 1100]]
    assert len(graphs._simple) >= 1, "made once, not at every look"
