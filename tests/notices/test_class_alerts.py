"""Alerts about classes of work: steps past the start their class aims at, grouped by class (C7.2)."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.settings import set_setting
from runtime.queries.alerts import list_alerts
from runtime.worker.maintenance.alerts import evaluate
from tests.support.office import Office

pytestmark = [pytest.mark.req("C7.2", "A9.9"), pytest.mark.django_db(transaction=True)]
ONE = {
    "format": "quarterdeck/1",
    "name": "one",
    "nodes": [{"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}}],
}


def late(office: Office) -> dict[str, set[uuid.UUID]]:
    """Return title → runs of the open alerts about classes."""
    evaluate()
    found = list_alerts(actor=office.admin, state="open", rule="class_late").items
    return {one["title"]: {uuid.UUID(subject["run_id"]) for subject in one["subjects"]} for one in found}


def test_steps_past_their_start_are_an_alert_a_class_until_they_start(office, clock):
    urgent = {office.submit(ONE, priority=80), office.submit(ONE, priority=100)}
    asked = office.submit(ONE, priority=60)
    office.submit(ONE)
    clock.advance(4)
    assert late(office) == {}
    clock.advance(7)
    aims = "Steps past the start their class aims at:"
    assert late(office) == {f"{aims} production alert (2)": urgent}
    clock.advance(20)
    assert late(office) == {f"{aims} production alert (2)": urgent, f"{aims} interactive (1)": {asked}}
    office.claim()
    assert late(office) == {}


def test_a_tenant_says_what_is_late(office, clock):
    run = office.submit(ONE)
    clock.advance(100)
    assert late(office) == {}
    set_setting(actor=office.admin, key="classes.batch.start_s", value="30")
    assert list(late(office).values()) == [{run}]
