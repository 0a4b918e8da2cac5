"""The list of cases is read by its indexes, in a fixed number of queries, however many cases are open."""

from __future__ import annotations

import re
from typing import Any

import pytest

from repair.bench import KINDS
from repair.opening import open_cases
from repair.queries import case_facets, case_groups, count_due, list_cases, shift_report
from runtime.kernel.seams import CaseNeed
from runtime.store.sqlfile import queries
from runtime.store.tx import tenant_tx
from tests.support.pages import Reader
from tests.support.statements import captured

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


def opened(desk: Any, count: int, name: str = "it") -> None:
    needs = [CaseNeed(KINDS[n % 3], f"{name} asks for the {n}th time") for n in range(count)]
    with tenant_tx(desk.tenant.id) as tx:
        open_cases(tx, needs, opened_by="engine")


@pytest.mark.parametrize("path", ["/repairs/", "/repairs/?view=mine", "/repairs/shift/", "/api/v1/repairs/"])
def test_a_page_asks_as_often_for_many_cases_as_for_one(desk, path: str):
    reader = Reader(desk.tenant, "oncall")
    counts = []
    for name, more in (("one", 1), ("many", 40)):
        opened(desk, more, name)
        reader.get(path)
        with captured() as statements:
            reader.get(path)
        counts.append(len(statements))
    assert counts[0] == counts[1], statements


def _plan(desk: Any, sql: str, params: Any) -> str:
    with tenant_tx(desk.tenant.id) as tx:
        # The test's tables are small: without this the planner rightly reads them whole and sorts.
        for name in ("seqscan", "sort", "bitmapscan"):
            tx.conn.execute(f"SET LOCAL enable_{name} = off")
        return "\n".join(row[0] for row in tx.conn.execute(f"EXPLAIN {sql}", params))


@pytest.mark.usefixtures("fresh_db")  # plans go by what is known of the tables
@pytest.mark.parametrize(
    ("wanted", "index", "entered"),
    [
        ({}, "qd_case_due", "tenant_id"),
        ({"overdue": True}, "qd_case_due", "due_at <="),
        ({"kind": "stuck"}, "qd_case_due", "tenant_id"),
        ({"alike": "0" * 64}, "qd_case_(alike|due)", "tenant_id"),
        ({"mine": True}, "qd_case_owned", "owner"),
        ({"unowned": True}, "qd_case_(owned|due)", "tenant_id"),
        ({"state": "resolved"}, "qd_case_ended", "tenant_id"),
        ({"review": True}, "qd_case_reviewing", "tenant_id"),
    ],
    ids=["open", "overdue", "kind", "alike", "mine", "unowned", "resolved", "review"],
)
def test_each_way_of_asking_enters_its_index(desk, wanted: dict[str, Any], index: str, entered: str):
    opened(desk, 3)
    with captured("qd_case") as asked:
        list_cases(actor=desk.oncall, limit=10, **wanted)
    plan = _plan(desk, *asked[-1])
    assert re.search(f"using {index} on qd_case", plan), plan
    assert entered in _condition(plan), plan
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan or "alike" in wanted, plan


@pytest.mark.usefixtures("fresh_db")
def test_the_next_page_begins_where_the_last_one_ended(desk):
    opened(desk, 25)
    first = list_cases(actor=desk.oncall, limit=10)
    with captured("qd_case") as asked:
        second = list_cases(actor=desk.oncall, limit=10, cursor=first.next)
    third = list_cases(actor=desk.oncall, limit=10, cursor=second.next)
    rows = [*first.items, *second.items, *third.items]
    assert (len(rows), len({row["id"] for row in rows}), third.next) == (25, 25, None)
    assert [row["due_at"] for row in rows] == sorted(row["due_at"] for row in rows)
    plan = _plan(desk, *asked[-1])
    assert "due_at >=" in _condition(plan), plan


@pytest.mark.parametrize("query", ["case_facets", "case_groups"])
def test_what_stands_above_the_list_is_counted_over_a_bounded_part_of_it(desk, query: str):
    opened(desk, 3)
    # A parameter more than one of them names does no harm.
    given = {"bound": 7, "most": 6, "owner": desk.oncall.label, "now": "2026-01-01T00:00:00Z"}
    plan = _plan(desk, queries()[query], given)
    assert "using qd_case_due on qd_case" in plan, plan
    assert "Limit" in plan.split("using qd_case_due")[0], plan


def test_the_counts_tell_of_the_open_cases(desk):
    opened(desk, 7)
    facets = case_facets(actor=desk.oncall)
    assert (facets["total"], facets["unowned"], facets["mine"], facets["overdue"]) == (7, 7, 0, 0)
    assert [one["count"] for one in case_groups(actor=desk.oncall)] == [3, 2, 2]
    assert [one["count"] for one in case_groups(actor=desk.oncall, limit=1)] == [3]
    assert (count_due(actor=desk.oncall), count_due(actor=desk.oncall, bound=5)) == ((7, 0), (5, 0))
    assert len(shift_report(actor=desk.oncall)["open"]) == 7


def _condition(plan: str) -> str:
    return next(line for line in plan.splitlines() if "Index Cond" in line)
