"""A revoked verifier decides no more; a retired tool enters no new workflow, and runs that have it go on."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from runtime.actions.retiring import retire_tool, revoke_verifier
from runtime.actions.workflows import authorise_verifier, register_workflow
from runtime.kernel.errors import BadInput, InvalidWorkflow, NotFound, PermissionDenied
from runtime.models import Outcome
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller, furnish, problem
from tests.support.engine import Engine, sweep
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A2.5", "C3.1", "A10.3"), pytest.mark.django_db(transaction=True)]

CHECK = {
    "id": "check",
    "kind": "verifier",
    "verifier": "arrived@1",
    "tool": "core.noop@1",
    "criterion": "true",
    "after": ["a"],
}
VERDICT = {"verifier": "arrived@1", "verdict": "achieved", "criterion": "true", "source": "core.noop@1"}


@pytest.fixture
def engine(tenant, db):
    yield Engine(tenant)
    sweep(db, tenant.id)


def acts(actor: Any) -> list[tuple[str, str, str, str]]:
    return [(e["verb"], e["subject_id"], e["result"], e["reason"]) for e in list_audit(actor=actor).items]


def test_a_tool_is_retired_once_and_the_audit_says_why(engine):
    admin = member(engine.tenant, "admin")
    first = retire_tool(actor=admin, name="core.echo", version=1, reason="it is replaced")
    again = retire_tool(actor=admin, name="core.echo", version=1, reason="once more")
    assert (first["tool"], first["changed"], again) == ("core.echo@1", True, {**first, "changed": False})
    assert acts(admin)[0] == ("tool.register", "core.echo@1", "retired", "it is replaced")
    assert [one for one in acts(admin) if one[2] == "retired"] == [acts(admin)[0]]


def test_no_new_workflow_takes_a_retired_tool_and_what_has_it_goes_on(engine):
    document = workflow(tool("a"), tool("b", "a"))
    run = engine.submit(document)
    engine.finish("a")
    retire_tool(actor=engine.actor, name="core.noop", version=1, reason="it is replaced")
    with pytest.raises(InvalidWorkflow) as refused:
        register_workflow(actor=engine.actor, raw=json.dumps(workflow(tool("c"), name="fresh")))
    assert (refused.value.where, "was retired" in refused.value.detail) == ("/nodes/0/tool", True)
    engine.finish("b")
    assert engine.run(run).status == "completed"


def test_a_retired_tool_undoes_nothing_new(engine):
    retire_tool(actor=engine.actor, name="core.noop", version=1, reason="it is replaced")
    node = {"id": "a", "kind": "tool", "tool": "core.echo@1", "compensation": {"tool": "core.noop@1"}}
    with pytest.raises(InvalidWorkflow) as refused:
        register_workflow(actor=engine.actor, raw=json.dumps(workflow(node, name="fresh")))
    places = {one["where"]: one["detail"] for one in refused.value.extra["problems"]}
    assert "was retired" in places["/nodes/0/compensation/tool"]


def test_a_revoked_verifier_decides_no_more_in_runs_that_are_under_way_either(engine):
    authorise_verifier(actor=engine.actor, name="arrived", version=1)
    first, second = (engine.submit(workflow(tool("a"), CHECK)) for _ in range(2))
    for claimed in engine.claim():
        engine.report(claimed, "succeeded")
    checks = {one.run_id: one for one in engine.claim()}
    engine.report(checks[first], "succeeded", verdict=VERDICT)
    told = revoke_verifier(actor=engine.actor, name="arrived", version=1, reason="it judged wrongly")
    again = revoke_verifier(actor=engine.actor, name="arrived", version=1, reason="once more")
    assert (told["changed"], again) == (True, {**told, "changed": False})
    engine.report(checks[second], "succeeded", verdict=VERDICT)
    assert engine.statuses(first)["check"] == "succeeded"
    assert engine.statuses(second)["check"] == "failed"
    with tenant_tx(engine.tenant.id):
        assert [one.run_id for one in Outcome.objects.filter(run_id__in=[first, second])] == [first]
    admin = member(engine.tenant, "admin")
    assert acts(admin)[0] == ("workflow.register", "arrived@1", "revoked", "it judged wrongly")


def test_revoking_waits_for_an_outcome_that_is_being_written(engine):
    authorise_verifier(actor=engine.actor, name="arrived", version=1, method="human_review")
    revoked: dict[str, Any] = {}

    def revoke() -> None:
        from django.db import connection

        try:
            revoked.update(revoke_verifier(actor=engine.actor, name="arrived", version=1, reason="it left"))
        finally:
            connection.close()

    with tenant_tx(engine.tenant.id) as tx:
        assert tx.one("verifier_named", ("arrived", 1))[2] is None
        other = threading.Thread(target=revoke)
        other.start()
        other.join(0.3)
        assert not revoked, "it waits for whoever read that it may decide"
        decided_at = tx.now()
    other.join(10)
    assert revoked["revoked_at"] > decided_at


def test_what_is_not_there_and_who_may_not(engine, other_tenant):
    foreign = Engine(other_tenant)
    authorise_verifier(actor=foreign.actor, name="arrived", version=1)
    viewer = member(engine.tenant, "viewer")
    for act in (retire_tool, revoke_verifier):
        with pytest.raises(NotFound):
            act(actor=engine.actor, name="arrived", version=1, reason="x")
        with pytest.raises(BadInput):
            act(actor=engine.actor, name="core.noop", version=1, reason=" ")
        with pytest.raises(PermissionDenied):
            act(actor=viewer, name="core.noop", version=1, reason="x")


def test_both_over_the_api(tenant):
    admin = furnish(tenant)
    authorise_verifier(actor=admin.actor, name="arrived", version=1)
    answer = admin.post("tools/core.echo/versions/1/retire/", {"reason": "it is replaced"})
    assert (answer.status_code, answer.json()["tool"], answer.json()["changed"]) == (200, "core.echo@1", True)
    listed = {one["name"]: one["retired_at"] for one in admin.get("tools/").json()["items"]}
    assert listed["core.echo"] is not None
    assert listed["core.noop"] is None
    answer = admin.post("verifiers/arrived/versions/1/revoke/", {"reason": "it left"})
    assert (answer.status_code, answer.json()["verifier"]) == (200, "arrived@1")
    problem(admin.post("tools/core.echo/versions/1/retire/", {}), 400)
    problem(admin.post("tools/core.echo/versions/0/retire/", {"reason": "x"}), 404)
    problem(admin.post(f"tools/core.echo/versions/{'9' * 30}/retire/", {"reason": "x"}), 404)
    problem(caller(tenant, "oncall").post("tools/core.noop/versions/1/retire/", {"reason": "x"}), 403)
