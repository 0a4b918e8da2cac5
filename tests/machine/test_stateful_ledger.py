"""The ledger under any order of crashes, lost answers, late sends and repeats: the shop's books are the judge (C8.3).

Real intents, calls over HTTP to a real shop, reports, lost workers and the reconciler, in whatever order. At most one
effect per business key, whatever happens; and what is not settled has a next query time or an owner.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from runtime.actions.runs import cancel_run
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.errors import Conflict
from runtime.models import Operation, Run
from runtime.queries.invariants import breaches_of
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import RegisteredTool, register_tool, tool_of
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, begin, perform
from runtime.worker.intents import intend
from runtime.worker.maintenance.lost import doubt_orphaned_operations, return_orphans
from runtime.worker.maintenance.reconcile import reconcile
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.work import Report
from tests.support.clock import Clock
from tests.support.db import switched
from tests.support.engine import Engine, sweep
from tests.support.factories import make_tenant
from tests.support.hypotheses import run
from tests.support.shop import Shop
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.3", "C3.3", "B4.3"), pytest.mark.django_db(transaction=True)]

ORDERS = ("a", "b")
SETTLED = ("succeeded", "refused", "absent", "void")
# What the shop does with a call, and whether it tells: nothing, or an answer after or before it was applied is lost.
MANNERS: tuple[dict[str, Any], ...] = (
    {},
    {"after": "drop"},
    {"before": "drop"},
    {"before": "answer", "status": 429},
    {"after": "answer", "status": 500},
    {"after": "garbage"},
)


class Ledger(RuleBasedStateMachine):
    """Workers with calls in hand, some of them stopped before their first byte; a shop; the reconciler."""

    database: Any
    shop: Shop
    idempotency: str

    @initialize()
    def begin(self) -> None:
        self.engine = Engine(make_tenant())
        self.connection = self.database.connect()
        self.clock = Clock(self.connection)
        self.word = uuid.uuid4().hex[:10]
        self.ready: list[Prepared] = []  # sent by the rows, not yet by the wire
        self.stopped: list[Prepared] = []  # the same, in a worker whose lease is over and that may go on
        self.told: list[Report] = []
        contract = self.shop.contract("refund", idempotency=self.idempotency, retry={"max_attempts": 3, "initial_s": 1})
        contract["lookup"]["consistent_after_s"] = 5
        for one in (self.shop.contract("find_refund"), contract):
            register_tool(actor=self.engine.actor, contract=one)
        pay = tool(
            "pay",
            tool="shop.refund@1",
            business_key="'pay:' + input.order_id",
            input={"order_id": {"$": "input.order_id"}, "amount": "10.00"},
        )
        if self.idempotency == "none":  # then the shop does not tell a second send either
            self.shop.tell("refund", None, times=None, deduplicate=False)
        self.engine.submit(workflow(pay, name="ledger"), {"order_id": self._order("a")})

    def _order(self, name: str) -> str:
        return f"{self.word}-{name}"

    @rule(order=st.sampled_from(ORDERS))
    def submit(self, order: str) -> None:
        """The same intent may come any number of times."""
        request = SubmitRequest(workflow="ledger", input={"order_id": self._order(order)})
        submit_task(actor=self.engine.actor, request=request)

    @rule()
    def claim_and_intend(self) -> None:
        """A worker takes what is ready and commits its intents; the calls are in its hand."""
        prepared: list[Prepared] = []
        reports: list[Report] = []
        for claimed in self.engine.claim():
            made = begin(claimed, self._tool)
            (prepared if isinstance(made, Prepared) else reports).append(made)  # type: ignore[arg-type]
        if prepared:
            calls, others = intend(self.engine.tenant.id, prepared)
            self.ready += calls
            reports += others
        for report in reports:
            complete(self.engine.tenant.id, [report])

    def _tool(self, reference: str) -> RegisteredTool:
        with tenant_tx(self.engine.tenant.id) as tx:
            return tool_of(tx, reference)

    @precondition(lambda self: self.ready)
    @rule(pick=st.randoms(use_true_random=False), manner=st.sampled_from(MANNERS), dies=st.booleans())
    def call(self, pick: random.Random, manner: dict[str, Any], dies: bool) -> None:
        """A call goes out; its worker may die with the answer in hand."""
        item = self.ready.pop(pick.randrange(len(self.ready)))
        if manner:
            self.shop.tell("refund", item.arguments["order_id"], **manner)
        report = perform(item, lambda: True)
        self.told.append(report)
        if not dies:
            complete(self.engine.tenant.id, [report])

    @precondition(lambda self: self.told)
    @rule(pick=st.randoms(use_true_random=False))
    def report_again(self, pick: random.Random) -> None:
        complete(self.engine.tenant.id, [pick.choice(self.told)])

    @rule(seen=st.booleans())
    def lose_the_worker(self, seen: bool) -> None:
        """Its process is seen to die, or its lease ends while it is stopped with its calls in hand."""
        with plain_tx() as tx:
            tx.send("end_sessions", ("process_died" if seen else "lease_lost", [self.engine.session_id]))
        if not seen:
            self.stopped += self.ready
        self.ready = []
        return_orphans()
        with switched("default", role="worker"):
            doubt_orphaned_operations()
        self.engine.renew()

    @precondition(lambda self: self.stopped)
    @rule(pick=st.randoms(use_true_random=False))
    def the_stopped_worker_goes_on(self, pick: random.Random) -> None:
        """It was stopped after its last look at the lease: what it sends now, nobody expects."""
        item = self.stopped.pop(pick.randrange(len(self.stopped)))
        report = perform(item, lambda: True)
        self.told.append(report)
        complete(self.engine.tenant.id, [report])

    @rule(hidden=st.booleans())
    def ask(self, hidden: bool) -> None:
        if hidden:
            self.shop.tell("query", None, before="answer", status=503)
        reconcile()

    @rule(seconds=st.sampled_from([3, 30, 400]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        fire_timers()

    @rule(pick=st.randoms(use_true_random=False))
    def cancel(self, pick: random.Random) -> None:
        with tenant_tx(self.engine.tenant.id):
            runs = sorted(Run.objects.values_list("id", flat=True))
        if pick.random() < 0.3:
            try:
                cancel_run(actor=self.engine.actor, run_id=pick.choice(runs), reason="no longer wanted")
            except Conflict:
                return

    @invariant()
    def no_key_has_two_effects(self) -> None:
        if not hasattr(self, "word"):
            return
        for order in ORDERS:
            assert len(self.shop.effects(self._order(order), "refunds")) <= 1

    @invariant()
    def the_ledger_says_what_the_books_say(self) -> None:
        if not hasattr(self, "engine"):
            return
        with tenant_tx(self.engine.tenant.id):
            operations = list(Operation.objects.all())
        for one in operations:
            effects = self.shop.effects(one.business_key.removeprefix("pay:"), "refunds")
            if one.status == "succeeded":
                assert effects, "nothing was done"
            if one.status == "refused":
                assert not effects, "it was done"

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.shop.behave()
        found = breaches_of(self.engine.tenant.id)
        self.connection.close()
        sweep(self.database, self.engine.tenant.id)
        assert found == []


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


def run_ledger(
    database: Any, shop: Shop, idempotency: str, examples: int, steps: int, *, at_random: bool = False
) -> None:
    Ledger.database, Ledger.shop, Ledger.idempotency = database, shop, idempotency
    with database.connect() as connection:
        try:
            run(
                Ledger,
                settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=not at_random,
                    suppress_health_check=list(HealthCheck),
                    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
                ),
            )
        finally:
            Clock(connection).reset()


def test_one_effect_where_the_tool_tells_a_second_send(fresh_db, shop):
    run_ledger(fresh_db, shop, "key", examples=8, steps=20)


@pytest.mark.proof
@pytest.mark.parametrize("idempotency", ["key", "none"])
def test_one_effect_in_any_long_order(fresh_db, shop, idempotency):
    run_ledger(fresh_db, shop, idempotency, examples=60, steps=50, at_random=True)
