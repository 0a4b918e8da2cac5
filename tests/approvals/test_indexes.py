"""What pages and workers ask about one step or one proposal is found by an index, however many requests there are."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.store.sqlfile import queries

pytestmark = [pytest.mark.req("B5.2"), pytest.mark.django_db(transaction=True)]

EDIT = {"run": uuid.UUID(int=1), "node": "pay", "tool": "shop.pay@1", "key": "k", "contract": b"", "prepared": b""}


@pytest.mark.parametrize(
    ("query", "values", "index"),
    [
        ("input_of_step", [uuid.UUID(int=1)], "qd_approval_input"),
        ("input_answers", [[uuid.UUID(int=1)]], "qd_approval_input"),
        ("approval_read", [uuid.UUID(int=1)], "qd_approval_supersedes"),
        ("approval_proposals", {"id": uuid.UUID(int=1)}, "qd_approval_supersedes"),
        ("approval_last_edit", EDIT, "qd_approval_action_run"),
        ("policy_active", [uuid.UUID(int=1)], "qd_policy_active_once"),
    ],
    ids=[
        "input_of_step",
        "input_answers",
        "approval_read",
        "approval_proposals",
        "approval_last_edit",
        "policy_active",
    ],
)
def test_it_reads_by_an_index(test_database, query: str, values: Any, index: str):
    with test_database.connect() as connection:
        # The test's tables are small: without this the planner rightly reads them whole.
        connection.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {queries()[query]}", values))
    assert index in plan, plan
    assert "Seq Scan on qd_approval " not in plan, plan
