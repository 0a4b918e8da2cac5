"""Cases about no effect outside: per kind what may close them, what that does, and what it is verified by (C8.4)."""

from __future__ import annotations

import pytest

from repair import law
from repair.actions.propose import ALSO_NEEDS
from repair.actions.resolve import resolve_case
from repair.errors import NotPermitted
from repair.law import RESOLUTIONS
from runtime.actions.breaches import need_breach_case
from runtime.actions.messages import discard_message
from runtime.actions.steps import force_step
from runtime.kernel import seams
from runtime.kernel.seams import CASE_KINDS
from runtime.models import Quarantined
from runtime.queries.invariants import INVARIANTS, breaches_of
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.outbox import deliver
from tests.repair.test_opening import of_kind, poison
from tests.support.api import caller, problem
from tests.support.closing import close, offered, refused, take
from tests.support.engine import force_columns
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
