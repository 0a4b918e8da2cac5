"""Whoever is refused is told how to mend it, and nothing of the tenant has changed by the refusal (C6.1, A9.8)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from runtime.kernel.callback import attempt_id
from tests.support import db as support
from tests.support.api import WORKFLOW, Caller, caller, furnish, problem
from tests.support.factories import make_tenant

pytestmark = [pytest.mark.req("C6.1", "A10.1"), pytest.mark.django_db(transaction=True)]


class Rows:
    """Every row that belongs to a tenant, in every table, past all walls."""

    def __init__(self, connection: psycopg.Connection[Any], tenant_id: uuid.UUID) -> None:
        self.connection, self.tenant_id = connection, tenant_id
        self.tables = [
            row[0]
            for row in connection.execute(
                "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t"
                " USING (table_schema, table_name) WHERE c.table_schema = 'public' AND c.column_name = 'tenant_id'"
                " AND t.table_type = 'BASE TABLE' ORDER BY 1"
            )
        ]

    def digest(self) -> dict[str, tuple[int, str | None]]:
        """Return table → (how many rows, a hash of all of them)."""
        found = {}
        for table in self.tables:
            query = "SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text)) FROM {} t WHERE tenant_id = %s"
            row = self.connection.execute(sql.SQL(query).format(sql.Identifier(table)), [self.tenant_id]).fetchone()
            assert row is not None
            found[table] = (row[0], row[1])
        return found


@pytest.fixture
def rows(admin: Caller, tenant, test_database: support.Database) -> Iterator[Rows]:
    with psycopg.connect(support.server().admin_url(test_database.name), autocommit=True) as connection:
        yield Rows(connection, tenant.id)


@pytest.fixture
def there(admin: Caller) -> dict[str, Any]:
    """What the tenant has, and what a stranger's tenant has: ids by what they are."""
    task = admin.submit()
    again = admin.post("tasks/", {"workflow": "parcel", "input": {"order_id": "K"}}, Idempotency_Key="K-1")
    assert again.status_code == 202
    steps = admin.get(f"runs/{task['run_id']}/steps/").json()["items"]
    stranger = furnish(make_tenant()).submit()
    return {"run": task["run_id"], "task": task["task_id"], "step": steps[0]["id"], "theirs": stranger["run_id"]}


Ask = Callable[[Caller, dict[str, Any]], Any]
DEEP = b'{"workflow": "parcel", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}"
REFUSED: dict[str, tuple[int, Ask]] = {
    "no JSON": (400, lambda c, _: c.raw("POST", "tasks/", b'{"workflow": ')),
    "too deep": (400, lambda c, _: c.raw("POST", "tasks/", DEEP)),
    "NUL in a text": (400, lambda c, _: c.post("tasks/", {"workflow": "parcel", "input": {"order_id": "a\x00"}})),
    "no such workflow": (404, lambda c, _: c.post("tasks/", {"workflow": "nobody", "input": {}})),
    "a wrong type": (400, lambda c, _: c.post("tasks/", {"workflow": 7, "input": {"order_id": "W"}})),
    "not by its schema": (400, lambda c, _: c.post("tasks/", {"workflow": "parcel", "input": {"boxes": 0}})),
    "too large": (
        413,
        lambda c, _: c.post("tasks/", {"workflow": "parcel", "input": {"order_id": "x" * 3_000_000}}),
    ),
    "a used key": (
        409,
        lambda c, _: c.post("tasks/", {"workflow": "parcel", "input": {"order_id": "X"}}, Idempotency_Key="K-1"),
    ),
    "another's run": (404, lambda c, ids: c.post(f"runs/{ids['theirs']}/cancel/", {"reason": "x"})),
    "no id": (404, lambda c, _: c.post("runs/7/cancel/", {"reason": "x"})),
    "an unknown step": (
        404,
        lambda c, _: c.post(f"steps/{uuid.uuid4()}/skip/", {"expected_version": 1, "reason": "x"}),
    ),
    "a stale version": (
        409,
        lambda c, ids: c.post(f"steps/{ids['step']}/skip/", {"expected_version": 77, "reason": "x"}),
    ),
    "a reason of NUL": (
        400,
        lambda c, ids: c.post(f"steps/{ids['step']}/kill/", {"expected_version": 2, "reason": "a\x00"}),
    ),
    "no such move": (
        409,
        lambda c, ids: c.post(f"steps/{ids['step']}/release/", {"expected_version": 2, "reason": "x"}),
    ),
    "a workflow in a circle": (
        400,
        lambda c, _: c.post(
            "workflows/",
            {**WORKFLOW, "nodes": [{**node, "after": ["pack", "send"]} for node in WORKFLOW["nodes"]]},
        ),
    ),
    "a stop of nothing": (400, lambda c, _: c.post("stops/", {"scope": "tool", "reason": "x"})),
    "a limit of less than nothing": (400, lambda c, _: c.post("limits/", {"scope": "tenant", "name": "", "most": -1})),
    "a report on no attempt": (
        404,
        lambda c, ids: c.post(
            f"attempts/{attempt_id(ids['step'], 1)}/callback/",
            {"token": "forged", "epoch": 1, "version": 1, "status": "succeeded"},
        ),
    ),
    "a method it has not": (405, lambda c, ids: c.send("DELETE", f"runs/{ids['run']}/", {})),
    "a false hash": (
        400,
        lambda c, _: c.raw("POST", "artifacts/", b"x", content_type="text/plain", Content_Digest="sha-256=:AAAA:"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_how_to_mend_it_and_changes_nothing(admin, rows, there, name):
    status, ask = REFUSED[name]
    before = rows.digest()
    assert len(before) > 20
    assert before["qd_step"][0] >= 4
    body = problem(ask(admin, there), status)
    assert isinstance(body["remediation"], str)
    assert body["remediation"].strip(), body
    after = rows.digest()
    assert {table for table in before if before[table] != after[table]} == set()
    assert json.dumps(body).find(str(there["theirs"])) == -1 or name == "another's run"


def test_who_is_denied_is_told_whom_to_ask_and_only_the_audit_tells_of_it(admin, rows, there, tenant):
    viewer = caller(tenant, "viewer")
    assert viewer.get(f"runs/{there['run']}/").status_code == 200  # a token notes when it was first used
    before = rows.digest()
    body = problem(viewer.post(f"runs/{there['run']}/cancel/", {"reason": "x"}), 403)
    assert body["remediation"].strip()
    after = rows.digest()
    changed = {table for table in before if before[table] != after[table]}
    assert changed
    assert all(table.startswith("qd_audit") for table in changed)
    problem(Caller("qd_not-a-token", tenant).post(f"runs/{there['run']}/cancel/", {"reason": "x"}), 401)
    assert rows.digest() == after
