"""One person's word is no tool's answer, and a case says nothing of what happened after it (C8.4, C2.9)."""

from __future__ import annotations

import uuid

import pytest

from repair.actions.claim import claim_case, hand_over_case
from repair.actions.investigate import ask_again_before, ask_tool, record_answer
from repair.actions.open import open_case
from repair.actions.resolve import resolve_case, review_proposal
from repair.errors import CaseNotHeld
from repair.models import Fact
from repair.policy import Policy, needs_second
from runtime.actions.rerun import rerun_step
from runtime.kernel.errors import Conflict, OperationOpen, SchemaMismatch
from runtime.queries.steps import read_step
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.office import writing
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "C2.9"), pytest.mark.django_db(transaction=True)]

RECEIPT = {"type": "object", "required": ["receipt"], "properties": {"receipt": {"type": "string"}}}


def _hanging(desk, *nodes):
    """Return (run, what was claimed of ``a``, a case about its step): its worker has sent nothing yet."""
    run_id = desk.submit(workflow(*(nodes or (tool("a"), tool("b", "a"))), name="hangs"))
    [claimed] = [one for one in desk.claim() if one.run_id == run_id]
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=claimed.step_id, reason="it hangs")
    return run_id, claimed, uuid.UUID(opened["case_id"])


def _output(desk, run_id, node):
    return read_step(actor=desk.admin, step_id=desk.step(run_id, node).id)["checkpoint"]["output"]


@pytest.mark.parametrize("recovery", [None, "replayable"])
def test_a_success_on_a_persons_word_needs_a_second_person_whatever_the_tool_is(recovery):
    about = {"recovery": recovery, "idempotency": "none"}
    assert needs_second(Policy(), "record_success", answered_by="user:ada", **about)
    assert needs_second(Policy(), "record_success", answered_by=None, **about)
    assert needs_second(Policy(), "record_success", answered_by="query", **about) is None
    assert needs_second(Policy(), "record_success", answered_by="query", own_output=True, **about)
    assert needs_second(Policy(), "resume_step", answered_by=None, **about) is None


def test_a_step_without_an_effect_takes_an_output_only_by_its_tools_schema_and_two_people(desk):
    register_tool(actor=desk.actor, contract=writing("desk.strict", output_schema=RECEIPT))
    pay = {"id": "a", "kind": "tool", "tool": "desk.strict@1", "business_key": "'pay:' + input.to"}
    run_id, _claimed, case_id = _hanging(desk, pay)
    claim_case(actor=desk.oncall, case_id=case_id)
    words = {"external_ref": "P-1", "output": {"anything": 1}}
    said = desk.propose(desk.read(case_id), "record_success", arguments=words)
    assert said["needs_review"] is True
    with pytest.raises(Conflict, match="second person"):
        resolve_case(actor=desk.oncall, case_id=case_id, expected_version=said["version"])
    about = {"actor": desk.second, "case_id": case_id, "repair_id": uuid.UUID(said["repair_id"])}
    with pytest.raises(SchemaMismatch):
        review_proposal(decision="approve", expected_version=said["version"], **about)
    assert desk.step(run_id, "a").status == "unknown"
    review_proposal(decision="send_back", comment="no receipt", expected_version=said["version"], **about)
    words = {"external_ref": "P-1", "output": {"receipt": "P-1"}}
    desk.finish_case(desk.read(case_id), "record_success", arguments=words)
    assert _output(desk, run_id, "a") == {"receipt": "P-1"}
    desk.check(run_id)


