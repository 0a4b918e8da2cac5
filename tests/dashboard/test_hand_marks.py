"""What people did by hand is seen on the list of runs, on the run and in the file, at the price of two queries."""

from __future__ import annotations

import csv
import io
import re

import pytest

from runtime.actions.steps import skip_step
from runtime.store.sqlfile import queries
from runtime.store.tx import tenant_tx
from tests.support.desk import Desk
from tests.support.pages import Reader, Scene, node
from tests.support.statements import captured

pytestmark = [pytest.mark.req("A2.6", "C8.4"), pytest.mark.django_db(transaction=True)]


def marks(page: str) -> dict[str, str]:
    """Return run → what its row says was done by hand."""
    rows = re.findall(r'<tr data-href="/runs/([0-9a-f-]{36})/">(.*?)</tr>', page, re.DOTALL)
    badge = re.compile(r'<span class="badge tint st-mark_successed" title="([^"]+)">')
    return {run_id: mark[1] for run_id, row in rows if (mark := badge.search(row))}


def test_a_run_that_a_person_touched_is_marked_and_no_other(made: Scene, admin: Reader):
    forced = str(made.runs["forced"])
    page = admin.get("/runs/")
    assert marks(page) == {forced: "1 step marked as succeeded, 1 step skipped"}
    assert ">by hand</span>" in page
    assert "by hand: 1 step marked as succeeded, 1 step skipped" in admin.get(f"/runs/{forced}/")
    assert "by hand:" not in admin.get(f"/runs/{made.runs['done']}/")
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(admin.get("/runs/export.csv")))}
    told = {name: rows[forced][name] for name in ("forced_by_hand", "skipped_by_hand", "repairs")}
    assert told == {"forced_by_hand": "1", "skipped_by_hand": "1", "repairs": "0"}
    assert rows[str(made.runs["done"])]["forced_by_hand"] == "0"


def test_it_is_told_in_chinese(made: Scene, admin: Reader):
    forced = str(made.runs["forced"])
    admin.post("/preferences/", {"language": "zh-hans", "next": "/runs/"})
    assert marks(admin.get("/runs/")) == {forced: "1 个步骤标记为成功, 跳过 1 个步骤"}
    assert "人工操作：" in admin.get(f"/runs/{forced}/")


def test_what_a_person_repaired_stays_marked_and_what_settled_by_itself_is_not(tenant):
    desk = Desk(tenant)
    repaired, open_still = desk.lost("human"), desk.lost("human")
    desk.finish_case(desk.saw(desk.taken(repaired), "done"), "record_success")
    desk.work()
    reader = Reader(tenant, "viewer")
    assert marks(reader.get("/runs/")) == {str(repaired): "1 repair"}
    assert "by hand: 1 repair" in reader.get(f"/runs/{repaired}/")
    assert "by hand:" not in reader.get(f"/runs/{open_still}/")


def test_the_list_asks_as_often_for_many_marked_runs_as_for_one(made: Scene, admin: Reader):
    counts = []
    for more in (0, 12):
        for _ in range(more):
            run_id = made.engine.submit({"format": "quarterdeck/1", "name": "plain", "nodes": [node("a")]}, {})
            made.engine.act(skip_step, run_id, "a")
        admin.get("/runs/")
        with captured() as statements:
            page = admin.get("/runs/")
        assert len(marks(page)) == 1 + more
        counts.append(len(statements))
    assert counts[0] == counts[1], statements


def test_marks_are_read_by_the_runs_steps(made: Scene):
    with tenant_tx(made.tenant.id) as tx:
        # The test's tables are small: without this the planner rightly reads them whole.
        tx.conn.execute("SET LOCAL enable_seqscan = off")
        asked = f"EXPLAIN {queries()['steps_by_hand']}"
        plan = "\n".join(row[0] for row in tx.conn.execute(asked, ([*made.runs.values()],)))
    assert "qd_step_once" in plan, plan
    assert "Seq Scan" not in plan, plan
