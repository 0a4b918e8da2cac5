"""What was decided is listed in the order of its decisions, in pages by one index, however much was decided (B6.2)."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from approvals.actions.propose import propose_edit
from approvals.queries import list_requests
from runtime.store.tx import tenant_tx
from tests.support.api import caller
from tests.support.office import Office
from tests.support.pages import Reader
from tests.support.statements import captured

pytestmark = [pytest.mark.req("B6.4", "C5.3"), pytest.mark.django_db(transaction=True)]


def ids_of(office: Office, limit: int, **narrowed: Any) -> list[uuid.UUID]:
    """Return what was decided, read to the end in pages of ``limit``."""
    found, cursor = [], None
    while True:
        page = list_requests(actor=office.admin, state=None, decided=True, limit=limit, cursor=cursor, **narrowed)
        assert len(page.items) <= limit
        found += [one["id"] for one in page.items]
        if (cursor := page.next) is None:
            return found
        assert page.items, "a page that goes on is not empty"


def plan_of(office: Office, statement: tuple[str, Any]) -> str:
    with tenant_tx(office.tenant.id) as tx:
        # The test's tables are small: without this the planner rightly reads them whole and sorts.
        for name in ("seqscan", "sort", "bitmapscan"):
            tx.conn.execute(f"SET LOCAL enable_{name} = off")
        sql, params = statement
        return "\n".join(row[0] for row in tx.conn.execute(f"EXPLAIN {sql}", params))


def test_it_is_when_a_request_was_decided_or_ended_that_counts(office, clock):
    """Asked first, decided last: it leads. What became of a grant later moves it no more."""
    first, refused, edited, last = (office.pending(office.ask(name=name)) for name in ("a", "b", "c", "d"))
    office.decide(last)
    clock.advance(60)
    shown = {"version": edited["version"], "payload_hash": edited["payload_hash"], "comment": "less"}
    arguments = {**edited["shown"]["calls"][0]["arguments"], "rate": "1"}
    propose_edit(actor=office.approver, request_id=edited["id"], arguments=arguments, **shown)
    clock.advance(60)
    office.decide(refused, "reject")
    clock.advance(60)
    office.decide(first)
    wanted = [one["id"] for one in (first, refused, edited, last)]
    assert ids_of(office, 50) == wanted
    clock.advance(60)
    office.work()  # both grants are used up now: closed, and decided when they were
    assert ids_of(office, 50) == wanted


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
def test_pages_end_where_the_list_ends_though_many_were_decided_at_one_moment(office, test_database, limit: int):
    requests = [office.pending(office.ask(name="same")) for _ in range(5)]
    for request in requests:
        office.decide(request, "reject")
    with test_database.connect() as connection:
        connection.execute("ALTER TABLE qd_approval DISABLE TRIGGER qd_guard_approval")
        connection.execute(
            "UPDATE qd_approval SET decided_at = (SELECT max(decided_at) FROM qd_approval WHERE tenant_id = %(t)s) "
            "WHERE tenant_id = %(t)s AND state = 'rejected'",
            {"t": office.tenant.id},
        )
        connection.execute("ALTER TABLE qd_approval ENABLE TRIGGER qd_guard_approval")
    assert ids_of(office, limit) == sorted((one["id"] for one in requests), reverse=True)


def test_a_decision_between_two_pages_neither_repeats_nor_hides_what_follows(office):
    requests = [office.pending(office.ask(name="same")) for _ in range(5)]
    for request in requests[:4]:
        office.decide(request, "reject")
    words: dict[str, Any] = {"actor": office.admin, "state": None, "decided": True, "limit": 2}
    page = list_requests(**words)
    office.decide(requests[4], "reject")
    rest = list_requests(**words, cursor=page.next)
    assert [one["id"] for one in [*page.items, *rest.items]] == [one["id"] for one in reversed(requests[:4])]
    assert rest.next is None


@pytest.mark.usefixtures("fresh_db")  # plans go by what is known of the tables
@pytest.mark.parametrize(
    ("narrowed", "index"),
    [({}, "qd_approval_over"), ({"risk": "none"}, "qd_approval_over_by_risk")],
    ids=["all", "risk"],
)
def test_a_page_is_a_walk_of_one_index_entered_at_its_position(office, narrowed: dict[str, Any], index: str):
    for name in ("a", "b", "c"):
        office.decide(office.pending(office.ask(name=name, gates=[])), "reject")
    with captured("qd_approval") as asked:
        first = list_requests(actor=office.admin, state=None, decided=True, limit=1, **narrowed)
        list_requests(actor=office.admin, state=None, decided=True, limit=1, cursor=first.next, **narrowed)
    lists = [one for one in asked if "ORDER BY CASE" in one[0]]
    assert len(lists) == 2
    for statement, entered in zip(lists, ("tenant_id =", "ROW("), strict=True):
        plan = plan_of(office, statement)
        assert re.search(rf"using {index} on qd_approval", plan), plan
        condition = "\n".join(re.findall(r"Index Cond: .*", plan))
        assert entered in condition, plan
        assert "Sort" not in plan, plan


@pytest.mark.usefixtures("fresh_db")
def test_decided_lately_looks_at_no_more_than_it_shows(office, tenant):
    office.decide(office.pending(office.ask(name="a")))
    reader = Reader(tenant, "approver")
    with captured("qd_approval") as asked:
        page = reader.get("/inbox/")
    assert "Decided lately" in page
    (lately,) = [one for one in asked if "ORDER BY CASE" in one[0]]
    assert "LIMIT 9" in lately[0]
    assert "using qd_approval_over on qd_approval" in plan_of(office, lately)


def test_the_api_lists_what_was_decided_the_last_first(office, tenant):
    first, second, waiting = (office.pending(office.ask(name=name)) for name in ("a", "b", "c"))
    office.decide(second)
    office.decide(first, "reject")
    ask = caller(tenant, "approver")
    answer = ask.get("approvals/?state=decided&limit=1&count=1").json()
    rest = ask.get(f"approvals/?state=decided&limit=1&cursor={answer['next']}").json()
    assert [one["id"] for one in (*answer["items"], *rest["items"])] == [str(first["id"]), str(second["id"])]
    assert (answer["count"], rest["next"]) == (2, None)
    assert str(waiting["id"]) not in str(answer)
