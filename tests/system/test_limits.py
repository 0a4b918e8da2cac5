"""Bounds under real workers: one writer for a state, a slow tool apart from the rest, a burst that starves nobody."""

from __future__ import annotations

import uuid
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runtime.actions.limits import set_limit, set_policy
from runtime.actions.runs import cancel_run
from runtime.models import Step
from runtime.queries.limits import list_breakers
from runtime.store.tx import tenant_tx
from tests.support import invariants
from tests.support.factories import make_tenant
from tests.support.nodes import echo, node, sleeping
from tests.support.specs import tool
from tests.support.workers import Desk, python_tool, told, until

PROPERTIES = {"type": "object", "properties": {"account": {"type": "string"}, "log": {"type": "string"}}}


def spans(desk: Desk, run_ids: list[uuid.UUID]) -> list[tuple[datetime, datetime]]:
    """Return when each write was sent and settled, in order."""
    found = [one for run_id in run_ids for one in desk.operations(run_id)]
    return sorted((one.sent_at, one.settled_at) for one in found if one.sent_at and one.settled_at)


def times(desk: Desk, run_id: uuid.UUID) -> list[tuple[datetime, datetime | None]]:
    """Return when each step that was started began and ended, in order."""
    steps = desk.steps(run_id).values()
    return sorted(((s.started_at, s.finished_at) for s in steps if s.started_at), key=lambda span: span[0])


@pytest.mark.req("C2.7")
def test_a_state_is_written_by_one_call_at_a_time(stack, desk, tmp_path: Path):
    contract = python_tool("effect", writes=True, serial="account:{account}", input_schema=PROPERTIES)
    reference = desk.tool(contract)
    log = str(tmp_path / "log")
    call: dict[str, Any] = {"account": {"$": "input.account"}, "log": log, "then_wait_s": 0.05}
    flow = desk.workflow(node("pay", reference, input=call))
    same = [desk.submit(flow, {"account": "A"}) for _ in range(8)]
    other = [desk.submit(flow, {"account": f"B{i}"}) for i in range(8)]
    statuses = desk.wait_all([*same, *other])
    assert set(statuses.values()) == {"completed"}
    assert len(Path(log).read_text().splitlines()) == 16
    alone = spans(desk, same)
    assert len(alone) == 8
    assert all(end <= begun for (_b, end), (begun, _e) in pairwise(alone)), "they overlap"
    assert max(desk.step(run_id, "pay").attempt for run_id in other) == 1, "another account waits for nobody"


@pytest.mark.req("C2.7")
def test_a_slow_tool_at_its_limit_keeps_no_slot_and_nobody_waiting(stack, desk):
    set_limit(actor=desk.actor, scope="tool", name="core.sleep@1", most=2)
    slow_flow = desk.workflow(*(sleeping(f"s{i}", 3) for i in range(12)), name="slow")
    quick_flow = desk.workflow(echo("a"), tool("b", "a"), name="quick")
    slow, quick = desk.submit(slow_flow), desk.bulk(quick_flow, [{}] * 20)
    assert set(desk.wait_all(quick).values()) == {"completed"}
    last = max(step.finished_at for run_id in quick for step in desk.steps(run_id).values())
    until(lambda: any(at > last for at, _end in times(desk, slow)), 10, "a slow one begins after all the quick ones")
    cancel_run(actor=desk.actor, run_id=slow, reason="seen enough")
    desk.wait(slow)
    begun = times(desk, slow)
    busiest = max(sum(a <= at < b for a, b in begun) for at, _end in begun)
    assert busiest <= 2


@pytest.mark.req("C8.6", "A4.3")
def test_one_tenants_burst_starves_nobody(stack, desk):
    burst = desk.submit(desk.workflow(*(sleeping(f"s{i}", 0.05) for i in range(6000)), name="burst"))
    other = Desk(make_tenant())
    until(lambda: desk.run(burst).status == "running", 30, "the burst under way")
    small = [other.submit(other.workflow(echo("a"), echo("b", "a"))) for _ in range(5)]
    assert set(other.wait_all(small).values()) == {"completed"}
    with tenant_tx(desk.tenant.id):
        assert Step.objects.filter(run_id=burst, status="queued").count() > 100, "long before the burst is done"
    cancel_run(actor=desk.actor, run_id=burst, reason="seen enough")
    desk.wait(burst)
    invariants.check(other.tenant.id)


@pytest.mark.req("B4.2")
def test_a_tool_that_is_down_is_left_alone_until_it_is_back(stack, desk, shop):
    dead = shop.contract("/ok", writes=False, retry={"max_attempts": 1})
    dead["config"]["url"] = "http://127.0.0.1:9/nobody"
    dead["targets"] = ["127.0.0.1:9"]
    reference = desk.tool(dead)
    flow = desk.workflow(*(node(f"n{i}", reference) for i in range(10)), echo("apart"))
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    (found,) = list_breakers(actor=desk.actor)
    assert (found["state"], found["error_class"], found["tool"]) == ("open", "network", reference)
    held = desk.submit(desk.workflow(node("call", reference), echo("apart"), name="held"))
    desk.wait_step(held, "apart", "succeeded")
    until(lambda: desk.step(held, "call").blocked_on == found["id"], 20, "parked for the breaker")
    assert desk.step(held, "call").attempt == 0
    cancel_run(actor=desk.actor, run_id=held, reason="not today")


