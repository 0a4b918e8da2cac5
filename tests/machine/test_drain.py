"""The adaptive claim: many short steps at once, a long one alone, and what is not begun in time is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.kernel.conf import conf
from runtime.models import Attempt
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker import pace
from runtime.worker.drain import Drain
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.session import Session
from tests.support.engine import Engine
from tests.support.nodes import node
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("A4.3", "C2.7"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]
SLOTS = 4


@pytest.fixture
def drain(engine: Engine, settings: Any, request: pytest.FixtureRequest) -> Iterator[Drain]:
    """A worker with four slots in the test's own process; a test may name its pools."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "slots": SLOTS, "pools": getattr(request, "param", ("default",))}
    conf.cache_clear()
    drain = Drain(Session())
    yield drain
    drain.session.end()
    settings.QUARTERDECK = {}
    conf.cache_clear()


@pytest.fixture
def claims(drain: Drain) -> list[int]:
    """How many steps each claim of the drain brought."""
    sizes: list[int] = []
    claim: Callable[..., Any] = drain.claimer.claim

    def counted(*arguments: Any) -> Any:
        found = claim(*arguments)
        sizes.append(len(found))
        return found

    drain.claimer.claim = counted  # type: ignore[method-assign]
    return sizes


def slow(engine: Engine, seconds: float, steps: int) -> dict[str, Any]:
    """Return a workflow of steps that each keep the drain's own thread so long."""
    body = {
        "name": "t.slow",
        "version": 1,
        "adapter": "python",
        "config": {"callable": "runtime.tools.builtin:sleep"},
        "input_schema": {"type": "object"},
        "side_effect": "none",
        "recovery": "replayable",
        "runs": "inline",
    }
    register_tool(actor=engine.actor, contract=body)
    return workflow(*(node(f"n{i}", "t.slow@1", input={"seconds": seconds}) for i in range(steps)))


def test_short_steps_are_claimed_in_batches_by_how_quickly_they_run(engine, drain, claims):
    run_id = engine.submit(workflow(*(tool(f"n{i:03}") for i in range(300))))
    drain.run()
    assert engine.run(run_id).status == "completed"
    assert claims[0] == SLOTS, "nothing is known yet: as many as there are slots"
    assert max(claims) > 2 * SLOTS
    assert len([one for one in claims if one]) < 300 / SLOTS


def test_a_long_step_is_claimed_alone(engine, drain, claims):
    run_id = engine.submit(slow(engine, 2 * pace.INLINE_SECONDS, SLOTS + 3))
    drain.run()
    assert engine.run(run_id).status == "completed"
    assert [one for one in claims if one] == [SLOTS, 1, 1, 1]


def test_a_long_step_that_becomes_ready_is_taken_alone_too(engine, drain):
    """Going on with a run's successors keeps to the same rule: the others are left to whoever has time."""
    body = slow(engine, 2 * pace.INLINE_SECONDS, SLOTS)
    body["nodes"] = [
        *(node(f"n{i}", "t.slow@1", input={"seconds": 2 * pace.INLINE_SECONDS}) for i in range(2)),
        *(node(f"m{i}", "t.slow@1", "n0", "n1", input={"seconds": 2 * pace.INLINE_SECONDS}) for i in range(SLOTS)),
    ]
    run_id = engine.submit(body)
    most, start = [], drain._start

    def counted(tenant_id: Any, claimed: Any) -> None:
        most.append([one.node.id[0] for one in claimed])
        start(tenant_id, claimed)

    drain._start = counted  # type: ignore[method-assign]
    drain.run()
    assert engine.run(run_id).status == "completed"
    assert [len(batch) for batch in most if "m" in batch] == [1] * SLOTS


def test_what_is_not_begun_within_a_share_of_the_lease_is_given_back_and_done(engine, drain, claims, monkeypatch):
    monkeypatch.setattr(pace, "SHARE_OF_LEASE", conf().lease_seconds / 0.15)
    run_id = engine.submit(slow(engine, 0.2, SLOTS))
    drain.run()
    fire_timers()  # as the scheduler does for whoever has time
    drain.run()
    assert engine.run(run_id).status == "completed"
    assert claims[0] == SLOTS
    with tenant_tx(engine.tenant.id):
        outcomes = list(Attempt.objects.filter(run_id=run_id).order_by("started_at").values_list("outcome", flat=True))
    # The first kept the thread beyond its share: the other three went back, unbegun, and were claimed anew.
    assert outcomes.count("given_back") == SLOTS - 1
    assert outcomes.count("succeeded") == SLOTS
    assert set(outcomes) == {"given_back", "succeeded"}
    given = [e for e in engine.events(run_id) if e.type == "STEP_GIVEN_BACK"]
    assert len(given) == outcomes.count("given_back")
    engine.check(run_id)


@pytest.mark.parametrize("drain", [("gpu", "mail")], indirect=True)
def test_a_worker_takes_what_its_pools_name_and_leaves_the_rest(engine, drain):
    """A tool, a node or a task says which workers its steps need; a worker says which it is (`QUARTERDECK_POOLS`)."""
    run_id = engine.submit(workflow(tool("a", pool="gpu"), tool("b", pool="mail"), tool("c"), tool("d", pool="other")))
    whole = engine.submit(workflow(tool("a"), tool("b", "a"), name="whole"), pool="mail")
    drain.run()
    assert engine.statuses(run_id) == {"a": "succeeded", "b": "succeeded", "c": "queued", "d": "queued"}
    assert engine.run(whole).status == "completed", "the task's own pool holds for all of its steps"
    with tenant_tx(engine.tenant.id):
        assert set(Attempt.objects.filter(run_id=run_id).values_list("worker_session_id", flat=True)) == {
            drain.session.id
        }
