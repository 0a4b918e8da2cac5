"""Classes of work over HTTP and on the command line: what they aim at in a tenant, what waits, what waits too long."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

import pytest

from runtime.actions.limits import set_limit
from runtime.actions.runs import pause_run
from tests.api.test_commands import run
from tests.support.api import Caller, caller, problem
from tests.support.engine import Engine

pytestmark = [pytest.mark.req("C7.2"), pytest.mark.django_db(transaction=True)]


def rows(admin: Caller) -> dict[str, tuple[int, int]]:
    """Return class → (waiting, late) of those of which something waits."""
    items = admin.get("classes/").json()["items"]
    return {one["class"]: (one["waiting"], one["late"]) for one in items if one["waiting"]}


def test_every_class_is_listed_with_its_aims_most_urgent_first(admin):
    items = admin.get("classes/").json()["items"]
    assert [(one["class"], one["priority"], one["start_s"], one["end_s"]) for one in items] == [
        ("production_alert", 80, 10, None),
        ("interactive", 60, 30, None),
        ("approval", 40, 60, None),
        ("batch", 0, 900, None),
        ("experiment", -50, 3600, None),
    ]
    assert all((one["waiting"], one["late"], one["oldest"]) == (0, 0, None) for one in items)


def test_a_tenants_own_aims_count(admin):
    slug = ("--tenant", admin.tenant.slug)
    run("tenant", "set", "classes.batch.start_s", "5", *slug)
    run("tenant", "set", "classes.batch.end_s", "86400", *slug)
    (batch,) = [one for one in admin.get("classes/").json()["items"] if one["class"] == "batch"]
    assert (batch["start_s"], batch["end_s"]) == (5, 86_400)
    answer = admin.submit()
    shown = admin.get(f"runs/{answer['run_id']}/").json()
    start, end = (datetime.fromisoformat(shown[name]) for name in ("created_at", "deadline"))
    assert end - start == timedelta(days=1)


def test_what_waits_past_its_start_is_named_by_class(admin, clock):
    late = admin.submit("W1", priority="production_alert")
    admin.submit("W2", priority="batch")
    clock.advance(11)
    assert rows(admin) == {"production_alert": (1, 1), "batch": (1, 0)}
    answer = admin.get("classes/").json()
    (one,) = answer["late"]
    assert (one["run_id"], one["node"], one["class"], one["parked"]) == (
        late["run_id"], "pack", "production_alert", False,
    )  # fmt: skip
    queued, by = (datetime.fromisoformat(one[name]) for name in ("queued_at", "start_by"))
    assert by - queued == timedelta(seconds=10)
    printed = run("limit", "classes", "--tenant", admin.tenant.slug)[0]
    assert [each["node"] for each in printed["late"]] == ["pack"]
    Engine(admin.tenant).claim()
    assert (rows(admin), admin.get("classes/").json()["late"]) == ({}, []), "what has started is late no more"


def test_what_waits_for_a_limit_is_late_and_what_people_hold_back_is_not(admin, clock):
    engine = Engine(admin.tenant)
    set_limit(actor=engine.actor, scope="tool", name="core.echo", most=1)
    for order in ("W1", "W2"):
        admin.submit(order, priority="interactive")
    assert len(engine.claim()) == 1
    paused = admin.submit("W3", priority="interactive")
    pause_run(actor=engine.actor, run_id=uuid.UUID(paused["run_id"]), reason="wait")
    clock.advance(31)
    assert rows(admin) == {"interactive": (1, 1)}
    assert [one["parked"] for one in admin.get("classes/").json()["late"]] == [True]


def test_another_tenants_queue_is_not_seen(admin, stranger, clock):
    admin.submit(priority="production_alert")
    clock.advance(11)
    assert rows(stranger) == {}
    assert stranger.get("classes/").json()["late"] == []


def test_who_may_not_see_workers_sees_no_classes(tenant):
    problem(caller(tenant, verbs=["run.read"]).get("classes/"), 403)


def test_a_parameter_is_refused(admin):
    problem(admin.get("classes/?class=batch"), 400)


@pytest.mark.req("C4.3")
def test_recovery_points_are_answered_by_workflow_and_bad_windows_are_refused(admin):
    admin.submit()
    answer = admin.get("workflows/recovery-points/?workflow=parcel&days=7").json()
    (one,) = answer["items"]
    assert (one["workflow"], one["version"], one["runs"], one["lost"]) == ("parcel", 1, 1, 0)
    assert (answer["days"], answer["cut"]) == (7, False)
    assert admin.get("workflows/recovery-points/?workflow=other").json()["items"] == []
    for query in ("days=0", "days=366", "days=x", "workflows=parcel"):
        problem(admin.get(f"workflows/recovery-points/?{query}"), 400)
