"""A case from the doubt to its verified end: opened by itself, taken under a new epoch, resolved once (C8.4)."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from repair.actions.claim import claim_case, hand_over_case, release_case
from repair.actions.investigate import ask_tool, record_answer
from repair.actions.open import open_case
from repair.actions.propose import keep_pending
from repair.actions.resolve import resolve_case, review_proposal
from repair.duties import close_settled, escalate_overdue
from repair.errors import (
    AskedTooSoon,
    CaseHeld,
    CaseNotHeld,
    CaseResolved,
    NotPermitted,
    OtherCaseVersion,
    SamePerson,
)
from repair.models import Case, Entry
from repair.queries import case_facets, case_groups, list_cases
from runtime.actions.runs import cancel_run
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.models import Outbox
from runtime.queries.invariants import breaches_of
from runtime.queries.people import list_audit
from runtime.queries.steps import read_step
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance import timers
from tests.support.actors import member
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "A6.2", "C2.9"), pytest.mark.django_db(transaction=True)]


def types(desk, case_id) -> list[str]:
    with tenant_tx(desk.tenant.id):
        return list(Entry.objects.filter(case_id=case_id).order_by("id").values_list("type", flat=True))


def test_a_lost_answer_opens_one_case_that_says_what_is_known(desk):
    run_id = desk.lost("human")
    case = desk.case(run_id)
    assert (case["kind"], case["state"], case["risk"]) == ("operation_unknown", "open", "high")
    assert (case["tool"], case["node"], case["workflow"]) == ("desk.human@1", "pay", "pay-human")
    assert {one["name"] for one in case["confirmed"]} >= {"operation_status", "business_key", "sends", "error"}
    assert [one["name"] for one in case["doubts"]] == ["applied"]
    assert all(one["source"] == "engine" and one["observed_at"] for one in case["confirmed"] + case["doubts"])
    assert case["due_at"] - case["opened_at"] == timedelta(hours=1)
    assert desk.run(run_id).status == "needs_attention"


def test_cases_of_one_cause_have_one_fingerprint(desk):
    runs = [desk.lost("human") for _ in range(3)] + [desk.lost("compensable")]
    groups = case_groups(actor=desk.oncall)
    assert [(one["count"], one["tool"]) for one in groups] == [(3, "desk.human@1"), (1, "desk.compensable@1")]
    assert desk.case(runs[0])["alike"] == 2


def test_the_claim_takes_a_new_epoch_and_a_late_report_changes_nothing(desk):
    run_id = desk.submit(workflow(tool("a"), tool("b"), name="epochs"))
    [claimed] = [one for one in desk.claim() if one.node.id == "a"]
    operation_id = send(desk, claimed, f"late:{run_id}")
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=claimed.step_id, reason="it hangs")
    before = desk.step(run_id, "a").owner_epoch
    answer = claim_case(actor=desk.oncall, case_id=uuid.UUID(opened["case_id"]))
    step = desk.step(run_id, "a")
    assert (step.status, step.cause, step.owner_epoch) == ("unknown", "taken_over", before + 1)
    assert (answer["owner_epoch"], answer["epoch_before"]) == (before + 1, before)
    # What its worker had sent is nobody's doubt but the owner's: the run says so, and waits for no worker.
    assert (desk.operation(run_id).status, breaches_of(desk.tenant.id)) == ("unknown", [])
    assert desk.run(run_id).attention is not None
    desk.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1")
    assert desk.step(run_id, "a").status == "unknown"
    assert desk.operation(run_id).status == "unknown"
    case = desk.read(uuid.UUID(opened["case_id"]))
    assert case["operation_id"] == operation_id
    [late] = case["stale"]
    assert (late["payload"]["submitted_epoch"], late["payload"]["external_ref"]) == (before, "P-1")
    assert [one["owner_epoch"] for one in case["epochs"]] == [before]
    desk.check(run_id)


def test_the_second_to_claim_is_told_who_and_when(desk):
    run_id = desk.lost()
    case = desk.taken(run_id)
    with pytest.raises(CaseHeld) as refused:
        claim_case(actor=desk.second, case_id=case["id"])
    assert refused.value.extra["owner"] == desk.oncall.label
    assert refused.value.extra["since"] == case["claimed_at"].isoformat()
    assert claim_case(actor=desk.oncall, case_id=case["id"])["replayed"] is True


def test_handing_over_and_releasing_keep_the_line_of_epochs(desk):
    run_id = desk.lost()
    case = desk.taken(run_id)
    with pytest.raises(BadInput, match="may not work"):
        hand_over_case(actor=desk.oncall, case_id=case["id"], to=desk.approver.name, expected_version=None, reason="x")
    with pytest.raises(NotFound):
        hand_over_case(actor=desk.oncall, case_id=case["id"], to="nobody", expected_version=None, reason="x")
    with pytest.raises(CaseNotHeld):
        hand_over_case(actor=desk.second, case_id=case["id"], to=desk.second.name, expected_version=None, reason="mine")
    moved = hand_over_case(
        actor=desk.oncall, case_id=case["id"], to=desk.second.name, expected_version=None, reason="my shift ends"
    )
    assert (moved["owner"], moved["owner_epoch"]) == (desk.second.label, case["owner_epoch"] + 1)
    with pytest.raises(CaseNotHeld):
        release_case(actor=desk.oncall, case_id=case["id"], expected_version=None, reason="done")
    released = release_case(actor=desk.second, case_id=case["id"], expected_version=moved["version"], reason="ill")
    assert (released["state"], released["owner"], released["owner_epoch"]) == ("open", None, moved["owner_epoch"])
    again = claim_case(actor=desk.oncall, case_id=case["id"])
    assert again["owner_epoch"] == moved["owner_epoch"] + 1
    # An owner who cannot be reached: an admin hands it on.
    taken = hand_over_case(
        actor=desk.admin, case_id=case["id"], to=desk.second.name, expected_version=None, reason="cannot be reached"
    )
    assert taken["owner"] == desk.second.label
    assert types(desk, case["id"]) == ["opened", "claimed", "handed_over", "released", "claimed", "handed_over"]
    desk.check(run_id)


def test_a_recorded_success_goes_on_with_what_the_outside_said(desk):
    run_id = desk.lost("human")
    case = desk.saw(desk.taken(run_id), "done")
    answer = desk.finish_case(case, "record_success")
    assert (answer["state"], answer["resolution"], answer["run_released"]) == ("resolved", "record_success", True)
    operation = desk.operation(run_id)
    assert (operation.status, operation.external_ref, operation.sends) == ("succeeded", "P-77", 1)
    desk.work()
    assert desk.run(run_id).status == "completed"
    assert desk.read(case["id"])["verified_by"] == desk.oncall.label
    acts = [entry["verb"] for entry in list_audit(actor=desk.admin).items if entry["verb"].startswith("repair.")]
    assert acts == ["repair.review", "repair.propose", "repair.investigate", "repair.claim"]
    desk.check(run_id)


def test_an_absence_that_is_confirmed_fails_the_step_and_sends_nothing(desk):
    run_id = desk.lost("human")
    desk.finish_case(desk.saw(desk.taken(run_id), "absent"), "confirm_absent")
    desk.work()
    assert (desk.operation(run_id).status, desk.operation(run_id).sends) == ("absent", 1)
    assert (desk.statuses(run_id)["pay"], desk.run(run_id).status) == ("failed", "failed")
    desk.check(run_id)


@pytest.mark.parametrize("recovery", ["human", "query", "idempotent"])
def test_a_resumed_step_is_sent_once_more_under_the_same_key(desk, recovery):
    if recovery != "human":
        # These settle by themselves; a person opens the case before that.
        run_id = desk.lost(recovery)
        open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    else:
        run_id = desk.lost(recovery)
    before = desk.operation(run_id)
    answer = desk.finish_case(desk.saw(desk.taken(run_id), "absent"), "resume_step")
    assert answer["resumed"]["run_id"] == str(run_id)
    desk.work()
    after = desk.operation(run_id)
    assert (after.id, after.status, after.sends) == (before.id, "succeeded", 2)
    assert desk.run(run_id).status == "completed"
    desk.check(run_id)


def test_a_write_off_is_an_admins_and_needs_another_one(desk, tenant):
    run_id = desk.lost("human")
    case = desk.taken(run_id)
    with pytest.raises(PermissionDenied):
        desk.propose(case, "write_off")
    case = desk.taken(desk.lost("human"), actor=desk.admin)
    said = desk.propose(case, "write_off", actor=desk.admin)
    assert said["needs_review"] is True
    words = {"case_id": case["id"], "repair_id": uuid.UUID(said["repair_id"]), "decision": "approve"}
    with pytest.raises(SamePerson):
        review_proposal(actor=desk.admin, expected_version=said["version"], **words)
    with pytest.raises(PermissionDenied):
        review_proposal(actor=desk.second, expected_version=said["version"], **words)
    review_proposal(actor=member(tenant, "admin"), expected_version=said["version"], **words)
    operation = desk.operation(case["run_id"])
    assert (operation.status, desk.run(case["run_id"]).status) == ("written_off", "failed")
    desk.check(case["run_id"])


def test_what_is_sent_back_is_proposed_anew(desk):
    run_id = desk.lost("human")
    case = desk.saw(desk.taken(run_id), "done")
    said = desk.propose(case, "record_success")
    assert said["state"] == "reviewing"
    with pytest.raises(Conflict):
        resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=said["version"])
    words = {"case_id": case["id"], "repair_id": uuid.UUID(said["repair_id"])}
    with pytest.raises(BadInput, match="reason"):
        review_proposal(actor=desk.second, decision="send_back", expected_version=None, **words)
    back = review_proposal(
        actor=desk.second, decision="send_back", comment="which receipt?", expected_version=said["version"], **words
    )
    assert back["state"] == "proposed"
    # What was sent back is not carried out by asking again.
    with pytest.raises(Conflict):
        resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=back["version"])
    answer = desk.finish_case(desk.read(case["id"]), "record_success")
    assert answer["state"] == "resolved"


def test_double_clicks_and_a_second_tab_do_nothing_twice(desk):
    run_id = desk.lost("human")
    case = desk.saw(desk.taken(run_id), "done")
    repair_id = uuid.uuid4()
    first = desk.propose(case, "record_success", repair_id=repair_id)
    again = desk.propose(case, "record_success", repair_id=repair_id)
    assert (first["replayed"], again["replayed"], again["version"]) == (False, True, first["version"])
    with pytest.raises(Conflict, match="another proposal"):
        desk.propose(desk.read(case["id"]), "record_success", repair_id=repair_id, arguments={"external_ref": "P-78"})
    with pytest.raises(OtherCaseVersion):
        desk.propose(case, "record_success")
    words = {"case_id": case["id"], "repair_id": repair_id, "decision": "approve"}
    done = review_proposal(actor=desk.second, expected_version=first["version"], **words)
    assert review_proposal(actor=desk.second, expected_version=first["version"], **words)["replayed"] is True
    late = resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=1, repair_id=repair_id)
    assert late["replayed"] is True
    with pytest.raises(CaseResolved):
        resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=None)
    assert done["state"] == "resolved"
    assert types(desk, case["id"]).count("resolved") == 1
    assert desk.operation(run_id).sends == 1


def _cancelled(desk, name):
    run_id = desk.submit(workflow(tool("a"), tool("b"), name=name))
    [claimed] = [one for one in desk.claim() if one.node.id == "a"]
    send(desk, claimed, f"{name}:{run_id}")
    cancel_run(actor=desk.actor, run_id=run_id, reason="ordered twice")
    return run_id, claimed


def test_a_cancelled_call_that_ends_by_itself_and_was_applied_is_verified(desk, as_role):
    run_id, claimed = _cancelled(desk, "late")
    # Its worker may still tell what became of it: nobody is needed yet.
    assert (desk.run(run_id).status, desk.cases(run_id)) == ("cancelling", [])
    desk.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1")
    with as_role("worker"):
        close_settled()
    case = desk.case(run_id)
    assert (case["kind"], case["answer"], case["answered_by"]) == ("late_success", "done", "ledger")
    answer = desk.finish_case(desk.taken(run_id), "record_success", arguments={"external_ref": "P-1"})
    assert (answer["state"], desk.read(case["id"])["verified_by"]) == ("resolved", "ledger")
    assert (desk.run(run_id).status, desk.operation(run_id).external_ref) == ("cancelled", "P-1")
    desk.check(run_id)


def test_a_cancelled_run_is_verified_and_then_at_its_end(desk, clock, as_role):
    run_id, claimed = _cancelled(desk, "forced")
    clock.advance(conf().cancel_grace_seconds + 1)
    timers.enforce_cancels()
    assert desk.case(run_id)["title"] == "Execution ended, external action to be verified."
    desk.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1")
    assert desk.run(run_id).status == "needs_attention"
    with as_role("worker"):
        close_settled()
    case = desk.case(run_id)
    assert (case["answer"], case["answered_by"]) == ("done", "ledger")
    case = desk.taken(run_id)
    desk.finish_case(case, "record_success", arguments={"external_ref": "P-1"})
    assert (desk.run(run_id).status, desk.operation(run_id).external_ref) == ("cancelled", "P-1")
    assert desk.statuses(run_id)["a"] == "killed(cancelled)"
    desk.check(run_id)


def test_what_settles_by_itself_needs_nobody(desk, as_role):
    run_id = desk.submit(workflow(tool("a"), tool("b"), name="settles"))
    [claimed] = [one for one in desk.claim() if one.node.id == "a"]
    send(desk, claimed, f"settles:{run_id}")
    open_case(actor=desk.oncall, run_id=run_id, step_id=claimed.step_id, reason="slow")
    desk.report(claimed, "succeeded", operation_status="succeeded")
    assert desk.case(run_id)["kind"] == "by_hand"
    lost = desk.lost("human")
    with as_role("worker"):
        close_settled()
    assert [case.state for case in desk.cases(lost, resolved=True)] == ["open"]


def test_an_overdue_case_goes_up_its_chain_and_is_never_dropped(fresh_db, desk, clock, as_role):
    run_id = desk.lost("human")
    case = desk.case(run_id)
    with as_role("worker"):
        assert escalate_overdue() == 0
        clock.advance(61 * 60)
        escalate_overdue()
        escalate_overdue()
        assert desk.case(run_id)["escalated_to"] == "oncall"
        clock.advance(31 * 60)
        escalate_overdue()
        clock.advance(31 * 60)
        escalate_overdue()
        clock.advance(600 * 60)
        escalate_overdue()
    after = desk.case(run_id)
    assert (after["escalations"], after["escalated_to"], after["overdue"], after["state"]) == (3, "admin", True, "open")
    with tenant_tx(desk.tenant.id):
        assert Outbox.objects.filter(topic="repair.overdue").count() == 3
    assert [row["id"] for row in list_cases(actor=desk.oncall, overdue=True).items] == [case["id"]]
    assert case_facets(actor=desk.oncall)["overdue"] == 1
    claim_case(actor=desk.oncall, case_id=case["id"])
    kept = keep_pending(
        actor=desk.oncall,
        case_id=case["id"],
        due_at=desk.read(case["id"])["now"] + timedelta(hours=2),
        reason="the bank answers in the morning",
        expected_version=None,
    )
    assert kept["state"] == "claimed"
    assert list_cases(actor=desk.oncall, overdue=True).items == []
    with pytest.raises(BadInput):
        keep_pending(
            actor=desk.oncall, case_id=case["id"], due_at=after["now"], reason="yesterday", expected_version=None
        )


def test_a_tool_is_asked_by_key_and_not_too_often(desk, clock):
    run_id = desk.lost("query")
    open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    case = desk.taken(run_id)
    asked = ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=case["version"])
    assert (asked["state"], asked["finding"], asked["answer"]) == ("investigating", "not_found", "absent")
    assert (desk.operation(run_id).status, desk.step(run_id, "pay").status) == ("unknown", "unknown")
    with pytest.raises(AskedTooSoon) as refused:
        ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=asked["version"])
    assert 0 < refused.value.retry_after <= 10
    clock.advance(11)
    again = ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=asked["version"])
    assert again["answer"] == "absent"
    assert types(desk, case["id"]) == ["opened", "claimed", "asked", "answered", "asked", "answered"]
    other = desk.taken(desk.lost("human"))
    with pytest.raises(Conflict, match="names no query"):
        ask_tool(actor=desk.oncall, case_id=other["id"], expected_version=other["version"])


def test_the_tools_own_word_needs_no_second_person_and_is_asked_for_again(desk):
    run_id = desk.lost("query", "there")
    open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="the customer calls")
    case = desk.taken(run_id)
    # A person's word is overruled by the tool's when the case is to be closed.
    said = desk.propose(desk.saw(case, "absent"), "confirm_absent")
    words = {"case_id": case["id"], "repair_id": uuid.UUID(said["repair_id"]), "expected_version": said["version"]}
    with pytest.raises(NotPermitted) as refused:
        review_proposal(actor=desk.second, decision="approve", **words)
    # What the tool said is kept, though the review was refused for it.
    told = desk.read(case["id"])
    assert (told["state"], told["answer"], told["answered_by"]) == ("reviewing", "done", "query")
    assert (types(desk, case["id"])[-1], refused.value.extra["current_version"]) == ("answered", told["version"])
    words["expected_version"] = told["version"]
    review_proposal(actor=desk.second, decision="send_back", comment="the tool says it is there", **words)
    ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=None)
    case = desk.read(case["id"])
    assert (case["answer"], case["answered_by"]) == ("done", "query")
    answer = desk.finish_case(case, "record_success")
    assert answer["state"] == "resolved"
    desk.work()
    assert desk.run(run_id).status == "completed"
    closed = desk.read(case["id"])
    assert (closed["verified_by"], closed["proposals"][0]["needs_review"]) == ("query", False)
    # What follows reads what the tool said, not what somebody typed.
    output = read_step(actor=desk.admin, step_id=desk.step(run_id, "pay").id)["checkpoint"]["output"]
    assert output["to"].startswith("there-")
    desk.check(run_id)


def test_an_answer_has_evidence_a_source_and_a_reference(desk):
    case = desk.taken(desk.lost())
    words = {"actor": desk.oncall, "case_id": case["id"], "expected_version": case["version"]}
    for wrong in (
        {"answer": "perhaps", "evidence": "x", "source": "y"},
        {"answer": "absent", "evidence": " ", "source": "y"},
        {"answer": "absent", "evidence": "x", "source": ""},
        {"answer": "done", "evidence": "x", "source": "y"},
    ):
        with pytest.raises(BadInput):
            record_answer(**words, **wrong)
    assert desk.read(case["id"])["version"] == case["version"]


def test_nobody_without_the_verb_and_no_program_works_on_a_case(desk, other_tenant):
    case = desk.case(desk.lost())
    for actor in (desk.approver, desk.integrator, desk.actor):
        with pytest.raises(PermissionDenied):
            claim_case(actor=actor, case_id=case["id"])
    with pytest.raises(NotFound):
        claim_case(actor=member(other_tenant, "oncall"), case_id=case["id"])
    with tenant_tx(other_tenant.id):
        assert not Case.objects.exists()
