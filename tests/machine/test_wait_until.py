"""A wait's own time: whatever an expression gives, the step's row can be read again (C5.2)."""

from __future__ import annotations

import pytest

from runtime.worker.execute import begin
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C5.2"), pytest.mark.django_db(transaction=True)]
FLOW = workflow({"id": "pause", "kind": "wait", "until": "input.at"})


@pytest.mark.parametrize(
    "at", ["soon", 5, "9999-12-31T23:59:59-12:00", "9999-01-01T00:00:00Z", "0001-01-01T00:00:00+12:00"]
)
def test_what_is_no_time_fails_the_step(engine, at):
    engine.submit(FLOW, {"at": at})
    [claimed] = engine.claim()
    report = begin(claimed, lambda reference: pytest.fail(reference))
    assert (report.outcome, report.error["class"]) == ("failed", "validation")


@pytest.mark.parametrize("at", ["9998-12-31T23:59:59Z", "9998-12-31T23:59:59"])
def test_the_last_year_can_be_waited_for_and_cancelled(engine, at):
    run_id = engine.submit(FLOW, {"at": at})
    [claimed] = engine.claim()
    report = begin(claimed, lambda reference: pytest.fail(reference))
    assert report.outcome == "yielded"
    engine.report(claimed, "yielded", cause="timer", not_before=report.not_before)
    assert engine.step(run_id, "pause").not_before.year == 9998
    engine.check(run_id)
