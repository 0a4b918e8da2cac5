"""The diagnostic questions of B11.1, answered from the ledger of real runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from dashboard.presenters import consequences, why, why_focus
from runtime.actions.runs import pause_run
from tests.support.pages import Reader

QUESTIONS = 10
HELD = "Does a permission, a budget, an approval or a stop hold it?"


def answers(page: str) -> dict[str, tuple[str, str]]:
    """Return question → (verdict, text) of a page."""
    found = re.findall(
        r'<div class="a-(\w+)"><dt><svg.*?</svg>(.*?)</dt><dd><p>(.*?)</p>', page.split('class="answers"')[1], re.DOTALL
    )
    return {question: (verdict, text) for verdict, question, text in found}


@pytest.mark.req("B11.1")
def test_a_held_step_names_its_approval(made, admin):
    page = admin.get(f"/runs/{made.runs['asks']}/why/")
    found = answers(page)
    assert len(found) == QUESTIONS
    assert "It waits for one step that is held" in page
    verdict, text = found[HELD]
    assert verdict == "wait"
    assert "Yes, an approval" in text
    assert "Approver" in text
    assert found["Was it queued?"][0] == "wait"
    assert found["Why was what follows not scheduled?"] == ("wait", "book: this step is not at an end.")


@pytest.mark.req("B11.1")
def test_a_failed_step_shows_its_claim_and_its_missing_result(made, admin):
    found = answers(admin.get(f"/runs/{made.runs['failed']}/why/"))
    assert found["Did a worker claim it?"][0] == "yes"
    assert found["Was the result persisted?"] == ("no", "No: it ended without a result; its error is kept.")
    assert found["Why was what follows not scheduled?"][0] == "wait"


@pytest.mark.req("B11.1")
def test_a_result_is_named_with_its_event_and_hash(made, admin):
    page = admin.get(f"/runs/{made.runs['done']}/why/?node=a")
    verdict, text = answers(page)["Was the result persisted?"]
    assert verdict == "yes"
    assert re.search(r"as of event \d+, \w+, sha256 [0-9a-f]{12}", text)
    assert "Nothing holds this run" in page
    seq = re.search(r"events/\?after=\d+&amp;seq=(\d+)", page)
    assert seq is not None
    assert f'id="seq-{seq.group(1)}"' in admin.get(f"/runs/{made.runs['done']}/events/?after=0&seq={seq.group(1)}")


@pytest.mark.req("B11.1")
def test_a_paused_run_says_who_holds_it(made, admin):
    run_id = made.runs["retries"]
    pause_run(actor=made.engine.actor, run_id=run_id, reason="maintenance")
    page = admin.get(f"/runs/{run_id}/why/")
    assert "An operator paused it" in page
    assert answers(page)[HELD][1].startswith("Yes, an operator")


def test_a_stop_is_an_answer(made, admin):
    admin.post("/stops/", {"scope": "workflow", "name": "plain", "minutes": "", "reason": "gateway doubles orders"})
    found = answers(admin.get(f"/runs/{made.runs['runs']}/why/?node=a"))
    assert found[HELD] == (
        "no", "Yes, an emergency stop: gateway doubles orders",
    )  # fmt: skip


def test_a_step_that_is_not_there_is_not_found(made, admin):
    admin.get(f"/runs/{made.runs['done']}/why/?node=zzz", 404)
    admin.get(f"/runs/{made.runs['done']}/?step=zzz", 404)


NOW = datetime(2026, 11, 12, tzinfo=UTC)


def facts(
    status: str, *, operations: list[dict] | None = None, sources: dict[str, str] | None = None, **step
) -> why.Facts:
    """Return facts about one step ``x`` with sources of the given statuses."""
    row = {
        "status": status, "cause": None, "attempt": 0, "error": None, "pool": "default", "queued_at": None,
        "not_before": None, "hold_requested": False, "execution_version": 1, **step,
    }  # fmt: skip
    node = {"id": "x", "title": "X", "kind": "tool", "tool": "t@1", "join": {"mode": "all"}, "step": row}
    before = [
        {"id": name, "title": name, "join": {"mode": "all"}, "step": {"status": one}}
        for name, one in (sources or {}).items()
    ]
    edges = [{"source": one["id"], "target": "x", "taken": None} for one in before]
    run = {
        "paused": False,
        "cancel_requested": False,
        "deadline": None,
        "finished_at": None,
        "workflow": "w",
        "workflow_version": 1,
    }
    return why.Facts(
        run, node, {"nodes": [*before, node], "edges": edges}, [], {"seq": 1, "occurred_at": NOW, "actor": "user:ada"},
        [], operations or [], None, [], [], NOW,
    )  # fmt: skip


def test_a_wrong_ready_set_is_doubted():
    assert why.answer(facts("queued", sources={"a": "running"}))[1].verdict == "doubt"
    assert why.answer(facts("waiting", sources={"a": "succeeded"}))[1].verdict == "doubt"
    assert why.answer(facts("waiting", sources={"a": "running"}))[1].verdict == "wait"
    assert why.answer(facts("running", sources={"a": "succeeded"}))[1].verdict == "yes"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("unknown", "doubt"),
        ("sent", "doubt"),
        ("succeeded", "yes"),
        ("absent", "no"),
        ("intended", "no"),
        ("needs_human", "doubt"),
    ],
)
def test_unknown_is_neither_done_nor_failed(status, verdict):
    operation = {
        "status": status, "sends": 1, "tool": "t@1", "sent_at": NOW, "business_key": "k", "external_ref": None,
        "next_query_at": NOW,
    }  # fmt: skip
    found = why.answer(facts("unknown", operations=[operation]))[6]
    assert found.verdict == verdict


def test_the_most_telling_step_comes_first():
    rows = [
        {"id": one, "title": one, "step": {"status": one, "cause": "upstream_failed", "error": None, "started_at": NOW,
         "queued_at": NOW, "created_at": NOW, "not_before": None}}
        for one in ("skipped", "queued", "failed", "hold", "unknown")
    ]  # fmt: skip
    assert [one.node for one in why_focus.blockers({"nodes": rows, "edges": []}, NOW)][:3] == [
        "unknown",
        "hold",
        "queued",
    ]


def test_no_verb_is_offered_that_the_law_refuses():
    from runtime.machine import law

    by = {"skip": "skipped", "kill": "killed"}
    for status in law.STEP_STATUSES:
        step = {"status": status, "cause": "user", "hold_requested": False}
        for verb, to in by.items():
            allowed = (status, to) in law.STEP and "operator" in law.STEP[status, to].by
            assert (consequences.possible(verb, step) == "") == allowed, (verb, status)
        forced = (status, "mark_successed") in law.STEP or status == "running"
        assert (consequences.possible("mark-successed", step) == "") == forced, status
        assert (consequences.possible("rerun", step) == "") == (status in law.RERUN_SOURCES)


def test_the_drawer_answers_the_same(made):
    oncall = Reader(made.tenant, "oncall")
    page = oncall.get(f"/runs/{made.runs['asks']}/?step=ask&part=why")
    assert len(answers(page)) == QUESTIONS
