"""A run's manifest names the policy for approvals that was in force when the run was made (C4.8)."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from approvals.actions.policies import propose_policy
from approvals.queries import get_request
from runtime.actions.reruns import new_run
from runtime.actions.settings import set_setting
from runtime.models import Checkpoint, Event, Manifest, Run
from runtime.queries.checkpoints import read_recovery_point
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.office import Office, asking

pytestmark = [pytest.mark.req("C4.8", "C5.3"), pytest.mark.django_db(transaction=True)]

TELL = {"name": "tell", "when": "tool.name == 'office.tell'", "decide": "allow"}
PAY = {"name": "pay", "when": "tool.name == 'office.pay'", "decide": "allow"}


def propose(office: Office, *rules: dict[str, Any]) -> dict[str, Any]:
    return propose_policy(actor=office.admin, rules=list(rules), note="new rules")


def activate(office: Office, *rules: dict[str, Any]) -> dict[str, Any]:
    proposed = propose(office, *rules)
    request = get_request(actor=office.admin, request_id=proposed["approval_id"])
    office.decide(request, actor=member(office.tenant, "admin"))
    return proposed


def bound(office: Office, run_id: uuid.UUID) -> tuple[bytes, dict[str, Any]]:
    """Return the hash of a run's manifest and what it says of policies."""
    with tenant_tx(office.tenant.id):
        row = Manifest.objects.get(id=Run.objects.get(id=run_id).manifest_id)
    return bytes(row.sha256), json.loads(bytes(row.body))["policy"]


def submit(office: Office) -> uuid.UUID:
    return office.submit(asking(), {"to": f"p-{uuid.uuid4().hex[:8]}"})


def test_another_active_policy_is_another_manifest(office):
    before = bound(office, submit(office))
    first = activate(office, TELL, PAY)
    under_first = bound(office, submit(office))
    assert bound(office, submit(office)) == under_first, "the same policy gives the same manifest"
    propose(office, TELL)
    assert bound(office, submit(office)) == under_first, "a proposal binds nothing"
    second = activate(office, TELL)
    under_second = bound(office, submit(office))
    assert len({before[0], under_first[0], under_second[0]}) == 3
    assert before[1] == {}
    assert under_first[1] == {"approvals": f"1:{first['sha256']}"}
    assert under_second[1] == {"approvals": f"3:{second['sha256']}"}


@pytest.mark.req("A10.2")
def test_what_judges_without_a_policy_is_in_the_manifest(office):
    allowed = bound(office, submit(office))
    for word in ("require_approval", "deny"):
        set_setting(actor=office.admin, key="approvals.default", value=word)
        assert bound(office, submit(office))[1] == {"approvals": f"default:{word}"}
    set_setting(actor=office.admin, key="approvals.default", value="allow")
    assert bound(office, submit(office)) == allowed == (allowed[0], {})


def test_the_policy_of_one_tenant_is_in_no_manifest_of_another(office, other_tenant):
    activate(office, TELL, PAY)
    other = Office(other_tenant)
    assert bound(other, submit(other))[1] == {}


def test_a_run_goes_on_under_the_manifest_it_was_made_with(office):
    """Its events and checkpoints carry it; the events rebuild the rows; only the task's next run is bound anew."""
    activate(office, TELL, PAY)
    run_id = submit(office)
    kept = bound(office, run_id)
    office.work()
    second = activate(office, TELL, PAY, {"name": "all", "when": "true", "decide": "deny"})
    office.decide(office.pending(run_id))
    office.work()
    run = office.run(run_id)
    assert run.status == "completed"
    assert bound(office, run_id) == kept
    with tenant_tx(office.tenant.id):
        carried = set(Event.objects.filter(run_id=run_id).values_list("manifest_id", flat=True))
        saved = set(Checkpoint.objects.filter(run_id=run_id).values_list("manifest_id", flat=True))
    assert carried == saved == {run.manifest_id}
    assert read_recovery_point(actor=office.admin, run_id=run_id)["manifest"]["policy"] == kept[1]
    office.check(run_id)
    again = uuid.UUID(new_run(actor=office.actor, task_id=run.task_id, reason="once more")["run_id"])
    assert bound(office, again)[1] == {"approvals": f"2:{second['sha256']}"}
