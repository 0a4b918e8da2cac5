"""Cases about no effect outside: per kind what may close them, what that does, and what it is verified by (C8.4)."""

from __future__ import annotations

import uuid

import pytest

from repair import law
from repair.actions.claim import claim_case
from repair.actions.open import open_case
from repair.actions.propose import ALSO_NEEDS
from repair.actions.resolve import resolve_case, review_proposal
from repair.errors import NotPermitted
from repair.law import RESOLUTIONS
from runtime.actions.breaches import need_breach_case
from runtime.actions.compensation import compensate_operation
from runtime.actions.messages import discard_message
from runtime.actions.runs import cancel_run
from runtime.actions.steps import force_step, release_step
from runtime.graph.plans import plan_of
from runtime.kernel import seams
from runtime.kernel.seams import CASE_KINDS
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.models import Operation, Quarantined
from runtime.queries.invariants import INVARIANTS, breaches_of
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.outbox import deliver
from tests.repair.test_opening import lose, of_kind, poison
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.engine import force_columns, past_every_guard
from tests.support.pages import Reader
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C8.4"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]

# By hand, apart from the table it judges: what closes a case of each kind that is about no effect.
EXPECTED = {
    "poison_message": {"resume_step", "confirm_absent", "write_off"},
    "invariant_breach": {"confirm_absent", "write_off"},
    "version_mismatch": {"resume_step", "confirm_absent", "write_off"},
    "failed_with_effects": {"compensate", "confirm_absent", "write_off"},
    "run_attention": {"confirm_absent"},
    "stuck": {"record_success", "resume_step", "confirm_absent", "write_off"},
    "by_hand": {"record_success", "resume_step", "confirm_absent", "write_off"},
}
# Kinds that are always about an effect: the tool's recovery class decides.
ABOUT_EFFECTS = {
    "operation_unknown", "operation_conflicts", "partially_applied", "compensation_failed", "late_success",
}  # fmt: skip


def take(desk, case, actor=None):
    """Claim a case and return it, whole."""
    claim_case(actor=actor or desk.admin, case_id=case["id"], expected_version=case["version"])
    return desk.read(case["id"])


def offered(case) -> set[str]:
    return {one["resolution"] for one in case["moves"] if one["permitted"]} - {"keep_pending"}


def close(desk, case, resolution):
    """Propose it as an administrator, have another one look where that is asked for; the case as it is then."""
    said = desk.propose(case, resolution, actor=desk.admin)
    words = {"case_id": case["id"], "expected_version": said["version"], "repair_id": uuid.UUID(said["repair_id"])}
    if said["needs_review"]:
        review_proposal(actor=member(desk.tenant, "admin"), decision="approve", **words)
    else:
        resolve_case(actor=desk.admin, **words)
    return desk.read(case["id"])


def refused(desk, case) -> None:
    """Assert that every resolution that is not offered is refused with its reason, and none of them moved anything."""
    for resolution in set(RESOLUTIONS) - offered(case):
        with pytest.raises(NotPermitted) as no:
            desk.propose(case, resolution, actor=desk.admin)
        assert no.value.detail.endswith(".")
    assert desk.read(case["id"])["state"] == "claimed"


def sound(desk, run_id) -> None:
    """Assert that the ledger rebuilds the run, and that nothing breaches an invariant."""
    desk.check(run_id)
    assert breaches_of(desk.tenant.id) == []


def waiting(desk, topic: str) -> int:
    with tenant_tx(desk.tenant.id):
        return Quarantined.objects.filter(topic=topic, closed_at__isnull=True).count()


def test_each_kind_has_its_resolutions_and_each_says_what_it_does():
    assert {kind: set(does) for kind, does in law.WITHOUT_EFFECT.items()} == EXPECTED
    assert set(CASE_KINDS) == set(EXPECTED) | ABOUT_EFFECTS
    for kind, does in law.WITHOUT_EFFECT.items():
        assert law.permitted(None, "unknown", kind) == {*does, "keep_pending"}
        assert all(text.endswith(".") for text in does.values())
        for resolution in RESOLUTIONS:
            assert (law.why_not(resolution, None, "unknown", kind) is None) == (resolution in does)
    assert ALSO_NEEDS["write_off"] == "repair.write_off"


# -- poison messages


@pytest.mark.req("C2.6")
def test_poison_messages_are_sent_again_and_verified_by_the_messages(desk, clock, as_role):
    topic = "mended.later"
    with as_role("worker"):
        poison(desk, clock, topic)
        poison(desk, clock, topic)
    [case] = of_kind(desk, "poison_message")
    assert waiting(desk, topic) == 2
    case = take(desk, case)
    assert offered(case) == {"resume_step", "write_off"}
    refused(desk, case)
    closed = close(desk, case, "resume_step")
    assert (closed["state"], closed["verified_by"], waiting(desk, topic)) == ("resolved", None, 0)
    assert closed["verification"]["state"] == "pending"
    # Who makes them is there by now.
    seams.register_composer(topic, lambda _tx, _payload: None)
    with as_role("worker"):
        deliver()
    shown = desk.read(case["id"])["verification"]
    assert (shown["state"], shown["by"]) == ("verified", "quarantine")


