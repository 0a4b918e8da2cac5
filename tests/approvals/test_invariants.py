"""`manage.py invariants` finds a grant that covers another call, and an approval that nobody gave."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from approvals.actions.own import OwnAction, ask_own
from approvals.actions.using import use_grant
from approvals.queries import get_request
from runtime.queries.invariants import check_invariants
from runtime.store.directory import TenantRow
from tests.support.engine import past_every_guard
from tests.support.office import Office, asking

pytestmark = [pytest.mark.req("C5.6"), pytest.mark.django_db(transaction=True)]


def breaches(office) -> dict[int, list[str]]:
    tenant = TenantRow(office.tenant.id, office.tenant.slug, False)
    return {f.invariant.number: f.breaches for f in check_invariants([tenant]) if f.ok is False}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE qd_approval_action SET arguments_sha256 = '\\x00' WHERE run_id = %s",
        "UPDATE qd_approval_action SET business_key = 'other' WHERE run_id = %s",
        "UPDATE qd_approval SET state = 'voided' WHERE run_id = %s",
        "UPDATE qd_approval_action SET consumed_at = consumed_at - interval '1 hour' WHERE run_id = %s",
        "DELETE FROM qd_approval_decision d USING qd_approval r WHERE d.request_id = r.id AND r.run_id = %s",
        "UPDATE qd_approval SET deadline = created_at WHERE run_id = %s",
        "UPDATE qd_approval SET quorum = 2 WHERE run_id = %s",
        "UPDATE qd_approval SET requested_by = decided_by WHERE run_id = %s",
    ],
)
def test_each_break_is_found(fresh_db, office, statement):
    run_id = office.ask()
    office.decide(office.pending(run_id))
    office.work()
    assert 6 not in breaches(office)
    with past_every_guard(fresh_db) as connection:
        connection.execute("ALTER TABLE qd_approval DROP CONSTRAINT IF EXISTS qd_approval_decided_in_time")
        connection.execute(statement, [run_id])
    assert len(breaches(office)[6]) >= 1


def half_sent(office, clock) -> Any:
    """Return a run one of whose two calls under one approval was sent before the time of the other ran out."""
    document = asking("two-writes", gates=["pay", "tell"], start_within_s=60)
    document["nodes"][3]["input"] = {"text": {"$": "input.to"}}
    run_id = office.submit(document, {"to": "Ada"})
    office.work()
    request = office.pending(run_id)
    assert [call["node"] for call in request["shown"]["calls"]] == ["pay", "tell"]
    office.decide(request)
    for _ in range(4):
        if office.statuses(run_id)["pay"] != "succeeded":
            office.call(office.claim())
    assert office.statuses(run_id)["pay"] == "succeeded"
    clock.advance(61)
    office.work()
    assert office.states(run_id)[0] == "lapsed"
    return run_id


def test_what_was_sent_before_its_request_lapsed_breaks_nothing(fresh_db, office, clock):
    run_id = half_sent(office, clock)
    assert (sum(office.sends(run_id).values()), 6 in breaches(office)) == (1, False)


def test_what_was_sent_after_its_request_lapsed_is_found(fresh_db, tenant, clock):
    office = Office(tenant)
    run_id = half_sent(office, clock)
    with past_every_guard(fresh_db) as connection:
        later = "UPDATE qd_approval_action SET consumed_at = %s WHERE run_id = %s AND consumed_at IS NOT NULL"
        connection.execute(later, [office.run_now() + timedelta(hours=1), run_id])
    assert len(breaches(office)[6]) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE qd_approval SET state = 'approved', closed_at = NULL WHERE id = %s",
        "UPDATE qd_approval SET start_by = decided_at - interval '2 minutes' WHERE id = %s",
        "UPDATE qd_approval_action SET consumed_at = consumed_at - interval '1 hour' WHERE request_id = %s",
    ],
)
def test_each_break_of_a_programs_own_grant_is_found(fresh_db, tenant, statement):
    office = Office(tenant)
    action = OwnAction("bank.wire@1", {"to": "Ada"})
    asked = ask_own(actor=office.integrator, key="wire-1", action=action, title="Wire")
    request = get_request(actor=office.admin, request_id=asked["approval_id"])
    office.decide(request)
    used = {"request_id": request["id"], "action_hash": asked["action_hash"], "arguments": {"to": "Ada"}}
    use_grant(actor=office.integrator, **used)
    assert 6 not in breaches(office)
    with past_every_guard(fresh_db) as connection:
        connection.execute(statement, [request["id"]])
    assert len(breaches(office)[6]) >= 1
