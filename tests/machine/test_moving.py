"""What becomes of a step whose worker is lost, as its workflow says it (C2.8).

That a write which was sent is asked about first, is shown with real workers in ``tests/faults/test_killed.py``.
"""

from __future__ import annotations

import pytest

from runtime.actions.steps import release_step
from runtime.store.tx import plain_tx
from runtime.worker.maintenance import lost
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C2.8"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]


def lose(engine: Engine) -> dict[str, int]:
    """Lose the worker of what was claimed."""
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))
    engine.renew()
    return lost.return_orphans()


@pytest.mark.parametrize("said", [{}, {"on_lost": "recompute"}], ids=["by default", "by the workflow"])
def test_a_call_that_only_reads_is_made_again(engine, said):
    run_id = engine.submit(workflow(tool("a", **said)))
    engine.claim()
    assert lose(engine)["replayed"] == 1
    assert engine.statuses(run_id) == {"a": "queued"}
    assert [one.attempt for one in engine.claim()] == [2]


def test_a_call_waits_for_a_person_where_the_workflow_says_so(engine):
    run_id = engine.submit(workflow(tool("a", on_lost="hold"), tool("b"), tool("c", "a")))
    engine.claim()
    counts = lose(engine)
    assert (counts["parked"], counts["replayed"]) == (1, 1)
    assert engine.statuses(run_id) == {"a": "hold(review)", "b": "queued", "c": "waiting"}
    engine.act(release_step, run_id, "a")
    assert engine.statuses(run_id)["a"] == "queued"
    engine.check(run_id)


def test_a_write_that_was_sent_is_in_doubt_whatever_the_workflow_says(engine):
    run_id = engine.submit(workflow(tool("a", on_lost="hold")))
    (claimed,) = engine.claim()
    send(engine, claimed, f"moved:{run_id}", recovery="query")
    assert lose(engine)["unknown"] == 1
    assert engine.statuses(run_id) == {"a": "unknown(lease_lost)"}


def test_a_person_is_asked_on_whoever_is_lost(engine):
    ask = {"id": "ask", "kind": "approval", "title": "May it?", "role": "approver", "on_timeout": "keep"}
    run_id = engine.submit(workflow(ask, tool("a")))
    engine.claim()
    assert lose(engine)["replayed"] == 1
    assert engine.statuses(run_id) == {"ask": "hold(approval)", "a": "queued"}
