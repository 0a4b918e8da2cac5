"""A forced success that needs a second person: shown what follows, carried out by their decision, as it was shown."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.errors import OwnRequest
from approvals.queries import get_request
from runtime.actions.steps import force_step, kill_step, skip_step
from runtime.kernel.errors import Conflict, MoveRefused, Stale
from runtime.models import Outcome, Tenant
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.duties import expire_requests
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A2.6", "A5.1"), pytest.mark.django_db(transaction=True)]


def policy(office, value: str) -> None:
    """Set whom the tenant's policy wants besides who forces."""
    with tenant_tx(office.tenant.id, using="owner"):
        Tenant.objects.using("owner").filter(id=office.tenant.id).update(settings={"force": {"second_person": value}})


def failed(office):
    """Return a run whose step ``a`` failed, with two steps that are skipped because of it, one behind the other."""
    run_id = office.submit(workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("d"), name="forced"))
    office.finish("a", "failed")
    return run_id


def asked(office, run_id, node: str = "a", **more: Any) -> dict[str, Any]:
    """Ask to force a step and return the request that another admin is shown, whole."""
    answer = office.act(force_step, run_id, node, reason="the bank says so", actor=office.admin, **more)
    return get_request(actor=office.admin, request_id=answer["asked"]["approval_id"])


def test_without_a_policy_one_admin_forces(office):
    run_id = failed(office)
    answer = office.act(force_step, run_id, "a", actor=office.admin)
    assert (answer["status"], answer["forced"]) == ("mark_successed", True)
    assert "asked" not in answer


def test_where_the_policy_wants_it_another_admin_agrees_to_what_they_are_shown(office):
    policy(office, "always")
    run_id = failed(office)
    before = office.step(run_id, "a")
    request = asked(office, run_id, evidence="receipt 77")
    after = office.step(run_id, "a")
    assert (after.status, after.version, after.forced) == ("failed", before.version, False)
    shown = request["shown"]["payload"]
    assert (shown["starts"], shown["may_start"], shown["still_open"]) == (["b", "c"], [], [])
    assert (shown["node"], shown["reason"], shown["evidence"]) == ("a", "the bank says so", "receipt 77")
    with pytest.raises(OwnRequest):
        office.decide(request, actor=office.admin)
    assert office.step(run_id, "a").status == "failed"
    second = member(office.tenant, "admin")
    office.decide(request, actor=second)
    done = office.step(run_id, "a")
    assert (done.status, done.forced, done.owner_epoch) == ("mark_successed", True, before.owner_epoch + 1)
    assert office.statuses(run_id)["b"] == "queued"
    [event] = [one for one in office.events(run_id, "a") if one.type == "STEP_FORCED"]
    assert (event.actor, event.reason, event.payload["evidence"]) == (second.label, "the bank says so", "receipt 77")
    assert event.payload["asked_by"] == office.admin.label
    office.check(run_id)


def test_both_people_both_states_and_the_time_are_in_the_audit(office):
    policy(office, "always")
    run_id = failed(office)
    request = asked(office, run_id)
    second = member(office.tenant, "admin")
    office.decide(request, actor=second)
    told = [one for one in list_audit(actor=office.admin).items if one["verb"] == "step.force"]
    assert [(one["actor"], one["result"]) for one in told] == [(second.label, "done"), (office.admin.label, "asked")]
    details = told[0]["details"]
    assert (details["before"]["status"], details["after"]["status"]) == ("failed", "mark_successed")
    assert (details["asked_by"], details["evidence"]) == (office.admin.label, None)
    assert all(one["at"] and one["reason"] == "the bank says so" for one in told)


def test_it_never_decides_an_outcome(office):
    policy(office, "always")
    run_id = office.submit(workflow(tool("a"), name="alone"))
    office.finish("a", "failed")
    office.decide(asked(office, run_id), actor=member(office.tenant, "admin"))
    assert office.step(run_id, "a").forced
    with tenant_tx(office.tenant.id):
        assert not Outcome.objects.exists()


def test_a_step_that_moved_meanwhile_is_not_forced(office):
    policy(office, "always")
    run_id = office.submit(workflow(tool("a"), tool("b", "a"), name="moved"))
    request = asked(office, run_id)
    office.act(skip_step, run_id, "a")
    with pytest.raises(Stale):
        office.decide(request, actor=member(office.tenant, "admin"))
    assert office.step(run_id, "a").status == "skipped"
    assert get_request(actor=office.admin, request_id=request["id"])["state"] == "pending"


def test_rejected_or_out_of_time_nothing_is_forced(fresh_db, office, clock, as_role):
    policy(office, "always")
    run_id = failed(office)
    office.decide(asked(office, run_id), "reject", actor=member(office.tenant, "admin"))
    late = asked(office, run_id)
    clock.advance(2 * 86_400)
    with as_role("worker"):
        expire_requests()
    assert get_request(actor=office.admin, request_id=late["id"])["state"] == "rejected"
    assert (office.step(run_id, "a").status, office.step(run_id, "a").forced) == ("failed", False)
    assert office.types(run_id, "a")[-4:] == ["FORCE_ASKED", "FORCE_DECLINED"] * 2
    office.check(run_id)


def test_asked_twice_there_is_one_request(office):
    policy(office, "always")
    run_id = failed(office)
    asked(office, run_id)
    with pytest.raises(Conflict, match="asked about this step already"):
        office.act(force_step, run_id, "a", actor=member(office.tenant, "admin"))
    assert office.types(run_id, "a").count("FORCE_ASKED") == 1


def test_what_the_law_does_not_know_is_refused_before_anybody_is_asked(office):
    policy(office, "always")
    run_id = office.submit(workflow(tool("a"), tool("b", "a"), name="done"))
    office.finish("a")
    with pytest.raises(MoveRefused):
        office.act(force_step, run_id, "a", actor=office.admin)
    assert "FORCE_ASKED" not in office.types(run_id, "a")


@pytest.mark.parametrize("wanted", ["always", "effects"])
def test_an_open_effect_and_the_living_attempt_are_shown_and_stay_what_they_are(office, wanted: str):
    policy(office, wanted)
    run_id = office.submit(workflow(tool("a"), tool("b", "a"), name="living"))
    [claimed] = [one for one in office.claim() if one.node.id == "a"]
    send(office, claimed, f"key:{run_id}")
    request = asked(office, run_id)
    shown = request["shown"]["payload"]
    assert shown["still_open"] == [{"business_key": f"key:{run_id}", "status": "sent"}]
    attempt, epoch = shown["killed_attempt"]["attempt"], shown["killed_attempt"]["owner_epoch"]
    assert (attempt, epoch) == (claimed.attempt, claimed.owner_epoch)
    office.decide(request, actor=member(office.tenant, "admin"))
    assert office.step(run_id, "a").status == "mark_successed"
    office.report(claimed, "succeeded", operation_status="succeeded", external_ref="P-1")
    assert office.types(run_id, "a").count("STALE_SUBMIT") == 1
    assert office.run(run_id).status != "completed"


def test_where_only_open_effects_want_it_others_are_forced_by_one(office):
    policy(office, "effects")
    run_id = failed(office)
    assert office.act(force_step, run_id, "a", actor=office.admin)["status"] == "mark_successed"
    other = office.submit(workflow(tool("x"), tool("y", "x"), name="killed"))
    office.claim()
    office.act(kill_step, other, "x")
    assert office.act(force_step, other, "x", actor=office.admin)["status"] == "mark_successed"
