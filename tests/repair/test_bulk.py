"""Many cases at once: frozen, shown, reviewed, carried out at a rate, watched, stopped and taken up again (C8.4)."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from repair import bulk_duty, bulk_watch
from repair.actions.bulk import abort_bulk, go_on_with_bulk, order_bulk, pause_bulk, prepare_bulk, review_bulk
from repair.actions.claim import claim_case
from repair.bulks import get_bulk, list_bulks
from repair.errors import BulkMoved, SamePerson
from repair.models import BulkItem, Case, Entry, Proposal
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, Stale, Unavailable
from runtime.models import Membership
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def alone(fresh_db):
    """The duty looks at every tenant, and the watch at every queue."""


def absent(desk, number=3, recovery="human"):
    """Return so many cases about effects that somebody saw to be absent, released again."""
    runs = [desk.lost(recovery) for _ in range(number)]
    for run_id in runs:
        case = desk.saw(desk.taken(run_id), "absent")
        desk.release(case["id"])
    return runs


def prepare(desk, resolution="resume_step", actor=None, **more):
    words = {"resolution": resolution, "filter": {"tool": "desk.human@1"}, "reason": "the bank was away", **more}
    return prepare_bulk(actor=actor or desk.oncall, **words)


def begin(desk, answer):
    """Order what was prepared, reviewed by the second person where that is needed."""
    bulk_id = uuid.UUID(answer["bulk_id"])
    said = order_bulk(actor=desk.oncall, bulk_id=bulk_id, expected_version=answer["version"])
    if said["needs_review"]:
        said = review_bulk(actor=desk.second, bulk_id=bulk_id, decision="approve", expected_version=said["version"])
    assert said["state"] == "running"
    return bulk_id


def items(desk, bulk_id):
    return [one["state"] for one in get_bulk(actor=desk.admin, bulk_id=bulk_id)["items"]]


def carry(desk, clock, rounds=10, seconds=1.0, work=True):
    """Let the duty run as a scheduler lets it, a second apart; what it resumes is worked on meanwhile."""
    for _ in range(rounds):
        bulk_duty.carry_bulks()
        if work:
            desk.work()
        clock.advance(seconds)


def test_a_list_is_frozen_shown_reviewed_and_carried_out_item_by_item(desk, clock, as_role):
    runs = absent(desk)
    said = prepare(desk)
    assert (said["state"], said["total"], said["left_out"], said["needs_review"]) == ("draft", 3, 0, True)
    # Nothing is ordered yet, and what fits later is not part of it.
    absent(desk, 1)
    carry(desk, clock, 2)
    assert items(desk, uuid.UUID(said["bulk_id"])) == ["todo"] * 3
    bulk_id = begin(desk, said)
    with as_role("worker"):
        carry(desk, clock, 6)
    shown = get_bulk(actor=desk.oncall, bulk_id=bulk_id)
    assert (shown["state"], shown["counts"]["done"], len(shown["items"])) == ("done", 3, 3)
    assert {one["result"]["resolution"] for one in shown["items"]} == {"resume_step"}
    desk.work()
    assert [(desk.run(one).status, desk.operation(one).sends) for one in runs] == [("completed", 2)] * 3
    with tenant_tx(desk.tenant.id):
        made = Proposal.objects.filter(id__in=[one["id"] for one in shown["items"]])
        assert {(one.proposed_by, one.reviewed_by) for one in made} == {(desk.oncall.label, desk.second.label)}
        assert Case.objects.exclude(state="resolved").count() == 1
    acts = [
        one["verb"] for one in list_audit(actor=desk.admin, limit=100).items if one["subject_kind"] == "bulk_repair"
    ]
    assert acts == ["repair.bulk.review", "repair.bulk.order", "repair.bulk.prepare"]
    for run_id in runs:
        desk.check(run_id)


def test_nobody_reviews_what_they_ordered_and_nobody_orders_what_another_prepared(desk):
    absent(desk, 1)
    said = prepare(desk)
    bulk_id = uuid.UUID(said["bulk_id"])
    with pytest.raises(Conflict, match="prepared it"):
        order_bulk(actor=desk.second, bulk_id=bulk_id, expected_version=said["version"])
    with pytest.raises(Stale):
        order_bulk(actor=desk.oncall, bulk_id=bulk_id, expected_version=7)
    ordered = order_bulk(actor=desk.oncall, bulk_id=bulk_id, expected_version=said["version"])
    assert order_bulk(actor=desk.oncall, bulk_id=bulk_id, expected_version=1) == ordered
    with pytest.raises(SamePerson):
        review_bulk(actor=desk.oncall, bulk_id=bulk_id, decision="approve", expected_version=ordered["version"])
    back = review_bulk(
        actor=desk.second,
        bulk_id=bulk_id,
        decision="send_back",
        comment="too many",
        expected_version=ordered["version"],
    )
    assert back["state"] == "aborted"
    with pytest.raises(BulkMoved):
        go_on_with_bulk(actor=desk.oncall, bulk_id=bulk_id)


def test_what_is_not_permitted_or_held_is_left_out_and_an_empty_list_refused(desk):
    absent(desk, 1)
    unknown = desk.case(desk.lost("human"))
    held = desk.lost("human")
    desk.saw(desk.taken(held, actor=desk.second), "absent", actor=desk.second)
    said = prepare(desk)
    assert (said["total"], said["left_out"]) == (3, 2)
    told = {one["case_id"]: one["result"].get("detail") for one in get_bulk(
        actor=desk.oncall, bulk_id=uuid.UUID(said["bulk_id"]))["items"]}  # fmt: skip
    assert told[unknown["id"]] == "Sent again only once the outside has said that it is absent."
    assert f"{desk.second.label} holds it." in told.values()
    with pytest.raises(BadInput, match="No case fits"):
        prepare(desk, filter={"tool": "desk.query@1"})
    for wrong in ({"per_minute": 0}, {"resolution": "forget"}, {"filter": {"node": "x"}}, {"hours": 2.0},
                  {"filter": {"run": "x"}}):  # fmt: skip
        with pytest.raises(BadInput):
            prepare(desk, **wrong)
    with pytest.raises(PermissionDenied):
        prepare(desk, actor=desk.approver)
    with pytest.raises(PermissionDenied):
        prepare(desk, "write_off")


def test_a_case_that_changed_since_the_preview_is_left_alone(desk, clock):
    runs = absent(desk, 2)
    bulk_id = begin(desk, prepare(desk))
    moved = desk.case(runs[0])
    claim_case(actor=desk.second, case_id=moved["id"])
    desk.release(moved["id"], actor=desk.second)
    carry(desk, clock, 4)
    shown = {one["case_id"]: one for one in get_bulk(actor=desk.oncall, bulk_id=bulk_id)["items"]}
    assert (shown[moved["id"]]["state"], shown[moved["id"]]["result"]["code"]) == ("refused", "stale")
    assert (desk.read(moved["id"])["state"], desk.operation(runs[0]).sends) == ("open", 1)
    assert desk.read(desk.cases(runs[1], resolved=True)[0].id)["state"] == "resolved"


def test_it_keeps_to_its_rate(desk, clock):
    absent(desk, 3)
    bulk_id = begin(desk, prepare(desk, per_minute=1))
    carry(desk, clock, 5)
    assert items(desk, bulk_id).count("done") == 1
    clock.advance(61)
    carry(desk, clock, 5)
    assert items(desk, bulk_id).count("done") == 2


def test_it_is_stopped_goes_on_where_it_stands_and_is_given_up(desk, clock):
    runs = absent(desk, 4)
    bulk_id = begin(desk, prepare(desk, per_minute=6))
    carry(desk, clock, 1)
    assert pause_bulk(actor=desk.second, bulk_id=bulk_id, reason="look first")["state"] == "paused"
    before = items(desk, bulk_id).count("done")
    carry(desk, clock, 5)
    assert items(desk, bulk_id).count("done") == before
    assert go_on_with_bulk(actor=desk.oncall, bulk_id=bulk_id)["state"] == "running"
    carry(desk, clock, 1)
    answer = abort_bulk(actor=desk.oncall, bulk_id=bulk_id, reason="enough")
    assert abort_bulk(actor=desk.oncall, bulk_id=bulk_id, reason="enough") == answer
    carry(desk, clock, 5)
    done = items(desk, bulk_id).count("done")
    assert before < done < 4
    assert sum(desk.operation(one).status == "unknown" for one in runs) == 4 - done
    assert [one["state"] for one in list_bulks(actor=desk.oncall).items] == ["aborted"]


def test_an_item_is_taken_up_after_a_crash_at_any_place_and_done_once(desk, clock, monkeypatch):
    runs = absent(desk, 3)
    bulk_id = begin(desk, prepare(desk, per_minute=600))
    # The scheduler dies after its claim, after its proposal, and after it carried the item out.
    places = iter(("propose_resolution", "review_proposal", "tenant_tx"))

    class Died(BaseException):
        pass

    for name in places:
        kept = getattr(bulk_duty, name)
        calls = []

        def dying(*arguments, name=name, kept=kept, calls=calls, **more):
            calls.append(name)
            if name != "tenant_tx" or len(calls) == 2:
                raise Died
            return kept(*arguments, **more)

        monkeypatch.setattr(bulk_duty, name, dying)
        with pytest.raises(Died):
            bulk_duty.carry_bulks()
        monkeypatch.setattr(bulk_duty, name, kept)
        desk.work()
        clock.advance(61)
    carry(desk, clock, 5)
    assert items(desk, bulk_id) == ["done"] * 3
    desk.work()
    assert [desk.operation(one).sends for one in runs] == [2] * 3
    with tenant_tx(desk.tenant.id):
        assert Entry.objects.filter(type="resolved").count() == 3
        assert Entry.objects.filter(type="claimed", reason="the bank was away").count() == 3


def test_rows_that_others_hold_let_the_item_wait_and_not_fail(desk, clock, monkeypatch):
    absent(desk, 1)
    bulk_id = begin(desk, prepare(desk))

    def away(**_more):
        raise Unavailable("Others hold these rows.", retry_after=1.0)

    kept = bulk_duty.claim_case
    monkeypatch.setattr(bulk_duty, "claim_case", away)
    carry(desk, clock, 1)
    assert items(desk, bulk_id) == ["working"]
    monkeypatch.setattr(bulk_duty, "claim_case", kept)
    carry(desk, clock, 1, seconds=61)
    carry(desk, clock, 2)
    assert items(desk, bulk_id) == ["done"]


def test_who_left_the_tenant_orders_nothing_any_more(desk, clock):
    runs = absent(desk, 2)
    bulk_id = begin(desk, prepare(desk))
    with tenant_tx(desk.tenant.id) as tx:
        Membership.objects.filter(user_id=desk.oncall.user_id).update(ended_at=tx.now())
    carry(desk, clock, 4)
    assert items(desk, bulk_id) == ["refused"] * 2
    assert [desk.operation(one).sends for one in runs] == [1, 1]


def test_a_queue_that_grows_old_slows_it_and_then_stops_it(desk, clock):
    absent(desk, 4)
    bulk_id = begin(desk, prepare(desk, per_minute=6))
    # A step is ready and no worker takes it.
    desk.submit(workflow(tool("waits"), name="waits"))
    carry(desk, clock, 1, seconds=11.0, work=False)
    bulk_duty.carry_bulks()
    shown = get_bulk(actor=desk.oncall, bulk_id=bulk_id)
    assert (shown["state"], shown["watch"]["slower"]) == ("running", bulk_watch.SLOWER)
    clock.advance(10.0 * bulk_watch.SLOWER + 1)
    bulk_duty.carry_bulks()
    shown = get_bulk(actor=desk.oncall, bulk_id=bulk_id)
    assert shown["state"] == "paused"
    assert "queue grew too old" in shown["why_state"]
    # Who lets it go on does so against the queue as it is now.
    desk.work()
    go_on_with_bulk(actor=desk.oncall, bulk_id=bulk_id)
    carry(desk, clock, 6, seconds=11.0)
    assert items(desk, bulk_id) == ["done"] * 4


def test_what_it_resumes_and_fails_again_stops_it(desk, clock):
    absent(desk, 8)
    bulk_id = begin(desk, prepare(desk, per_minute=6))
    for _ in range(8):
        bulk_duty.carry_bulks()
        for claimed in desk.claim():
            desk.report(claimed, "failed")
        clock.advance(11)
    shown = get_bulk(actor=desk.oncall, bulk_id=bulk_id)
    assert (shown["state"], shown["why_state"]) == ("paused", "Half of what it did lately failed.")
    assert shown["counts"]["todo"] > 0


def test_cases_are_kept_pending_and_recorded_by_the_reference_somebody_told(desk, clock):
    runs = [desk.lost("human") for _ in range(2)]
    kept = begin(desk, prepare(desk, "keep_pending", hours=48.0))
    carry(desk, clock, 4)
    assert items(desk, kept) == ["done", "done"]
    for run_id in runs:
        case = desk.case(run_id)
        assert case["due_at"] - case["now"] > timedelta(hours=47)
    desk.saw(desk.case(runs[0]), "done")
    said = prepare(desk, "record_success")
    assert (said["total"], said["left_out"]) == (2, 1)
    bulk_id = begin(desk, said)
    carry(desk, clock, 4)
    assert sorted(items(desk, bulk_id)) == ["done", "left"]
    assert (desk.operation(runs[0]).status, desk.operation(runs[0]).external_ref) == ("succeeded", "P-77")


def test_successes_are_recorded_by_what_the_tool_says_of_each_key(desk, clock):
    there = [desk.lost("query", payee="there") for _ in range(2)]
    gone = desk.lost("query", payee="gone")
    for run_id in (*there, gone):
        desk.opened(run_id, "pay")
    said = prepare(desk, "record_success", filter={"tool": "desk.query@1"})
    # Nobody's word stands for the tool's, so no second person is needed; what it says is seen when its turn comes.
    assert (said["total"], said["left_out"], said["needs_review"]) == (3, 0, False)
    bulk_id = begin(desk, said)
    carry(desk, clock, 6)
    shown = {str(one["run_id"]): one for one in get_bulk(actor=desk.oncall, bulk_id=bulk_id)["items"]}
    assert [shown[str(run_id)]["state"] for run_id in there] == ["done", "done"]
    for run_id in there:
        operation = desk.operation(run_id)
        assert (operation.status, operation.external_ref) == ("succeeded", f"P-{operation.business_key}")
        assert (operation.sends, desk.run(run_id).status) == (1, "completed")
        [case] = desk.cases(run_id, resolved=True)
        assert (case.answered_by, case.verified_by) == ("query", "query")
    refused = shown[str(gone)]
    assert (refused["state"], refused["result"]["code"]) == ("refused", "resolution_refused")
    case = desk.case(gone)
    assert (case["state"], case["answer"], case["answered_by"]) == ("open", "absent", "query")
    assert desk.operation(gone).sends == 1


def test_two_schedulers_carry_each_item_out_once(desk, clock):
    runs = absent(desk, 6)
    bulk_id = begin(desk, prepare(desk, per_minute=600))
    for _ in range(8):
        together(bulk_duty.carry_bulks, bulk_duty.carry_bulks)
        clock.advance(1)
    assert items(desk, bulk_id) == ["done"] * 6
    with tenant_tx(desk.tenant.id):
        assert Entry.objects.filter(type="resolved").count() == 6
        assert BulkItem.objects.exclude(finished_at=None).count() == 6
    desk.work()
    assert [desk.operation(one).sends for one in runs] == [2] * 6