@pytest.mark.parametrize("resolution", ["record_success", "resume_step"])
def test_what_was_sent_before_the_claim_has_an_owner_and_is_settled_first(desk, resolution):
    run_id, claimed, case_id = _hanging(desk)
    operation_id = send(desk, claimed, f"sent:{run_id}")
    claim_case(actor=desk.oncall, case_id=case_id)
    assert desk.operation(run_id).status == "unknown"
    [other] = [one for one in desk.cases(run_id) if one.id != case_id]
    assert (other.operation_id, other.kind) == (operation_id, "operation_unknown")
    with pytest.raises(OperationOpen):
        desk.finish_case(desk.read(case_id), resolution)
    assert (desk.step(run_id, "a").status, desk.read(case_id)["resolution"]) == ("unknown", None)
    claim_case(actor=desk.oncall, case_id=other.id)
    desk.finish_case(desk.saw(desk.read(other.id), "done"), "record_success")
    assert (desk.operation(run_id).status, desk.step(run_id, "a").status) == ("succeeded", "succeeded")
    desk.check(run_id)


def test_the_tools_own_result_and_reference_count_more_than_what_somebody_wrote(desk):
    run_id = desk.lost("query", "there")
    open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    case = desk.taken(run_id)
    ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=None)
    words = {"external_ref": "P-77", "output": {"to": "somebody else"}}
    said = desk.propose(desk.read(case["id"]), "record_success", arguments=words)
    assert said["needs_review"] is True
    review_proposal(
        actor=desk.second, case_id=case["id"], repair_id=uuid.UUID(said["repair_id"]), decision="approve",
        expected_version=said["version"],
    )  # fmt: skip
    assert _output(desk, run_id, "pay")["to"].startswith("there-")
    assert desk.operation(run_id).external_ref == f"P-{desk.operation(run_id).business_key}"
    desk.check(run_id)


def test_the_tool_is_asked_again_and_its_own_word_closes_the_case(desk):
    run_id = desk.lost("query", "there")
    open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    case = desk.taken(run_id)
    ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=None)
    said = desk.propose(desk.read(case["id"]), "record_success")
    assert said["needs_review"] is False
    seen = {"answer": "done", "evidence": "a mail", "source": "the inbox", "reference": "P-78"}
    record_answer(actor=desk.oncall, case_id=case["id"], expected_version=said["version"], **seen)
    # The tool is asked again and says so itself: its word is back, and nobody else has to look.
    answer = resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=None)
    assert (answer["state"], desk.read(case["id"])["verified_by"]) == ("resolved", "query")


def test_the_tool_is_asked_only_for_who_may_close_the_case(desk):
    run_id = desk.lost("query", "there")
    open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    case = desk.saw(desk.taken(run_id), "absent")
    desk.propose(case, "confirm_absent")
    before = desk.read(case["id"])["version"]
    with pytest.raises(CaseNotHeld):
        resolve_case(actor=desk.second, case_id=case["id"], expected_version=None)
    assert desk.read(case["id"])["version"] == before
    with tenant_tx(desk.tenant.id):
        assert not Fact.objects.filter(case_id=case["id"], source="query").exists()
    assert ask_again_before(desk.second, case["id"], lambda shown: shown.owner == desk.second.label) is None
    found = ask_again_before(desk.oncall, case["id"], lambda shown: shown.owner == desk.oncall.label)
    assert found is not None
    assert found.kind == "applied"


def test_a_case_does_nothing_to_a_newer_execution_of_its_node(desk):
    run_id, claimed, case_id = _hanging(desk)
    desk.report(claimed, "succeeded")
    desk.act(rerun_step, run_id, "a")
    [again] = [one for one in desk.claim() if one.run_id == run_id]
    before = desk.step(run_id, "a")
    assert (before.execution_version, before.status) == (2, "running")
    claim_case(actor=desk.oncall, case_id=case_id)
    to = desk.second.name
    hand_over_case(actor=desk.oncall, case_id=case_id, to=to, expected_version=None, reason="my shift ends")
    after = desk.step(run_id, "a")
    assert (after.status, after.owner_epoch, after.version) == ("running", before.owner_epoch, before.version)
    said = desk.propose(desk.read(case_id), "resume_step", actor=desk.second)
    with pytest.raises(Conflict, match="run again since"):
        resolve_case(actor=desk.second, case_id=case_id, expected_version=said["version"])
    desk.report(again, "succeeded")
    assert desk.step(run_id, "a").status == "succeeded"
    desk.check(run_id)
