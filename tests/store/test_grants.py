"""Who may write what people alone decide: the web and the commands, which run as it does, and no worker."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.req("C8.4", "C8.8"), pytest.mark.django_db(transaction=True)]
PEOPLES = (
    "qd_case_chain",
    "qd_tool_sample",
    "qd_tool_signature",
    "qd_approval_group",
    "qd_approval_manager",
    "qd_preference",
)


@pytest.mark.parametrize("table", PEOPLES)
def test_a_worker_reads_what_people_said_and_never_says_it_for_them(test_database, table):
    asked = "SELECT has_table_privilege(current_user, %s, 'SELECT'), has_table_privilege(current_user, %s, 'INSERT')"
    found = {}
    for role in ("qd_web", "qd_worker"):
        with test_database.connect(role) as connection:
            found[role] = connection.execute(asked, [table, table]).fetchone()
    assert found == {"qd_web": (True, True), "qd_worker": (True, False)}
