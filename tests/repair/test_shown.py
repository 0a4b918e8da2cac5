"""What a case, a shift and a board show, and to whom; what settled is looked at under the lock (C8.4, A9.8)."""

from __future__ import annotations

import pytest

from dashboard.presenters.repairs import board
from repair.actions.base import open_desk
from repair.actions.open import open_case
from repair.duties import _close, close_settled
from repair.models import Case
from repair.queries import cases_of_run, get_case, shift_report
from runtime.actions.base import frame
from runtime.kernel.actor import engine
from runtime.models import Run
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.pages import Reader
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


def _undoing(case):
    [one] = [one for one in case["moves"] if one["resolution"] == "compensate"]
    return one["permitted"], one["why_not"]


def test_undoing_is_offered_where_and_to_whom_it_can_be_ordered(desk):
    case = desk.saw(desk.taken(desk.lost("compensable")), "done")
    assert _undoing(case) == (True, None)
    seen = get_case(actor=member(desk.tenant, "viewer"), case_id=case["id"])
    assert _undoing(seen) == (False, "Your role does not order that an effect is undone.")
    other = desk.saw(desk.taken(desk.lost("human")), "done")
    assert _undoing(other) == (False, "The tool's contract names nothing that undoes it.")


@pytest.mark.req("A9.8")
def test_an_output_that_was_proposed_is_content(desk):
    case = desk.saw(desk.taken(desk.lost("human")), "done")
    words = {"external_ref": "P-77", "output": {"secret": 1}}
    desk.propose(case, "record_success", arguments=words)
    assert desk.read(case["id"])["proposals"][0]["arguments"] == words
    seen = get_case(actor=member(desk.tenant, "viewer"), case_id=case["id"])
    assert seen["proposals"][0]["arguments"] == {"external_ref": "P-77"}


def test_a_shift_is_told_the_newest_of_each_open_case(desk):
    first, second = desk.taken(desk.lost("human")), desk.case(desk.lost("human"))
    desk.saw(first, "absent")
    told = {one["id"]: one["last"]["type"] for one in shift_report(actor=desk.oncall)["open"]}
    assert told == {first["id"]: "answered", second["id"]: "opened"}


def test_an_effect_sent_again_before_the_lock_keeps_its_case(desk, as_role):
    run_id = desk.lost("human")
    case = desk.case(run_id)

    with frame(engine(desk.tenant.id)) as unit:
        # Listed as settled, unknown by the time it is locked.
        assert _close(open_desk(unit, engine(desk.tenant.id), case["id"], "")) is False
    with as_role("worker"):
        close_settled()
    assert desk.read(case["id"])["state"] == "open"


def test_the_board_tells_what_undid_an_effect_and_counts_that_as_no_effect_of_its_own():
    pay = {"id": 1, "node": "pay", "business_key": "pay:7", "status": "compensated", "consistency": {}}
    undo = {"id": 2, "node": "undo:pay", "business_key": "undo:pay:7", "status": "absent", "consistency": {}}
    again = {**undo, "id": 3, "business_key": "undo:pay:7:2", "status": "succeeded"}
    rows = {row["operation"]["id"]: row for row in board([pay, undo, again], [])}
    assert {key: row["kind"] for key, row in rows.items()} == {1: "compensated", 2: "absent", 3: "undoing"}
    assert rows[1]["undone_by"] is again
    assert rows[3]["undone_by"] is None


def test_the_board_names_the_open_case_of_an_effect_before_an_older_one(desk):
    run_id = desk.lost("human")
    desk.finish_case(desk.saw(desk.taken(run_id), "done"), "record_success")
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=desk.step(run_id, "pay").id, reason="doubtful")
    cases = cases_of_run(actor=desk.oncall, run_id=run_id)
    assert [one["state"] for one in cases] == ["open", "resolved"]
    operation = {"id": desk.operation(run_id).id, "status": "succeeded", "consistency": {"compensation": None}}
    for order in (cases, cases[::-1]):
        [row] = board([operation], order)
        assert str(row["case"]["id"]) == opened["case_id"]
    with tenant_tx(desk.tenant.id):
        assert Case.objects.filter(run_id=run_id).count() == 2


