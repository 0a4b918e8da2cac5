"""A run that nothing moves and nobody looks after is a person's; the case settles by itself once the run moves."""

from __future__ import annotations

import pytest
from django.utils import translation

from dashboard.presenters.told import told
from repair import standstill
from repair.actions.claim import claim_case
from repair.queries import get_case, list_cases
from repair.standstill import MOVES, REASON, watch_standstills
from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.steps import hold_step
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.stranded import mend_stranded
from tests.support.closing import close, offered, refused, take
from tests.support.engine import force_columns, refuse_writes
from tests.support.pages import Reader
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C8.4", "C2.8"),
    pytest.mark.django_db(transaction=True),
    # The duty looks at every tenant.
    pytest.mark.usefixtures("fresh_db"),
]
LONG = 901


@pytest.fixture
def run_id(desk):
    return desk.submit(workflow(tool("a"), tool("b", "a"), name="stands"))


@pytest.fixture
def stuck(desk, run_id, fresh_db, clock):
    """A run whose one ready step nobody may claim, and nobody parked."""
    force_columns(fresh_db, "qd_step", desk.step(run_id, "a").id, claimable=False)
    clock.advance(LONG)
    desk.renew()
    return run_id


def cases(desk, state=None):
    found = list_cases(actor=desk.admin, kind="stuck", **({"state": state} if state else {})).items
    return [get_case(actor=desk.admin, case_id=one["id"]) for one in found]


def test_a_run_that_nothing_moves_opens_one_case(desk, stuck, as_role):
    with as_role("worker"):
        assert watch_standstills() == 1
        assert watch_standstills() == 0
    [case] = cases(desk)
    assert (case["subject_kind"], case["run_id"], case["opened_by"], case["title"]) == ("run", stuck, "engine", REASON)
    facts = {one["name"]: one["value"] for one in case["confirmed"]}
    assert (facts["run_status"], facts["steps_left"]) == ("queued", ["a", "b"])
    assert case["due_at"] > case["opened_at"]


def test_what_can_move_is_left_alone(desk, run_id, clock):
    paused = desk.submit(workflow(tool("c"), name="paused"))
    pause_run(actor=desk.actor, run_id=paused, reason="not now", expected_version=None)
    held = desk.submit(workflow(tool("d"), name="held"))
    desk.act(hold_step, held, "d")
    later = desk.submit(workflow({"id": "w", "kind": "wait", "seconds": 86_400}, name="later"))
    asks = desk.ask()
    clock.advance(LONG)
    assert watch_standstills() == 0
    assert [desk.cases(one) for one in (run_id, paused, held, later, asks)] == [[]] * 5
    desk.renew()
    desk.claim()
    clock.advance(LONG)
    assert watch_standstills() == 0, "somebody works on it; whether that one lives is the lease's business"


def test_a_young_standstill_is_left_to_the_engine(desk, run_id, fresh_db, clock):
    force_columns(fresh_db, "qd_step", desk.step(run_id, "a").id, claimable=False)
    clock.advance(61)
    assert watch_standstills() == 0
    assert mend_stranded() == 1
    clock.advance(LONG)
    assert watch_standstills() == 0


def test_an_effect_that_a_person_has_a_case_about_makes_no_second_one(desk, clock, fresh_db):
    lost = desk.lost("human")
    clock.advance(LONG)
    assert watch_standstills() == 0
    [case] = desk.cases(lost)
    # The case is gone, and the effect is not: nobody would ever look at it again.
    with tenant_tx(desk.tenant.id) as tx:
        now = tx.now()
    ended = {"state": "resolved", "resolution": "settled", "resolved_by": "engine", "resolved_at": now}
    force_columns(fresh_db, "qd_case", case.id, **ended)
    assert watch_standstills() == 1
    [opened] = cases(desk)
    assert opened["run"]["status"] == "needs_attention"


def test_it_settles_by_itself_once_the_run_moves(desk, stuck, as_role):
    watch_standstills()
    with as_role("worker"):
        assert mend_stranded() == 1
        assert watch_standstills() == 1
        assert watch_standstills() == 0
    assert cases(desk) == []
    [case] = cases(desk, "resolved")
    assert (case["resolution"], case["verified_by"], case["resolved_by"]) == ("settled", "ledger", "engine")
    desk.work()
    assert desk.run(stuck).status == "completed"
    desk.check(stuck)


def test_it_settles_when_a_person_ends_the_run(desk, stuck):
    watch_standstills()
    cancel_run(actor=desk.actor, run_id=stuck, reason="no longer wanted", expected_version=None)
    assert desk.run(stuck).status == "cancelled"
    assert watch_standstills() == 1
    assert cases(desk) == []


def test_it_is_not_closed_while_nothing_moves(desk, stuck, fresh_db):
    watch_standstills()
    case = take(desk, cases(desk)[0])
    # The claim's new epoch gave the step back to the ready index; whatever had taken it out does so again.
    assert offered(case) == {"confirm_absent"}
    force_columns(fresh_db, "qd_step", desk.step(stuck, "a").id, claimable=False)
    case = desk.read(case["id"])
    assert offered(case) == set()
    refused(desk, case)
    mend_stranded()
    case = desk.read(case["id"])
    assert offered(case) == {"confirm_absent"}
    assert close(desk, case, "confirm_absent")["verification"]["by"] == "ledger"


def test_who_has_taken_it_ends_it(desk, stuck):
    watch_standstills()
    [case] = cases(desk)
    claim_case(actor=desk.oncall, case_id=case["id"])
    mend_stranded()
    assert watch_standstills() == 0, "whoever holds it is told nothing behind their back"
    desk.release(case["id"])
    assert watch_standstills() == 1


def test_a_case_that_cannot_be_written_keeps_no_other_from_being_opened(desk, stuck, fresh_db, clock):
    other = desk.submit(workflow(tool("c"), name="other"))
    force_columns(fresh_db, "qd_step", desk.step(other, "c").id, claimable=False)
    refuse_writes(fresh_db, "qd_case", "run_id", stuck)
    clock.advance(LONG)
    assert watch_standstills() == 1
    assert [case["run_id"] for case in cases(desk)] == [other]


def test_a_run_that_moved_since_the_look_gets_none(desk, stuck, monkeypatch):
    looked = standstill.locks.run_rows

    def moves_first(tx, ids):
        monkeypatch.setattr(standstill.locks, "run_rows", looked)
        together(mend_stranded)
        return looked(tx, ids)

    monkeypatch.setattr(standstill.locks, "run_rows", moves_first)
    assert watch_standstills() == 0
    assert cases(desk) == []


def test_it_is_told_in_the_readers_language(desk, stuck, tenant):
    watch_standstills()
    [case] = cases(desk)
    reader = Reader(tenant, "oncall")
    page = reader.get(f"/repairs/{case['id']}/")
    assert REASON in page
    assert "Steps that are left" in page
    assert f"/repairs/{case['id']}/" in reader.get("/repairs/?kind=stuck")
    reader.post("/preferences/", {"language": "zh-hans", "next": "/repairs/"})
    page = reader.get(f"/repairs/{case['id']}/")
    for words in ("没有任何东西推进此运行", "停滞", "剩余步骤"):
        assert words in page
    with translation.override("zh-hans"):
        assert told(MOVES) == "运行已重新推进，或已结束。"
