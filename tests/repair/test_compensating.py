"""A case orders that an effect is undone: accepted, applied and verified apart, once; a case where it fails."""

from __future__ import annotations

import uuid

import pytest

from repair.actions.open import open_case
from repair.actions.resolve import resolve_case, review_proposal
from repair.errors import NotPermitted
from runtime.actions.compensation import compensate_operation
from runtime.actions.tenants import add_member
from runtime.models import Compensation, Operation
from runtime.queries.invariants import breaches_of
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C8.4", "C4.5", "B9.2"), pytest.mark.django_db(transaction=True)]


def effects(desk, run_id) -> dict[str, str]:
    """Return the status of each operation of the run by its node's share of the key."""
    with tenant_tx(desk.tenant.id):
        rows = Operation.objects.filter(run_id=run_id).order_by("id").values_list("business_key", "status")
        return {"undo" if key.startswith("undo:") else "pay": status for key, status in rows}


def ordered(desk, run_id) -> int:
    with tenant_tx(desk.tenant.id):
        return Compensation.objects.filter(run_id=run_id).count()


def sound(desk, run_id) -> None:
    desk.check(run_id)
    assert breaches_of(desk.tenant.id) == []


def paid_by_mistake(desk):
    """Return a claimed case about a payment that is there outside."""
    return desk.saw(desk.taken(desk.lost("compensable")), "done")


def test_accepted_applied_and_verified_are_three_things(desk):
    case = paid_by_mistake(desk)
    run_id = case["run_id"]
    said = desk.propose(case, "compensate")
    # Accepted: a second person has to look, nothing has moved.
    assert (said["state"], said["why_review"]) == ("reviewing", "It acts outside.")
    assert (effects(desk, run_id), ordered(desk, run_id)) == ({"pay": "unknown"}, 0)
    done = review_proposal(
        actor=desk.second, case_id=case["id"], repair_id=uuid.UUID(said["repair_id"]), decision="approve",
        expected_version=said["version"],
    )  # fmt: skip
    # Applied: a step of the run works on it.
    assert (done["state"], done["undoing"]["status"]) == ("resolved", "compensating")
    shown = desk.read(case["id"])
    assert (shown["verification"]["state"], shown["verified_by"]) == ("pending", None)
    order = shown["verification"]["order"]
    assert (order["node"], order["status"], order["tool"]) == ("undo:pay", "queued", "office.tell@1")
    assert str(order["step_id"]) == done["undoing"]["step_id"]
    assert desk.step(run_id, "pay").status == "failed"
    # Verified: the ledger says so, and only now the page does.
    desk.work()
    shown = desk.read(case["id"])
    assert (shown["verification"]["state"], shown["verification"]["by"]) == ("verified", "ledger")
    assert effects(desk, run_id) == {"pay": "compensated", "undo": "succeeded"}
    assert (desk.run(run_id).status, desk.cases(run_id)) == ("failed", [])
    sound(desk, run_id)


def test_one_repair_id_orders_once_whoever_asks_again(desk):
    case = paid_by_mistake(desk)
    run_id, repair_id = case["run_id"], uuid.uuid4()
    said = desk.propose(case, "compensate", repair_id=repair_id)
    assert desk.propose(case, "compensate", repair_id=repair_id)["replayed"] is True
    words = {"case_id": case["id"], "repair_id": repair_id, "decision": "approve", "expected_version": said["version"]}
    review_proposal(actor=desk.second, **words)
    assert review_proposal(actor=desk.second, **words)["replayed"] is True
    again = resolve_case(actor=desk.oncall, case_id=case["id"], expected_version=1, repair_id=repair_id)
    assert again["replayed"] is True
    # On the effect itself it is the same order.
    direct = compensate_operation(actor=desk.oncall, operation_id=case["operation_id"], reason="paid by mistake")
    assert (direct["status"], direct["step_id"], ordered(desk, run_id)) == ("compensating", None, 1)
    desk.work()
    assert effects(desk, run_id) == {"pay": "compensated", "undo": "succeeded"}
    sound(desk, run_id)


def test_what_was_ordered_on_the_effect_itself_is_not_ordered_twice(desk):
    pay = {"id": "pay", "kind": "tool", "tool": "desk.compensable@1", "business_key": "'pay:' + input.to",
           "input": {"to": {"$": "input.to"}}}  # fmt: skip
    run_id = desk.submit(workflow(pay, name="twice"), {"to": f"twice-{desk.tenant.slug}"})
    desk.work()
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="paid twice")
    assert (opened["state"], opened["answer"]) == ("open", "done")
    direct = compensate_operation(actor=desk.oncall, operation_id=desk.operation(run_id).id, reason="paid twice")
    answer = desk.finish_case(desk.taken(run_id), "compensate")
    assert answer["undoing"] == {"operation_id": direct["operation_id"], "status": "compensating", "step_id": None}
    desk.work()
    assert (effects(desk, run_id), ordered(desk, run_id)) == ({"pay": "compensated", "undo": "succeeded"}, 1)
    assert desk.read(uuid.UUID(opened["case_id"]))["verification"]["state"] == "verified"
    assert desk.run(run_id).status == "completed"
    sound(desk, run_id)


def test_an_effect_that_is_another_than_was_meant_is_undone_and_never_taken_for_a_success(desk):
    case = desk.saw(desk.taken(desk.lost("compensable")), "contradicts")
    run_id = case["run_id"]
    desk.finish_case(case, "compensate")
    assert effects(desk, run_id) == {"pay": "compensating"}
    assert "OPERATION_SUCCEEDED" not in desk.types(run_id)
    desk.work()
    assert effects(desk, run_id) == {"pay": "compensated", "undo": "succeeded"}
    assert desk.read(case["id"])["verification"]["state"] == "verified"
    sound(desk, run_id)


