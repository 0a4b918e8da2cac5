"""Two engineers claim at once; a claim meets the worker's own report: one order wins and both are explained (C8.2)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest

from repair.actions.claim import claim_case
from repair.actions.open import open_case
from repair.actions.resolve import review_proposal
from repair.errors import CaseHeld
from runtime.kernel.errors import Conflict, QuarterdeckError
from tests.support.desk import Desk
from tests.support.operations import send
from tests.support.race import Contender, held, together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.2", "C8.4", "C2.9"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def desk(fresh_db, tenant) -> Desk:
    """A desk alone in its database."""
    return Desk(tenant)


def said(work: Any) -> Any:
    """Return a call that answers with its refusal instead of raising it."""

    def call() -> Any:
        try:
            return work()
        except QuarterdeckError as problem:
            return problem

    return call


def test_of_two_who_claim_at_once_one_wins_and_the_other_is_told_who(desk):
    for _ in range(5):
        case_id = desk.case(desk.lost("human"))["id"]
        answers = together(
            *(said(partial(claim_case, actor=who, case_id=case_id)) for who in (desk.oncall, desk.second))
        )
        [won] = [one for one in answers if isinstance(one, dict)]
        [lost] = [one for one in answers if isinstance(one, CaseHeld)]
        assert lost.extra["owner"] == won["owner"]
        assert lost.extra["since"] is not None
        assert won["owner_epoch"] == won["epoch_before"] + 1


def _running(desk: Desk) -> tuple[uuid.UUID, Any, uuid.UUID]:
    run_id = desk.submit(workflow(tool("a"), tool("b"), name="met"))
    [claimed] = [one for one in desk.claim() if one.node.id == "a"]
    send(desk, claimed, f"met:{run_id}")
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=claimed.step_id, reason="it hangs")
    return run_id, claimed, uuid.UUID(opened["case_id"])


@pytest.mark.parametrize("first", ["claim", "report"])
def test_a_claim_and_the_workers_report_come_one_after_the_other(desk, fresh_db, first):
    run_id, claimed, case_id = _running(desk)
    acts = {
        "claim": lambda: claim_case(actor=desk.oncall, case_id=case_id),
        "report": lambda: desk.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1"),
    }
    with held(fresh_db, "qd_run", run_id) as line:
        queued: list[Contender] = [line.queue(acts[first])]
        queued.append(line.queue(acts["report" if first == "claim" else "claim"]))
    for contender in queued:
        contender.outcome()
    case = desk.read(case_id)
    if first == "claim":
        # The report came under the older epoch: refused, kept as a fact, and shown.
        assert (desk.step(run_id, "a").status, desk.operation(run_id).status) == ("unknown", "unknown")
        assert [late["payload"]["external_ref"] for late in case["stale"]] == ["P-1"]
    else:
        assert (desk.step(run_id, "a").status, desk.operation(run_id).status) == ("succeeded", "succeeded")
        assert case["stale"] == []
    assert (case["state"], case["owner"]) == ("claimed", desk.oncall.label)
    desk.check(run_id)


def test_two_reviews_at_once_carry_out_once(desk):
    case = desk.saw(desk.taken(desk.lost("human")), "absent")
    proposed = desk.propose(case, "resume_step")
    words = {"case_id": case["id"], "repair_id": uuid.UUID(proposed["repair_id"]), "decision": "approve"}
    review = partial(review_proposal, expected_version=proposed["version"], **words)
    answers = together(*(said(partial(review, actor=who)) for who in (desk.second, desk.approver, desk.second)))
    carried = [one for one in answers if isinstance(one, dict) and not one["replayed"]]
    assert len(carried) == 1
    assert all(isinstance(one, dict | Conflict) for one in answers)
    desk.work()
    assert desk.operation(case["run_id"]).sends == 2
    desk.check(case["run_id"])
