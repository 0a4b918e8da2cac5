"""A case about a run concerns several steps: a claim takes a new epoch on each, and no older owner writes on (C8.4)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest

from repair.actions.claim import MOST_NAMED, claim_case, hand_over_case, release_case
from repair.actions.open import open_case
from repair.errors import CaseHeld
from repair.standstill import watch_standstills
from runtime.actions.runs import cancel_run
from runtime.kernel.errors import QuarterdeckError
from runtime.queries.people import list_audit
from tests.support.closing import sound
from tests.support.desk import Desk
from tests.support.engine import force_columns
from tests.support.operations import send
from tests.support.pages import Reader
from tests.support.race import Contender, held, together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "C2.9"), pytest.mark.django_db(transaction=True)]

ASK = {"id": "ask", "kind": "approval", "title": "?"}


def under_way(desk: Desk) -> tuple[uuid.UUID, dict[str, Any], uuid.UUID]:
    """Return a run with a step done, two that run (one has sent), one that waits and one that asks; and its case."""
    run_id = desk.submit(workflow(tool("done"), tool("reads"), tool("pays"), tool("last", "reads"), ASK, name="many"))
    claimed = {one.node.id: one for one in desk.claim()}
    desk.report(claimed["done"], "succeeded")
    send(desk, claimed["pays"], f"pays:{run_id}")
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=None, reason="it looks odd")
    return run_id, claimed, uuid.UUID(opened["case_id"])


def epochs(desk: Desk, run_id: uuid.UUID) -> dict[str, int]:
    return {node: desk.step(run_id, node).owner_epoch for node in ("done", "reads", "pays", "last", "ask")}


def test_every_open_step_has_a_new_epoch_and_its_older_owner_changes_nothing(desk):
    run_id, claimed, case_id = under_way(desk)
    before = epochs(desk, run_id)
    shown = desk.read(case_id)["concerned"]
    assert [(one["node"], one["status"], one["alive"]) for one in shown[:2]] == [
        ("reads", "running", True),
        ("pays", "running", True),
    ]
    assert {one["node"] for one in shown} == {"reads", "pays", "last", "ask"}
    answer = claim_case(actor=desk.oncall, case_id=case_id)
    after = epochs(desk, run_id)
    assert after == {node: epoch + (node != "done") for node, epoch in before.items()}
    assert {node: (one["epoch_before"], one["epoch"]) for node, one in answer["fenced"].items()} == {
        node: (before[node], after[node]) for node in before if node != "done"
    }
    assert answer["owner_epoch"] == max(after[node] for node in answer["fenced"])
    # Nothing of the one was sent: it goes on under the new epoch. What the other sent is a person's, in its own case.
    assert desk.statuses(run_id) | {"ask": "", "last": ""} == {
        "done": "succeeded", "reads": "queued", "pays": "unknown(taken_over)", "last": "", "ask": "",
    }  # fmt: skip
    assert desk.operation(run_id).status == "unknown"
    assert [one.subject_kind for one in desk.cases(run_id)] == ["run", "operation"]
    for node in ("reads", "pays"):
        more = {"operation_status": "succeeded", "external_ref": "P-1"} if node == "pays" else {}
        desk.report(claimed[node], "succeeded", **more)
    assert desk.statuses(run_id)["reads"] == "queued"
    assert (desk.step(run_id, "pays").status, desk.operation(run_id).status) == ("unknown", "unknown")
    late = {one["payload"]["node"]: one["payload"]["submitted_epoch"] for one in desk.read(case_id)["stale"]}
    assert late == {node: before[node] for node in ("reads", "pays")}
    sound(desk, run_id)
    # The step whose attempt was taken away is anybody's again, and its new owner's word counts.
    desk.finish("reads")
    assert desk.statuses(run_id)["reads"] == "succeeded"
    sound(desk, run_id)


def test_handing_over_and_releasing_keep_the_line_of_each_step(desk):
    run_id, _claimed, case_id = under_way(desk)
    lines = [epochs(desk, run_id)]
    claim_case(actor=desk.oncall, case_id=case_id)
    lines.append(epochs(desk, run_id))
    moved = hand_over_case(
        actor=desk.oncall, case_id=case_id, to=desk.second.name, expected_version=None, reason="my shift ends"
    )
    lines.append(epochs(desk, run_id))
    assert moved["fenced"].keys() == {"reads", "pays", "last", "ask"}
    released = release_case(actor=desk.second, case_id=case_id, expected_version=None, reason="ill")
    assert epochs(desk, run_id) == lines[-1], "a release takes nothing: the newest owner's epoch stays"
    claim_case(actor=desk.oncall, case_id=case_id)
    lines.append(epochs(desk, run_id))
    for node in ("reads", "pays", "last", "ask"):
        line = [one[node] for one in lines]
        assert line == list(range(line[0], line[0] + 4))
    case = desk.read(case_id)
    assert case["owner_epoch"] > released["owner_epoch"] == moved["owner_epoch"]
    fenced = [entry["data"]["fenced"] for entry in case["entries"] if "fenced" in entry["data"]]
    assert [one["pays"]["epoch"] for one in fenced] == [one["pays"] for one in lines[1:]]
    [act] = [one for one in list_audit(actor=desk.admin).items if one["verb"] == "repair.hand_over"]
    assert act["details"]["fenced"]["pays"]["epoch"] == lines[2]["pays"]
    sound(desk, run_id)


def test_of_many_steps_all_are_fenced_and_counted_and_the_first_are_named(fresh_db, tenant):
    desk = Desk(tenant)
    nodes = [tool("a"), *(tool(f"n{n}", "a") for n in range(MOST_NAMED))]
    run_id = desk.submit(workflow(*nodes, name="wide"))
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=None, reason="it looks odd")
    case_id = uuid.UUID(opened["case_id"])
    answer = claim_case(actor=desk.oncall, case_id=case_id)
    assert (answer["fenced_count"], len(answer["fenced"])) == (MOST_NAMED + 1, MOST_NAMED)
    [unnamed] = {node["id"] for node in nodes} - answer["fenced"].keys()
    assert desk.step(run_id, unnamed).owner_epoch == 1, "it is fenced all the same"
    # The case's epochs are those of all steps, whether they are named or not.
    force_columns(fresh_db, "qd_step", desk.step(run_id, unnamed).id, owner_epoch=7)
    moved = hand_over_case(
        actor=desk.oncall, case_id=case_id, to=desk.second.name, expected_version=None, reason="my shift ends"
    )
    assert (moved["fenced_count"], len(moved["fenced"]), moved["owner_epoch"]) == (MOST_NAMED + 1, MOST_NAMED, 8)
    release_case(actor=desk.second, case_id=case_id, expected_version=None, reason="ill")
    assert claim_case(actor=desk.oncall, case_id=case_id)["epoch_before"] == 8
    for entry in desk.read(case_id)["entries"]:
        if entry["type"] in ("claimed", "handed_over"):
            assert (entry["data"]["fenced_count"], len(entry["data"]["fenced"])) == (MOST_NAMED + 1, MOST_NAMED)
    acts = [one["details"] for one in list_audit(actor=desk.admin).items if one["verb"] == "repair.hand_over"]
    assert [(one["fenced_count"], len(one["fenced"])) for one in acts] == [(MOST_NAMED + 1, MOST_NAMED)]
    sound(desk, run_id)


@pytest.mark.parametrize("open_steps", [1, MOST_NAMED + 1])
def test_the_page_counts_every_step_that_has_a_new_epoch(fresh_db, tenant, open_steps):
    desk = Desk(tenant)
    run_id = desk.submit(workflow(*(tool(f"n{n}") for n in range(open_steps)), name="wide"))
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=None, reason="it looks odd")
    reader = Reader(tenant, "oncall")
    reader.post(f"/repairs/{opened['case_id']}/claim/", {"version": str(desk.read(opened["case_id"])["version"])})
    said = f"and {open_steps} steps have a new epoch." if open_steps > 1 else "under epoch 1."
    assert f"The case is yours, {said}" in reader.get(f"/repairs/{opened['case_id']}/")


def test_a_standstill_is_claimed_with_all_its_steps_and_a_finished_run_with_none(fresh_db, tenant, clock):
    desk = Desk(tenant)
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), name="stands"))
    force_columns(fresh_db, "qd_step", desk.step(run_id, "a").id, claimable=False)
    clock.advance(901)
    desk.renew()
    assert watch_standstills() == 1
    [case] = desk.cases(run_id)
    answer = claim_case(actor=desk.oncall, case_id=case.id)
    assert {node: one["epoch"] for node, one in answer["fenced"].items()} == {"a": 1, "b": 1}
    ended = desk.submit(workflow(tool("z"), name="fails"))
    desk.work()
    opened = open_case(actor=desk.oncall, run_id=ended, step_id=None, reason="look again")
    answer = claim_case(actor=desk.oncall, case_id=uuid.UUID(opened["case_id"]))
    assert (answer["fenced"], answer["owner_epoch"]) == ({}, None)
    assert desk.read(opened["case_id"])["concerned"] == []


def test_who_is_asked_may_still_decide_and_the_run_goes_on(desk):
    run_id = desk.ask()
    request = desk.pending(run_id)
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=None, reason="the payee looks odd")
    assert "ask" in claim_case(actor=desk.oncall, case_id=uuid.UUID(opened["case_id"]))["fenced"]
    desk.decide(request)
    desk.work()
    assert desk.run(run_id).status == "completed"
    sound(desk, run_id)


def test_a_cancelled_runs_steps_end_with_the_claim(desk):
    run_id, claimed, case_id = under_way(desk)
    cancel_run(actor=desk.actor, run_id=run_id, reason="no longer wanted", expected_version=None)
    claim_case(actor=desk.oncall, case_id=case_id)
    assert desk.statuses(run_id)["reads"] == "killed(cancelled)"
    desk.report(claimed["reads"], "succeeded")
    assert desk.statuses(run_id)["reads"] == "killed(cancelled)"
    desk.check(run_id)


def said(work: Any) -> Any:
    """Return a call that answers with its refusal instead of raising it."""

    def call() -> Any:
        try:
            return work()
        except QuarterdeckError as problem:
            return problem

    return call


@pytest.mark.req("C8.2")
def test_of_two_who_claim_a_run_at_once_one_wins_and_each_step_has_one_new_epoch(fresh_db, tenant):
    desk = Desk(tenant)
    for _ in range(3):
        run_id, _claimed, case_id = under_way(desk)
        before = epochs(desk, run_id)
        answers = together(
            *(said(partial(claim_case, actor=who, case_id=case_id)) for who in (desk.oncall, desk.second))
        )
        [won] = [one for one in answers if isinstance(one, dict)]
        [lost] = [one for one in answers if isinstance(one, CaseHeld)]
        assert lost.extra["owner"] == won["owner"]
        assert epochs(desk, run_id) == {node: epoch + (node != "done") for node, epoch in before.items()}


@pytest.mark.req("C8.2")
@pytest.mark.parametrize("first", ["claim", "report"])
def test_a_claim_and_the_reports_of_several_workers_come_one_after_the_other(fresh_db, tenant, first):
    desk = Desk(tenant)
    run_id, claimed, case_id = under_way(desk)
    reports = [
        lambda: desk.report(claimed["pays"], "succeeded", operation_status="succeeded", external_ref="P-1"),
        lambda: desk.report(claimed["reads"], "succeeded"),
    ]
    acts = [lambda: claim_case(actor=desk.oncall, case_id=case_id), *reports]
    with held(fresh_db, "qd_run", run_id) as line:
        queued: list[Contender] = [line.queue(one) for one in (acts if first == "claim" else [*acts[1:], acts[0]])]
    for contender in queued:
        contender.outcome()
    late = {one["payload"]["node"] for one in desk.read(case_id)["stale"]}
    statuses = {node: desk.step(run_id, node).status for node in ("pays", "reads")}
    if first == "claim":
        assert (late, statuses) == ({"pays", "reads"}, {"pays": "unknown", "reads": "queued"})
    else:
        assert (late, statuses) == (set(), {"pays": "succeeded", "reads": "succeeded"})
    desk.check(run_id)


def test_the_page_names_the_open_steps_and_the_line_of_each(desk, tenant):
    run_id, claimed, case_id = under_way(desk)
    reader = Reader(tenant, "oncall")
    page = reader.get(f"/repairs/{case_id}/")
    assert "Takes a new epoch on each of the 4 steps that are open" in page
    assert "2 attempts under way end." in page
    shown = desk.read(case_id)
    reader.post(f"/repairs/{case_id}/claim/", {"version": str(shown["version"])})
    page = reader.get(f"/repairs/{case_id}/")
    assert "The case is yours, and 4 steps have a new epoch." in page
    desk.report(claimed["pays"], "succeeded", operation_status="succeeded", external_ref="P-1")
    page = reader.get(f"/repairs/{case_id}/")
    board = page[page.index("Every effect of the run") :]
    assert f"pays:{run_id}" in board
    assert "not known" in board
    line = page[page.index('aria-label="Who owned it when"') :]
    for node in ("reads", "pays", "last", "ask"):
        assert f'<span class="mono">{node}</span>' in line
    assert "epoch 1 (pays), succeeded" in page
