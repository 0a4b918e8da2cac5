"""A verifier's verdict makes Evidence of what the run left behind, once it is known whose it is and has its hash."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.workflows import authorise_verifier
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.models import Artifact, Evidence, Outcome
from runtime.store.tx import tenant_tx
from tests.support.api import Caller, caller, problem
from tests.support.engine import Engine, past_every_guard, sweep
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A2.3", "A2.4"), pytest.mark.django_db(transaction=True)]

ANSWER = {"refund": "R-1"}
LARGE = {"text": "x" * 70_000}


class Finished:
    """A run that ended: ``pay`` had an effect, ``ship`` a large output, and its input names an artifact."""

    def __init__(self, engine: Engine, admin: Caller) -> None:
        self.engine, self.tenant = engine, engine.tenant
        self.letter = admin.upload(b"please send it back").json()
        reference = {name: self.letter[name] for name in ("artifact_id", "sha256")}
        document = workflow(tool("pay"), tool("ship", "pay"))
        self.run_id = engine.submit(document, {"letter": reference})
        self.task_id = engine.run(self.run_id).task_id
        [claimed] = engine.claim()
        self.operation_id = send(engine, claimed, f"pay:{self.run_id}")
        engine.report(claimed, "succeeded", ANSWER, operation_status="succeeded")
        engine.finish("ship", value=LARGE)
        self.verifier = caller(self.tenant, "verifier")

    def step(self, node: str) -> str:
        return str(self.engine.step(self.run_id, node).id)

    def judge(self, *evidence: Any, by: Caller | None = None, **more: Any) -> Any:
        body = {
            "run_id": str(self.run_id),
            "verifier": "arrived@1",
            "verdict": "achieved",
            "criterion": "the money is back",
            "evidence": list(evidence),
            **more,
        }
        return (by or self.verifier).post(f"tasks/{self.task_id}/outcome/", body)

    def evidence(self) -> list[Evidence]:
        with tenant_tx(self.tenant.id):
            return list(Evidence.objects.filter(task_id=self.task_id).order_by("id"))

    def is_untouched(self) -> bool:
        with tenant_tx(self.tenant.id):
            return not Outcome.objects.filter(task_id=self.task_id).exists() and not self.evidence()


@pytest.fixture
def engine(tenant, db):
    yield Engine(tenant)
    sweep(db, tenant.id)


@pytest.fixture
def case(engine) -> Finished:
    admin = caller(engine.tenant)
    authorise_verifier(actor=admin.actor, name="arrived", version=1, method="human_review")
    return Finished(engine, admin)


def test_an_operation_a_checkpoint_and_an_artifact_become_evidence(case):
    answer = case.judge(
        {"operation_id": str(case.operation_id)},
        {"step_id": case.step("pay"), "sha256": digest(canonical_bytes(ANSWER)).hex()},
        {"step_id": case.step("ship")},
        {"artifact_id": case.letter["artifact_id"], "sha256": case.letter["sha256"]},
    )
    assert answer.status_code == 201, answer.content
    written = {str(one.id): one for one in case.evidence()}
    assert answer.json()["evidence"] == list(written)
    operation, checkpoint, large, letter = written.values()
    assert operation.source == f"operation:{case.operation_id}"
    assert (bytes(operation.content), checkpoint.step_id) == (canonical_bytes(ANSWER), uuid.UUID(case.step("pay")))
    assert bytes(checkpoint.content) == canonical_bytes(ANSWER)
    with tenant_tx(case.tenant.id):
        stored = Artifact.objects.get(sha256=digest(canonical_bytes(LARGE)))
        kept = Artifact.objects.get(id=case.letter["artifact_id"])
    referred = {"artifact_id": str(stored.id), "sha256": bytes(stored.sha256).hex()}
    assert bytes(large.content) == canonical_bytes(referred)
    assert (letter.source, kept.expires_at) == (f"artifact:{kept.id}", None)
    for one in written.values():
        assert bytes(one.content_sha256) == digest(bytes(one.content)), one.source
        assert (one.run_id, one.criterion) == (case.run_id, "the money is back")
    shown = case.verifier.get(f"tasks/{case.task_id}/outcome/").json()
    assert shown["outcome"]["evidence"] == list(written)
    # What became evidence is cited again by its own id, and looked at again.
    again = case.judge(*written)
    assert (again.status_code, again.json()["evidence"]) == (201, list(written))
    assert len(case.evidence()) == 4


def test_what_the_verifier_brings_is_an_artifact_of_their_own(case):
    scan = case.verifier.upload(b"signed by Grace").json()
    assert case.judge({"artifact_id": scan["artifact_id"]}).status_code == 201
    with tenant_tx(case.tenant.id):
        assert Artifact.objects.get(id=scan["artifact_id"]).expires_at is None
    other = caller(case.tenant, "integrator").upload(b"a note of somebody else").json()
    assert problem(case.judge({"artifact_id": other["artifact_id"]}), 404)["where"] == "/evidence/0"


def test_a_foreign_or_unknown_reference_writes_nothing(case, stranger):
    other = case.engine.submit(workflow(tool("pay"), name="other"))
    [claimed] = case.engine.claim()
    foreign = send(case.engine, claimed, f"pay:{other}")
    case.engine.report(claimed, "succeeded", ANSWER, operation_status="succeeded")
    theirs = stranger.upload(b"theirs").json()["artifact_id"]
    good = {"operation_id": str(case.operation_id)}
    for bad in (
        {"operation_id": str(foreign)},
        {"operation_id": str(uuid.uuid4())},
        {"step_id": str(claimed.step_id)},
        {"step_id": str(uuid.uuid4())},
        {"artifact_id": theirs},
        {"artifact_id": str(uuid.uuid4())},
        str(uuid.uuid4()),
    ):
        found = problem(case.judge(good, bad), 404, "not_found")
        assert (found["where"], found["detail"][:12]) == ("/evidence/1", "This task ha")
    assert case.is_untouched()


def test_another_hash_than_the_one_that_was_looked_at_is_refused(case):
    for kind, name in (
        ("operation_id", str(case.operation_id)),
        ("step_id", case.step("ship")),
        ("artifact_id", case.letter["artifact_id"]),
    ):
        found = problem(case.judge({kind: name, "sha256": "0" * 64}), 409, "not_intact")
        assert found["where"] == "/evidence/0/sha256"
    assert case.is_untouched()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("operation_id", 'UPDATE qd_operation SET response = \'{"refund":"R-2"}\' WHERE run_id = %(run)s'),
        ("step_id", "UPDATE qd_checkpoint SET output = '{}' WHERE run_id = %(run)s AND node = 'pay'"),
        ("artifact_id", "UPDATE qd_artifact SET content = 'never mind' WHERE id = %(artifact)s"),
    ],
)
def test_what_was_changed_since_it_was_stored_is_refused(case, db, kind, change):
    names = {
        "operation_id": str(case.operation_id),
        "step_id": case.step("pay"),
        "artifact_id": case.letter["artifact_id"],
    }
    with past_every_guard(db) as connection:
        changed = connection.execute(change, {"run": case.run_id, "artifact": case.letter["artifact_id"]})
        assert changed.rowcount == 1
    assert problem(case.judge({kind: names[kind]}), 409, "not_intact")["where"] == "/evidence/0"
    assert case.is_untouched()


def test_evidence_that_was_changed_is_cited_no_more(case, db):
    own, letter = case.judge({"step_id": case.step("pay")}, {"artifact_id": case.letter["artifact_id"]}).json()[
        "evidence"
    ]
    with past_every_guard(db) as connection:
        connection.execute("UPDATE qd_evidence SET content = '{}' WHERE id = %s", [own])
        connection.execute("UPDATE qd_artifact SET content = 'x' WHERE id = %s", [case.letter["artifact_id"]])
    for one in (own, letter):
        assert problem(case.judge(one), 409, "not_intact")["where"] == "/evidence/0"
    with past_every_guard(db) as connection:
        connection.execute("UPDATE qd_artifact SET content = NULL WHERE id = %s", [case.letter["artifact_id"]])
    problem(case.judge(letter), 409, "conflict")
    assert case.judge(verdict="undecided").status_code == 201


def test_what_has_no_content_is_no_evidence(case, db):
    with past_every_guard(db) as connection:
        connection.execute("UPDATE qd_operation SET response = NULL WHERE id = %s", [case.operation_id])
    found = problem(case.judge({"operation_id": str(case.operation_id)}), 409, "conflict")
    assert found["where"] == "/evidence/0"
    assert case.is_untouched()


@pytest.mark.parametrize(
    "bad",
    [{}, {"sha256": "0" * 64}, {"operation_id": "x"}, {"step_id": str(uuid.UUID(int=1)), "artifact_id": "x"}, 7, "x"],
)
def test_a_reference_of_another_form(case, bad):
    assert problem(case.judge(bad), 400)["where"].startswith("/evidence/0")
    assert case.is_untouched()


@pytest.mark.parametrize("role", ["admin", "oncall", "integrator"])
def test_no_other_role_makes_evidence_so(case, role):
    problem(case.judge({"operation_id": str(case.operation_id)}, by=caller(case.tenant, role)), 403)
    assert case.is_untouched()