@pytest.mark.req("C4.5", "B9.2")
def test_every_effect_of_a_run_is_told_with_its_evidence_and_owner(desk, other_tenant):
    run_id = desk.lost("compensable")
    ada, viewer = caller(desk.tenant, "oncall"), caller(desk.tenant, "viewer")
    [row] = ada.get(f"runs/{run_id}/effects/").json()["items"]
    assert (row["stands"], row["owner"], row["case_state"]) == ("unknown", None, "open")
    assert (row["evidence"]["sends"], row["evidence"]["external_ref"], row["undone_by"]) == (1, None, None)
    case = desk.saw(desk.taken(run_id), "done")
    assert ada.get(f"runs/{run_id}/effects/").json()["items"][0]["owner"] == desk.oncall.label
    desk.finish_case(case, "record_success")
    [row] = viewer.get(f"runs/{run_id}/effects/").json()["items"]
    assert (row["stands"], row["evidence"]["external_ref"], row["case_id"]) == ("done", "P-77", str(case["id"]))
    assert row["evidence"]["settled_at"]
    problem(caller(other_tenant, "admin").get(f"runs/{run_id}/effects/"), 404, "not_found")


@pytest.mark.req("C4.5", "B9.2")
def test_the_board_follows_an_undoing_to_its_end(desk):
    admin = caller(desk.tenant, "admin")
    run_id = desk.lost("compensable")
    desk.finish_case(desk.saw(desk.taken(run_id), "done"), "compensate")

    def stands() -> dict[str, str]:
        return {row["node"]: row["stands"] for row in admin.get(f"runs/{run_id}/effects/").json()["items"]}

    assert stands() == {"pay": "compensating"}
    desk.work()
    assert stands() == {"pay": "compensated", "undo:pay": "undoing"}
    items = admin.get(f"runs/{run_id}/effects/").json()["items"]
    [pay] = [row for row in items if row["node"] == "pay"]
    [undo] = [row for row in items if row["node"] == "undo:pay"]
    assert (pay["undone_by"]["operation_id"], pay["undone_by"]["status"]) == (undo["operation_id"], "succeeded")


def test_a_case_tells_how_it_got_here_and_what_is_left_of_its_tries(desk):
    run_id = desk.lost("human")
    case = desk.case(run_id)
    assert [one["type"] for one in case["chain"]] == desk.types(run_id, "pay")
    assert case["chain"][-1]["to_status"] == "unknown"
    assert [one["seq"] for one in case["chain"]] == sorted(one["seq"] for one in case["chain"])
    most = case["contract"]["retry"].get("max_attempts", 1)
    assert case["left"] == {"deadline": None, "attempts": most - desk.step(run_id, "pay").attempt}
    page = Reader(desk.tenant, "oncall").get(f"/repairs/{case['id']}/")
    assert "How it got here" in page
    assert all(one["type"] in page for one in case["chain"])


@pytest.mark.req("C2.9", "C4.8")
def test_a_case_tells_the_live_workers_lease_and_what_its_run_was_bound_to(desk, tenant):
    run_id = desk.submit(workflow(tool("a"), name="slow"))
    [claimed] = desk.claim()
    case = desk.read(desk.opened(run_id, "a"))
    lease = case["lease"]
    assert (lease["host"], lease["pid"], lease["owner_epoch"], lease["alive"]) == ("test", 1, claimed.owner_epoch, True)
    with tenant_tx(desk.tenant.id):
        run = Run.objects.select_related("manifest", "workflow_version").get(id=run_id)
        assert case["run"]["manifest_sha256"] == bytes(run.manifest.sha256).hex()
        assert case["run"]["workflow_version"] == run.workflow_version.number
    page = Reader(tenant, "oncall").get(f"/repairs/{case['id']}/")
    assert "test:1" in page
    assert "Its lease holds until" in page
    assert case["run"]["manifest_sha256"][:12] in page
    # Whoever claims it takes the step from the worker: nobody runs it then.
    case = desk.taken(run_id)
    assert case["lease"] is None
    assert "No worker runs the step." in Reader(tenant, "oncall").get(f"/repairs/{case['id']}/")
    shown = caller(desk.tenant, "oncall").get(f"repairs/{case['id']}/").json()
    assert (shown["lease"], shown["run"]["workflow_version"]) == (None, 1)


@pytest.mark.req("C3.6", "B11.1")
def test_a_case_tells_how_its_tools_query_is_read_and_why_its_step_stands_there(desk, tenant):
    run_id = desk.lost("query")
    desk.opened(run_id, "pay")
    case = desk.case(run_id)
    assert case["contract"]["lookup"]["consistent_after_s"] == 0
    page = Reader(tenant, "oncall").get(f"/repairs/{case['id']}/")
    assert "counts as absent 0 ms after the call" in page
    assert "not declared" in page
    for question in ("Was it created?", "Is the ready set right?"):
        assert question in page
    whole = Reader(tenant, "oncall").get(f"/runs/{run_id}/why/?node=pay")
    assert "Was it created?" in whole
    # Without a tool that can be asked nothing is said of its answers.
    other = desk.case(desk.lost("human"))
    assert "counts as absent" not in Reader(tenant, "oncall").get(f"/repairs/{other['id']}/")
