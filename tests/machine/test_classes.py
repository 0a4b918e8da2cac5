"""Classes of work: what ends by its class, in which order a class starts, and what no urgency takes away (C7.2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runtime.actions.limits import set_limit
from runtime.actions.reruns import new_run
from runtime.actions.settings import set_setting
from runtime.kernel.classes import CLASSES, class_of
from runtime.models import Operation
from runtime.store.tx import tenant_tx
from runtime.worker.claim import Claimer
from runtime.worker.maintenance import lost, timers
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.gates import Turnstile
from tests.support import db as support
from tests.support.clock import Clock
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C7.2"), pytest.mark.django_db(transaction=True)]
ONE = workflow(tool("a"))


def aims(engine: Engine, key: str, value: str | None) -> None:
    set_setting(actor=engine.actor, key=f"classes.{key}", value=value)


def test_every_priority_lies_in_one_class():
    assert list(CLASSES) == ["production_alert", "interactive", "approval", "batch", "experiment"]
    found = {priority: class_of(priority) for priority in (100, 80, 79, 60, 59, 40, 39, 0, -1, -50, -51, -100)}
    assert list(found.values()) == [
        *["production_alert"] * 2, *["interactive"] * 2, *["approval"] * 2, *["batch"] * 2, *["experiment"] * 4,
    ]  # fmt: skip


def test_a_task_without_a_deadline_of_its_own_has_its_classs(engine, clock: Clock):
    assert engine.run(engine.submit(ONE, priority=60)).deadline is None, "by default a class has no end"
    aims(engine, "interactive.end_s", "120")
    run = engine.run(engine.submit(ONE, priority=60))
    assert run.deadline == run.created_at + timedelta(seconds=120)
    assert engine.run(engine.submit(ONE, priority=59)).deadline is None
    later = clock.now() + timedelta(hours=1)
    planned = engine.run(engine.submit(ONE, priority=60, scheduled_at=later))
    assert planned.deadline == later + timedelta(seconds=120), "counted from its start"


def test_a_tasks_own_words_are_stronger_than_its_classs(engine, clock: Clock):
    aims(engine, "batch.end_s", "60")
    own = clock.now() + timedelta(days=3)
    assert engine.run(engine.submit(ONE, deadline=own)).deadline == own
    limited = engine.run(engine.submit(ONE, timeout=3600.0))
    assert limited.deadline == limited.created_at + timedelta(hours=1)
    aims(engine, "batch.end_s", None)
    assert engine.run(engine.submit(ONE)).deadline is None


def test_a_further_run_of_a_task_has_its_classs_time_anew(engine, clock: Clock):
    aims(engine, "batch.end_s", "60")
    first = engine.submit(ONE)
    engine.finish("a")
    clock.advance(500)
    again = engine.run(new_run(actor=engine.actor, task_id=engine.run(first).task_id)["run_id"])
    assert again.deadline == again.created_at + timedelta(seconds=60)


@pytest.mark.usefixtures("fresh_db")
def test_what_is_not_done_by_its_classs_end_is_ended_as_by_any_deadline(engine, clock: Clock):
    aims(engine, "batch.end_s", "60")
    run = engine.submit(ONE)
    clock.advance(61)
    assert engine.claim() == []
    timers.enforce_deadlines()
    assert (engine.run(run).status, engine.run(run).reason) == ("failed", "deadline")
    engine.check(run)


def test_within_a_class_the_nearest_end_starts_first(engine, clock: Clock):
    """The class's ends lie in the order of the submits, and so does the claim."""
    aims(engine, "batch.end_s", "60")
    runs = []
    for _ in range(3):
        runs.append(engine.submit(ONE))
        clock.advance(1)
    ends = [engine.run(run).deadline for run in runs]
    assert ends == sorted(ends)
    assert [engine.claim(1)[0].run_id for _ in runs] == runs


@pytest.mark.usefixtures("fresh_db")
@pytest.mark.parametrize("sent", [True, False], ids=["effect-sent", "before-its-intent"])
def test_nothing_urgent_takes_a_running_step_from_its_worker(engine, clock: Clock, sent: bool):
    """With a limit of one and late work of the highest class in front, an irreversible call goes on to its end."""
    set_limit(actor=engine.actor, scope="tool", name="core.noop", most=1)
    low = engine.submit(workflow(tool("pay"), name="pays"), priority=-100)
    (paying,) = engine.claim()
    if sent:
        send(engine, paying, f"pay:{low}", recovery="human")
    urgent = [engine.submit(workflow(tool("x"), name="urgent"), priority=100) for _ in range(5)]
    clock.advance(3600)
    other = Claimer(engine.open_session())
    assert engine.claim() == []
    assert other.claim(engine.tenant.id, "default", 10) == []
    _every_duty()
    step = engine.step(low, "pay")
    assert (step.status, step.worker_session_id, step.attempt, step.owner_epoch) == (
        "running", engine.session_id, paying.attempt, paying.owner_epoch,
    )  # fmt: skip
    assert "STEP_KILLED" not in engine.types(low, "pay")
    more: dict[str, Any] = {"operation_status": "succeeded", "kind": "external_fact"} if sent else {}
    engine.report(paying, "succeeded", {"n": 1}, **more)
    assert engine.statuses(low) == {"pay": "succeeded"}
    if sent:
        with tenant_tx(engine.tenant.id):
            assert list(Operation.objects.values_list("status", "sends")) == [("succeeded", 1)]
    Turnstile().run_once()
    (following,) = engine.claim()
    assert following.run_id in urgent
    engine.check(low)


def _every_duty() -> None:
    """Let everything look that moves steps without their workers, as the scheduler does."""
    with support.switched("default", role="worker"):
        lost.end_expired_sessions()
        lost.return_orphans()
        lost.doubt_orphaned_operations()
        timers.enforce_deadlines()
        Turnstile().run_once()
        evaluate()
