"""Cases about held steps, failed runs, stuck steps and runs that need a person: closed by what is read (C8.4)."""

from __future__ import annotations

import pytest

from repair.actions.open import open_case
from repair.errors import NotPermitted
from runtime.actions.compensation import compensate_operation
from runtime.actions.runs import cancel_run
from runtime.actions.steps import release_step
from runtime.graph.plans import plan_of
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.models import Operation
from runtime.store.tx import tenant_tx
from tests.repair.test_opening import lose, of_kind
from tests.repair.test_without_effect import EXPECTED
from tests.support.closing import close, offered, refused, sound, take
from tests.support.engine import past_every_guard
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C8.4"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]


# -- a step that could not be recovered


def held(desk, clock, database):
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), name="older"))
    desk.claim()
    retire = "UPDATE qd_tool_version SET retired_at = %s WHERE name = 'core.noop' AND tenant_id = %s"
    with past_every_guard(database) as connection:
        connection.execute(retire, [desk.run_now(), desk.tenant.id])
        lose(desk, clock)
        connection.execute(retire, [None, desk.tenant.id])
    [case] = of_kind(desk, "version_mismatch")
    assert [one.kind for one in desk.cases(run_id)] == ["version_mismatch"], "the run has no case besides its step's"
    assert desk.statuses(run_id)["a"] == "hold(recovery)"
    return run_id, case


@pytest.mark.req("C4.4")
def test_a_held_step_is_released_under_the_present_version_and_verified_by_its_success(desk, clock, fresh_db):
    run_id, case = held(desk, clock, fresh_db)
    case = take(desk, case)
    assert offered(case) == {"resume_step", "write_off"}
    refused(desk, case)
    closed = close(desk, case, "resume_step")
    assert (closed["state"], closed["verification"]["state"]) == ("resolved", "pending")
    assert desk.run(run_id).attention is None
    desk.work()
    shown = desk.read(case["id"])["verification"]
    assert (shown["state"], desk.run(run_id).status) == ("verified", "completed")
    sound(desk, run_id)


@pytest.mark.req("C4.4")
def test_a_held_step_that_is_given_up_takes_its_failure_policy(desk, clock, fresh_db):
    run_id, case = held(desk, clock, fresh_db)
    closed = close(desk, take(desk, case), "write_off")
    assert (closed["state"], desk.statuses(run_id)["a"]) == ("resolved", "skipped(rejected)")
    assert desk.run(run_id).status == "failed"
    assert desk.step(run_id, "a").error["reason"], "why it was given up is read by what follows"
    sound(desk, run_id)


@pytest.mark.req("C4.4")
@pytest.mark.parametrize("by", ["release", "cancel"])
def test_a_version_mismatch_that_others_ended_is_confirmed_by_what_is_read_of_the_step(desk, clock, fresh_db, by):
    run_id, case = held(desk, clock, fresh_db)
    case = take(desk, case)
    with pytest.raises(NotPermitted, match="where it was"):
        desk.propose(case, "confirm_absent", actor=desk.admin)
    if by == "release":
        desk.act(release_step, run_id, "a")
    else:
        cancel_run(actor=desk.actor, run_id=run_id, reason="not wanted")
    case = desk.read(case["id"])
    assert offered(case) == {"confirm_absent"}
    before = desk.statuses(run_id)
    closed = close(desk, case, "confirm_absent")
    assert (closed["verification"]["by"], desk.statuses(run_id)) == ("ledger", before)
    sound(desk, run_id)


# -- a run that failed after effects


def half(desk, tool_name: str):
    pay = {"id": "pay", "kind": "tool", "tool": tool_name, "business_key": "'pay:' + input.to", "input": {}}
    named = f"half-{tool_name.partition('@')[0]}"
    run_id = desk.submit(workflow(pay, tool("tell", "pay"), name=named), {"to": f"{named}-{desk.tenant.slug}"})
    [claimed] = desk.claim()
    desk.call([claimed])
    desk.finish("tell", "failed")
    [case] = of_kind(desk, "failed_with_effects")
    return run_id, case


def effects(desk, run_id) -> dict[str, str]:
    with tenant_tx(desk.tenant.id):
        rows = Operation.objects.filter(run_id=run_id).values_list("business_key", "status")
        return {key.partition(":")[0]: status for key, status in rows}


@pytest.mark.req("C4.5", "B9.2")
def test_the_effects_of_a_failed_run_are_undone_and_verified_by_the_ledger(desk):
    run_id, case = half(desk, "desk.compensable@1")
    case = take(desk, case)
    assert offered(case) == {"compensate", "write_off"}
    refused(desk, case)
    closed = close(desk, case, "compensate")
    assert (closed["state"], closed["verification"]["state"]) == ("resolved", "pending")
    assert effects(desk, run_id) == {"pay": "compensating"}
    desk.work()
    assert effects(desk, run_id) == {"pay": "compensated", "undo": "succeeded"}
    shown = desk.read(case["id"])["verification"]
    assert (shown["state"], shown["by"], desk.run(run_id).status) == ("verified", "ledger", "failed")
    sound(desk, run_id)


