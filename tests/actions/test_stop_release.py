"""Steps that a stop held back go on when it has ended; one tenant's trouble keeps no other waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runtime.worker.maintenance import stops
from tests.support.engine import Engine, sweep
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A10.2", "C8.6"), pytest.mark.django_db(transaction=True)]


def _held_back(tenant: Any) -> tuple[Engine, Any]:
    engine = Engine(tenant)
    run_id = engine.submit(workflow(tool("a")))
    [claimed] = engine.claim()
    engine.report(claimed, "yielded", cause="stopped", not_before=claimed.now + timedelta(minutes=10))
    return engine, run_id


def test_a_tenant_that_fails_is_looked_at_again_and_the_others_are_served(
    tenant, other_tenant, test_database, monkeypatch, as_role
):
    (broken, broken_run), (whole, whole_run) = _held_back(tenant), _held_back(other_tenant)
    failures: list[Any] = []

    def plan_of(tx: Any, version: Any, real: Any = stops.plan_of) -> Any:
        if tx.tenant_id == tenant.id and not failures:
            failures.append(version)
            raise ValueError("a plan that no longer compiles")
        return real(tx, version)

    monkeypatch.setattr(stops, "plan_of", plan_of)
    releaser = stops.Releaser()
    with as_role("worker"):
        releaser.run_once()
    assert whole.statuses(whole_run) == {"a": "queued"}
    assert broken.statuses(broken_run) == {"a": "waiting(stopped)"}
    with as_role("worker"):
        releaser.run_once()
    assert broken.statuses(broken_run) == {"a": "queued"}
    for engine in (broken, whole):
        sweep(test_database, engine.tenant.id)
