"""What went wrong elsewhere with workers, retries and effects, replayed here against a shop's own books (C8.5).

The same with frozen and killed processes: ``tests/faults``. What went wrong with approvals:
``tests/approvals/test_incidents.py``.
"""

from __future__ import annotations

import ast
import uuid
from pathlib import Path

import pytest

from runtime.actions.rerun import rerun_step
from runtime.actions.reruns import new_run
from runtime.actions.runs import cancel_run
from runtime.kernel.errors import Conflict
from runtime.queries.alerts import list_alerts
from runtime.queries.steps import read_step
from runtime.worker.maintenance import alerts, lost, reconcile, timers
from runtime.worker.work import Report
from tests.support.incidents import LEFT, holds, incidents
from tests.support.place import Worker
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.5", "C2.9", "C3.3"), pytest.mark.django_db(transaction=True)]
TESTS = Path(__file__).resolve().parents[1]


def order() -> str:
    return f"R-{uuid.uuid4().hex[:8]}"


def reap() -> None:
    """What the scheduler does about workers that are gone."""
    lost.end_expired_sessions()
    lost.return_orphans()


def test_a_long_step_is_not_handed_out_while_its_worker_renews(place, clock):
    """INC-01: mails to all ticket holders went out up to four times."""
    orders = [order() for _ in range(12)]
    mails = [
        tool(f"mail{n}", tool="shop.mail@1", business_key=f"'mail:{one}'",
             input={"order_id": one, "to": f"{one}@example.org", "subject": "Your ticket"})
        for n, one in enumerate(orders)
    ]  # fmt: skip
    run_id = place.submit(workflow(*mails, name="mails"))
    first, second = Worker(place, lease=60), Worker(place)
    claimed = first.claim()
    assert len(claimed) == len(orders)
    with holds("INC-01", "W2 never starts the Step while W1 renews"):
        for _ in range(24):
            clock.advance(10)
            assert first.renew(60)
            reap()
            assert second.claim() == []
    place.call(claimed)
    with holds("INC-01", "each Operation key has exactly 1 external effect"):
        assert [len(place.shop.effects(one, "mails")) for one in orders] == [1] * len(orders)
        assert {one.sends for one in place.operations(run_id)} == {1}
    assert place.run(run_id).status == "completed"


def test_a_worker_that_stopped_renewing_commits_nothing_after_a_newer_claim(place, clock):
    """INC-03: long jobs were delivered again while they still ran."""
    run_id = place.submit(workflow(tool("work"), name="long"))
    first, second = Worker(place, lease=30), Worker(place)
    [late] = first.claim()
    clock.advance(31)
    assert not first.renew(30)
    reap()
    [newer] = second.claim()
    place.report(newer, "succeeded", {"by": "second"})
    with holds("INC-03", "W1 finish is refused (stale token)"):
        place.report(late, "succeeded", {"by": "first"})
        assert place.types(run_id)[-1] == "STALE_SUBMIT"
    with holds("INC-03", "Step has exactly one result, from W2"):
        step = place.step(run_id, "work")
        assert (step.status, step.owner_epoch) == ("succeeded", newer.owner_epoch)
        assert read_step(actor=place.admin, step_id=step.id)["checkpoint"]["output"] == {"by": "second"}
    with holds("INC-03", "both attempts are visible in history"):
        assert place.attempts(run_id, "work") == [(1, "lost"), (2, "succeeded")]
    place.check(run_id)


def test_a_retry_by_the_engine_and_one_by_a_supervisor_are_one(place, clock):
    """INC-09: one run was executed in two places at the same time; rows were inserted twice."""
    one = order()
    run_id = place.refunding(one)
    first = Worker(place)
    [claimed] = first.claim()
    place.submit_report(
        Report(claimed, "retry", error={"class": "transient", "message": "busy"}, cause="retry_scheduled",
               not_before=claimed.now)
    )  # fmt: skip
    # The supervisor starts the process again while the engine has scheduled its own retry.
    first.die()
    again, other = Worker(place), Worker(place)
    clock.advance(120)
    timers.fire_timers()
    reap()
    with holds("INC-09", "max concurrent attempts==1"):
        claims = together(again.claim, other.claim)
        assert sorted(len(found) for found in claims) == [0, 1]
    [[mine]] = [found for found in claims if found]
    place.call([mine])
    place.work()
    with holds("INC-09", "rows inserted once per key"):
        assert place.refunds(one) == 1
        assert [row.sends for row in place.operations(run_id)] == [1]
    assert place.run(run_id).status == "completed"


def test_a_lost_worker_leaves_its_effect_unknown_and_the_step_goes_on_with_what_a_query_says(place, as_role):
    """INC-11: a task was called a zombie while its remote job still ran; a retry would have started it twice."""
    one = order()
    run_id = place.refunding(one)
    first, second = Worker(place), Worker(place)
    [claimed] = first.claim()
    place.call_and_vanish(claimed)
    first.die()
    reap()
    with as_role("worker"):
        lost.doubt_orphaned_operations()
    with holds("INC-11", "Run shows needs repair / unknown"):
        assert place.step(run_id, "pay").status == "unknown"
        assert [row.status for row in place.operations(run_id)] == ["unknown"]
    with holds("INC-11", "no second external job"):
        assert second.claim() == []
        assert place.refunds(one) == 1
    with holds("INC-11", "after probe says running or done, the Step continues with that result"):
        reconcile.reconcile()
        step = place.step(run_id, "pay")
        output = read_step(actor=place.admin, step_id=step.id)["checkpoint"]["output"]
        assert (step.status, output["order_id"]) == ("succeeded", one)
        place.work()
        assert (place.run(run_id).status, place.refunds(one)) == ("completed", 1)
    place.check(run_id)


