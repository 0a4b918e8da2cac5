"""repairs/ over HTTP: names of the interface, strict bodies, nothing but a POST changes anything (C6.1, C8.4)."""

from __future__ import annotations

import uuid

import pytest

from tests.support.api import caller, problem

pytestmark = [pytest.mark.req("C6.1", "C8.4"), pytest.mark.django_db(transaction=True)]


def test_a_case_from_the_list_to_its_end(desk):
    run_id = desk.lost("human")
    ada, bob = caller(desk.tenant, "oncall"), caller(desk.tenant, "oncall")
    (row,) = ada.get(f"repairs/?run={run_id}&unowned=1").json()["items"]
    assert (row["kind"], row["state"], row["overdue"]) == ("operation_unknown", "open", False)
    path = f"repairs/{row['id']}/"
    whole = ada.get(path).json()
    assert [one["name"] for one in whole["doubts"]] == ["applied"]
    assert {one["resolution"]: one["permitted"] for one in whole["moves"]}["record_success"] is False
    claimed = ada.post(f"{path}claim/", {"expected_version": row["version"]}).json()
    assert claimed["owner"] == ada.actor.label
    held = problem(bob.post(f"{path}claim/", {"expected_version": claimed["version"]}), 409, "case_held")
    assert (held["owner"], held["case_id"]) == (ada.actor.label, row["id"])
    refused = problem(
        ada.post(f"{path}propose/", _asked(claimed, "record_success", external_ref="P-1")), 409, "resolution_refused"
    )
    assert refused["permitted"] == ["keep_pending", "write_off"]
    seen = {"answer": "done", "evidence": "one payment", "source": "the portal", "reference": "P-1"}
    looked = ada.post(f"{path}investigate/", {"expected_version": claimed["version"], **seen}).json()
    assert (looked["state"], looked["answer"]) == ("investigating", "done")
    repair_id = str(uuid.uuid4())
    body = {**_asked(looked, "record_success", external_ref="P-1"), "repair_id": repair_id}
    said = ada.post(f"{path}propose/", body).json()
    assert (said["repair_id"], said["needs_review"], said["state"]) == (repair_id, True, "reviewing")
    assert ada.post(f"{path}propose/", body).json()["replayed"] is True
    decision = {"repair_id": repair_id, "decision": "approve", "expected_version": said["version"]}
    problem(ada.post(f"{path}review/", decision), 403, "second_person")
    done = bob.post(f"{path}review/", decision).json()
    assert (done["state"], done["resolution"], done["external_ref"]) == ("resolved", "record_success", "P-1")
    assert ada.post(f"{path}resolve/", {"expected_version": 1, "repair_id": repair_id}).json()["replayed"] is True
    assert [one["id"] for one in ada.get(f"repairs/?state=resolved&run={run_id}").json()["items"]] == [row["id"]]


def _asked(answer, resolution, **arguments):
    return {
        "resolution": resolution,
        "arguments": arguments,
        "reason": "looked it up",
        "expected_version": answer["version"],
    }


def test_what_has_no_form_changes_nothing(desk, other_tenant):
    row = desk.case(desk.lost("human"))
    path = f"repairs/{row['id']}/"
    ada, stranger = caller(desk.tenant, "oncall"), caller(other_tenant, "oncall")
    problem(stranger.get(path), 404, "not_found")
    problem(caller(desk.tenant, "viewer").post(f"{path}claim/", {"expected_version": 1}), 403)
    problem(ada.post(f"{path}claim/", {"expected_version": 1, "force": True}), 400)
    problem(ada.post(f"{path}propose/", {"resolution": "forget", "reason": "x", "expected_version": 1}), 400)
    problem(ada.post(f"{path}keep-pending/", {"due_at": "soon", "reason": "x", "expected_version": 1}), 400)
    problem(ada.get("repairs/?kind=nothing"), 400)
    problem(ada.get(f"{path}claim/"), 405)
    assert desk.read(row["id"])["version"] == row["version"]


def test_pages_of_the_list_follow_the_due_dates(desk, clock):
    ids = []
    for _ in range(3):
        ids.append(str(desk.case(desk.lost("human"))["id"]))
        clock.advance(60)
    ada = caller(desk.tenant, "oncall")
    first = ada.get("repairs/?limit=2&count=1").json()
    second = ada.get(f"repairs/?limit=2&cursor={first['next']}").json()
    assert [one["id"] for one in first["items"] + second["items"]] == ids
    assert (first["count"], second["next"]) == (3, None)


def test_several_cases_over_http(desk, clock):
    for _ in range(2):
        desk.release(desk.saw(desk.taken(desk.lost("human")), "absent")["id"])
    ada, bob = caller(desk.tenant, "oncall"), caller(desk.tenant, "oncall")
    body = {"resolution": "resume_step", "filter": {"tool": "desk.human@1"}, "reason": "the bank was away"}
    problem(ada.post("bulk-repairs/", {**body, "filter": {"node": "pay"}}), 400)
    problem(caller(desk.tenant, "viewer").post("bulk-repairs/", body), 403)
    made = ada.post("bulk-repairs/", body).json()
    assert (made["total"], made["left_out"], made["state"]) == (2, 0, "draft")
    path = f"bulk-repairs/{made['bulk_id']}/"
    ordered = ada.post(f"{path}order/", {"expected_version": made["version"]}).json()
    assert ordered["state"] == "reviewing"
    decision = {"decision": "approve", "expected_version": ordered["version"]}
    problem(ada.post(f"{path}review/", decision), 403, "second_person")
    assert bob.post(f"{path}review/", decision).json()["state"] == "running"
    assert ada.post(f"{path}pause/").json()["state"] == "paused"
    assert ada.post(f"{path}resume/", {"reason": "looked"}).json()["state"] == "running"
    assert ada.post(f"{path}abort/", {"reason": "enough"}).json()["state"] == "aborted"
    problem(ada.post(f"{path}resume/"), 409, "bulk_moved")
    whole = ada.get(path).json()
    assert ([one["state"] for one in whole["items"]], whole["mine"]) == (["todo", "todo"], True)
    assert [one["id"] for one in ada.get("bulk-repairs/?limit=1").json()["items"]] == [made["bulk_id"]]
