"""Cases nobody looked after in time: each goes up its chain, whatever is wrong with others (C8.4)."""

from __future__ import annotations

import pytest

from repair import duties
from repair.duties import escalate_overdue
from tests.support.engine import refuse_writes

pytestmark = [pytest.mark.req("C8.4", "C2.9"), pytest.mark.django_db(transaction=True)]


def test_more_broken_cases_than_a_page_keep_no_other_from_its_chain(fresh_db, desk, clock, as_role, monkeypatch):
    """What cannot be told to anybody is left as it is; the cases that fell due after it get their turn."""
    monkeypatch.setattr(duties, "_BATCH", 2)
    for _ in range(5):
        refuse_writes(fresh_db, "qd_case", "id", desk.case(desk.lost("human"))["id"])
    clock.advance(60)
    other = desk.lost("human")
    clock.advance(61 * 60)
    with as_role("worker"):
        assert sum(escalate_overdue() for _ in range(4)) == 1
    assert desk.case(other)["escalated_to"] == "oncall"
