"""Lists as files: what the page shows, page by page, cut with a word about it, and proofs that can be checked."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import re
from html import unescape
from typing import Any

import pytest

from dashboard.pages import export
from repair.actions.open import open_case
from runtime.queries.base import Page
from tests.support.actors import member
from tests.support.pages import Reader
from tests.support.web import drive

COLUMNS: export.Columns = {"n": lambda row: row["n"]}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_export_is_what_the_list_shows(made, admin):
    rows = rows_of(admin.get("/runs/export.csv?status=failed"))
    assert [row["id"] for row in rows] == [str(made.runs["failed"])]
    assert rows[0]["workflow"] == "plain"
    assert rows[0]["created_at"].endswith("Z")
    every = json.loads(admin.get("/runs/export.json"))
    assert {row["id"] for row in every["items"]} == {str(one) for one in made.runs.values()}
    assert every["truncated"] is False
    admin.get("/runs/export.xls", 404)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\t=1", "\n=1", "＝1+1", "＠sum"])
def test_no_cell_is_a_formula(text):
    assert export.cell(text) == f"'{text}"
    assert export.cell("plain") == "plain"
    assert export.cell(-1) == "-1"


def test_objects_and_lists_are_json_in_a_cell():
    assert json.loads(export.cell({"b": None, "a": [True, "x"]})) == {"a": [True, "x"], "b": None}
    assert export.cell(["=1"]) == '["=1"]'


def test_a_file_goes_page_by_page_and_is_never_read_ahead():
    asked: list[str | None] = []

    def chunk(cursor: str | None) -> Page:
        asked.append(cursor)
        start = int(cursor or 0)
        return Page([{"n": n} for n in range(start, start + 2)], str(start + 2) if start < 4 else None)

    async def read() -> list[tuple[bytes, int]]:
        answer = export.stream("csv", "numbers", COLUMNS, chunk)
        return [(part, len(asked)) async for part in answer.streaming_content]  # type: ignore[union-attr]

    parts = drive(read())
    assert [one for one in parts if one[0]] == [
        (b"n\r\n", 1),
        (b"0\r\n1\r\n", 1),
        (b"2\r\n3\r\n", 2),
        (b"4\r\n5\r\n", 3),
    ]
    assert asked == [None, "2", "4"]


@pytest.mark.parametrize(("bound", "cut"), [(5, True), (6, True), (7, False), (8, False)])
def test_a_file_that_was_cut_says_so(made, admin, monkeypatch, bound, cut):
    monkeypatch.setattr(export, "MAX_ROWS", bound)
    monkeypatch.setattr(export, "PAGE", 3)
    answer = admin.client.get("/runs/export.json")
    assert answer["X-Row-Limit"] == str(bound)
    body = json.loads(admin.get("/runs/export.json"))
    assert (len(body["items"]), body["truncated"], body["limit"]) == (min(bound, 7), cut, bound)
    rows = rows_of(admin.get("/runs/export.csv"))
    assert rows[-1]["id"].startswith("# truncated") is cut
    assert len(rows) == min(bound, 7) + cut


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_exported_audit_proves_itself(made, admin, kind):
    text = admin.get(f"/audit/export.{kind}")
    rows: list[dict[str, Any]] = rows_of(text) if kind == "csv" else json.loads(text)["items"]
    assert len(rows) >= 2
    for newer, older in itertools.pairwise(rows):
        assert newer["previous_sha256"] == older["sha256"]
    for row in rows:
        proof = hashlib.sha256(bytes.fromhex(row["previous_sha256"]) + row["body"].encode()).hexdigest()
        assert proof == row["sha256"]
        said = json.loads(row["body"])
        details = json.loads(row["details"] or "null") if kind == "csv" else row["details"]
        assert (said["details"], said["reason"], said["verb"]) == (details, row["reason"], row["verb"])


def test_the_inbox_sends_what_it_shows(made, admin):
    def links(page: str) -> list[str]:
        return [unescape(one) for one in re.findall(r'href="(/inbox/export\.json[^"]*)"', page)]

    def exported(path: str) -> list[str]:
        (link,) = links(admin.get(path))
        return [one["title"] for one in json.loads(admin.get(link))["items"]]

    assert len(exported("/inbox/?view=all")) == 1
    assert len(exported("/inbox/?view=all&workflow=trip&sort=risk")) == 1
    assert exported("/inbox/?view=all&workflow=plain") == []
    assert exported("/inbox/?view=decided") == []
    risks = {risk: len(exported(f"/inbox/?view=all&risk={risk}")) for risk in ("none", "low", "medium", "high")}
    assert sorted(risks.values()) == [0, 0, 0, 1]


def test_tasks_and_repairs_are_sent_as_they_are_filtered(made, admin):
    every = json.loads(admin.get("/tasks/export.json"))["items"]
    assert len(every) == len(made.runs)
    trips = rows_of(admin.get("/tasks/export.csv?workflow=trip"))
    assert [row["name"] for row in trips] == ["Trip 4711"]
    step = made.engine.step(made.runs["failed"], "a").id
    open_case(actor=member(made.tenant, "oncall"), run_id=made.runs["failed"], step_id=step, reason="A call.")
    (link,) = re.findall(r'href="(/repairs/export\.json[^"]*)"', admin.get("/repairs/?kind=by_hand"))
    (case,) = json.loads(admin.get(unescape(link)))["items"]
    assert (case["kind"], case["run_id"], case["owner"]) == ("by_hand", str(made.runs["failed"]), None)
    assert json.loads(admin.get("/repairs/export.json?view=resolved"))["items"] == []
    admin.get("/tasks/export.xls", 404)


def test_views_of_tasks_and_repairs_are_the_readers_own(made, admin):
    for path, query in (("/tasks/", "workflow=trip"), ("/repairs/", "view=mine&risk=high")):
        admin.post(f"{path}views/", {"name": "Mine, mostly", "query": f"{query}&evil=1"})
        page = admin.get(path)
        assert f'href="{path}?{query.replace("&", "&amp;")}"' in page
        assert "evil" not in page
        assert "Mine, mostly" not in Reader(made.tenant, "admin").get(path)
        admin.post(f"{path}views/", {"forget": "Mine, mostly"})
        assert "Mine, mostly" not in admin.get(path)
