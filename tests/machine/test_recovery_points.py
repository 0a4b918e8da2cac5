"""The recovery point, measured by workflow version: what the loss of a worker costs; too much is told (C4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kernel.conf import conf
from runtime.kernel.errors import InvalidWorkflow
from runtime.models import Outbox
from runtime.queries.alerts import list_alerts
from runtime.queries.recovery import recovery_points
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance import alerts, lost
from tests.api.test_commands import run as command
from tests.support import db as support
from tests.support.clock import Clock
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.pages import Reader
from tests.support.specs import tool, workflow
from tests.support.statements import captured

# Alone in a database: these duties look at every tenant.
pytestmark = [
    pytest.mark.req("C4.3", "C4.4"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]


def lose(engine: Engine, clock: Clock, seconds: float, found_after: float = 0.0) -> None:
    """End the engine's worker so many seconds from now; it is found out that much later."""
    clock.advance(seconds)
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))
    engine.renew()
    clock.advance(found_after)
    with support.switched("default", role="worker"):
        lost.return_orphans()


def points(engine: Engine, **more: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """Return (workflow, version) → what was measured."""
    items = recovery_points(actor=engine.actor, **more)["items"]
    return {(one["workflow"], one["version"]): one for one in items}


def near(value: float | None, seconds: float) -> bool:
    """Whether a time moved by hand was measured: what the test itself took comes on top."""
    return value is not None and seconds <= value < seconds + 30


def test_without_a_boundary_the_whole_attempt_is_lost(engine, clock):
    engine.submit(workflow(tool("a")))
    engine.claim()
    lose(engine, clock, 100, found_after=500)
    one = points(engine)["w", 1]
    assert (one["runs"], one["lost"], one["objective_s"], one["beyond"]) == (1, 1, None, 0)
    assert near(one["max_s"], 100), "what passes until somebody takes it over is no work"


def test_work_is_lost_from_the_last_boundary_on(engine, clock):
    run = engine.submit(workflow(tool("a")))
    [claimed] = engine.claim()
    clock.advance(1000)
    send(engine, claimed, f"a:{run}")
    lose(engine, clock, 50)
    assert near(points(engine)["w", 1]["max_s"], 50)
    engine.check(run)


def test_percentiles_are_by_version_and_a_later_settling_changes_none(engine, clock):
    for seconds in (100, 300, 500):
        engine.submit(workflow(tool("a")))
        engine.claim()
        lose(engine, clock, seconds)
        engine.finish("a")
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    [claimed] = engine.claim()
    send(engine, claimed, f"a:{run}")
    lose(engine, clock, 40)
    found = points(engine)
    first, second = found["w", 1], found["w", 2]
    assert (first["runs"], first["lost"], second["runs"], second["lost"]) == (3, 3, 1, 1)
    assert near(first["p50_s"], 300)
    assert near(first["p95_s"], 480), "between the two greatest, by their distance"
    assert near(first["max_s"], 500)
    assert near(second["p50_s"], 40)
    assert points(engine, workflow="other") == {}
    clock.advance(2 * 86_400)
    assert points(engine, days=1) == {}
    assert points(engine, days=3) == found


def test_what_runs_now_shows_what_would_be_lost(engine, clock):
    engine.submit(workflow(tool("a"), tool("b")))
    engine.claim()
    clock.advance(70)
    one = points(engine)["w", 1]
    assert (one["lost"], one["running"], one["max_s"]) == (0, 2, None)
    assert near(one["at_risk_s"], 70)


def test_more_than_the_workflow_allows_is_told_once_a_workflow_and_heals_by_itself(engine, clock):
    spec = workflow(tool("a"), recovery_point_s=60)
    for seconds in (50, 61):
        engine.submit(spec)
        engine.claim()
        lose(engine, clock, seconds)
        engine.finish("a")
    assert (points(engine)["w", 1]["objective_s"], points(engine)["w", 1]["beyond"]) == (60, 1)
    assert [one["title"] for one in told(engine)] == ["More work lost than the workflow allows: w (1)"]
    late = engine.submit(spec)
    engine.claim()
    lose(engine, clock, 100)
    [one] = told(engine)
    assert one["title"] == "More work lost than the workflow allows: w (2)"
    assert (one["subjects"][0]["run_id"], one["subjects"][0]["label"]) == (str(late), "a")
    alerts.evaluate()
    assert len(told(engine)) == 1, "it is not forgotten at the next look"
    clock.advance(alerts.FAILED_WINDOW_SECONDS + 1)
    alerts.evaluate()
    assert told(engine) == []


def test_what_is_added_to_an_alert_late_stays_as_long_as_any_and_is_told_again(engine, clock):
    spec = workflow(tool("a"), recovery_point_s=60)

    def lost_more() -> str:
        run_id = engine.submit(spec)
        engine.claim()
        lose(engine, clock, 100)
        engine.finish("a")
        return str(run_id)

    def messages() -> int:
        with tenant_tx(engine.tenant.id):
            return Outbox.objects.filter(topic=alerts.TOPIC).count()

    first = lost_more()
    clock.advance(conf().alert_grace_seconds + 1)
    alerts.evaluate()
    before = messages()
    assert before > 0
    clock.advance(alerts.FAILED_WINDOW_SECONDS - 300)
    second = lost_more()
    alerts.evaluate()
    alerts.evaluate()
    assert messages() == 2 * before, "once for each"
    clock.advance(alerts.FAILED_WINDOW_SECONDS - 300)
    alerts.evaluate()
    [one] = told(engine)
    assert [subject["run_id"] for subject in one["subjects"]] == [second, first]
    clock.advance(301)
    alerts.evaluate()
    assert told(engine) == []


def told(engine: Engine) -> list[dict[str, Any]]:
    return list_alerts(actor=engine.actor, state="open", rule="recovery_point").items


@pytest.mark.parametrize("value", [0, -1, "60", True, 31_536_001])
def test_an_objective_that_makes_no_sense_is_refused(engine, value):
    with pytest.raises(InvalidWorkflow) as refused:
        engine.submit(workflow(tool("a"), recovery_point_s=value))
    assert refused.value.where == "/recovery_point_s"


def test_pages_and_the_command_line_show_what_was_measured(engine, clock):
    engine.submit(workflow(tool("a"), recovery_point_s=60))
    engine.claim()
    lose(engine, clock, 7200)
    reader = Reader(engine.tenant, "viewer")
    page = reader.get("/workflows/w/").partition('id="recovery"')[2].partition("</section>")[0]
    assert "at most 1:00" in page
    assert page.count("2 h 00") == 3
    assert "1 beyond" in page
    with captured() as asked:
        assert 'href="/workflows/w/"' in reader.get("/workflows/")
    assert not [one for one, _parameters in asked if "qd_attempt" in one], "a list does not measure"
    (printed,) = command("workflow", "recovery", "w", "--tenant", engine.tenant.slug)
    assert (printed["lost"], printed["beyond"]) == (1, 1)
    (problem,) = command("workflow", "recovery", "--days", "0", "--tenant", engine.tenant.slug, fails=True)
    assert problem["where"] == "--days"


@pytest.mark.req("A1.4")
def test_another_tenants_losses_are_not_seen(engine, clock, other_tenant):
    engine.submit(workflow(tool("a")))
    engine.claim()
    lose(engine, clock, 10)
    assert points(Engine(other_tenant)) == {}
