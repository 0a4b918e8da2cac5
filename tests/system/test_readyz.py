"""`/readyz` is 503 and says which part is missing: a migration, the scheduler, every worker (C5.2)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.test import Client

from tests.support.db import server
from tests.support.workers import Stack, until

pytestmark = pytest.mark.req("A2.2")


def asked() -> tuple[int, dict[str, str]]:
    """Return the status of `/readyz`, and what is said of each part that is missing."""
    answer = Client().get("/readyz")
    checks: dict[str, Any] = answer.json()["checks"]
    assert answer.json()["status"] == ("ready" if answer.status_code == 200 else "not ready")
    return answer.status_code, {name: check["detail"] for name, check in checks.items() if not check["ok"]}


def test_a_migration_that_is_missing_is_named(fresh_db):
    with psycopg.connect(server().admin_url(fresh_db.name), autocommit=True) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'runtime' AND name LIKE '0023%'")
    status, missing = asked()
    assert status == 503
    assert missing == {"migrations": "missing: runtime.0023_duty_walls; run `manage.py migrate`"}


def test_scheduler_and_workers_are_missed_each_by_itself(fresh_db):
    nobody = {"scheduler": "no scheduler is connected", "workers": "no worker holds a lease"}
    assert asked() == (503, nobody)
    with Stack(fresh_db, workers=1, scheduler=False).wait_ready() as stack:
        until(lambda: asked() == (503, {"scheduler": nobody["scheduler"]}), 10, "only the scheduler is missed")
        scheduler = stack.start("scheduler")
        until(lambda: asked() == (200, {}), 30, "ready")
        stack.clusters[0].terminate()
        until(lambda: asked() == (503, {"workers": nobody["workers"]}), 30, "only workers are missed")
        scheduler.terminate()
        until(lambda: asked() == (503, nobody), 10, "both are missed")
