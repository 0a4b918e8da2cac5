"""The audit chain: complete under concurrency, and any edit, deletion or reordering is found and located."""

from __future__ import annotations

import threading
import uuid

import psycopg
import pytest
from django.db import connections, transaction

from runtime.journal import audit
from runtime.kernel.actor import Actor, engine
from runtime.kernel.ids import uuid7
from runtime.models import AuditEntry
from runtime.store.tx import tenant_tx
from tests.support.actors import member

pytestmark = [pytest.mark.req("A10.3"), pytest.mark.django_db(transaction=True)]


REHASHED = """
    UPDATE qd_audit_entry SET body = body || '\\x20',
      sha256 = sha256(previous_sha256 || body || '\\x20') WHERE number = 2
"""
SWAPPED = """
    UPDATE qd_audit_entry SET number = 1000 - number WHERE number IN (2, 3);
    UPDATE qd_audit_entry SET number = CASE number WHEN 998 THEN 3 ELSE 2 END WHERE number > 900
"""
FORGED = """
    INSERT INTO qd_audit_entry (tenant_id, number, at, actor, verb, subject_kind, subject_id, run_id, result, reason,
      body, previous_sha256, sha256)
    SELECT tenant_id, 9, at, actor, verb, subject_kind, subject_id, run_id, result, reason,
      body, previous_sha256, sha256
      FROM qd_audit_entry WHERE number = 6
"""


def write(actor: Actor, n: int, subject: str = "thing") -> None:
    for i in range(n):
        with tenant_tx(actor.tenant_id) as tx:
            audit.record(
                tx, actor=actor, verb="run.cancel", subject_kind=subject, subject_id=uuid7(), reason=f"because {i}"
            )


def tamper(db, sql: str, tenant_id: uuid.UUID) -> None:
    """Do as a database administrator could: switch the guard off, change, switch it on."""
    with db.connect() as connection, connection.transaction():
        connection.execute("SELECT set_config('qd.tenant', %s, true)", [str(tenant_id)])
        connection.execute("ALTER TABLE qd_audit_entry DISABLE TRIGGER qd_append_only")
        connection.execute(sql)
        connection.execute("ALTER TABLE qd_audit_entry ENABLE TRIGGER qd_append_only")


def test_an_untouched_chain_verifies(db, tenant):
    write(member(tenant, "oncall"), 5)
    report = audit.verify(tenant.id)
    assert report.ok
    assert (report.entries, report.head_number) == (5, 5)


def test_an_empty_chain_verifies(db, tenant):
    assert audit.verify(tenant.id).ok


def test_the_engine_is_not_audited(db, tenant):
    with tenant_tx(tenant.id) as tx:
        audit.record(tx, actor=engine(tenant.id), verb="run.cancel", subject_kind="run", subject_id="x")
    assert audit.verify(tenant.id).entries == 0


def test_a_rolled_back_act_leaves_no_entry_and_no_gap(db, tenant):
    actor = member(tenant, "oncall")
    write(actor, 1)
    with tenant_tx(tenant.id) as tx:
        audit.record(tx, actor=actor, verb="run.cancel", subject_kind="run", subject_id="x")
        transaction.set_rollback(True)
    write(actor, 1)
    report = audit.verify(tenant.id)
    assert report.ok
    assert report.entries == 2


def test_several_acts_take_one_lock_and_keep_their_order(db, tenant):
    actor = member(tenant, "oncall")
    with tenant_tx(tenant.id) as tx:
        audit.record_many(tx, actor=actor, acts=[audit.Act("task.submit", "task", i) for i in range(50)])
    with tenant_tx(tenant.id):
        assert list(AuditEntry.objects.order_by("number").values_list("subject_id", flat=True)) == [
            str(i) for i in range(50)
        ]
    assert audit.verify(tenant.id).ok


@pytest.mark.parametrize(
    ("sql", "number", "problem"),
    [
        ("UPDATE qd_audit_entry SET reason = 'other' WHERE number = 3", 3, "column reason"),
        ("UPDATE qd_audit_entry SET actor = 'user:else' WHERE number = 1", 1, "column actor"),
        ("UPDATE qd_audit_entry SET at = at + interval '1 second' WHERE number = 5", 5, "column at"),
        ("UPDATE qd_audit_entry SET body = body || '\\x20' WHERE number = 2", 2, "edited"),
        (REHASHED, 3, "link does not match"),
        ("DELETE FROM qd_audit_entry WHERE number = 4", 4, "entry 4 is missing"),
        ("DELETE FROM qd_audit_entry WHERE number = 1", 1, "entry 1 is missing"),
        ("DELETE FROM qd_audit_entry WHERE number = 6", 6, "ends at 5, its head is 6"),
        ("DELETE FROM qd_audit_entry", 1, "ends at 0, its head is 6"),
        (SWAPPED, 2, "column number"),
        (FORGED, 9, "outside the chain"),
    ],
)
def test_tampering_is_found_and_located(db, tenant, sql, number, problem):
    write(member(tenant, "oncall"), 6)
    tamper(db, sql, tenant.id)
    report = audit.verify(tenant.id)
    assert not report.ok
    assert [b for b in report.breaches if b["number"] == number and problem in b["problem"]], report.breaches


@pytest.mark.parametrize("act", ["UPDATE qd_audit_entry SET reason = ''", "DELETE FROM qd_audit_entry"])
def test_no_role_edits_or_deletes(db, tenant, act):
    write(member(tenant, "oncall"), 1)
    for role in ("qd_web", "qd_worker", None):
        with db.connect(role) as connection:
            connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(tenant.id)])
            with pytest.raises(psycopg.Error):
                connection.execute(act)
    assert audit.verify(tenant.id).ok


def test_many_writers_at_once_make_one_chain(db, tenant):
    actor, problems = member(tenant, "oncall"), []

    def work() -> None:
        try:
            write(actor, 25)
        except Exception as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    report = audit.verify(tenant.id)
    assert report.ok
    assert (report.entries, report.head_number) == (200, 200)


def test_each_tenant_has_its_own_chain(db, tenant, other_tenant):
    write(member(tenant, "oncall"), 2)
    write(member(other_tenant, "oncall"), 3)
    assert audit.verify(tenant.id).entries == 2
    assert audit.verify(other_tenant.id).entries == 3


def test_an_actor_of_another_tenant_cannot_write_here(db, tenant, other_tenant):
    actor = member(other_tenant, "oncall")
    with pytest.raises(ValueError, match="another tenant"), tenant_tx(tenant.id) as tx:
        audit.record(tx, actor=actor, verb="run.cancel", subject_kind="run", subject_id="x")