@pytest.mark.req("C2.6")
def test_poison_messages_that_come_back_say_so_and_open_a_case_anew(desk, clock, as_role):
    poison(desk, clock, "nobody.makes")
    [first] = of_kind(desk, "poison_message")
    close(desk, take(desk, first), "resume_step")
    with as_role("worker"):
        for _ in range(3):
            deliver()
            clock.advance(3600)
    assert desk.read(first["id"])["verification"]["state"] == "failed"
    [again] = of_kind(desk, "poison_message")
    assert again["id"] != first["id"]


@pytest.mark.req("C2.6")
def test_poison_messages_are_discarded_by_an_admin_with_a_second_person(desk, clock):
    poison(desk, clock, "nobody.makes")
    [case] = of_kind(desk, "poison_message")
    closed = close(desk, take(desk, case), "write_off")
    assert (closed["state"], closed["verified_by"], waiting(desk, "nobody.makes")) == ("resolved", "quarantine", 0)
    with tenant_tx(desk.tenant.id):
        assert list(Quarantined.objects.values_list("resolution", flat=True)) == ["discarded"]


@pytest.mark.req("C2.6")
def test_a_poison_case_closes_by_itself_only_when_none_is_left_in_quarantine(desk, clock):
    poison(desk, clock, "nobody.makes")
    [case] = of_kind(desk, "poison_message")
    case = take(desk, case)
    with pytest.raises(NotPermitted, match="wait in quarantine"):
        desk.propose(case, "confirm_absent", actor=desk.admin)
    with tenant_tx(desk.tenant.id):
        [message_id] = Quarantined.objects.values_list("id", flat=True)
    discard_message(actor=desk.admin, message_id=message_id, reason="nobody wants it")
    case = desk.read(case["id"])
    assert offered(case) == {"confirm_absent"}
    refused(desk, case)
    assert close(desk, case, "confirm_absent")["verification"]["by"] == "quarantine"


def test_over_http_and_on_the_page_only_what_fits_is_offered(desk, tenant, clock):
    poison(desk, clock, "nobody.makes")
    [case] = of_kind(desk, "poison_message")
    ada = caller(desk.tenant, "admin")
    path = f"repairs/{case['id']}/"
    ada.post(f"{path}claim/", {"expected_version": 1})
    asked = {"resolution": "record_success", "reason": "it is fine", "expected_version": 2,
             "arguments": {"external_ref": "P-1"}}  # fmt: skip
    no = problem(ada.post(f"{path}propose/", asked), 409, "resolution_refused")
    assert no["permitted"] == ["confirm_absent", "keep_pending", "resume_step", "write_off"]
    page = Reader(tenant, "admin").get(f"/repairs/{case['id']}/")
    assert "Send the messages again" in page
    assert "Discard the messages" in page
    assert "Resume the step" not in page


# -- invariants


def breached(desk, database):
    run_id = desk.submit(workflow(tool("a"), name="broken"))
    desk.act(force_step, run_id, "a")
    step_id = desk.step(run_id, "a").id
    force_columns(database, "qd_step", step_id, forced=False)
    for number, rows in breaches_of(desk.tenant.id, numbers={12}):
        name = next(one.name for one in INVARIANTS if one.number == number)
        need_breach_case(desk.tenant.id, number, name, rows)
    [case] = of_kind(desk, "invariant_breach")
    return case, step_id


@pytest.mark.req("C1.9")
def test_a_breach_closes_only_when_the_invariant_holds_again(desk, fresh_db):
    case, step_id = breached(desk, fresh_db)
    case = take(desk, case)
    assert offered(case) == {"confirm_absent", "write_off"}
    refused(desk, case)
    said = desk.propose(case, "confirm_absent", actor=desk.admin)
    with pytest.raises(NotPermitted, match="does not hold"):
        resolve_case(actor=desk.admin, case_id=case["id"], expected_version=said["version"])
    assert desk.read(case["id"])["state"] == "proposed"
    force_columns(fresh_db, "qd_step", step_id, forced=True)
    resolve_case(actor=desk.admin, case_id=case["id"], expected_version=said["version"])
    shown = desk.read(case["id"])
    assert (shown["state"], shown["verification"]["by"]) == ("resolved", "invariants")


@pytest.mark.req("C1.9")
def test_a_breach_is_written_off_by_an_admin_before_a_second_person(desk, fresh_db):
    case, _step_id = breached(desk, fresh_db)
    closed = close(desk, take(desk, case), "write_off")
    assert (closed["state"], closed["verification"]["state"]) == ("resolved", "unverified")


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
