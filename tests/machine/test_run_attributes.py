"""What a run keeps: request, versions, budget, permissions, parent, trace; and what its task may call (C1.2, A4.1)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.access.roles import verbs_of_role
from runtime.actions.reruns import new_run
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, RequestKeyConflict
from runtime.queries.runs import list_runs, read_run
from runtime.queries.tasks import read_task
from runtime.tools.registry import register_tool
from tests.support.engine import Engine
from tests.support.office import Office, writing
from tests.support.pages import Reader
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C1.2", "A4.1"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def office(tenant: Any) -> Office:
    """A tenant with writing tools, one of which asks for a scope."""
    made = Office(tenant)
    register_tool(actor=made.actor, contract=writing("office.mail", scopes=["mail.send"]))
    return made


def call(name: str, *after: Any, tool: str = "core.echo@1") -> dict[str, Any]:
    return {"id": name, "kind": "tool", "tool": tool, "after": list(after), "input": {}}


ONE = workflow(call("a"))
EITHER = workflow(
    {"id": "route", "kind": "switch", "cases": [{"when": "input.by == 'mail'", "to": ["mail"]}], "default": ["a"]},
    call("mail", "route", tool="office.mail@1"),
    call("a", "route"),
)


def read(office: Engine, run_id: uuid.UUID) -> dict[str, Any]:
    return read_run(actor=office.actor, run_id=run_id)


def test_a_run_tells_what_it_was_made_from(office):
    scope = {"tools": ["core.echo"], "scopes": []}
    run_id = office.submit(ONE, {"n": 1}, scope=scope, budget={"calls": 3, "limit": "1.50", "currency": "EUR"})
    run = read(office, run_id)
    task = read_task(actor=office.actor, task_id=run["task_id"])
    assert run["request_sha256"] == task["payload_sha256"]
    assert (run["scope"], run["budget"], run["budget_used"]) == (scope, task["budget"], {"calls": 0})
    assert [(name, len(sha256)) for name, sha256 in run["tools"].items()] == [("core.echo@1", 64)]
    assert (run["parent"], run["children"], run["trace_id"]) == (None, [], run_id)
    office.work()
    page = Reader(office.tenant, "viewer").get(f"/runs/{run_id}/")
    assert "1 of 3 calls, 1.50 EUR, not metered" in page
    assert "tools: core.echo; scopes: none" in page


def test_a_run_and_those_it_submitted_know_each_other(office):
    parent = office.submit(ONE)
    child = office.submit(ONE, parent=parent)
    later = office.submit(ONE, parent=parent)
    assert (read(office, child)["parent"], read(office, parent)["parent"]) == (parent, None)
    assert [one["id"] for one in read(office, parent)["children"]] == [later, child]
    assert [one["id"] for one in list_runs(actor=office.actor, parent=parent).items] == [later, child]
    assert office.events(child)[0].payload["parent"] == str(parent)
    reader = Reader(office.tenant, "viewer")
    assert f'submitted by the run <a class="link mono-11" href="/runs/{parent}/">' in reader.get(f"/runs/{child}/")
    assert f'href="/runs/{child}/" title="w"' in reader.get(f"/runs/{parent}/")
    assert f'href="/runs/{parent}/"' in reader.get(f"/tasks/{office.run(child).task_id}/")
    office.check(child)


def test_a_new_run_of_a_task_has_its_parent(office):
    parent = office.submit(ONE)
    child = office.submit(ONE, parent=parent)
    office.work()
    again = new_run(actor=office.actor, task_id=office.run(child).task_id)["run_id"]
    assert read(office, again)["parent"] == parent


def test_a_parent_that_is_not_there_or_another_tenants_is_refused(office, other_tenant):
    foreign = Engine(other_tenant).submit(ONE)
    for parent in (uuid.uuid4(), foreign):
        with pytest.raises(NotFound) as refused:
            office.submit(ONE, parent=parent)
        assert (refused.value.where, bool(refused.value.remediation)) == ("/parent", True)
    blind = Actor(kind="service", name="blind", tenant_id=office.tenant.id, verbs=verbs_of_role("admin") - {"run.read"})
    mine = office.submit(ONE)
    with pytest.raises(NotFound):
        submit_task(actor=blind, request=SubmitRequest(workflow="w", input={}, parent=mine))
    assert [one["id"] for one in list_runs(actor=office.actor).items] == [mine]


@pytest.mark.req("C2.2")
def test_a_key_is_bound_to_the_parent_too(office):
    parent, other = office.submit(ONE), office.submit(ONE)
    first = office.submit(ONE, parent=parent, request_key="k")
    assert office.submit(ONE, parent=parent, request_key="k") == first
    with pytest.raises(RequestKeyConflict):
        office.submit(ONE, parent=other, request_key="k")


@pytest.mark.req("C3.2")
@pytest.mark.parametrize(
    ("scope", "where", "says"),
    [
        ({"tools": ["office.pay"]}, "/scope/tools", "office.mail@1"),
        ({"tools": ["office.mail@2"]}, "/scope/tools", "office.mail@1"),
        ({"scopes": []}, "/scope/scopes", "mail.send"),
        ({"scopes": "mail.send"}, "/scope/scopes", ""),
        ({"tools": [1]}, "/scope/tools/0", ""),
    ],
)
def test_a_scope_that_leaves_out_what_every_run_calls_is_refused(office, scope, where, says):
    with pytest.raises(BadInput) as refused:
        office.submit(workflow(call("mail", tool="office.mail@1")), scope=scope)
    assert (refused.value.where, bool(refused.value.remediation)) == (where, True)
    assert says in refused.value.detail
    assert list_runs(actor=office.actor).items == []


@pytest.mark.req("C3.2")
@pytest.mark.parametrize("scope", [{"tools": ["core.echo"]}, {"scopes": ["orders.read"]}])
def test_what_a_branch_calls_may_be_left_out_and_is_refused_there(office, scope):
    around = office.submit(EITHER, {"by": "post"}, scope=scope)
    into = office.submit(EITHER, {"by": "mail"}, scope=scope)
    office.work()
    assert office.run(around).status == "completed"
    error = office.step(into, "mail").error or {}
    assert (error["class"], error["code"], error["sent"]) == ("policy", "scope", False)
    assert office.run(into).status == "failed"


def test_a_scope_that_holds_it_lets_it_go(office):
    scope = {"tools": ["office.mail"], "scopes": ["mail.send"]}
    run_id = office.submit(workflow(call("mail", tool="office.mail@1")), scope=scope)
    office.work()
    assert office.run(run_id).status == "completed"
