"""The target's version is looked at before a call is sent: what changed since it was approved is asked about anew."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from approvals.actions.propose import propose_edit
from runtime.actions.limits import set_limit
from runtime.kernel.errors import BadInput
from runtime.models import Operation, Step
from runtime.queries.limits import list_breakers
from runtime.store.tx import tenant_tx
from runtime.tools.contract import check_contract
from runtime.tools.registry import register_tool
from runtime.worker.drain import Drain
from runtime.worker.execute import Prepared
from runtime.worker.gates import let_go
from runtime.worker.looking import look
from runtime.worker.session import Session
from tests.support import db as support
from tests.support.shop import Shop

pytestmark = [pytest.mark.req("C5.3", "C5.6", "B6.4"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


def contract(shop: Shop, **more: Any) -> dict[str, Any]:
    """Return the shop's refund, which says how the order's version is read."""
    reads = {
        "tool": shop.contract("order")["name"] + "@" + str(shop.contract("order")["version"]),
        "input": {"order_id": {"$": "arguments.order_id"}},
        "version": "answer.version",
    }
    return {**shop.contract("refund"), "name": "shop.careful", "target_version": reads, **more}


@pytest.fixture
def office(office, shop):
    """An office whose payments go to the shop."""
    for one in (shop.contract("order"), shop.contract("find_refund"), contract(shop)):
        register_tool(actor=office.actor, contract=one)
    return office


def refunding(shop: Shop) -> dict[str, Any]:
    order, refund = shop.contract("order"), contract(shop)
    return {
        "format": "quarterdeck/1",
        "name": "careful",
        "nodes": [
            {"id": "load", "kind": "tool", "tool": f"{order['name']}@{order['version']}",
             "input": {"order_id": {"$": "input.order_id"}}},
            {"id": "ask", "kind": "approval", "after": ["load"], "title": "Pay back", "role": "approver",
             "target": {"id": {"$": "input.order_id"}, "version": {"$": "nodes.load.output.version"}}},
            {"id": "pay", "kind": "tool", "after": ["ask"], "tool": f"{refund['name']}@{refund['version']}",
             "business_key": "'refund:' + input.order_id", "retry": {"max_attempts": 1},
             "input": {"order_id": {"$": "input.order_id"}, "amount": "5.00"}},
        ],
    }  # fmt: skip


def asked(office, shop) -> tuple[uuid.UUID, str]:
    """Submit a refund and work until it waits; returns the run and the order."""
    order = f"o-{uuid.uuid4().hex[:8]}"
    run_id = office.submit(refunding(shop), {"order_id": order})
    office.work()
    return run_id, order


def refunds(shop: Shop, order: str) -> list[dict[str, Any]]:
    return shop.ask(f"/refunds?order_id={order}")["items"]


def test_an_unchanged_target_lets_the_call_go(office, shop):
    run_id, order = asked(office, shop)
    assert office.pending(run_id)["target_version"] == "v1"
    office.decide(office.pending(run_id))
    office.work()
    assert len(refunds(shop, order)) == 1
    assert office.states(run_id) == ["consumed"]
    office.check(run_id)


def test_a_changed_target_parks_the_call_and_asks_anew_with_what_changed(office, shop):
    run_id, order = asked(office, shop)
    office.decide(office.pending(run_id))
    shop.ask(f"/orders/{order}", {"note": "the customer called"})
    office.work()
    assert refunds(shop, order) == []
    assert office.statuses(run_id)["pay"] == "hold(approval)"
    again = office.pending(run_id)
    assert (again["kind"], again["target"], again["target_version"]) == ("call", order, "v2")
    assert again["shown"]["target"] == {"id": order, "version": "v2", "was": "v1"}
    told = [(one["path"], one["before"], one["after"]) for one in again["changes"]]
    assert told == [("/target/version", "v1", "v2")]
    (old, _new) = office.requests(run_id)
    assert (old["state"], old["outcome_reason"]) == ("voided", "target changed: v1 → v2")
    office.decide(again)
    office.work()
    assert len(refunds(shop, order)) == 1
    assert office.states(run_id) == ["voided", "consumed"]
    office.check(run_id)


def test_a_target_that_changes_again_is_asked_about_again(office, shop):
    run_id, order = asked(office, shop)
    office.decide(office.pending(run_id))
    for version in ("v2", "v3"):
        shop.ask(f"/orders/{order}", {"note": version})
        office.work()
        again = office.pending(run_id)
        assert (again["target_version"], again["shown"]["target"]["version"]) == (version, version)
        office.decide(again)
    office.work()
    assert len(refunds(shop, order)) == 1
    assert office.states(run_id) == ["voided", "voided", "consumed"]


@pytest.mark.req("C5.4")
def test_an_edit_of_what_asks_anew_still_shows_what_changed_and_what_the_workflow_would_send(office, shop):
    run_id, order = asked(office, shop)
    office.decide(office.pending(run_id))
    for before, version, amount in (("v1", "v2", "4.00"), ("v2", "v3", "3.00")):
        shop.ask(f"/orders/{order}", {"note": version})
        office.work()
        again = office.pending(run_id)
        words = {"version": again["version"], "payload_hash": again["payload_hash"], "comment": "less"}
        sent = {"order_id": order, "amount": amount}
        propose_edit(actor=office.approver, request_id=again["id"], arguments=sent, **words)
        edited = office.pending(run_id)
        assert edited["shown"]["target"] == {"id": order, "version": version, "was": before}
        assert edited["shown"]["calls"][0].get("original") == again["shown"]["calls"][0].get("original")
        assert [one["path"] for one in edited["changes"]] == ["/calls/0/arguments/amount"]
        office.decide(edited)
    assert edited["shown"]["calls"][0]["original"] == {"order_id": order, "amount": "5.00"}
    office.work()
    assert [one["amount"] for one in refunds(shop, order)] == ["3.00"]
    office.check(run_id)


def test_rejecting_what_changed_sends_nothing(office, shop):
    run_id, order = asked(office, shop)
    office.decide(office.pending(run_id))
    shop.ask(f"/orders/{order}", {"note": "gone"})
    office.work()
    office.decide(office.pending(run_id), "reject", comment="it changed")
    office.work()
    assert refunds(shop, order) == []
    assert office.statuses(run_id)["pay"] == "skipped(rejected)"


def test_a_version_that_cannot_be_read_sends_nothing(office, shop):
    run_id, order = asked(office, shop)
    office.decide(office.pending(run_id))
    rule = shop.tell("order", order, times=None, before="answer", status=500)
    office.work()
    assert shop.hits(rule) > 0
    assert refunds(shop, order) == []
    step = office.step(run_id, "pay")
    assert (step.status, step.error["code"], step.error["sent"]) == ("failed", "target_unread", False)
    shop.behave()
    # It counts against the tool that reads, not against the one that was never asked.
    assert [one["tool"] for one in list_breakers(actor=office.admin)] == ["shop.order@1"]


def test_a_look_takes_a_token_of_its_readers_limit(office, shop):
    runs = [asked(office, shop) for _ in range(2)]
    for run_id, _order in runs:
        office.decide(office.pending(run_id))
    limit = uuid.UUID(str(set_limit(actor=office.admin, scope="tool", name="shop.order", most=1)["limit_id"]))
    office.call(office.claim())  # the approvals themselves: the payments come next
    (going,) = office.claim()
    with tenant_tx(office.tenant.id):
        (parked,) = Step.objects.filter(run_id__in=[run_id for run_id, _order in runs], blocked_on=limit)
    assert (parked.node, parked.run_id != going.run_id) == ("pay", True)
    office.call([going])
    let_go(office.tenant.id, {limit: 1})
    office.work()
    assert [len(refunds(shop, order)) for _run_id, order in runs] == [1, 1]


def test_a_call_without_a_bound_version_is_not_held_up(office, shop):
    order = f"o-{uuid.uuid4().hex[:8]}"
    spec = refunding(shop)
    spec["nodes"][1].pop("target")
    run_id = office.submit(spec, {"order_id": order})
    office.work()
    office.decide(office.pending(run_id))
    shop.ask(f"/orders/{order}", {"note": "whatever"})
    office.work()
    assert len(refunds(shop, order)) == 1


def twice(office, shop) -> tuple[uuid.UUID, str]:
    """Return a run and its order after one approval of two refunds of it, whose version says what was paid back."""
    whole = "{0}.version + '/' + {0}.refunded"
    reads = {**contract(shop)["target_version"], "version": whole.format("answer")}
    register_tool(actor=office.actor, contract=contract(shop, version=7, target_version=reads))
    spec = refunding(shop)
    load, ask, pay = spec["nodes"]
    ask["target"]["version"] = {"$": whole.format("nodes.load.output")}
    pay["tool"] = "shop.careful@7"
    again = {**pay, "id": "again", "after": ["pay"], "business_key": "'again:' + input.order_id"}
    spec["nodes"] = [load, {**ask, "gates": ["pay", "again"]}, pay, again]
    order = f"o-{uuid.uuid4().hex[:8]}"
    run_id = office.submit(spec, {"order_id": order})
    office.work()
    assert office.pending(run_id)["target_version"] == "v1/0.00"
    office.decide(office.pending(run_id))
    return run_id, order


def test_what_an_approved_call_changed_itself_was_approved_for_the_next_one(office, shop):
    run_id, order = twice(office, shop)
    office.work()
    assert len(refunds(shop, order)) == 2
    assert office.states(run_id) == ["consumed"]
    office.check(run_id)


def test_what_others_changed_between_two_approved_calls_is_asked_about(office, shop):
    run_id, order = twice(office, shop)
    while not refunds(shop, order):
        office.call(office.claim())
    shop.ask(f"/orders/{order}", {"note": "the customer called"})
    office.work()
    assert len(refunds(shop, order)) == 1
    assert office.statuses(run_id)["again"] == "hold(approval)"
    assert office.pending(run_id)["shown"]["target"] == {"id": order, "version": "v2/5.00", "was": "v1/0.00"}


RULES = [
    {"name": "refunds", "when": "tool.name == 'shop.careful'", "decide": "approval", "role": "approver"},
    {"name": "the rest", "when": "true", "decide": "allow"},
]


def test_a_call_that_the_policy_asks_about_is_bound_to_the_version_it_was_found_in(office, shop):
    office.activate(RULES)
    spec = refunding(shop)
    spec["nodes"] = [node for node in spec["nodes"] if node["id"] != "ask"]
    spec["nodes"][-1]["after"] = ["load"]
    order = f"o-{uuid.uuid4().hex[:8]}"
    run_id = office.submit(spec, {"order_id": order})
    office.work()
    first = office.pending(run_id)
    assert (first["kind"], first["target_version"]) == ("call", "v1")
    assert first["shown"]["target"] == {"id": "pay", "version": "v1"}
    shop.ask(f"/orders/{order}", {"note": "the customer called"})
    office.decide(first)
    office.work()
    assert refunds(shop, order) == []
    again = office.pending(run_id)
    assert again["shown"]["target"] == {"id": "pay", "version": "v2", "was": "v1"}
    office.decide(again)
    office.work()
    assert len(refunds(shop, order)) == 1
    assert office.states(run_id) == ["voided", "consumed"]
    office.check(run_id)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"version": "answer.version +"}, "/target_version/version"),
        ({"version": "operation.id"}, "/target_version/version"),
        ({"tool": "shop.order"}, "/target_version/tool"),
        ({"input": {"order_id": {"$": "answer.x +"}}}, "/target_version/input/order_id"),
    ],
)
def test_a_contract_that_cannot_be_looked_by_is_refused(shop, change, where):
    reads = {**contract(shop)["target_version"], **change}
    with pytest.raises(BadInput) as refused:
        check_contract(contract(shop, target_version=reads))
    assert (refused.value.where or "").startswith(where)


def test_a_reading_tool_has_no_target(shop):
    with pytest.raises(BadInput) as refused:
        check_contract({**shop.contract("order"), "target_version": contract(shop)["target_version"]})
    assert refused.value.where == "/target_version"


def test_a_contract_without_one_keeps_its_digest(shop):
    plain = check_contract(shop.contract("refund"))
    assert "target_version" not in plain.as_json()
    assert check_contract({**shop.contract("refund"), "target_version": None}).digest == plain.digest


def test_a_worker_looks_before_it_sends(fresh_db, office, shop):
    """The drain itself: a slot reads the version, the intent is written after that, or the call holds."""
    same, changed = asked(office, shop), asked(office, shop)
    for run_id, _order in (same, changed):
        office.decide(office.pending(run_id))
    shop.ask(f"/orders/{changed[1]}", {"note": "the customer called"})
    with support.switched("default", role="worker"):
        drain = Drain(Session())
        drain.run()
        drain.session.end()
    assert [len(refunds(shop, order)) for _run_id, order in (same, changed)] == [1, 0]
    assert office.run(same[0]).status == "completed"
    assert office.pending(changed[0])["target_version"] == "v2"


def test_calls_that_were_looked_at_are_intended_in_one_transaction(fresh_db, office, shop):
    runs = [asked(office, shop) for _ in range(3)]
    for run_id, _order in runs:
        office.decide(office.pending(run_id))
    office.call(office.claim())  # the approvals themselves: the payments come next
    with support.switched("default", role="worker"):
        drain = Drain(Session())
        for one in drain.claimer.claim(office.tenant.id, "default", 10, 10):
            begun = drain._begin(office.tenant.id, one)
            assert isinstance(begun, Prepared)
            drain.running.begin(begun)
            drain.inbox.put(look(begun, drain.session.lease.held))
        drain._collect(closing=False)
        drain.run()
        drain.session.end()
    with tenant_tx(office.tenant.id):
        ledger = Operation.objects.filter(run_id__in=[run_id for run_id, _order in runs])
        moments = [one.intended_at for one in ledger]
    assert (len(moments), len(set(moments))) == (3, 1)
    assert [len(refunds(shop, order)) for _run_id, order in runs] == [1, 1, 1]
