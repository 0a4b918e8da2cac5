"""The database itself keeps a grant as it was asked for and used, whoever writes (invariant 6, C5.6)."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from approvals.actions.own import OwnAction, ask_own
from approvals.actions.using import use_grant
from approvals.queries import get_request

pytestmark = [pytest.mark.req("C5.6", "B6.4"), pytest.mark.django_db(transaction=True)]

CHANGES = [
    "run_id = gen_random_uuid()",
    "run_id = NULL",
    "node = 'other'",
    "tool = 'office.tell@1'",
    "business_key = 'other'",
    "arguments_sha256 = '\\x00'",
    "arguments = '{}'",
    "prepared_sha256 = '\\x00'",
    "tenant_id = gen_random_uuid()",
]
USES = [
    "operation_id = gen_random_uuid()",
    "operation_id = NULL, consumed_at = NULL",
    "consumed_at = NULL",
    "consumed_at = consumed_at + interval '1 day'",
]


def granted(office) -> tuple[uuid.UUID, dict[str, Any]]:
    """Return the approved request of a program's own action, and what using it takes."""
    asked = ask_own(actor=office.integrator, key=uuid.uuid4().hex, action=OwnAction("bank.wire@1", {}), title="Wire")
    request = get_request(actor=office.admin, request_id=asked["approval_id"])
    office.decide(request)
    return request["id"], {"request_id": request["id"], "action_hash": asked["action_hash"], "arguments": {}}


def change(database, tenant_id: uuid.UUID, request_id: uuid.UUID, assignment: str) -> int:
    """Write past the program as the worker's role; returns how many rows were changed."""
    with database.connect("qd_worker") as connection:
        connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(tenant_id)])
        statement = f"UPDATE qd_approval_action SET {assignment} WHERE request_id = %s"
        return connection.execute(statement.encode(), [request_id]).rowcount


@pytest.mark.parametrize("assignment", [one for one in CHANGES if one != "run_id = NULL"])
def test_what_a_program_asked_for_is_never_changed(test_database, office, assignment):
    request_id, _use = granted(office)
    with pytest.raises(psycopg.Error, match="what was asked is never changed"):
        change(test_database, office.tenant.id, request_id, assignment)


@pytest.mark.parametrize("assignment", CHANGES)
def test_what_a_step_asked_for_is_never_changed(test_database, office, assignment):
    request = office.pending(office.ask())
    with pytest.raises(psycopg.Error, match="what was asked is never changed"):
        change(test_database, office.tenant.id, request["id"], assignment)


@pytest.mark.parametrize("assignment", USES)
def test_a_use_stays_as_it_was(test_database, office, assignment):
    request_id, use = granted(office)
    use_grant(actor=office.integrator, **use)
    with pytest.raises(psycopg.Error, match="used by one operation"):
        change(test_database, office.tenant.id, request_id, assignment)
