"""A payload or a step that cannot be handled fails alone: its neighbours in the same batch go on (A5, B4.1)."""

from __future__ import annotations

import pytest

from tests.support.nodes import echo, node
from tests.support.specs import tool
from tests.support.workers import python_tool, told

pytestmark = pytest.mark.faults


def test_results_that_are_no_json_fail_alone(stack, desk, shop):
    raw = [f"/raw/{kind}" for kind in ("nan", "surrogate", "twice", "latin", "nul", "deep")]
    shapes = ("nan", "set", "surrogate", "big", "key", "huge", "deep")
    read_tools = {
        f"http{i}": desk.tool(shop.contract(path, writes=False) | {"name": f"shop.raw{i}"})
        for i, path in enumerate([*raw, "/garbage", "/cut"])
    }
    read_tools["big"] = desk.tool(shop.contract("/huge", writes=False, max_result_bytes=100_000) | {"name": "shop.big"})
    odd = desk.tool(python_tool("odd", max_result_bytes=100_000))
    nodes = [node(name, reference) for name, reference in read_tools.items()]
    nodes += [node(f"odd_{shape}", odd, input={"shape": shape}) for shape in shapes]
    good = [echo(f"good{i}", input={"i": i}) for i in range(50)]
    run_id = desk.submit(desk.workflow(*nodes, *good))
    assert desk.wait(run_id, seconds=60).status == "failed"
    steps = told(desk, run_id)
    assert {steps[n["id"]] for n in good} == {"succeeded"}
    assert {n["id"]: steps[n["id"]] for n in nodes} == dict.fromkeys((n["id"] for n in nodes), "failed")
    assert all(desk.step(run_id, n["id"]).error["message"] for n in nodes)


@pytest.mark.req("C3.3")
@pytest.mark.parametrize("path", ["/raw/nan", "/raw/surrogate", "/raw/nul", "/raw/deep", "/garbage", "/huge", "/cut"])
def test_an_unreadable_answer_to_a_write_is_an_open_question(stack, desk, shop, path):
    reference = desk.tool(shop.contract(path, max_result_bytes=100_000))
    run_id = desk.submit(desk.workflow(node("pay", reference), tool("apart")))
    assert desk.wait(run_id).status == "needs_attention"
    desk.wait_step(run_id, "apart", "succeeded")
    assert told(desk, run_id)["pay"] == "unknown(receipt_unknown)"
    assert len(shop.effects()) == 1


def test_odd_characters_pass_through_untouched(stack, desk):
    value = {"line": "\u2028", "face": "😀", "deep": [[[[["x"]]]]], "empty": {"": None}}
    flow = desk.workflow(echo("a", input={"v": {"$": "input"}}), echo("b", "a", input={"v": {"$": "nodes.a.output.v"}}))
    run_id = desk.submit(flow, value)
    assert desk.wait(run_id).status == "completed"
    assert desk.output(run_id, "b") == {"v": value}


def test_a_message_with_nul_is_stored_readable(stack, desk, shop):
    reference = desk.tool(shop.contract("/status/409?detail=no%00way", writes=False))
    flow = desk.workflow(
        node("a", reference),
        echo("b", {"node": "a", "on_failure": "continue_on_error"}, input={"m": {"$": "nodes.a.error.message"}}),
    )
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "partially_completed"
    assert "\x00" not in desk.output(run_id, "b")["m"]


def test_expressions_that_cannot_be_evaluated_fail_alone(stack, desk):
    flow = desk.workflow(
        echo("missing", input={"x": {"$": "input.nothing.here"}}),
        echo("type", input={"x": {"$": "input.text + 1"}}),
        echo("zero", input={"x": {"$": "1 / input.zero"}}),
        {
            "id": "route",
            "kind": "switch",
            "cases": [{"when": "input.text > 5", "to": ["never"]}],
            "default": ["never"],
        },
        tool("never"),
        tool("fine"),
    )
    run_id = desk.submit(flow, {"text": "t", "zero": 0})
    assert desk.wait(run_id).status == "failed"
    steps = told(desk, run_id)
    assert [steps[n] for n in ("missing", "type", "zero", "route")] == ["failed"] * 4
    assert steps["fine"] == "succeeded"
    assert steps["never"] == "skipped(upstream_failed)"


@pytest.mark.req("A2.5")
def test_a_report_the_database_refuses_fails_alone(stack, desk):
    """The verifier is nobody's: the completing transaction of the whole batch is refused and cut in halves."""
    check = {"id": "check", "kind": "verifier", "verifier": "nobody@1", "tool": "core.echo@1", "criterion": "true"}
    good = desk.workflow(tool("a"), tool("b", "a"), name="good")
    bad = desk.workflow(check, tool("b", "check"), name="bad")
    run_ids = [desk.submit(bad if i % 10 == 3 else good) for i in range(40)]
    statuses = desk.wait_all(run_ids)
    assert [statuses[r] for r in run_ids] == ["failed" if i % 10 == 3 else "completed" for i in range(40)]


def test_a_tool_nobody_installed_fails_alone(stack, desk):
    absent = desk.tool(python_tool("nowhere_at_all"))
    run_id = desk.submit(desk.workflow(node("a", absent), tool("b")))
    assert desk.wait(run_id).status == "failed"
    assert told(desk, run_id) == {"a": "failed", "b": "succeeded"}
