"""`manage.py invariants` finds a grant that covers another call, and an approval that nobody gave."""

from __future__ import annotations

import pytest

from runtime.queries.invariants import check_invariants
from runtime.store.directory import TenantRow
from tests.support.engine import past_every_guard

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