def test_a_lost_attempt_is_detected_once(place, clock):
    """INC-13: the same zombie was handled twice, and its retry was lost."""
    run_id = place.submit(workflow(tool("work"), name="zombie"))
    first, second = Worker(place), Worker(place)
    first.claim()
    clock.advance(60)  # who started longer ago than that does not stand in for it
    first.die()
    found = []
    for _ in range(3):
        found.append(lost.return_orphans()["replayed"])
        alerts.evaluate()
    assert found == [1, 0, 0]
    with holds("INC-13", "one alert per lost attempt"):
        assert place.types(run_id).count("STEP_UNKNOWN") == 1
        told = list_alerts(actor=place.admin, rule="worker_lost").items
        assert [(one["count"], len(one["subjects"])) for one in told] == [(1, 1)]
        assert len([one for one in place.attempts(run_id, "work") if one[1] == "lost"]) == 1
    [again] = second.claim()
    with holds("INC-13", "attempt count grows by 1 only"):
        assert place.step(run_id, "work").attempt == 2
    place.report(again, "succeeded")
    assert place.run(run_id).status == "completed"


def test_a_worker_that_starts_late_finds_its_right_gone(place, clock):
    """INC-29: a run that did not start in time was failed, and its worker came all the same while a retry ran."""
    one = order()
    run_id = place.refunding(one)
    late, newer = Worker(place, lease=30), Worker(place)
    [claimed] = late.claim()
    clock.advance(31)
    reap()
    place.call(newer.claim())
    with holds("INC-29", "first worker is refused"):
        calls, reports = place.send(claimed)
        assert calls == []
        place.submit_report(*reports)
        assert place.types(run_id)[-1] == "STALE_SUBMIT"
    place.work()
    with holds("INC-29", "one execution"):
        assert place.refunds(one) == 1
        assert place.attempts(run_id, "pay") == [(1, "lost"), (2, "succeeded")]
    assert place.run(run_id).status == "completed"


def test_what_a_person_cancelled_is_not_tried_again(place, clock):
    """INC-31: a run a person had ended was retried by itself."""
    node = tool("work", retry={"max_attempts": 3, "retry_on": ["transient"]})
    run_id = place.submit(workflow(node, name="cancelled"))
    [claimed] = place.claim()
    cancel_run(actor=place.oncall, run_id=run_id, reason="not wanted")
    place.submit_report(
        Report(claimed, "retry", error={"class": "transient", "message": "busy"}, cause="retry_scheduled",
               not_before=claimed.now)
    )  # fmt: skip
    with holds("INC-31", "no further attempt"):
        for _ in range(3):
            clock.advance(120)
            timers.fire_timers()
            timers.enforce_cancels()
            reap()
            assert place.claim() == []
        assert len(place.attempts(run_id, "work")) == 1
        assert place.cases(run_id) == []
    assert place.run(run_id).status == "cancelled"


def test_running_it_again_while_the_outcome_is_unknown_shows_the_first_and_charges_once(place, clock):
    """INC-33: customers were charged two or three times by trying a slow charge again."""
    one = order()
    first = place.refunding(one)
    [claimed] = place.claim()
    place.call_and_vanish(claimed)
    error = {"class": "network", "message": "the answer was lost"}
    place.submit_report(Report(claimed, "unknown", error=error, operation_status="unknown"))
    [before] = place.operations()
    with holds("INC-33", "second press shows the first operation; one charge"):
        # On the step, on the task, and once more from the customer's page.
        with pytest.raises(Conflict):
            place.act(rerun_step, first, "pay")
        with pytest.raises(Conflict) as refused:
            new_run(actor=place.oncall, task_id=place.run(first).task_id, reason="once more")
        assert refused.value.run_id == first
        second = place.refunding(one)
        place.work()
        assert place.refunds(one) == 1
        [only] = place.operations()
        assert (only.id, only.status, only.sends) == (before.id, "unknown", 1)
        reconcile.reconcile()
        clock.advance(120)
        timers.fire_timers()
        place.work()
        [only] = place.operations()
        assert (only.id, only.status, only.sends, place.refunds(one)) == (before.id, "succeeded", 1, 1)
    assert [place.run(run_id).status for run_id in (first, second)] == ["completed", "completed"]


@pytest.mark.skipif(not incidents(), reason="QUARTERDECK_INPUTS: no incidents")
def test_every_line_of_every_incident_is_asserted():
    said: dict[str, set[str]] = {}
    for path in (TESTS / "repair" / "test_incidents.py", TESTS / "approvals" / "test_incidents.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "holds":
                incident, line = (ast.literal_eval(one) for one in node.args)
                said.setdefault(incident, set()).add(line)
    wanted = {name: set(one["must_hold"]) for name, one in incidents().items() if name not in LEFT}
    assert said == wanted
    assert set(LEFT) <= set(incidents())
