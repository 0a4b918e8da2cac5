"""A run that completed is no business success: an Outcome by the cited verifier says whether it is one (A2.1, A2.5)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from approvals import ends
from approvals.actions.hooks import add_hook
from approvals.law import RUN_EVENTS
from runtime.actions.evidence import Reference
from runtime.actions.outcomes import record_outcome
from runtime.actions.retiring import revoke_verifier
from runtime.actions.workflows import authorise_verifier
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput
from runtime.queries.runs import read_run, read_snapshot, success_of_runs
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.office import Office
from tests.support.pages import Reader
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("A2.1", "A2.5", "A4.1"), pytest.mark.django_db(transaction=True)]
LOOK = {"id": "look", "kind": "tool", "tool": "core.echo@1", "input": {"total": {"$": "input.total"}}}
JUDGED = workflow(
    LOOK,
    {
        "id": "judge",
        "kind": "verifier",
        "tool": "core.echo@1",
        "verifier": "paid@1",
        "criterion": "output.total == 40",
        "after": ["look"],
        "input": {"total": {"$": "nodes.look.output.total"}},
    },
    name="judged",
)


@pytest.fixture
def office(tenant: Any) -> Office:
    """A tenant with the verifiers arrived@1 (a person) and paid@1 (a machine check)."""
    made = Office(tenant)
    authorise_verifier(actor=made.admin, name="arrived", version=1, method="human_review")
    authorise_verifier(actor=made.admin, name="paid", version=1, method="machine_check")
    return made


def done(office: Office, success: dict[str, Any], document: Any = None, total: int = 40) -> uuid.UUID:
    run_id = office.submit(document or workflow(LOOK), {"total": total}, success=success)
    office.work()
    assert office.run(run_id).status == "completed"
    return run_id


def state(office: Office, run_id: uuid.UUID) -> dict[str, Any]:
    return read_run(actor=office.actor, run_id=run_id)["success"]


def judge(office: Office, run_id: uuid.UUID, verdict: str = "achieved", verifier: str = "arrived@1") -> None:
    record_outcome(
        actor=member(office.tenant, "verifier"),
        task_id=office.run(run_id).task_id,
        run_id=run_id,
        verifier=verifier,
        verdict=verdict,
        criterion="signed for",
        evidence=[Reference("checkpoint", office.step(run_id, "look").id)],
    )


def test_a_completed_run_has_met_nothing_until_its_verifier_says_so(office):
    run_id = done(office, {"criterion": "signed for", "verifier": "arrived@1", "evidence": ["checkpoint"]})
    found = state(office, run_id)
    assert (found["status"], found["outcome"], found["missing"]) == ("undecided", None, ["checkpoint"])
    judge(office, run_id)
    found = state(office, run_id)
    assert (found["status"], found["outcome"]["verifier"], found["missing"]) == ("met", "arrived@1", [])
    judge(office, run_id, "not_achieved")
    assert state(office, run_id)["status"] == "not_met", "the newest one counts"
    assert office.run(run_id).status == "completed", "no status moves by it"
    office.check(run_id)


def test_an_outcome_that_does_not_cite_the_evidence_meets_nothing(office):
    run_id = done(office, {"verifier": "arrived@1", "evidence": ["checkpoint", "operation", "artifact"]})
    judge(office, run_id)
    found = state(office, run_id)
    assert (found["status"], found["missing"]) == ("undecided", ["operation", "artifact"])


def test_another_verifiers_word_does_not_count(office):
    authorise_verifier(actor=office.admin, name="arrived", version=2, method="human_review")
    run_id = done(office, {"verifier": "arrived@1"})
    judge(office, run_id, verifier="arrived@2")
    assert state(office, run_id)["status"] == "undecided"
    anybodys = done(office, {"criterion": "signed for"})
    judge(office, anybodys, verifier="arrived@2")
    assert state(office, anybodys)["status"] == "met"


@pytest.mark.parametrize(("total", "status"), [(40, "met"), (41, "not_met")])
def test_a_verifier_of_the_workflow_meets_it_or_does_not(office, total, status):
    run_id = done(office, {"verifier": "paid@1", "evidence": ["core.echo"]}, JUDGED, total)
    assert state(office, run_id)["status"] == status


def test_each_run_has_its_own_word_and_a_task_without_criterion_has_none(office):
    first, second = done(office, {"verifier": "arrived@1"}), done(office, {"verifier": "arrived@1"})
    free = done(office, {})
    judge(office, first)
    found = success_of_runs(actor=office.actor, run_ids=[first, second, free])
    assert {run_id: one["status"] for run_id, one in found.items()} == {first: "met", second: "undecided"}
    assert state(office, free) is None


@pytest.mark.parametrize(
    ("success", "where", "says"),
    [
        ({"verifier": "nobody@1"}, "/success/verifier", "There is no verifier nobody@1."),
        ({"verifier": "left@1"}, "/success/verifier", "The verifier left@1 was revoked."),
        ({"verifier": "paid@1"}, "/success/verifier", "paid@1 is a machine check, and no node of w makes it."),
        ({"verifier": "arrived"}, "/success/verifier", ""),
        ({"verifier": "arrived@1", "evidences": []}, "/success", "evidences"),
        ({"evidence": [""]}, "/success/evidence/0", ""),
    ],
)
def test_a_criterion_that_can_never_be_met_is_refused(office, success, where, says):
    authorise_verifier(actor=office.admin, name="left", version=1, method="human_review")
    revoke_verifier(actor=office.admin, name="left", version=1, reason="it left")
    with pytest.raises(BadInput) as refused:
        office.submit(workflow(LOOK), {"total": 1}, success=success)
    assert (refused.value.where, bool(refused.value.remediation)) == (where, True)
    assert says in refused.value.detail
    with tenant_tx(office.tenant.id) as tx:
        assert tx.conn.execute("SELECT count(*) FROM qd_task").fetchone() == (0,)


def test_the_pages_tell_execution_and_business_result_apart(office):
    run_id = done(office, {"criterion": "signed for", "verifier": "arrived@1", "evidence": ["checkpoint"]})
    reader = Reader(office.tenant, "viewer")
    page = reader.get(f"/runs/{run_id}/")
    assert "criterion undecided</span>" in page
    assert "that is no business success: There is no Outcome by arrived@1 yet." in page
    assert "criterion undecided</span>" in reader.get("/runs/?within=all")
    task = reader.get(f"/tasks/{office.run(run_id).task_id}/")
    assert "signed for · by arrived@1 · citing checkpoint" in task
    assert "criterion undecided</span>" in task
    judge(office, run_id, "not_achieved")
    page = reader.get(f"/runs/{run_id}/")
    assert "criterion not met</span>" in page
    assert "arrived@1 says that it was not achieved." in page
    judge(office, run_id)
    page = reader.get(f"/runs/{run_id}/")
    assert "criterion met</span>" in page
    assert "no business success" not in page


def test_the_command_and_the_snapshot_tell_it(office, capsys):
    run_id = done(office, {"verifier": "arrived@1"})
    assert read_snapshot(actor=office.actor, run_id=run_id)["run"]["success"]["status"] == "undecided"
    judge(office, run_id)
    call_command("run", "show", str(run_id), tenant=office.tenant.slug)
    assert json.loads(capsys.readouterr().out)["run"]["success"]["status"] == "met"


@pytest.mark.req("A4.5", "C6.3")
@pytest.mark.parametrize(("total", "status"), [(40, "met"), (41, "not_met")])
def test_the_hook_of_an_end_tells_it_as_it_stood_then(office, hook, total, status):
    run_id = done(office, {"verifier": "paid@1"}, JUDGED, total)
    free = done(office, {})
    with tenant_tx(office.tenant.id) as tx:
        rows = tx.conn.execute("SELECT payload->'then'->>'success', payload->>'run_id' FROM qd_outbox").fetchall()
    assert {run: told for told, run in rows} == {str(run_id): status, str(free): None}


@pytest.fixture
def hook(office: Office, settings: Any) -> Iterator[None]:
    """A hook that hears of every end."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "webhook_hosts": ("hooks.example.com",)}
    conf.cache_clear()
    add_hook(actor=office.admin, url="https://hooks.example.com/runs", events=list(RUN_EVENTS))
    ends.forget(office.tenant.id)
    yield
    settings.QUARTERDECK = {}
    conf.cache_clear()