def test_an_undoing_that_fails_opens_a_case_that_the_first_one_names(desk):
    case = paid_by_mistake(desk)
    run_id = case["run_id"]
    desk.finish_case(case, "compensate")
    [claimed] = [one for one in desk.claim() if one.node.id == "undo:pay"]
    desk.report(claimed, "failed")
    [opened] = desk.cases(run_id)
    assert (opened.kind, opened.operation_id, opened.risk) == ("compensation_failed", case["operation_id"], "high")
    shown = desk.read(case["id"])["verification"]
    assert (shown["state"], shown["later"]) == ("failed", str(opened.id))
    assert desk.run(run_id).status == "needs_attention"
    # It is taken, seen to be there still, and ordered anew.
    desk.finish_case(desk.saw(desk.taken(run_id), "done"), "compensate")
    assert ordered(desk, run_id) == 2
    desk.work()
    assert effects(desk, run_id) == {"pay": "compensated", "undo": "succeeded"}
    assert desk.read(opened.id)["verification"]["state"] == "verified"
    assert desk.read(case["id"])["verification"]["state"] == "failed"
    sound(desk, run_id)


def test_an_effect_nobody_has_seen_is_not_undone(desk):
    for answer in ("unknown", "unreachable", "absent"):
        case = desk.saw(desk.taken(desk.lost("compensable")), answer)
        with pytest.raises(NotPermitted):
            desk.propose(case, "compensate")
        assert ordered(desk, case["run_id"]) == 0


def test_where_the_workflow_names_a_person_nothing_is_ordered(desk):
    by_hand = {"owner": "oncall", "consequence": "The customer has the money twice."}
    pay = {
        "id": "pay", "kind": "tool", "tool": "desk.compensable@1", "business_key": "'pay:' + input.to",
        "input": {"to": {"$": "input.to"}}, "compensation": by_hand,
    }  # fmt: skip
    run_id = desk.submit(workflow(pay, name="by-hand"), {"to": f"by-hand-{desk.tenant.slug}"})
    [claimed] = desk.claim()
    desk.lose(claimed)
    case = desk.saw(desk.taken(run_id), "done")
    with pytest.raises(NotPermitted, match="names a person"):
        desk.propose(case, "compensate")
    assert effects(desk, run_id) == {"pay": "unknown"}


def test_a_resumed_step_is_verified_when_it_succeeded(desk):
    case = desk.saw(desk.taken(desk.lost("human")), "absent")
    desk.finish_case(case, "resume_step")
    assert desk.read(case["id"])["verification"]["state"] == "pending"
    desk.work()
    shown = desk.read(case["id"])["verification"]
    assert (shown["state"], shown["by"], shown["order"]["node"]) == ("verified", "ledger", "pay")


UNDO_BY_PEOPLE = {"name": "undo", "when": "undoes", "decide": "approval", "role": "approver"}
REST = {"name": "rest", "when": "!undoes", "decide": "allow"}


def ordered_by(desk, reviewer):
    """Return a case that a policy's people have to agree to, ordered by one on call and approved by ``reviewer``."""
    case = paid_by_mistake(desk)
    said = desk.propose(case, "compensate")
    review_proposal(
        actor=reviewer, case_id=case["id"], repair_id=uuid.UUID(said["repair_id"]), decision="approve",
        expected_version=said["version"],
    )  # fmt: skip
    return case


@pytest.mark.req("C5.3", "A10.2")
def test_the_desks_two_people_are_the_approval_that_a_rule_asks_for_where_its_terms_are_met(desk):
    desk.activate([UNDO_BY_PEOPLE, REST])
    case = ordered_by(desk, desk.approver)
    desk.work()
    assert effects(desk, case["run_id"]) == {"pay": "compensated", "undo": "succeeded"}
    assert desk.read(case["id"])["verification"]["state"] == "verified"
    sound(desk, case["run_id"])


@pytest.mark.req("C5.3", "A10.2")
@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({}, "1 of the role approver, 0 ordered it"),
        ({"role": "admin", "quorum": 2}, "2 of the role admin, 0 ordered it"),
    ],
    ids=["another role", "more people"],
)
def test_where_the_rules_terms_are_not_met_nothing_is_sent_and_a_case_says_so(desk, rule, why):
    desk.activate([{**UNDO_BY_PEOPLE, **rule}, REST])
    case = ordered_by(desk, desk.second)
    desk.work()
    assert effects(desk, case["run_id"]) == {"pay": "compensation_failed"}
    assert why in desk.case(case["run_id"])["title"]


@pytest.mark.req("C5.3", "A10.2", "C5.6")
def test_an_order_does_not_outlive_the_right_of_who_approved_it_or_its_time(desk, clock):
    desk.activate([{**UNDO_BY_PEOPLE, "start_within_s": 600}, REST])
    case = ordered_by(desk, desk.approver)
    add_member(actor=desk.admin, username=desk.approver.name, role="viewer")
    desk.work()
    assert effects(desk, case["run_id"]) == {"pay": "compensation_failed"}
    other = member(desk.tenant, "approver")
    late = ordered_by(desk, other)
    clock.advance(601)
    desk.work()
    assert effects(desk, late["run_id"]) == {"pay": "compensation_failed"}
    # Ordered anew by people who may, it is undone.
    again = desk.saw(desk.taken(late["run_id"]), "done")
    said = desk.propose(again, "compensate")
    words = {"decision": "approve", "expected_version": said["version"], "repair_id": uuid.UUID(said["repair_id"])}
    review_proposal(actor=other, case_id=again["id"], **words)
    desk.work()
    assert effects(desk, late["run_id"])["pay"] == "compensated"
