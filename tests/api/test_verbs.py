"""Operator verbs over HTTP: the version one was shown decides; a stale answer tells what changed."""

from __future__ import annotations

import pytest

from runtime.models import Tenant
from runtime.store.tx import tenant_tx
from tests.support.api import caller, problem

pytestmark = [pytest.mark.req("C6.1", "A2.1"), pytest.mark.django_db(transaction=True)]


def step_of(admin, run_id: str, node: str) -> dict:
    return next(s for s in admin.get(f"runs/{run_id}/steps/").json()["items"] if s["node"] == node)


def test_skip_and_unskip(admin):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    body = {"expected_version": step["version"], "reason": "sent by hand"}
    answer = admin.post(f"steps/{step['id']}/skip/", body)
    assert answer.status_code == 200, answer.content
    skipped = answer.json()
    assert (skipped["status"], step_of(admin, run, "send")["cause"]) == ("skipped", "user")
    back = admin.post(f"steps/{step['id']}/unskip/", {"expected_version": skipped["version"], "reason": "after all"})
    assert back.json()["status"] == "waiting"
    event = admin.get(f"runs/{run}/events/").json()["events"][-1]
    assert (event["actor"], event["reason"], event["to_status"]) == (admin.actor.label, "after all", "waiting")
    entry = admin.get(f"audit/?verb=step.unskip&subject={step['id']}").json()["items"][0]
    assert (entry["reason"], entry["run_id"]) == ("after all", run)


def test_a_stale_version_changes_nothing_and_tells_what_changed(admin):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    shown = {"expected_version": step["version"], "reason": "first"}
    assert admin.post(f"steps/{step['id']}/skip/", shown).status_code == 200
    before = admin.get(f"runs/{run}/snapshot/").json()
    body = problem(admin.post(f"steps/{step['id']}/hold/", {**shown, "reason": "second"}), 409, "stale")
    assert (body["current_status"], body["current_version"]) == ("skipped", step["version"] + 1)
    assert (body["step_id"], body["run_id"]) == (step["id"], run)
    assert (body["last_event"]["reason"], body["last_event"]["to_status"]) == ("first", "skipped")
    assert admin.get(f"runs/{run}/snapshot/").json() == before


def test_a_move_the_law_refuses_names_the_moves_there_are(admin):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    body = problem(admin.post(f"steps/{step['id']}/rerun/", {"expected_version": step["version"], "reason": "x"}), 409)
    assert body["current_status"] == "waiting"
    assert body["remediation"]


def test_pause_resume_and_cancel(admin):
    run = admin.submit()["run_id"]
    assert admin.post(f"runs/{run}/pause/", {"reason": "wait"}).status_code == 200
    assert admin.get(f"runs/{run}/").json()["paused"] is True
    assert admin.post(f"runs/{run}/resume/").status_code == 200
    answer = admin.post(f"runs/{run}/cancel/", {"reason": "enough"})
    assert answer.status_code == 200, answer.content
    assert admin.get(f"runs/{run}/").json()["status"] == "cancelled"
    problem(admin.post(f"runs/{run}/pause/", {}), 409)


def test_a_stale_run_version(admin):
    run = admin.submit()["run_id"]
    body = problem(admin.post(f"runs/{run}/pause/", {"expected_version": 99}), 409, "stale")
    assert body["current_version"] == admin.get(f"runs/{run}/").json()["version"]
    assert body["last_event"]


def test_a_new_run_of_a_finished_task(admin):
    task = admin.submit()
    admin.post(f"runs/{task['run_id']}/cancel/", {"reason": "enough"})
    answer = admin.post(f"tasks/{task['task_id']}/runs/")
    assert answer.status_code == 202, answer.content
    fresh = answer.json()["run_id"]
    runs = admin.get(f"tasks/{task['task_id']}/").json()["runs"]
    assert [one["id"] for one in runs] == [fresh, task["run_id"]]
    assert runs[0]["rerun_of"] == task["run_id"]


@pytest.mark.parametrize("role", ["viewer", "finance", "approver", "integrator"])
@pytest.mark.parametrize("verb", ["skip", "hold", "kill", "mark-successed"])
def test_roles_that_may_not_operate(admin, tenant, role, verb):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    other = caller(tenant, role)
    problem(other.post(f"steps/{step['id']}/{verb}/", {"expected_version": step["version"], "reason": "x"}), 403)
    assert step_of(admin, run, "send") == step


def test_only_an_admin_forces_and_says_why(admin, tenant):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    body = {"expected_version": step["version"], "reason": "checked by hand"}
    problem(caller(tenant, "oncall").post(f"steps/{step['id']}/mark-successed/", body), 403)
    problem(admin.post(f"steps/{step['id']}/mark-successed/", {**body, "reason": "  "}), 400)
    answer = admin.post(f"steps/{step['id']}/mark-successed/", body)
    assert answer.json()["status"] == "mark_successed"
    assert step_of(admin, run, "send")["forced"] is True


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"reason": "x"}, "/"),
        ({"expected_version": 1}, "/"),
        ({"expected_version": 1.0, "reason": "x"}, "/expected_version"),
        ({"expected_version": "1", "reason": "x"}, "/expected_version"),
        ({"expected_version": 0, "reason": "x"}, "/expected_version"),
        ({"expected_version": 2**40, "reason": "x"}, "/expected_version"),
        ({"expected_version": 1, "reason": 7}, "/reason"),
        ({"expected_version": 1, "reason": "x" * 2001}, "/reason"),
        ({"expected_version": 1, "reason": "x", "force": True}, "/"),
    ],
)
def test_a_wrong_verb_body(admin, body, where):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "send")
    assert problem(admin.post(f"steps/{step['id']}/skip/", body), 400)["where"] == where
    assert step_of(admin, run, "send") == step


@pytest.mark.req("A2.6")
def test_forcing_is_foreseen_and_may_need_another_admin(admin, tenant):
    run = admin.submit()["run_id"]
    step = step_of(admin, run, "pack")
    seen = admin.get(f"steps/{step['id']}/force-preview/").json()
    assert (seen["node"], seen["version"], seen["why_not"], seen["second"]) == ("pack", step["version"], None, None)
    assert (seen["starts"], seen["may_start"]) == (["send"], [])
    assert (seen["still_open"], seen["killed_attempt"]) == ([], None)
    with tenant_tx(tenant.id, using="owner"):
        changed = Tenant.objects.using("owner").filter(id=tenant.id)
        changed.update(settings={"force": {"second_person": "always"}})
    assert "second person" in admin.get(f"steps/{step['id']}/force-preview/").json()["second"]
    body = {"expected_version": step["version"], "reason": "seen", "evidence": "ticket 5"}
    answer = admin.post(f"steps/{step['id']}/mark-successed/", body).json()
    assert (answer["status"], answer["version"]) == (step["status"], step["version"])
    other = caller(tenant, "admin")
    asked = other.get(f"approvals/{answer['asked']['approval_id']}/").json()
    quoted = {"decision": "approve", "version": asked["version"], "payload_hash": asked["payload_hash"]}
    assert other.post(f"approvals/{asked['id']}/decide/", quoted).status_code == 200
    done = admin.get(f"steps/{step['id']}/").json()
    assert (done["status"], done["forced"]) == ("mark_successed", True)
    by = done["forced_by"]
    assert (by["actor"], by["asked_by"], by["evidence"]) == (other.actor.label, admin.actor.label, "ticket 5")
    assert admin.get(f"steps/{step['id']}/force-preview/").json()["why_not"]
