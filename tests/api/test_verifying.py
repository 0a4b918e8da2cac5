"""Asking about an operation now, and a tool's late report: both over the API, neither moves a status (A6.3, C3.6)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from runtime.kernel.callback import attempt_id, callback_token
from runtime.models import Event, Inbox, Operation
from runtime.store.tx import tenant_tx
from tests.support.api import caller, problem
from tests.support.engine import Engine, sweep
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A6.3", "C3.6"), pytest.mark.django_db(transaction=True)]


class Unknown:
    """A step whose operation is unknown, as its owner left it."""

    def __init__(self, engine: Engine, recovery: str) -> None:
        self.engine = engine
        self.run_id = engine.submit(workflow(tool("pay")))
        self.claimed = next(c for c in engine.claim() if c.run_id == self.run_id)
        self.operation_id = send(engine, self.claimed, f"pay:{self.run_id}", recovery=recovery)
        engine.report(self.claimed, "unknown", operation_status="unknown", error={"class": "network", "message": "?"})
        self.attempt = attempt_id(self.claimed.step_id, self.claimed.attempt)

    @property
    def operation(self) -> Operation:
        with tenant_tx(self.engine.tenant.id):
            return Operation.objects.get(id=self.operation_id)

    def report(self, **more: Any) -> dict[str, Any]:
        c = self.claimed
        token = callback_token(self.engine.tenant.id, c.step_id, c.attempt, c.owner_epoch)
        return {"token": token, "epoch": c.owner_epoch, "version": 1, "status": "succeeded", **more}

    def told(self) -> list[Event]:
        return [e for e in self.engine.events(self.run_id) if e.type == "CALLBACK_RECEIVED"]


@pytest.fixture
def engine(tenant, db):
    yield Engine(tenant)
    sweep(db, tenant.id)


@pytest.fixture
def unknown(engine):
    return lambda recovery="query": Unknown(engine, recovery)


@pytest.fixture
def shop(tenant):
    return caller(tenant, "integrator")


def test_a_late_report_is_kept_once_and_lets_the_tool_be_asked_at_once(unknown, engine, shop, clock):
    one = unknown()
    with tenant_tx(engine.tenant.id):
        Operation.objects.filter(id=one.operation_id).update(next_query_at="2099-01-01T00:00:00Z")
    body = one.report(external_ref="R-1", result={"refund_id": "R-1"})
    first = shop.post(f"attempts/{one.attempt}/callback/", body)
    assert first.status_code == 200, first.content
    assert first.json() == {
        "attempt_id": one.attempt,
        "replayed": False,
        "late": True,
        "operation_status": "unknown",
    }
    again = shop.post(f"attempts/{one.attempt}/callback/", body)
    assert (again.status_code, again.json()["replayed"]) == (200, True)
    (event,) = one.told()
    assert (event.to_status, event.payload["external_ref"]) == (None, "R-1")
    assert event.output_sha256 is not None
    assert one.operation.status == "unknown"
    assert one.operation.next_query_at <= clock.now()
    assert engine.statuses(one.run_id)["pay"] == "unknown(receipt_unknown)"
    engine.check(one.run_id)


def test_the_same_version_with_other_content_is_refused(unknown, shop, engine):
    one = unknown()
    assert shop.post(f"attempts/{one.attempt}/callback/", one.report()).status_code == 200
    problem(shop.post(f"attempts/{one.attempt}/callback/", one.report(status="failed")), 409, "conflict")
    assert len(one.told()) == 1
    assert shop.post(f"attempts/{one.attempt}/callback/", one.report(status="failed", version=2)).status_code == 200
    assert [e.payload["version"] for e in one.told()] == [1, 2]


def test_a_report_in_every_end_is_kept_and_changes_nothing(engine, shop):
    run_id = engine.submit(workflow(tool("pay")))
    claimed = next(c for c in engine.claim() if c.run_id == run_id)
    engine.report(claimed, "succeeded")
    before = engine.run(run_id)
    assert before.status == "completed"
    token = callback_token(engine.tenant.id, claimed.step_id, claimed.attempt, claimed.owner_epoch)
    body = {"token": token, "epoch": claimed.owner_epoch, "version": 1, "status": "failed"}
    answer = shop.post(f"attempts/{attempt_id(claimed.step_id, claimed.attempt)}/callback/", body)
    assert (answer.status_code, answer.json()["late"]) == (200, True)
    assert (engine.run(run_id).status, engine.statuses(run_id)) == ("completed", {"pay": "succeeded"})
    engine.check(run_id)


def test_whoever_was_not_given_the_call_is_not_heard(unknown, shop, engine, other_tenant):
    one = unknown()
    address = f"attempts/{one.attempt}/callback/"
    problem(shop.post(address, one.report(token="0" * 64)), 403)
    problem(shop.post(address, one.report(epoch=one.claimed.owner_epoch + 1)), 403)
    problem(caller(engine.tenant, "viewer").post(address, one.report()), 403)
    problem(caller(other_tenant, "integrator").post(address, one.report()), 404)
    problem(shop.post(f"attempts/{uuid.uuid4()}.1/callback/", one.report()), 404)
    problem(shop.post(f"attempts/{attempt_id(one.claimed.step_id, 9)}/callback/", one.report()), 404)
    problem(shop.post("attempts/1/callback/", one.report()), 404)
    problem(shop.post(address, one.report(status="fine")), 400)
    problem(shop.post(address, one.report(more=1)), 400)
    assert one.told() == []
    with tenant_tx(engine.tenant.id):
        assert not Inbox.objects.filter(source=f"attempt:{one.attempt}").exists()


def test_an_operator_lets_the_tool_be_asked_now(unknown, engine, clock):
    one = unknown()
    with tenant_tx(engine.tenant.id):
        Operation.objects.filter(id=one.operation_id).update(next_query_at="2099-01-01T00:00:00Z")
    oncall = caller(engine.tenant, "oncall")
    answer = oncall.post(f"operations/{one.operation_id}/query/", {"reason": "the shop is back"})
    assert (answer.status_code, answer.json()["asked"]) == (202, True)
    assert one.operation.next_query_at <= clock.now()
    asked = [e for e in engine.events(one.run_id) if e.type == "QUERY_REQUESTED"]
    assert (asked[0].reason, asked[0].to_status) == ("the shop is back", None)
    read = oncall.get(f"operations/{one.operation_id}/").json()
    assert (read["queries"], read["queried_at"], read["finding"]) == (0, None, None)
    problem(caller(engine.tenant, "viewer").post(f"operations/{one.operation_id}/query/", {"reason": "r"}), 403)
    engine.check(one.run_id)


def test_clicking_again_and_again_asks_once(unknown, engine, clock):
    """Refused until the reconciler has come to it, and for a while after; the other side is not ours to load."""
    one = unknown()
    with tenant_tx(engine.tenant.id):
        Operation.objects.filter(id=one.operation_id).update(next_query_at="2099-01-01T00:00:00Z")
    oncall, address = caller(engine.tenant, "oncall"), f"operations/{one.operation_id}/query/"
    assert oncall.post(address, {"reason": "first"}).status_code == 202
    found = problem(oncall.post(address, {"reason": "again"}), 409, "asked_too_soon")
    assert (found["retryable"], found["retry_after"] > 0) == (True, True)
    with tenant_tx(engine.tenant.id) as tx:  # the reconciler has taken it, and asks
        tx.rows("claim_queries", (60.0, [one.operation_id]))
    problem(oncall.post(address, {"reason": "again"}), 409, "asked_too_soon")
    with tenant_tx(engine.tenant.id) as tx:  # it has come back
        tx.send("note_query", ("not_found", False, clock.now() + timedelta(hours=1), one.operation_id))
    problem(oncall.post(address, {"reason": "again"}), 409, "asked_too_soon")
    clock.advance(11)
    assert oncall.post(address, {"reason": "later"}).status_code == 202
    asked = [e.reason for e in engine.events(one.run_id) if e.type == "QUERY_REQUESTED"]
    assert asked == ["first", "later"]
    engine.check(one.run_id)


def test_there_is_nothing_to_ask_of_a_tool_without_a_query_or_about_what_is_settled(unknown, engine):
    oncall = caller(engine.tenant, "oncall")
    human = unknown("human")
    problem(oncall.post(f"operations/{human.operation_id}/query/", {"reason": "r"}), 409, "conflict")
    run_id = engine.submit(workflow(tool("pay")))
    claimed = next(c for c in engine.claim() if c.run_id == run_id)
    operation_id = send(engine, claimed, f"done:{run_id}")
    engine.report(claimed, "succeeded", operation_status="succeeded")
    problem(oncall.post(f"operations/{operation_id}/query/", {"reason": "r"}), 409, "conflict")
    problem(oncall.post(f"operations/{uuid.uuid4()}/query/", {"reason": "r"}), 404)
