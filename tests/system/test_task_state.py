"""The business State and the arguments of steps, of runs that real worker processes carried out."""

from __future__ import annotations

import pytest

from runtime.queries.arguments import read_arguments
from runtime.queries.tasks import read_task
from tests.support.nodes import echo
from tests.support.specs import tool

pytestmark = pytest.mark.req("A1.1", "A1.3", "A9.5", "C1.2")


def test_workers_write_the_state_and_what_they_called_is_made_again(stack, desk):
    flow = desk.workflow(
        echo("a", input={"order": {"$": "input.order"}}),
        echo("b", "a", input={"was": {"$": "nodes.a.output.order"}, "who": {"$": "task.created_by"}}),
        tool("c", "b"),
        state={"order": {"$": "nodes.b.output.was"}},
    )
    run_id = desk.submit(flow, {"order": "W1"})
    run = desk.wait(run_id)
    assert run.status == "completed"
    assert read_task(actor=desk.actor, task_id=run.task_id)["state"] == {"order": "W1"}
    for node, given in (("a", {"order": "W1"}), ("b", {"was": "W1", "who": desk.actor.label}), ("c", {})):
        told = read_arguments(actor=desk.actor, step_id=desk.step(run_id, node).id)
        assert (told["source"], told["input"]) == ("recomputed", given), node
