"""A person edits what a program asked for itself: a new proposal under its key, and only that may be carried out."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.queries import get_request
from runtime.tools.registry import register_tool
from tests.approvals.test_own import ACTION, ask, decide, wait
from tests.support.api import Caller, caller, problem
from tests.support.office import writing
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.4", "C5.6"), pytest.mark.django_db(transaction=True)]

LESS = {"to": "Ada", "amount": "9.00"}


@pytest.fixture
def agent(office) -> Caller:
    """Return a program with a token of its own."""
    return caller(office.tenant, "integrator")


@pytest.fixture
def approver(office) -> Caller:
    return caller(office.tenant, "approver")


def edit(approver: Caller, asked: dict[str, Any], arguments: Any, **more: Any) -> Any:
    quoted = {"version": asked["version"], "payload_hash": asked["payload_hash"], "comment": "less"}
    return approver.post(f"approvals/{asked['approval_id']}/propose/", {"arguments": arguments, **quoted, **more})


def consume(agent: Caller, approval_id: str, action_hash: str, arguments: Any) -> Any:
    return agent.post(f"approvals/{approval_id}/consume/", {"action_hash": action_hash, "arguments": arguments})


def test_the_program_learns_of_the_edit_and_carries_out_exactly_that(office, agent, approver):
    asked = ask(agent, "wire-9")
    fresh = edit(approver, asked, LESS)
    assert fresh.status_code == 200, fresh.content
    told = wait(agent, asked)
    assert (told["state"], told["superseded_by"]) == ("superseded", fresh.json()["approval_id"])
    now = agent.get(f"approvals/{told['superseded_by']}/").json()
    assert (now["state"], now["version"], now["supersedes"]) == ("pending", 2, asked["approval_id"])
    assert now["editor"] == approver.actor.label
    assert now["shown"]["calls"][0]["arguments"] == LESS
    assert now["action_hash"] != asked["action_hash"]
    decide(approver, fresh.json())
    problem(consume(agent, asked["approval_id"], asked["action_hash"], ACTION["arguments"]), 409)
    problem(consume(agent, now["id"], now["action_hash"], ACTION["arguments"]), 409)
    used = consume(agent, now["id"], now["action_hash"], LESS)
    assert (used.status_code, used.json()["state"]) == (200, "consumed")
    reported = agent.post(f"approvals/{now['id']}/outcome/", {"outcome": "applied"})
    assert reported.json()["outcome"] == "applied"


def test_the_key_still_finds_what_it_asked_for(agent, approver):
    """A program that restarts finds the first proposal, and by it the one in its place; nobody is asked twice."""
    asked = ask(agent, "wire-9")
    first = edit(approver, asked, LESS).json()
    second = edit(approver, first, {"to": "Ada", "amount": "1.00"})
    assert second.status_code == 200, second.content
    again = ask(agent, "wire-9")
    assert (again["approval_id"], again["state"], again["replayed"]) == (asked["approval_id"], "superseded", True)
    assert wait(agent, first)["superseded_by"] == second.json()["approval_id"]
    other = ask(agent, "2:wire-9")
    assert other["replayed"] is False


def test_nobody_elses_program_uses_the_edited_one(office, agent, approver):
    fresh = edit(approver, ask(agent), LESS).json()
    decide(approver, fresh)
    now = get_request(actor=office.admin, request_id=fresh["approval_id"])
    stranger = caller(office.tenant, "integrator")
    problem(consume(stranger, fresh["approval_id"], now["action_hash"], LESS), 403)


def test_an_edit_that_the_tool_or_its_state_refuses_changes_nothing(office, agent, approver):
    schema = {"type": "object", "properties": {"to": {}, "amount": {"type": "string"}}}
    register_tool(actor=office.actor, contract=writing("bank.wire", input_schema=schema, serial="account:{to}"))
    asked = ask(agent)
    assert problem(edit(approver, asked, {"to": "Ada", "amount": 9}), 400)["where"] == "/arguments/amount"
    assert problem(edit(approver, asked, {"to": "Bo", "amount": "9.00"}), 400)["where"] == "/arguments"
    problem(edit(approver, asked, ACTION["arguments"]), 409)
    assert wait(agent, asked)["state"] == "pending"


def test_what_was_presumed_of_an_unknown_tool_is_not_edited_once_it_is_known(office, agent, approver):
    asked = ask(agent)
    register_tool(actor=office.actor, contract=writing("bank.wire"))
    refused = problem(edit(approver, asked, LESS), 409)
    assert "registered since" in refused["detail"]


def test_a_policy_judges_the_edit(office, agent, approver):
    office.activate(
        [
            {"name": "small", "when": "amount != null && amount <= 100.0", "decide": "approval", "role": "approver"},
        ]
    )
    asked = ask(agent)
    refused = problem(edit(approver, asked, {"to": "Ada", "amount": "500.00"}), 409)
    assert "No rule" in refused["detail"]
    assert edit(approver, asked, LESS).status_code == 200


def test_the_page_offers_the_edit_of_a_programs_action(office, agent):
    asked, reader = ask(agent), Reader(office.tenant, "approver")
    assert f"/inbox/{asked['approval_id']}/acts/propose/" in reader.get(f"/inbox/{asked['approval_id']}/")
    address = f"/inbox/{asked['approval_id']}/acts/propose/"
    form = {**reader.form(reader.get(address)), "arguments": '{"to": "Ada", "amount": "9.00"}', "reason": "less"}
    reader.post(address, form)
    row = get_request(actor=office.admin, request_id=asked["approval_id"])
    assert row["state"] == "superseded"
    page = reader.get(f"/inbox/{row['superseded_by']}/")
    assert "3.50 less" in page
