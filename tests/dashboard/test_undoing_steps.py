"""A step that undoes an effect is no node of the graph, and is found, opened and asked about like any other."""

from __future__ import annotations

import re
import uuid
from html import unescape

import pytest

from runtime.actions.runs import cancel_run
from runtime.queries.graphs import read_graph
from runtime.tools.registry import register_tool
from tests.support.operations import send
from tests.support.pages import Reader, Scene
from tests.support.specs import tool, workflow
from tests.support.workers import python_tool

pytestmark = [pytest.mark.req("A9.5", "B9.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def undone(made: Scene) -> uuid.UUID:
    """A cancelled run whose paid order is being undone."""
    engine = made.engine
    for name in ("effect", "undo"):
        register_tool(actor=engine.actor, contract={**python_tool("effect", writes=True), "name": f"test.{name}"})
    pay = tool("pay", tool="test.effect@1", title="Pay the order", compensation={"tool": "test.undo@1"})
    run_id = engine.submit(workflow(pay, tool("mail", "pay"), defaults={"on_failure": "compensate"}), {})
    [claimed] = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, f"pay:{run_id}")
    engine.report(claimed, "succeeded", operation_status="succeeded")
    cancel_run(actor=engine.actor, run_id=run_id, reason="")
    return run_id


def test_its_drawer_is_its_own(made: Scene, admin: Reader, undone: uuid.UUID):
    step, paid = (made.engine.step(undone, name).id for name in ("undo:pay", "pay"))
    for address in (f"/runs/{undone}/steps/?step=undo%3Apay", f"/runs/{undone}/?step=undo%3Apay&part=why"):
        shown = admin.get(address)
        assert "Undoing: Pay the order</h2>" in shown
        assert f'data-copy="{step}"' in shown
        assert f'data-copy="{paid}"' not in shown
        verbs = set(re.findall(r"/steps/([0-9a-f-]{36})/verbs/([\w-]+)/", shown))
        assert {one for one, _verb in verbs} == {str(step)}
        assert {verb for _one, verb in verbs} <= {"hold", "release", "kill", "rerun"}
    for verb in ("hold", "kill"):
        assert "Undoing: Pay the order" in admin.get(f"/steps/{step}/verbs/{verb}/")
    assert "It undoes an effect" in admin.get(f"/steps/{step}/verbs/skip/")
    where = admin.client.get(f"/steps/{step}/").headers["Location"]
    assert "Undoing: Pay the order</h2>" in admin.get(unescape(where))


def test_it_is_counted_and_listed(made: Scene, admin: Reader, undone: uuid.UUID):
    steps = admin.get(f"/runs/{undone}/steps/")
    assert re.search(r'Steps\s*<span class="n">3</span>', steps), "as many as the table has rows"
    assert len(re.findall(r"<tr data-href=", steps)) == 3
    assert "Undoing: Pay the order" in admin.get(f"/runs/{undone}/timeline/")
    why = admin.get(f"/runs/{undone}/why/")
    assert '<option value="undo:pay"' in why
    assert "step=undo%3Apay" in unescape(admin.get(f"/runs/{undone}/why/?node=undo:pay"))


def test_the_graph_names_it_apart(made: Scene, undone: uuid.UUID):
    graph = read_graph(actor=made.engine.actor, run_id=undone)
    assert [one["id"] for one in graph["nodes"]] == ["pay", "mail"]
    [one] = graph["undoing"]
    assert (one["id"], one["undoes"], one["step"]["node"]) == ("undo:pay", "pay", "undo:pay")