@pytest.mark.req("C4.5", "B9.2")
def test_effects_that_nothing_undoes_are_left_only_by_an_admins_word(desk):
    run_id, case = half(desk, "desk.human@1")
    case = take(desk, case)
    assert offered(case) == {"write_off"}
    refused(desk, case)
    closed = close(desk, case, "write_off")
    assert (closed["state"], effects(desk, run_id)) == ("resolved", {"pay": "succeeded"})


@pytest.mark.req("C4.5", "B9.2")
def test_effects_that_were_undone_elsewhere_are_confirmed_by_the_ledger(desk):
    run_id, case = half(desk, "desk.compensable@1")
    case = take(desk, case)
    compensate_operation(actor=desk.actor, operation_id=desk.operation(run_id).id, reason="paid by mistake")
    desk.work()
    case = desk.read(case["id"])
    assert offered(case) == {"confirm_absent", "write_off"}
    assert close(desk, case, "confirm_absent")["verification"]["by"] == "ledger"


# -- steps and runs


def needed(desk, run_id, kind: str, node: str | None):
    """Ask for a person about a step or a run, as the engine does."""
    with tenant_tx(desk.tenant.id) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(run_id)
        frame.load([(run_id, "")])
        need_case(run, kind, "A person is asked for.", step=run.steps[node] if node else None)
        frame.flush()
    [case] = of_kind(desk, kind)
    return case


def test_a_stuck_step_that_failed_is_run_again_or_given_up_and_never_recorded(desk, clock):
    run_id = desk.submit(workflow(tool("a"), name="poison"))
    for _ in range(5):
        lose(desk, clock)
    [case] = of_kind(desk, "stuck")
    case = take(desk, case)
    assert offered(case) == {"resume_step", "write_off"}
    refused(desk, case)
    closed = close(desk, case, "resume_step")
    assert closed["verification"]["state"] == "pending"
    desk.work()
    assert desk.read(case["id"])["verification"]["state"] == "verified"
    assert desk.run(run_id).status == "failed", "a finished run is run again as a new one"


def test_a_stuck_step_that_ended_by_other_means_is_confirmed(desk):
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), name="slow"))
    [claimed] = desk.claim()
    case = needed(desk, run_id, "stuck", "a")
    assert "confirm_absent" not in offered(case)
    desk.report(claimed, "succeeded")
    case = take(desk, desk.read(case["id"]))
    assert offered(case) == {"resume_step", "confirm_absent", "write_off"}
    assert close(desk, case, "confirm_absent")["verification"]["by"] == "ledger"
    assert desk.statuses(run_id)["a"] == "succeeded"


@pytest.mark.parametrize(
    ("resolution", "status"),
    [("record_success", "succeeded"), ("confirm_absent", "failed"), ("write_off", "failed"), ("resume_step", "queued")],
)
def test_a_step_opened_by_hand_is_moved_by_each_resolution(desk, resolution, status):
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), name="hangs"))
    desk.claim()
    case = take(desk, desk.read(desk.opened(run_id, "a")))
    assert desk.step(run_id, "a").status == "unknown"
    assert offered(case) == EXPECTED["by_hand"]
    refused(desk, case)
    closed = close(desk, case, resolution)
    assert (closed["state"], desk.step(run_id, "a").status) == ("resolved", status)
    sound(desk, run_id)


def test_a_run_opened_by_hand_names_no_step_and_records_no_success(desk):
    run_id = desk.submit(workflow(tool("a"), name="odd"))
    opened = open_case(actor=desk.oncall, run_id=run_id, reason="it looks odd")
    case = take(desk, desk.read(opened["case_id"]))
    assert offered(case) == {"confirm_absent", "write_off"}
    refused(desk, case)
    closed = close(desk, case, "confirm_absent")
    assert (closed["state"], closed["verification"]["by"]) == ("resolved", desk.admin.label)
    assert desk.step(run_id, "a").status == "queued"


def test_a_run_that_needs_a_person_goes_on_only_when_nothing_of_it_is_open(desk):
    pay = {"id": "pay", "kind": "tool", "tool": "desk.human@1", "business_key": "'pay:' + input.to", "input": {}}
    run_id = desk.submit(workflow(pay, tool("tell", "pay"), name="needs"), {"to": f"needs-{desk.tenant.slug}"})
    [claimed] = desk.claim()
    case = needed(desk, run_id, "run_attention", None)
    desk.lose(claimed)
    case = take(desk, desk.read(case["id"]))
    assert offered(case) == set()
    refused(desk, case)
    with pytest.raises(NotPermitted, match="settle that first"):
        desk.propose(case, "confirm_absent", actor=desk.admin)
    [other] = [one for one in desk.cases(run_id) if one.kind == "operation_unknown"]
    seen = desk.saw(take(desk, desk.read(other.id)), "absent", actor=desk.admin)
    close(desk, seen, "confirm_absent")
    case = desk.read(case["id"])
    assert offered(case) == {"confirm_absent"}
    assert close(desk, case, "confirm_absent")["verification"]["by"] == "ledger"
    assert desk.run(run_id).status == "failed"
    sound(desk, run_id)
