"""A success is one that its tool's contract can prove; doubts about a tool go to who answers for it (C3.1)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

from repair.actions.investigate import ask_tool
from repair.errors import NotProved
from repair.mails import overdue
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.actors import member
from tests.support.desk import CLASSES, Desk
from tests.support.office import writing
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C3.1", "C8.4"), pytest.mark.django_db(transaction=True)]


def register(desk: Desk, name: str, **terms: Any) -> None:
    register_tool(actor=desk.actor, contract=writing(name, **terms))


def paid(desk: Desk, name: str, to: str, *, lost: bool = False) -> uuid.UUID:
    """Run one payment by the tool, to its end or with its answer lost."""
    pay = {
        "id": "pay", "kind": "tool", "tool": f"{name}@1", "business_key": "'pay:' + input.to",
        "input": {"to": {"$": "input.to"}},
    }  # fmt: skip
    run_id = desk.submit(workflow(pay, name=name.replace(".", "-")), {"to": to})
    if lost:
        [claimed] = [one for one in desk.claim() if one.run_id == run_id]
        desk.lose(claimed)
    else:
        desk.work()
    return run_id


def test_an_answer_without_its_evidence_leaves_the_effect_unknown_and_goes_to_the_tools_owner(desk):
    """The tool echoes its arguments; nothing in them is a receipt."""
    evidence = {"holds": "has(answer.receipt)", "kind": "receipt"}
    register(desk, "desk.proved", **CLASSES["human"], owner="finance", success_evidence=evidence)
    run_id = paid(desk, "desk.proved", f"ada-{desk.tenant.slug}")
    assert (desk.step(run_id, "pay").status, desk.operation(run_id).status) == ("unknown", "unknown")
    assert desk.operation(run_id).error["code"] == "not_proved"
    assert desk.run(run_id).attention["owner"] == "finance"
    assert desk.case(run_id)["tool_owner"] == "finance"
    desk.check(run_id)


def test_a_person_records_a_success_with_the_evidence_only(desk):
    evidence = {"holds": "answer.receipt.startsWith('R-') && answer.to == arguments.to", "kind": "receipt"}
    register(desk, "desk.receipts", **CLASSES["human"], success_evidence=evidence)
    to = f"bob-{desk.tenant.slug}"
    run_id = paid(desk, "desk.receipts", to)
    case = desk.saw(desk.taken(run_id), "done")
    for output in ({}, {"output": {"receipt": "R-1", "to": "eve"}}):
        with pytest.raises(NotProved) as refused:
            desk.propose(case, "record_success", arguments={"external_ref": "R-1", **output})
        assert (refused.value.where, refused.value.http_status) == ("/arguments/output", 409)
        assert desk.read(case["id"])["version"] == case["version"]
    given = {"external_ref": "R-1", "output": {"receipt": "R-1", "to": to}}
    assert desk.finish_case(case, "record_success", arguments=given)["resolution"] == "record_success"
    assert (desk.step(run_id, "pay").status, desk.operation(run_id).status) == ("succeeded", "succeeded")


def test_where_the_query_proves_it_only_the_tool_records_a_success(desk):
    evidence = {"holds": "answer.key == operation.id", "from": "query"}
    register(desk, "desk.queried", **CLASSES["query"], success_evidence=evidence)
    run_id = paid(desk, "desk.queried", f"there-{desk.tenant.slug}", lost=True)
    desk.opened(run_id, "pay")
    case = desk.saw(desk.taken(run_id), "done")
    with pytest.raises(NotProved) as refused:
        desk.propose(case, "record_success", arguments={"external_ref": "P-1", "output": {"key": "x"}})
    assert "core.echo@1" in refused.value.detail
    ask_tool(actor=desk.oncall, case_id=case["id"], expected_version=case["version"])
    told = desk.finish_case(desk.read(case["id"]), "record_success")
    assert told["resolution"] == "record_success"
    assert desk.read(case["id"])["verified_by"] == "query"
    assert desk.operation(run_id).status == "succeeded"


def test_an_overdue_case_is_told_to_who_answers_for_its_tool(desk):
    clerk = member(desk.tenant, "finance")
    for person in (desk.oncall, clerk):
        User.objects.filter(pk=person.user_id).update(email=f"{person.name}@desk.example")
    register(desk, "desk.owned", **CLASSES["human"], owner=clerk.name)
    run_id = paid(desk, "desk.owned", f"cy-{desk.tenant.slug}", lost=True)
    with tenant_tx(desk.tenant.id) as tx:
        (mail,) = overdue(tx, {"case_id": str(desk.case(run_id)["id"])})
    assert {f"{desk.oncall.name}@desk.example", f"{clerk.name}@desk.example"} <= set(mail.to)
    assert f"The tool belongs to: {clerk.name}" in mail.text
