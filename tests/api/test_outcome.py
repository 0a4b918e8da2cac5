"""An outcome is an authorised verifier's, from evidence of that task; nobody else writes one (invariant 12)."""

from __future__ import annotations

import uuid

import pytest

from runtime.actions.retiring import revoke_verifier
from runtime.actions.workflows import authorise_verifier
from runtime.kernel.canonical import digest
from runtime.kernel.ids import uuid7
from runtime.models import Evidence
from runtime.store.tx import tenant_tx
from tests.support.api import caller, problem

pytestmark = [pytest.mark.req("A2.4", "A2.5", "A9.8"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def case(admin, tenant):
    """A task with one piece of evidence, and the verifiers arrived@1 (human) and scanned@1 (machine)."""
    task = admin.submit()
    authorise_verifier(actor=admin.actor, name="arrived", version=1, method="human_review")
    authorise_verifier(actor=admin.actor, name="scanned", version=1, method="machine_check")
    with tenant_tx(tenant.id) as tx:
        evidence = Evidence.objects.create(
            id=uuid7(),
            tenant=tenant,
            task_id=task["task_id"],
            run_id=task["run_id"],
            criterion="signed",
            source="carrier",
            content=(content := b'{"signed_by":"Grace"}'),
            content_sha256=digest(content),
            observed_at=tx.now(),
        )
    return {**task, "evidence": str(evidence.id), "verifier": caller(tenant, "verifier")}


def wanted(case, **more) -> dict:
    body = {
        "run_id": case["run_id"],
        "verifier": "arrived@1",
        "verdict": "achieved",
        "criterion": "the parcel was signed for",
        "evidence": [case["evidence"]],
    }
    return {**body, **more}


def test_a_verifier_records_and_everybody_reads(admin, tenant, case):
    path = f"tasks/{case['task_id']}/outcome/"
    assert admin.get(path).json()["outcome"] is None
    answer = case["verifier"].post(path, wanted(case))
    assert answer.status_code == 201, answer.content
    body = admin.get(path).json()
    assert (body["outcome"]["verdict"], body["outcome"]["verifier"]) == ("achieved", "arrived@1")
    assert body["outcome"]["evidence"] == [case["evidence"]]
    assert body["evidence"][0]["content"] == {"signed_by": "Grace"}
    assert b"Grace" not in caller(tenant, "viewer").get(path).content
    case["verifier"].post(path, wanted(case, verdict="not_achieved"))
    history = admin.get(path).json()
    assert (history["outcome"]["verdict"], len(history["history"])) == ("not_achieved", 2)
    entry = admin.get("audit/?verb=outcome.record").json()["items"][0]
    assert (entry["result"], entry["details"]["evidence"]) == ("not_achieved", [case["evidence"]])


@pytest.mark.parametrize("role", ["admin", "oncall", "approver", "integrator", "viewer"])
def test_no_other_role_records(tenant, case, role):
    problem(caller(tenant, role).post(f"tasks/{case['task_id']}/outcome/", wanted(case)), 403)


@pytest.mark.parametrize(
    ("change", "status", "where"),
    [
        ({"verifier": "nobody@1"}, 404, "/verifier"),
        ({"verifier": "arrived"}, 400, "/verifier"),
        ({"verifier": "scanned@1"}, 409, "/verifier"),
        ({"evidence": []}, 400, "/evidence"),
        ({"evidence": [str(uuid.uuid4())]}, 404, "/evidence/0"),
        ({"evidence": ["x"]}, 400, "/evidence/0"),
        ({"run_id": str(uuid.uuid4())}, 404, "/run_id"),
        ({"verdict": "great"}, 400, "/verdict"),
        ({"criterion": ""}, 400, "/criterion"),
    ],
)
def test_what_does_not_fit(admin, case, change, status, where):
    path = f"tasks/{case['task_id']}/outcome/"
    assert problem(case["verifier"].post(path, wanted(case, **change)), status)["where"] == where
    assert admin.get(path).json()["history"] == []


def test_evidence_of_another_task_or_tenant_is_not_there(admin, stranger, other_tenant, case):
    other = admin.submit()
    body = wanted(case, run_id=other["run_id"])
    problem(case["verifier"].post(f"tasks/{other['task_id']}/outcome/", body), 404)
    foreign = stranger.submit()
    authorise_verifier(actor=stranger.actor, name="arrived", version=1, method="human_review")
    body = wanted(case, run_id=foreign["run_id"])
    problem(caller(other_tenant, "verifier").post(f"tasks/{foreign['task_id']}/outcome/", body), 404)


def test_a_revoked_verifier(admin, case):
    revoke_verifier(actor=admin.actor, name="arrived", version=1, reason="it left")
    problem(case["verifier"].post(f"tasks/{case['task_id']}/outcome/", wanted(case)), 409)


def test_an_undecided_verdict_may_cite_nothing(case):
    body = wanted(case, verdict="undecided", evidence=[])
    assert case["verifier"].post(f"tasks/{case['task_id']}/outcome/", body).status_code == 201
