"""The runtime asks for a person in the transaction of the change (C8.4, invariant 7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.actions.runs import cancel_run
from runtime.actions.steps import kill_step
from runtime.kernel import seams
from runtime.models import Run
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def heard() -> Iterator[list[seams.CaseNeed]]:
    """What a listener heard, with the row it read in the same transaction."""
    needs: list[seams.CaseNeed] = []

    def listen(tx, asked):
        for need in asked:
            assert Run.objects.filter(id=need.run_id).exists()
            needs.append(need)

    seams.register_case_listener("test", listen)
    yield needs
    seams._case_listeners.pop("test")


def _sent(engine: Engine, recovery: str = "human") -> tuple[object, object, object]:
    run_id = engine.submit(workflow(tool("a"), tool("b")))
    claimed = next(c for c in engine.claim() if c.node.id == "a")
    return run_id, claimed, send(engine, claimed, f"need:{run_id}", recovery=recovery)


def _kinds(heard: list[seams.CaseNeed]) -> list[tuple[str, object]]:
    return [(need.kind, need.operation_id) for need in heard]


def test_an_effect_that_nothing_automatic_can_settle_needs_a_person(engine, heard):
    run_id, claimed, operation_id = _sent(engine)
    engine.report(claimed, "unknown", operation_status="unknown", error={"class": "network", "message": "dropped"})
    assert _kinds(heard) == [("operation_unknown", operation_id), ("run_attention", None)]
    assert heard[0].step_id == claimed.step_id
    assert heard[0].facts["business_key"] == f"need:{run_id}"
    assert heard[0].facts["error"]["class"] == "network"
    assert "applied" in heard[0].doubts


def test_one_that_can_be_queried_needs_nobody_yet(engine, heard):
    _run_id, claimed, _operation_id = _sent(engine, recovery="query")
    engine.report(claimed, "unknown", operation_status="unknown")
    assert heard == []


def test_a_success_after_the_cancel_is_told(engine, heard):
    run_id, claimed, operation_id = _sent(engine)
    cancel_run(actor=engine.actor, run_id=run_id, reason="ordered twice")
    assert heard == [], "the call is let end by itself"
    engine.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1")
    assert _kinds(heard) == [("late_success", operation_id)]
    assert heard[0].facts["external_ref"] == "P-1"


def test_an_outcome_that_stays_unknown_after_the_cancel_needs_a_person(engine, heard):
    run_id, claimed, operation_id = _sent(engine)
    cancel_run(actor=engine.actor, run_id=run_id, reason="ordered twice")
    engine.report(claimed, "unknown", operation_status="unknown", error={"class": "network", "message": "dropped"})
    assert _kinds(heard) == [("operation_unknown", operation_id), ("run_attention", None)]


def test_a_killed_steps_open_effect_needs_a_person(engine, heard):
    _run_id, claimed, operation_id = _sent(engine)
    engine.act(kill_step, claimed.run_id, "a")
    assert _kinds(heard) == [("operation_unknown", operation_id), ("run_attention", None)]


def test_a_kind_that_nobody_declared_is_a_mistake():
    with pytest.raises(ValueError, match="no kind"):
        seams.CaseNeed("whatever", "because")
