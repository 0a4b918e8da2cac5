"""Every output says of which kind it is, and every error what a program needs to go on: wherever they are told."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from approvals.actions.decide import decide_request
from runtime.actions.runs import pause_run
from runtime.actions.steps import skip_step
from runtime.kernel.errors import STRUCTURED, TRANSIENT_CLASSES
from runtime.queries import failures, outputs
from runtime.queries.run_parts import list_attempts, list_node_events, list_operations
from runtime.tools.contract_schema import ERROR_CLASSES
from tests.support.api import Caller, caller, problem
from tests.support.desk import Desk
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def engine(tenant) -> Engine:
    return Engine(tenant)


@pytest.fixture
def api(tenant) -> Caller:
    return caller(tenant)


def events(api: Caller, run_id: uuid.UUID) -> list[dict[str, Any]]:
    return api.get(f"runs/{run_id}/events/").json()["events"]


def kinds(api: Caller, run_id: uuid.UUID) -> dict[str, str]:
    """Return "node TYPE" → kind of the events that give something."""
    return {
        f"{one['node'] or 'run'} {one['type']}": one["output_kind"] for one in events(api, run_id) if one["output_kind"]
    }


def test_a_tools_result_a_choice_and_the_end_are_told_apart(engine, api):
    way = {"id": "way", "kind": "switch", "after": ["a"], "cases": [{"when": "nodes.a.output.n > 1", "to": ["b"]}]}
    run_id = engine.submit(workflow(tool("a"), way, tool("b", "way"), output={"n": {"$": "nodes.a.output.n"}}))
    engine.finish("a", value={"n": 2})
    assert api.get(f"runs/{run_id}/").json()["output_kind"] == "partial"
    engine.finish("way", value={"chosen": ["b"]}, choice=["b"])
    engine.finish("b", value={"done": True})
    run = api.get(f"runs/{run_id}/").json()
    assert (run["output_kind"], run["output"]) == ("final", {"n": 2})
    steps = {one["node"]: one for one in api.get(f"runs/{run_id}/steps/").json()["items"]}
    told = {"a": "tool_result", "way": "partial", "b": "tool_result"}
    assert {name: one["output_kind"] for name, one in steps.items()} == told
    assert kinds(api, run_id) == {
        "a STEP_SUCCEEDED": "tool_result",
        "way STEP_SUCCEEDED": "partial",
        "b STEP_SUCCEEDED": "tool_result",
        "run RUN_COMPLETED": "final",
    }
    whole = api.get(f"steps/{steps['a']['id']}/").json()
    assert (whole["output_kind"], whole["checkpoint"]["output_kind"]) == ("tool_result", "tool_result")
    assert [one["output_kind"] for one in whole["attempts"]] == ["tool_result"]
    assert [one["output_kind"] for one in api.get(f"steps/{steps['way']['id']}/attempts/").json()["items"]] == [
        "partial"
    ]
    point = {one["node"]: one["result"] for one in api.get(f"runs/{run_id}/checkpoint/").json()["steps"]}
    assert {name: one["output_kind"] for name, one in point.items()} == told
    snapshot = api.get(f"runs/{run_id}/snapshot/").json()
    assert snapshot["run"]["output_kind"] == "final"
    assert {one["node"]: one["output_kind"] for one in snapshot["steps"]} == told
    assert api.get("runs/").json()["items"][0]["output_kind"] == "final"
    document = api.get("schema/").json()["components"]["schemas"]
    for name in ("Run", "RunListed", "Step", "StepDetail", "Operation"):
        assert set(document[name]["properties"]["output_kind"]["enum"]) == {*outputs.OUTPUT_KINDS, None}, name


def test_an_output_that_could_not_be_made_is_a_failure_though_its_run_completed(engine, api):
    run_id = engine.submit(workflow(tool("a"), output={"n": {"$": "nodes.a.output.missing"}}))
    engine.finish("a", value={"n": 1})
    run = api.get(f"runs/{run_id}/").json()
    assert run["output_error"]
    assert run["output_kind"] == "failure"


def test_a_failure_says_what_a_program_needs(engine, api):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.claim()
    (claimed,) = [one for one in engine.claimed.values() if one.run_id == run_id]
    error = {"class": "rate_limited", "message": "429"}
    engine.report(
        claimed, "retry", error=error, cause="retry_scheduled", not_before=claimed.now + timedelta(seconds=60)
    )
    step = next(one for one in api.get(f"runs/{run_id}/steps/").json()["items"] if one["node"] == "a")
    place = {"run_id": str(run_id), "step_id": step["id"]}
    assert step["output_kind"] is None
    assert {name: step["error"][name] for name in ("class", "message", "code", "retryable", *place)} == {
        **error, "code": "rate_limited", "retryable": True, **place,
    }  # fmt: skip
    assert 0 < step["error"]["retry_after"] <= 60
    told = next(one for one in events(api, run_id) if one["type"] == "RETRY_SCHEDULED")
    assert (told["output_kind"], told["error"]["step_id"]) == ("failure", step["id"])
    assert 0 < told["error"]["retry_after"] <= 60
    (attempt,) = list_attempts(actor=engine.actor, run_id=run_id)
    assert (attempt["output_kind"], set(STRUCTURED) <= set(attempt["error"])) == ("failure", True)

    other = engine.submit(workflow(tool("a"), tool("b", "a")))
    (claimed,) = [one for one in engine.claim() if one.run_id == other]
    engine.report(claimed, "failed", error={"class": "validation", "message": "no such size"})
    whole = api.get(f"steps/{claimed.step_id}/").json()
    assert whole["output_kind"] == "failure"
    for found in (
        whole["error"],
        whole["attempts"][0]["error"],
        *(e["error"] for e in events(api, other) if e["error"]),
    ):
        assert set(STRUCTURED) <= set(found)
        assert (found["retryable"], found["retry_after"]) == (False, None)
        assert (found["run_id"], found["step_id"]) == (str(other), str(claimed.step_id))
        assert found["remediation"].startswith("Correct the arguments")
    assert kinds(api, other) == {"a STEP_FAILED": "failure", "run RUN_FAILED": "failure"}
    assert api.get(f"runs/{other}/").json()["output_kind"] == "failure"


def test_what_people_decide_is_a_human_decision(tenant, api):
    desk = Desk(tenant)
    run_id = desk.ask()
    request = desk.pending(run_id)
    decide_request(
        actor=desk.approver, request_id=request["id"], decision="reject", version=request["version"],
        payload_hash=request["payload_hash"], comment="not today",
    )  # fmt: skip
    found = kinds(api, run_id)
    node = request["node"]
    assert found[f"{node} STEP_SKIPPED"] == "human_decision"
    assert {one["output_kind"] for one in api.get(f"approvals/{request['id']}/").json()["decisions"]} == {
        "human_decision"
    }
    exported = api.get("approvals/export/").json()["items"]
    assert {one["output_kind"] for record in exported for one in record["decisions"]} == {"human_decision"}
    plain = desk.submit(workflow(tool("x"), tool("y", "x"), name="plain"))
    pause_run(actor=desk.admin, run_id=plain, reason="wait")
    step = desk.step(plain, "y")
    skip_step(actor=desk.admin, step_id=step.id, expected_version=step.version, reason="agreed")
    assert {"run PAUSE_REQUESTED": "human_decision", "y STEP_SKIPPED": "human_decision"}.items() <= kinds(
        api, plain
    ).items()


def test_an_effect_says_whether_it_is_open_a_result_or_undone(tenant, api):
    desk = Desk(tenant)
    run_id = desk.lost()
    (row,) = list_operations(actor=desk.admin, run_id=run_id)
    assert (row["status"], row["output_kind"]) == ("unknown", None)
    whole = api.get(f"operations/{row['id']}/").json()
    assert whole["output_kind"] is None
    assert "kind" not in whole
    step = api.get(f"steps/{row['step_id']}/").json()
    assert (step["status"], step["output_kind"], step["error"]["retryable"]) == ("unknown", None, False)
    assert step["error"]["remediation"].startswith("Nothing is sent again")
    desk.finish_case(desk.saw(desk.taken(run_id), "done"), "record_success")
    assert api.get(f"operations/{row['id']}/").json()["output_kind"] == "tool_result"
    moved = list_node_events(actor=desk.admin, run_id=run_id, node="pay")
    assert {one["type"]: one["output_kind"] for one in moved}["OPERATION_SUCCEEDED"] == "tool_result"


def test_what_is_undone_is_a_compensation_and_what_is_reported_on_the_way_is_partial():
    assert (
        outputs.of_step("compensation", "succeeded")
        == outputs.of_step("compensation_check", "succeeded")
        == "compensation"
    )
    assert outputs.of_step("compensation", "failed") == "failure"
    assert (
        outputs.of_operation("compensation", "succeeded")
        == outputs.of_operation("tool", "compensated")
        == "compensation"
    )
    assert outputs.of_operation("tool", "compensation_failed") == outputs.of_operation("tool", "refused") == "failure"
    assert outputs.of_operation("tool", "partially_applied") == "partial"
    assert outputs.of_operation("tool", "written_off") == "human_decision"
    assert outputs.of_step("tool", "mark_successed") == outputs.of_step("input", "succeeded") == "human_decision"
    assert outputs.of_step("approval", "skipped", "rejected", {"by": "user:ada"}) == "human_decision"
    assert outputs.of_step("approval", "skipped", "rejected", {"by": "engine"}) == "failure", "nobody answered in time"
    for status, cause in (("running", None), ("unknown", None), ("skipped", "branch"), ("killed", "or_lost")):
        assert outputs.of_step("tool", status, cause) is None

    def event(type: str, **more: Any) -> dict[str, Any]:
        return {"type": type, "node": "a", "to_status": None, "cause": None, "actor": None, "payload": None, **more}

    for status, kind in (("in_progress", "partial"), ("succeeded", "tool_result"), ("failed", "failure")):
        assert outputs.of_event(event("CALLBACK_RECEIVED", payload={"status": status}), "tool") == kind
    assert outputs.of_event(event("EVENT_RECEIVED", to_status="waiting"), "wait") == "partial"
    assert outputs.of_event(event("COMPENSATION_PLANNED"), "compensation") == "compensation"
    assert outputs.of_event(event("STEP_RERUN"), "tool") is None, "the engine does it over by itself"
    assert [outputs.of_run(one) for one in ("completed", "failed", "cancelled", "needs_attention")] == [
        "final", "failure", None, "partial",
    ]  # fmt: skip


def test_every_class_of_error_has_its_mend_and_the_passing_ones_are_those_of_the_tools():
    again = {name for name in ERROR_CLASSES if failures.told({"class": name}, run_id=1, step_id=2)["retryable"]}
    assert again == {"network", "timeout", "rate_limited", "server_error"} == TRANSIENT_CLASSES
    mends = {name: failures.told({"class": name}, run_id=1, step_id=2)["remediation"] for name in ERROR_CLASSES}
    assert len(set(mends.values())) == len(ERROR_CLASSES)
    assert failures.told(None, run_id=1, step_id=2) is None


def test_a_refusal_names_the_run_or_step_of_its_address_and_has_all_six_members(engine, api):
    run_id = engine.submit(workflow(tool("a")))
    step = engine.step(run_id, "a")
    refusals = [
        api.post(f"runs/{run_id}/pause/", {"reason": "x", "expected_version": 99}),
        api.post(f"runs/{run_id}/pause/", {"no_such": 1}),
        api.get(f"runs/{run_id}/events/?after=999"),
        api.post(f"steps/{step.id}/rerun/", {"expected_version": step.version, "reason": "x"}),
        api.post(f"steps/{step.id}/skip/", {}),
        api.get(f"runs/{uuid.uuid4()}/"),
        api.post("tasks/", {"workflow": "nothing-of-that-name", "input": {}}),
        Caller(None, engine.tenant).get("runs/"),
        api.get("no/such/address/"),
        api.send("DELETE", "runs/"),
    ]
    for answer in refusals:
        told = problem(answer, answer.status_code)
        assert set(STRUCTURED) <= set(told), told
        assert told["remediation"], told
    named = [one.json() for one in refusals[:5]]
    assert [one["run_id"] for one in named[:3]] == [str(run_id)] * 3
    assert [one["step_id"] for one in named[3:]] == [str(step.id)] * 2
    bulk = api.post("tasks/bulk/", {"tasks": [{"workflow": "nothing-of-that-name", "input": {}}]}).json()["items"]
    assert set(STRUCTURED) <= set(bulk[0])