@pytest.mark.req("C3.2")
def test_regions_scopes_and_the_tasks_own_scope_are_asked_before_a_call(stack, desk, shop):
    contract = shop.contract("/ok", writes=False, data_region="us", scopes=["orders.read"])
    reference = desk.tool(contract)
    # Behind a switch: what every run calls is asked of a task's scope when it is submitted.
    route = {"id": "route", "kind": "switch", "cases": [{"when": "size(input) > 9", "to": ["a"]}], "default": ["a"]}
    flow = desk.workflow(route, {**node("a", reference), "after": ["route"]})
    assert desk.wait(desk.submit(flow)).status == "completed"
    seen = len(shop.effects())
    refusals = {
        "data_region": ({"data_regions": ["eu"], "scopes": None}, {}),
        "scope": ({"data_regions": ["us"], "scopes": ["mail.send"]}, {}),
        "scope of the task": ({"data_regions": None, "scopes": None}, {"scope": {"scopes": []}}),
        "tools of the task": ({"data_regions": None, "scopes": None}, {"scope": {"tools": ["core.echo"]}}),
    }
    for name, (policy, more) in refusals.items():
        set_policy(actor=desk.actor, **policy)
        run_id = desk.submit(flow, **more)
        assert desk.wait(run_id).status == "failed", name
        error = desk.step(run_id, "a").error
        assert error is not None
        assert (error["class"], error["code"]) == ("policy", "data_region" if name == "data_region" else "scope")
        assert not {"eu", "mail.send"} & set(error["message"].split())
        assert sorted(one.outcome for one in desk.attempts(run_id)) == ["failed", "succeeded"], name
    assert len(shop.effects()) == seen, "nothing was sent"
    set_policy(actor=desk.actor, data_regions=["us"], scopes=["orders.read", "mail.send"])
    run_id = desk.submit(flow, scope={"tools": ["shop.call"], "scopes": ["orders.read"]})
    assert desk.wait(run_id).status == "completed"


@pytest.mark.req("C1.2", "C3.2", "B4.2")
def test_workers_that_go_on_with_a_run_keep_to_its_budget(stack, desk, shop):
    reference = desk.tool(shop.contract("/ok", writes=True))
    wide = desk.workflow(echo("a"), *(node(f"n{i}", reference, "a") for i in range(6)))
    run_id = desk.submit(wide, budget={"effects": 2})
    assert desk.wait(run_id).status == "failed"
    errors = [desk.step(run_id, f"n{i}").error or {} for i in range(6)]
    assert sorted(one.get("code", "") for one in errors) == [""] * 2 + ["effects_exhausted"] * 4
    assert (len(shop.effects()), len(desk.operations(run_id))) == (2, 2)
    long = desk.workflow(echo("n0"), *(echo(f"n{i}", f"n{i - 1}") for i in range(1, 6)), name="long")
    run_id = desk.submit(long, budget={"calls": 3})
    assert desk.wait(run_id).status == "failed"
    assert [desk.step(run_id, f"n{i}").status for i in range(4)] == ["succeeded"] * 3 + ["failed"]
    error = desk.step(run_id, "n3").error or {}
    assert (error["class"], error["code"], error["sent"]) == ("budget", "calls_exhausted", False)


@pytest.mark.req("C3.2")
def test_a_tool_that_names_no_region_is_refused_where_regions_are_named(stack, desk, shop):
    """The policy is closed: reading, writing and undoing alike. The product's own tools take data nowhere."""
    reads, writes = shop.contract("/ok", writes=False), shop.contract("/ok", writes=True)
    flow = desk.workflow(
        node("reads", desk.tool({**reads, "name": "shop.read"})),
        node("writes", desk.tool({**writes, "name": "shop.write"})),
        echo("own"),
    )
    set_policy(actor=desk.actor, data_regions=["eu"], scopes=None)
    run_id = desk.submit(flow)
    assert desk.wait(run_id).status == "failed"
    for name in ("reads", "writes"):
        error = desk.step(run_id, name).error
        assert error is not None
        assert (error["class"], error["code"], error["sent"]) == ("policy", "data_region", False)
    assert desk.step(run_id, "own").status == "succeeded"
    assert shop.effects() == []
    assert desk.operations(run_id) == [], "refused before any intent"


@pytest.mark.req("A4.3")
def test_a_tools_pool_and_a_nodes_decide_who_runs_it(stack, desk):
    apart = desk.tool({**python_tool("add", pool="apart"), "name": "test.apart"})
    numbers = {"a": 1, "b": 2}
    flow = desk.workflow(
        node("tools", apart, input=numbers), node("nodes", apart, input=numbers, pool="gpu"), echo("anybodys")
    )
    run_id = desk.submit(flow, pool="own")
    steps = desk.steps(run_id)
    assert {name: step.pool for name, step in steps.items()} == {"tools": "apart", "nodes": "gpu", "anybodys": "own"}
    cancel_run(actor=desk.actor, run_id=run_id, reason="no worker serves these pools")
    assert set(told(desk, run_id).values()) <= {"killed(cancelled)", "skipped(cancelled)"}
