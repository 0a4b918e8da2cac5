"""Faults that other consoles have and this one must not. Elsewhere, in the order of the wishes, are proved:

a link preview that decides (``tests/approvals/test_api``: getting changes nothing; ``test_pages``: nothing is changed
by looking), expiry that approves (``tests/approvals/test_decide``: time never approves), a stale tab
(``tests/dashboard/test_acts``), a decision on what was not shown (``tests/approvals/test_decide``), a cancel that
loses a success (``test_acts``: cancelling what just ended; ``tests/races/test_pairs``), a heartbeat without progress
(``tests/faults/test_frozen``), a graph that freezes the browser (``tests/browser/test_graph``). The rest is here.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from runtime.models import WorkerSession
from runtime.queries import runs as run_queries
from tests.support.operations import send
from tests.support.pages import Reader, Scene, as_json, node


def state_in_list(page: str, run_id: object) -> str:
    row = re.search(rf'<tr data-href="/runs/{run_id}/">(.*?)</tr>', page, re.S)
    assert row is not None
    found = re.search(r"#m-(\w+)", row.group(1))
    assert found is not None
    return found.group(1)


def state_in_head(page: str) -> str:
    found = re.search(r"<h1.*?#m-(\w+)", page, re.S)
    assert found is not None
    return found.group(1)


def test_list_detail_facets_and_api_agree(made: Scene, admin: Reader):
    listed = admin.get("/runs/")
    for run_id in made.runs.values():
        status = made.engine.run(run_id).status
        told = as_json(admin.get(f"/api/v1/runs/{run_id}/"))["status"]
        assert {status, told, state_in_list(listed, run_id), state_in_head(admin.get(f"/runs/{run_id}/steps/"))} == {
            status
        }
        assert state_in_list(admin.get(f"/runs/?status={status}"), run_id) == status


def test_no_success_is_shown_while_an_effect_is_open(made: Scene, admin: Reader):
    engine = made.engine
    run_id = engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, "refund:1")
    engine.report(claimed, "unknown", operation_status="unknown")
    page = admin.get(f"/runs/{run_id}/operations/")
    assert state_in_head(page) not in ("completed", "partially_completed")
    assert "not known" in page
    assert state_in_list(admin.get("/runs/"), run_id) == state_in_head(page)


def test_a_step_marked_by_hand_never_looks_like_a_success(made: Scene, admin: Reader):
    run_id = made.runs["forced"]
    row = re.search(r'<tr data-href="\?step=a"(.*?)</tr>', admin.get(f"/runs/{run_id}/steps/"), re.S)
    assert row is not None
    assert "#m-mark_successed" in row.group(1)
    assert "#m-succeeded" not in row.group(1)
    assert "succeeded by hand" in admin.get(f"/runs/{run_id}/timeline/")
    graph = as_json(admin.get(f"/api/v1/runs/{run_id}/graph/"))
    assert {one["id"]: one["step"]["status"] for one in graph["nodes"]}["a"] == "mark_successed"
    assert "Not decided" in admin.get(f"/runs/{run_id}/")


def test_a_worker_that_is_late_is_suspected_until_its_lease_is_over(made: Scene, admin: Reader, clock):
    session = made.engine.open_session(lease=60)
    clock.advance(timedelta(seconds=20))
    name = str(session)[-8:]

    def row() -> str:
        found = re.search(rf"<tr[^>]*>(?:(?!</tr>).)*{name}.*?</tr>", admin.get("/workers/"), re.S)
        assert found is not None
        return found.group(0)

    assert "suspected lost" in row()
    clock.advance(timedelta(seconds=60))
    assert "suspected" not in row()
    assert "lease is over" in row()
    assert WorkerSession.objects.using("owner").get(id=session).ended_at is None


def test_no_list_counts_every_row(made: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_queries, "COUNT_BOUND", 3)
    assert len(made.runs) > 4
    page = run_queries.list_runs(actor=made.engine.actor, limit=2, count=True)
    assert page.count == 4, "one more than the bound, however many there are"


def test_nothing_approves_many_at_once_unseen(made: Scene, admin: Reader):
    assert not re.search(r"approve all|select all", admin.get("/inbox/"), re.I)
    back = {"verb": "approve", "run": str(made.runs["asks"]), "back": ""}
    admin.post("/runs/bulk/", back, 400)
