"""What a claim of a case about a run takes from a worker is judged as what a lost worker leaves (C8.4, C2.9)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from repair.actions.claim import claim_case
from repair.actions.open import open_case
from runtime.actions.retiring import retire_tool
from runtime.actions.runs import cancel_run
from runtime.actions.steps import release_step
from runtime.models import Operation
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.work import Claimed
from tests.support.closing import sound
from tests.support.desk import CLASSES, Desk
from tests.support.office import writing
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "C2.9"), pytest.mark.django_db(transaction=True)]


def started(desk: Desk, *nodes: dict[str, Any]) -> tuple[uuid.UUID, dict[str, Claimed]]:
    run_id = desk.submit(workflow(*nodes, name="judged"))
    return run_id, {one.node.id: one for one in desk.claim() if one.run_id == run_id}


def claim(desk: Desk, run_id: uuid.UUID) -> None:
    opened = open_case(actor=desk.oncall, run_id=run_id, step_id=None, reason="it looks odd")
    claim_case(actor=desk.oncall, case_id=uuid.UUID(opened["case_id"]))


def operation(desk: Desk, run_id: uuid.UUID) -> Operation:
    with tenant_tx(desk.tenant.id):
        return Operation.objects.get(run_id=run_id)


def test_a_doubt_goes_to_who_answers_for_the_tool(desk):
    register_tool(actor=desk.actor, contract=writing("desk.owned", **CLASSES["human"], owner="finance"))
    run_id, claimed = started(desk, tool("pays"))
    send(desk, claimed["pays"], f"pays:{run_id}", tool="desk.owned")
    claim(desk, run_id)
    attention = desk.run(run_id).attention
    assert attention is not None
    assert attention["owner"] == "finance"
    sound(desk, run_id)


def test_a_tool_with_a_query_is_asked_whatever_its_recovery_class(desk):
    terms = {**CLASSES["query"], **CLASSES["human"]}
    register_tool(actor=desk.actor, contract=writing("desk.asked", **terms))
    run_id, claimed = started(desk, tool("pays"))
    send(desk, claimed["pays"], f"pays:{run_id}", tool="desk.asked")
    claim(desk, run_id)
    found = operation(desk, run_id)
    assert (found.recovery, found.status) == ("human", "unknown")
    assert found.next_query_at is not None
    assert [one.subject_kind for one in desk.cases(run_id)] == ["run"], "nobody has to look at it yet"
    sound(desk, run_id)


def test_in_a_cancelled_run_a_step_ends_though_its_effect_is_open(desk):
    run_id, claimed = started(desk, tool("pays"))
    send(desk, claimed["pays"], f"pays:{run_id}")
    cancel_run(actor=desk.actor, run_id=run_id, reason="no longer wanted", expected_version=None)
    claim(desk, run_id)
    assert desk.statuses(run_id) == {"pays": "killed(cancelled)"}
    assert operation(desk, run_id).status == "unknown"
    assert "operation" in {one.subject_kind for one in desk.cases(run_id)}
    sound(desk, run_id)


def test_the_role_of_the_pages_may_judge_what_a_claim_takes(desk, as_role):
    """A claim is made from a page: its role has to be allowed to read what is asked of workflow, members, tools."""
    run_id, _claimed = started(desk, tool("goes"), tool("held", on_lost="hold"))
    with as_role("web"):
        with tenant_tx(desk.tenant.id) as tx:
            assert tx.conn.execute("SELECT current_user").fetchone() == ("qd_web",)
        claim(desk, run_id)
    assert desk.statuses(run_id) == {"goes": "queued", "held": "hold(review)"}
    sound(desk, run_id)


def test_a_step_holds_where_its_workflow_says_so_or_its_tool_is_no_longer_fit(desk):
    register_tool(actor=desk.actor, contract=writing("desk.gone", **CLASSES["human"]))
    gone = {**tool("gone"), "tool": "desk.gone@1"}
    run_id, _claimed = started(desk, tool("held", on_lost="hold"), gone, tool("goes"))
    retire_tool(actor=desk.admin, name="desk.gone", version=1, reason="withdrawn")
    claim(desk, run_id)
    assert desk.statuses(run_id) == {"held": "hold(review)", "gone": "hold(recovery)", "goes": "queued"}
    sound(desk, run_id)
    desk.act(release_step, run_id, "held")
    assert desk.statuses(run_id)["held"] == "queued"
