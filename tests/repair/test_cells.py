"""Five recovery classes by five answers from outside: in each cell only what is permitted, else a reason."""

from __future__ import annotations

import pytest

from repair import law
from repair.actions.open import open_case
from repair.errors import NotPermitted
from repair.law import ANSWERS, RECOVERY_CLASSES, RESOLUTIONS
from runtime.kernel.errors import Conflict, PermissionDenied
from tests.support.desk import CLASSES
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "C4.1", "C3.6", "B4.4")]

# By hand, apart from the table it judges: what an operator may do, per class and answer.
W = "write_off keep_pending"
EXPECTED = {
    ("replayable", "done"): "record_success resume_step keep_pending",
    ("replayable", "absent"): "confirm_absent resume_step keep_pending",
    ("replayable", "unknown"): "resume_step keep_pending",
    ("replayable", "unreachable"): "resume_step keep_pending",
    ("replayable", "contradicts"): "resume_step keep_pending",
    ("idempotent", "done"): "record_success keep_pending",
    ("idempotent", "absent"): "confirm_absent resume_step keep_pending",
    ("idempotent", "unknown"): W,
    ("idempotent", "unreachable"): W,
    ("idempotent", "contradicts"): W,
    ("query", "done"): "record_success keep_pending",
    ("query", "absent"): "confirm_absent resume_step keep_pending",
    ("query", "unknown"): W,
    ("query", "unreachable"): W,
    ("query", "contradicts"): W,
    ("compensable", "done"): "record_success compensate keep_pending",
    ("compensable", "absent"): "confirm_absent resume_step keep_pending",
    ("compensable", "unknown"): W,
    ("compensable", "unreachable"): W,
    ("compensable", "contradicts"): "compensate " + W,
    ("human", "done"): "record_success keep_pending",
    ("human", "absent"): "confirm_absent resume_step keep_pending",
    ("human", "unknown"): W,
    ("human", "unreachable"): W,
    ("human", "contradicts"): W,
}


@pytest.mark.parametrize(("recovery", "answer"), sorted(EXPECTED))
def test_a_cell_permits_what_it_says_and_refuses_the_rest_with_a_reason(recovery, answer):
    allowed = set(EXPECTED[recovery, answer].split())
    assert law.permitted(recovery, answer) == allowed
    for resolution in RESOLUTIONS:
        reason = law.why_not(resolution, recovery, answer)
        assert (reason is None) == (resolution in allowed)
        assert reason is None or reason.endswith(".")


def test_there_is_a_cell_for_each_class_and_answer():
    assert len(EXPECTED) == 25
    assert set(EXPECTED) == {(one, answer) for one in RECOVERY_CLASSES for answer in ANSWERS}
    assert {(source, target) for source, target in law.MOVES} <= {(a, b) for a in law.STATES for b in law.STATES}


def _replayable(desk):
    """Return a run whose step has an effect in doubt that may be made again whatever is known of it."""
    run_id = desk.submit(workflow(tool("pay"), name="again"))
    [claimed] = desk.claim()
    send(desk, claimed, f"read:{run_id}", recovery="replayable")
    desk.report(claimed, "unknown", operation_status="unknown")
    return run_id


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("recovery", RECOVERY_CLASSES)
def test_the_desk_keeps_to_the_cells(desk, recovery):
    run_id = desk.lost(recovery) if recovery in CLASSES else _replayable(desk)
    if not desk.cases(run_id):
        open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="asked about")
    # An administrator has every permission: what is refused here is refused by the cell alone.
    case = desk.taken(run_id, desk.admin)
    for answer in ANSWERS:
        case = desk.saw(case, answer, desk.admin)
        allowed = set(EXPECTED[recovery, answer].split()) - {"keep_pending"}
        shown = {one["resolution"] for one in case["moves"] if one["permitted"]} - {"keep_pending"}
        assert shown == allowed
        for resolution in set(RESOLUTIONS) - allowed:
            with pytest.raises(NotPermitted) as refused:
                desk.propose(case, resolution, desk.admin)
            assert refused.value.detail.endswith(".")
            assert set(refused.value.extra["permitted"]) == set(EXPECTED[recovery, answer].split())
    with pytest.raises(PermissionDenied):
        desk.propose(case, "write_off")
    # Nothing of that has moved anything.
    operation = desk.operation(run_id)
    assert (operation.status, operation.sends, desk.step(run_id, "pay").status) == ("unknown", 1, "unknown")


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_changed_after_the_proposal_stops_it(desk):
    case = desk.saw(desk.taken(desk.lost("human")), "done")
    said = desk.propose(case, "record_success")
    desk.saw(desk.read(case["id"]), "absent")
    with pytest.raises(Conflict):
        desk.finish_case(desk.read(case["id"]), "record_success")
    assert said["state"] == "reviewing"
