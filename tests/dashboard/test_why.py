"""The diagnostic questions of B11.1, answered from the ledger of real runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.presenters import consequences, why, why_focus
from runtime.actions.runs import pause_run
from tests.support.pages import Reader

QUESTIONS = 10
HELD = "Does a permission, a budget, an approval or a stop hold it?"
READY, LATE, SENT = "Is the ready set right?", "Did it time out, and where?", "Was a request sent?"


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
    join = {"mode": "all", "policy": "all_succeeded", "timeout_s": None}
    node = {"id": "x", "title": "X", "kind": "tool", "tool": "t@1", "join": join, "step": row}
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


def told(found: why.Facts) -> dict[str, tuple[str, str]]:
    """Return question → (verdict, text) of facts that were made by hand."""
    return {one.question: (one.verdict, one.text) for one in why.answer(found)}


def operation(status: str = "sent", sends: int = 1) -> dict:
    return {
        "status": status, "sends": sends, "tool": "shop.refund@2", "sent_at": NOW, "business_key": "refund:A-1",
        "external_ref": None, "next_query_at": None,
    }  # fmt: skip


def attempt(**more) -> dict:
    return {
        "number": 2, "host": "h", "pid": 7, "started_at": NOW, "owner_epoch": 3, "lease_until": NOW, "error": None,
        **more,
    }  # fmt: skip


@pytest.mark.req("B11.1")
def test_what_was_sent_is_told_with_its_tool_time_and_key():
    verdict, text = told(facts("running", operations=[operation(sends=2)]))[SENT]
    assert (verdict, text.split(", last")[0]) == ("yes", "Yes, 2× to shop.refund@2")
    assert "key refund:A-1" in text
    found = told(facts("running", operations=[operation("intended", 0)]))
    assert found[SENT] == ("no", "No: the intent was recorded and nothing left.")
    assert told(facts("queued"))[SENT] == ("none", "No: it has no side effect.")
    called = facts("running")
    called.attempts = [attempt()]
    assert told(called)[SENT][1].startswith("It declares no side effect; calls without one")


@pytest.mark.req("B11.1")
def test_a_time_limit_names_the_attempt_that_it_ended():
    late = facts("failed")
    error = {"class": "timeout", "message": "no answer within 15 s"}
    late.attempts = [attempt(number=1, error=error), attempt(number=2, error={**error, "message": "again"})]
    assert told(late)[LATE] == ("no", "Yes, attempt 2: again")
    over = facts("queued")
    over.run["deadline"] = NOW
    assert told(over)[LATE] == ("no", "The run's deadline has passed.")
    over.run["finished_at"] = NOW
    assert told(over)[LATE] == ("none", "No time limit was reached.")


@pytest.mark.req("B11.1")
def test_a_lease_that_ran_out_is_a_doubt_never_a_crash():
    held = facts("running")
    held.attempts = [attempt(lease_until=NOW + timedelta(seconds=5))]
    assert told(held)["Did a worker claim it?"][0] == "yes"
    held.attempts = [attempt(lease_until=NOW)]
    answer = next(one for one in why.answer(held) if one.question == "Did a worker claim it?")
    assert (answer.verdict, answer.hint) == ("doubt", "Its worker's lease is over: lost, and being taken over.")


@pytest.mark.parametrize("kind", ["permission", "policy", "budget"])
@pytest.mark.req("B11.1")
def test_a_refusal_says_what_refused(kind):
    refused = facts("failed", error={"class": kind, "message": f"The {kind} says no."})
    assert told(refused)[HELD] == ("no", f"Yes, it was refused: The {kind} says no.")
    assert told(facts("failed", error={"class": "network", "message": "reset"}))[HELD] == ("none", "No.")


@pytest.mark.req("B11.1")
def test_a_run_that_is_being_cancelled_starts_nothing():
    ending = facts("running")
    ending.run["cancel_requested"] = True
    assert told(ending)[HELD] == ("no", "The run is being cancelled: nothing new starts.")
    asked = facts("running", hold_requested=True)
    assert told(asked)[HELD] == ("wait", "An operator asked for a hold; it takes effect at the next yield.")


def test_what_was_skipped_waits_for_nothing():
    assert told(facts("skipped", cause="user", sources={"a": "running"}))[READY] == (
        "none", "It was skipped before its inputs were at an end.",
    )  # fmt: skip


def call(
    status: str = "waiting", *, writes: bool = True, served: bool = True, operation: dict | None = None
) -> why.Facts:
    """What is known of a call that an approval or a stop keeps from starting, or with one operation of its own."""
    step = {"status": status, "cause": None, "attempt": 0, "error": None, "pool": "night", "queued_at": NOW}
    node = {"id": "pay", "kind": "tool", "title": "Pay", "tool": "pay@1", "step": step, "join": {"mode": "all"}}
    return why.Facts(
        run={"paused": False, "deadline": None, "cancel_requested": False, "finished_at": None}, node=node,
        graph={"nodes": [node], "edges": []}, events=[], created=None, attempts=[],
        operations=[operation] if operation is not None else [], checkpoint=None, requests=[], stops=[], now=NOW,
        writes=writes, served=served,
    )  # fmt: skip


def said(known: why.Facts) -> dict[str, tuple[str, str]]:
    return {one.question: (one.verdict, one.text + (f" {one.hint}" if one.hint else "")) for one in why.answer(known)}


@pytest.mark.req("B11.1")
@pytest.mark.parametrize(
    ("known", "verdict", "words"),
    [
        (call("hold"), "wait", "Not yet"),
        (call("skipped"), "no", "none left"),
        (call("waiting", writes=False), "none", "No: it has no side effect."),
    ],
)
def test_a_writing_call_that_was_not_sent_yet_is_not_said_to_have_no_effect(known, verdict, words):
    found = said(known)[SENT]
    assert found[0] == verdict
    assert words in found[1]


@pytest.mark.req("B11.1")
def test_an_effect_that_is_being_undone_is_known():
    effect = {
        "status": "compensating",
        "sends": 1,
        "tool": "pay@1",
        "sent_at": NOW,
        "business_key": "k",
        "external_ref": "",
    }
    found = said(call("succeeded", operation=effect))["Can it have had an effect outside?"]
    assert found == ("yes", "It had one, and that is being undone.")


@pytest.mark.req("B11.1")
def test_a_pool_that_nobody_serves_is_an_answer():
    question = "Did a worker claim it?"
    assert "serves the pool night" in said(call("queued", served=False))[question][1]
    assert "serves the pool" not in said(call("queued"))[question][1]


@pytest.mark.req("B11.1", "C2.7")
def test_a_preferred_pool_is_told_with_its_time():
    known = call("queued")
    question = "Did a worker claim it?"
    assert "prefers" not in said(known)[question][1]
    known.node["step"]["prefer_until"] = NOW + timedelta(seconds=30)
    assert "It prefers the pool night until" in said(known)[question][1]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("out of stock.", "It ended failed. out of stock."),
        ("really?", "It ended failed. really?"),
        ("and so on...", "It ended failed. and so on..."),
    ],
)
def test_a_sentence_ends_once(reason, told):
    assert why_focus.headline({"status": "failed", "reason": reason}, []) == told


def test_a_waiting_step_whose_text_is_a_sentence_ends_once():
    step = {"status": "waiting", "cause": "retry_scheduled", "not_before": None}
    found = [why_focus.Blocker("a", "Send", step["status"], "That size is out of stock.")]
    run = {"status": "running", "reason": "", "cancel_requested": False, "paused": False}
    assert why_focus.headline(run, found) == "It waits: Send, That size is out of stock."
