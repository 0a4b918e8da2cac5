"""The reconciler on real rows and a real shop: what each finding makes of operation, step and run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from runtime.actions.limits import set_limit, set_policy
from runtime.actions.runs import cancel_run
from runtime.actions.stops import lift_stop, set_stop
from runtime.kernel import seams
from runtime.kernel.conf import conf
from runtime.machine.operations import OperationState
from runtime.models import Operation
from runtime.queries.limits import list_breakers
from runtime.store import columns
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.asking import query_operation
from runtime.worker.circuits import tell_question
from runtime.worker.execute import Prepared
from runtime.worker.intents import _held_answer
from runtime.worker.maintenance import lost, reconcile, stops, storage
from runtime.worker.work import Claimed
from tests.support.engine import Engine, past_every_guard
from tests.support.operations import send
from tests.support.patience import patient
from tests.support.shop import Shop
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B4.4", "C3.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


class Sent:
    """A run whose step `pay` was sent to the shop under its own order and whose call came back without an answer."""

    def __init__(self, engine: Engine, shop: Shop, **contract: Any) -> None:
        self.engine, self.shop = engine, shop
        self.order = f"R-{uuid.uuid4().hex[:8]}"
        body = {**shop.contract("refund"), "version": int(uuid.uuid4().int % 10**8) + 1, **contract}
        lookup = {**body["lookup"], **contract.get("lookup", {})} if contract.get("lookup", {}) is not None else None
        for one in (shop.contract("find_refund"), {**body, "lookup": lookup}):
            register_tool(actor=engine.actor, contract=one)
        self.run_id = engine.submit(workflow(tool("pay"), tool("after", "pay")))
        self.claimed: Claimed = next(c for c in engine.claim() if c.run_id == self.run_id)
        self.operation_id = send(
            engine,
            self.claimed,
            f"refund:{self.order}",
            recovery=body["recovery"],
            tool="shop.refund",
            arguments={"order_id": self.order, "amount": "10.00"},
        )

    def pay(self, **body: Any) -> None:
        data = json.dumps({"order_id": self.order, "amount": "10.00", **body}).encode()
        request = Request(f"{self.shop.url}/refunds", data=data, headers={"Idempotency-Key": str(self.operation_id)})
        urlopen(request, timeout=patient(5)).close()

    def lost_receipt(self) -> None:
        """The owner reports that it does not know."""
        error = {"class": "network", "message": "dropped"}
        self.engine.report(self.claimed, "unknown", operation_status="unknown", error=error)

    @property
    def operation(self) -> Operation:
        with tenant_tx(self.engine.tenant.id):
            return Operation.objects.get(id=self.operation_id)

    def ask(self) -> dict[str, int]:
        return reconcile.reconcile()

    @property
    def pay_step(self) -> str:
        return self.engine.statuses(self.run_id)["pay"]


@pytest.fixture
def sent(engine, shop, test_database) -> Iterator[Any]:
    # What tests without a sweep left due of other tenants is not asked about here.
    with past_every_guard(test_database) as connection:
        connection.execute("UPDATE qd_operation SET next_query_at = '2099-01-01Z' WHERE next_query_at IS NOT NULL")
    yield lambda **contract: Sent(engine, shop, **contract)
    shop.behave()


@pytest.fixture
def needs() -> Iterator[list[seams.CaseNeed]]:
    heard: list[seams.CaseNeed] = []
    seams.register_case_listener("test", lambda _tx, asked: heard.extend(asked))
    yield heard
    seams._case_listeners.pop("test")


def test_a_found_effect_gives_the_step_its_result(sent, engine):
    one = sent()
    one.pay()
    one.lost_receipt()
    assert (one.pay_step, engine.run(one.run_id).status) == ("unknown(receipt_unknown)", "waiting_tool")
    assert one.ask() == {"succeeded": 1}
    operation = one.operation
    assert (operation.status, operation.sends, operation.finding, operation.queries) == ("succeeded", 1, "applied", 1)
    assert operation.external_ref == one.shop.effects(one.order)[0]["refund_id"]
    assert (one.pay_step, engine.statuses(one.run_id)["after"]) == ("succeeded(reconciled)", "queued")
    types = engine.types(one.run_id)
    assert types.index("OPERATION_UNKNOWN") < types.index("OPERATION_QUERIED") < types.index("OPERATION_SUCCEEDED")
    engine.finish("after")
    assert engine.run(one.run_id).status == "completed"
    engine.check(one.run_id)
    assert one.ask() == {}, "what is settled is not asked about again"


def test_an_absent_effect_is_sent_again_by_itself_where_the_tool_tells_a_second_send(sent, engine):
    one = sent(lookup={"consistent_after_s": 0})
    one.lost_receipt()
    assert one.ask() == {"absent": 1}
    assert (one.operation.status, one.operation.error["code"]) == ("absent", "absence_proved")
    assert one.pay_step == "queued"
    engine.check(one.run_id)


@pytest.mark.parametrize(
    ("contract", "why"),
    [
        ({"recovery": "human", "idempotency": "none"}, "allows no further send"),
        ({"idempotency": "none", "retry": {"max_attempts": 1}}, "allows no further send"),
    ],
    ids=["human-only", "query-but-no-retry"],
)
def test_an_absent_effect_that_may_not_be_sent_again_needs_a_person(sent, engine, needs, contract, why):
    one = sent(**contract, lookup={"consistent_after_s": 0})
    one.lost_receipt()
    assert one.ask() == {"needs_human": 1}
    run = engine.run(one.run_id)
    assert (run.status, set(run.attention)) == ("needs_attention", {"owner", "evidence", "due"})
    assert why in run.attention["evidence"]
    assert ("operation_unknown", one.operation_id) in [(need.kind, need.operation_id) for need in needs]
    assert one.shop.effects(one.order) == []
    engine.check(one.run_id)


@pytest.mark.req("C2.9")
def test_absence_proves_nothing_while_the_sender_may_still_live(sent, engine, db):
    """Its lease was over, nobody saw it die: a tool that tells no second send is not sent one."""
    one = sent(idempotency="none", lookup={"consistent_after_s": 0})
    with plain_tx() as tx:
        tx.send("end_sessions", ("lease_lost", [engine.session_id]))
    lost.return_orphans()
    engine.renew()
    assert one.ask() == {"needs_human": 1}
    assert "cannot tell a second send" in engine.run(one.run_id).attention["evidence"]


@pytest.mark.req("C2.9")
def test_a_sender_that_was_seen_to_die_sends_nothing_any_more(sent, engine):
    one = sent(idempotency="none", lookup={"consistent_after_s": 0})
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))
    lost.return_orphans()
    engine.renew()
    assert one.ask() == {"absent": 1}
    assert one.pay_step == "queued"


def test_an_effect_that_shows_late_is_asked_for_until_an_answer_can_decide(sent, engine, clock):
    # Its step's result is the query's whole answer then, which is not what the shop's own contract takes for proof.
    one = sent(lookup={"consistent_after_s": 30}, success_evidence=None)
    one.shop.tell("refund", one.order, hidden_queries=1)
    one.pay()
    one.lost_receipt()
    assert one.ask() == {"unknown": 1}
    first = one.operation
    assert (first.status, first.finding, first.queries) == ("unknown", "not_found", 1)
    assert first.next_query_at is not None
    engine.check(one.run_id)  # a question moves nothing: the events still fold to the row
    assert one.ask() == {}, "not due yet"
    clock.advance(40)
    assert one.ask() == {"succeeded": 1}
    assert len(one.shop.effects(one.order)) == 1
    queried = [e.payload["finding"] for e in engine.events(one.run_id) if e.type == "OPERATION_QUERIED"]
    assert queried == ["not_found", "applied"]


@pytest.mark.parametrize(
    ("make", "status", "kind"),
    [
        (lambda one: (one.shop.tell("refund", one.order, partial=True), one.pay()), "partially_applied", None),
        (lambda one: one.pay(order_id=f"{one.order}-other"), "needs_human", "operation_conflicts"),
    ],
    ids=["partly", "another"],
)
def test_a_part_or_another_effect_needs_a_person(sent, engine, needs, make, status, kind):
    one = sent()
    make(one)
    one.lost_receipt()
    assert one.ask() == {status: 1}
    assert (kind or status) in [need.kind for need in needs if need.operation_id == one.operation_id]
    run = engine.run(one.run_id)
    assert (run.status, run.n_open_operations) == ("needs_attention", 1)
    engine.check(one.run_id)


def test_a_tool_that_does_not_answer_is_asked_again_and_a_person_after_an_hour(sent, engine, clock):
    one = sent()
    one.pay()
    one.lost_receipt()
    one.shop.tell("query", None, times=None, before="answer", status=503)
    for _ in range(3):
        assert one.ask() == {"unknown": 1}
        clock.advance(60)
    assert (one.operation.queries, one.operation.finding, one.operation.observed_at) == (3, "unreachable", None)
    assert engine.types(one.run_id).count("OPERATION_QUERIED") == 1, "the same answer again is only counted"
    clock.advance(3600)
    assert one.ask() == {"needs_human": 1}
    assert engine.run(one.run_id).status == "needs_attention"


def test_a_contract_that_says_nothing_of_consistency_never_proves_absence(sent, engine, clock):
    one = sent(lookup=None)
    one.lost_receipt()
    assert one.ask() == {"unknown": 1}
    clock.advance(4000)
    assert one.ask() == {"needs_human": 1}


@pytest.mark.req("C5.5")
def test_an_effect_found_after_the_cancel_changes_no_status(sent, engine, needs):
    one = sent()
    one.pay()
    one.lost_receipt()
    cancel_run(actor=engine.actor, run_id=one.run_id, reason="ordered twice")
    assert one.pay_step.startswith("killed")
    one.ask()
    assert one.operation.status == "succeeded"
    assert one.pay_step.startswith("killed")
    assert "late_success" in [need.kind for need in needs]
    engine.check(one.run_id)


def test_two_reconcilers_ask_once(sent, clock):
    one = sent()
    one.lost_receipt()
    assert len(reconcile.claim()) == 1
    assert reconcile.claim() == []
    clock.advance(600)
    assert len(reconcile.claim()) == 1, "whoever asked never came back"


@pytest.mark.req("C3.5")
def test_an_answer_past_its_retention_is_forgotten_and_its_key_never_sent_as_new(sent, engine, clock):
    one = sent()
    one.pay()
    one.lost_receipt()
    assert one.ask() == {"succeeded": 1}
    storage.forget_answers()
    assert one.operation.response is not None
    clock.advance(401 * 86400)
    assert storage.forget_answers() >= 1
    kept = one.operation
    assert (kept.status, kept.response) == ("succeeded", None)
    assert kept.response_sha256 is not None
    held = OperationState(*[getattr(kept, name) for name in columns.OPERATION], response=kept.response)
    item = Prepared(one.claimed, None, {}, b"", bytes(kept.payload_sha256), {})  # type: ignore[arg-type]
    report = _held_answer(item, held)
    assert (report.outcome, report.error["code"]) == ("failed", "operation_expired")  # type: ignore[index]


def queried(one: Sent) -> list[tuple[str, str]]:
    """Return (type, finding) of what was told of questions."""
    return [
        (e.type, e.payload["finding"])
        for e in one.engine.events(one.run_id)
        if e.type in ("OPERATION_QUERIED", "QUERY_HELD")
    ]


@pytest.mark.req("C1.4", "C5.5")
@pytest.mark.parametrize(("scope", "name"), [("tool", "shop.find_refund"), ("workflow", None), ("tenant", "")])
def test_no_question_goes_out_under_a_stop_and_one_does_when_it_is_lifted(sent, engine, scope, name):
    one = sent()
    one.pay()
    one.lost_receipt()
    name = engine.claimed[one.claimed.step_id].plan.name if name is None else name
    stop = set_stop(actor=engine.actor, scope=scope, name=name, reason="test")
    before = len(one.shop.ask("/control/calls")["items"])
    assert one.ask() == {"unknown": 1}
    operation = one.operation
    assert (operation.status, operation.finding, operation.queries, operation.queried_at) == (
        "unknown", "held", None, None,
    )  # fmt: skip
    with tenant_tx(engine.tenant.id) as tx:
        tx.send("query_soon", ([one.operation_id],))
    assert one.ask() == {}, "looked at again, and nothing is told twice"
    assert queried(one) == [("QUERY_HELD", "held")]
    assert len(one.shop.ask("/control/calls")["items"]) == before, "nobody was asked"
    assert query_operation(tenant_id=engine.tenant.id, operation_id=one.operation_id).code == "stopped"
    lift_stop(actor=engine.actor, stop_id=uuid.UUID(stop["stop_id"]))
    stops.Releaser().run_once()
    assert one.ask() == {"succeeded": 1}, "the end of the stop brings the question forward"
    assert queried(one) == [("QUERY_HELD", "held"), ("OPERATION_QUERIED", "applied")]
    engine.check(one.run_id)


@pytest.mark.req("C5.5")
def test_a_stop_keeps_a_question_however_long_it_stands(sent, engine, clock):
    one = sent()
    one.pay()
    one.lost_receipt()
    set_stop(actor=engine.actor, scope="tenant", reason="test")
    one.ask()
    clock.advance(conf().query_give_up_seconds + 60)
    assert one.ask() == {}
    assert (one.operation.status, one.operation.finding) == ("unknown", "held")


@pytest.mark.req("C3.2")
def test_a_question_the_policy_leaves_out_is_a_persons(sent, engine, needs):
    one = sent()
    one.pay()
    one.lost_receipt()
    set_policy(actor=engine.actor, data_regions=["eu"], scopes=None)
    before = len(one.shop.ask("/control/calls")["items"])
    assert one.ask() == {"needs_human": 1}
    assert "names no data region" in engine.run(one.run_id).attention["evidence"]
    assert "operation_unknown" in [need.kind for need in needs]
    assert len(one.shop.ask("/control/calls")["items"]) == before
    engine.check(one.run_id)


@pytest.mark.req("B4.2")
def test_questions_break_the_circuit_and_one_of_them_mends_it(sent, engine, clock):
    one = sent()
    one.pay()
    one.lost_receipt()
    tool_name = "shop.find_refund@1"
    for _ in range(conf().breaker_failures - 1):
        tell_question(engine.tenant.id, tool_name, "server_error", troubled=False)
    one.shop.tell("query", None, before="answer", status=503)
    assert one.ask() == {"unknown": 1}

    def state() -> list[str]:
        return [one["state"] for one in list_breakers(actor=engine.actor) if one["tool"] == tool_name]

    assert state() == ["open"]
    clock.advance(5)
    assert one.ask() == {"unknown": 1}
    assert (one.operation.finding, one.operation.queries) == ("held", 1)
    clock.advance(conf().breaker_seconds + 5)
    assert one.ask() == {"succeeded": 1}
    assert state() == [], "closed, and nothing is counted any more"
    assert [finding for _type, finding in queried(one)] == ["unreachable", "held", "applied"]


@pytest.mark.req("C2.7")
def test_questions_count_for_the_rate_of_their_tool_and_are_given_up_with_it(sent, engine, clock):
    one, other = sent(), sent()
    for each in (one, other):
        each.pay()
        each.lost_receipt()
    set_limit(actor=engine.actor, scope="tool", name="shop.find_refund", calls=1, per_s=86400)
    assert one.ask() == {"succeeded": 1, "unknown": 1}
    left = next(each for each in (one, other) if each.operation.status == "unknown")
    assert left.operation.finding == "held"
    clock.advance(conf().query_give_up_seconds + 60)
    assert left.ask() == {"needs_human": 1}
