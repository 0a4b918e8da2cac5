"""Asking a tool now about an effect nobody is certain of, from the run's effects and from a case that is another's."""

from __future__ import annotations

import uuid

import pytest

from repair.queries import list_cases
from runtime.models import AuditEntry, Operation
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.pages import Reader, Scene
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B4.4", "C3.6"), pytest.mark.django_db(transaction=True)]


def contract(name: str, **more: str) -> dict[str, object]:
    return {
        "name": name, "version": 1, "adapter": "python", "config": {"callable": "runtime.tools.builtin:echo"},
        "input_schema": {"type": "object"}, **more,
    }  # fmt: skip


def unknown(made: Scene, *, query: str | None = "shop.find") -> tuple[uuid.UUID, uuid.UUID]:
    """Make a run whose effect is unknown, of a tool that can be asked unless ``query`` is None."""
    engine: Engine = made.engine
    named = {"query": f"{query}@1"} if query else {}
    recovery = "query" if query else "human"
    if query:
        register_tool(actor=engine.actor, contract=contract(query, side_effect="read", recovery="replayable"))
    register_tool(actor=engine.actor, contract=contract("shop.pay", side_effect="write", recovery=recovery, **named))
    run_id = engine.submit(workflow(tool("pay"), name="pays"), {})
    claimed = next(one for one in engine.claim() if one.run_id == run_id)
    operation_id = send(engine, claimed, f"pay:{run_id}", recovery=recovery, tool="shop.pay")
    engine.report(claimed, "unknown", operation_status="unknown", error={"class": "network", "message": "?"})
    with tenant_tx(made.tenant.id):
        Operation.objects.filter(id=operation_id).update(next_query_at="2099-01-01T00:00:00Z")
    return run_id, operation_id


def acts(made: Scene) -> list[tuple[str, str]]:
    with tenant_tx(made.tenant.id):
        return list(AuditEntry.objects.filter(verb="operation.query").values_list("result", "reason"))


def test_it_is_asked_from_the_runs_effects_once_and_recorded(made):
    oncall = Reader(made.tenant, "oncall")
    run_id, operation_id = unknown(made)
    shown, address = f"/runs/{run_id}/operations/", f"/operations/{operation_id}/ask/"
    assert address in oncall.get(shown)
    answer = oncall.post(address, {"reason": "the shop is back", "next": shown})
    assert answer["Location"] == shown
    assert acts(made) == [("asked", "the shop is back")]
    assert "QUERY_REQUESTED" in [event.type for event in made.engine.events(run_id)]
    page = oncall.post(address, {"reason": "and again", "next": shown}, 409).content.decode()
    assert "a moment ago" in page
    assert len(acts(made)) == 1
    oncall.client.get(address)
    assert len(acts(made)) == 1, "looking asks nothing"


def test_it_leads_nowhere_else(made):
    oncall = Reader(made.tenant, "oncall")
    _run_id, operation_id = unknown(made)
    answer = oncall.post(f"/operations/{operation_id}/ask/", {"next": "https://elsewhere.example/x"})
    assert answer["Location"].startswith("/")
    assert "elsewhere" not in answer["Location"]


def test_who_may_not_is_not_offered_it_and_is_refused(made, other_tenant):
    viewer = Reader(made.tenant, "viewer")
    run_id, operation_id = unknown(made)
    address = f"/operations/{operation_id}/ask/"
    assert address not in viewer.get(f"/runs/{run_id}/operations/")
    viewer.post(address, {}, 403)
    Reader(other_tenant, "oncall").post(address, {}, 404)
    assert acts(made) == []


def test_a_tool_that_cannot_be_asked_offers_nothing(made):
    run_id, operation_id = unknown(made, query=None)
    oncall = Reader(made.tenant, "oncall")
    assert f"/operations/{operation_id}/ask/" not in oncall.get(f"/runs/{run_id}/operations/")
    oncall.post(f"/operations/{operation_id}/ask/", {}, 409)


def test_a_case_that_nobody_holds_offers_it_too(made):
    oncall = Reader(made.tenant, "oncall")
    run_id, operation_id = unknown(made)
    oncall.post(
        f"/runs/{run_id}/repairs/open/", {"reason": "the customer calls", "step": made.engine.step(run_id, "pay").id}
    )
    (case,) = [one for one in list_cases(actor=made.engine.actor).items if one["run_id"] == run_id]
    assert f"/operations/{operation_id}/ask/" in oncall.get(f"/repairs/{case['id']}/")
