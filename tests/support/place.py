"""A desk whose effects are a real shop's, with more than one worker: where other systems' incidents are replayed."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.models import Attempt, Operation, Tenant
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.claim import Claimer
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, perform
from runtime.worker.intents import intend
from runtime.worker.work import Claimed, Report
from tests.support.desk import Desk
from tests.support.shop import Shop
from tests.support.specs import tool, workflow


class Worker:
    """A worker session of its own, with a lease that somebody renews or not."""

    def __init__(self, place: Place, lease: float = 1e9) -> None:
        self.place, self.session_id = place, place.open_session(lease)
        self.claimer = Claimer(self.session_id)

    def claim(self, limit: int = 100) -> list[Claimed]:
        """Claim what is ready."""
        return self.claimer.claim(self.place.tenant.id, "default", limit)

    def renew(self, seconds: float) -> bool:
        """Renew the lease as the heartbeat does; says whether it was still there to be renewed."""
        with plain_tx() as tx:
            return bool(tx.rows("renew_sessions", (seconds, [self.session_id], [0], [0], [None], [None], [None])))

    def die(self) -> None:
        """End the session as the heartbeat does when the process is gone."""
        with plain_tx() as tx:
            tx.send("end_sessions", ("process_died", [self.session_id]))


class Place(Desk):
    """A desk with the shop's tools ``refund`` (asked for by key) and ``mail``."""

    def __init__(self, tenant: Tenant, shop: Shop) -> None:
        super().__init__(tenant)
        self.shop = shop
        for name in ("find_refund", "undo_refund", "refund", "mail"):
            register_tool(actor=self.actor, contract=shop.contract(name))

    def refunding(self, order: str, *after: dict[str, Any], **more: Any) -> uuid.UUID:
        """Submit a run that refunds an order, then ``after``; returns its id."""
        pay = {
            "id": "pay",
            "kind": "tool",
            "tool": "shop.refund@1",
            "business_key": "'refund:' + input.order",
            "input": {"order_id": {"$": "input.order"}, "amount": "10.00"},
            **more,
        }
        return self.submit(workflow(pay, *(after or (tool("tell", "pay"),)), name="refunds"), {"order": order})

    def send(self, claimed: Claimed) -> tuple[list[Prepared], list[Report]]:
        """Prepare a claimed call and commit its intent: (calls that may start, reports of those that may not)."""
        begun = self._begin(claimed)
        return ([], [begun]) if isinstance(begun, Report) else intend(self.tenant.id, [begun])

    def call_and_vanish(self, claimed: Claimed) -> Report:
        """Make the call for real, and report nothing; returns what would have been reported."""
        (sent,), _held = self.send(claimed)
        return perform(sent, lambda: True)

    def submit_report(self, *reports: Report) -> None:
        """Report as a worker does."""
        complete(self.tenant.id, list(reports))

    def refunds(self, order: str) -> int:
        """Return how many refunds of an order stand in the shop's own books."""
        return len(self.shop.effects(order, "refunds"))

    def operations(self, run_id: uuid.UUID | None = None) -> list[Operation]:
        """Return operations, oldest first."""
        with tenant_tx(self.tenant.id):
            rows = Operation.objects.order_by("id")
            return list(rows.filter(run_id=run_id) if run_id else rows)

    def attempts(self, run_id: uuid.UUID, node: str) -> list[tuple[int, str | None]]:
        """Return (number, outcome) of each attempt at a node's step."""
        step = self.step(run_id, node).id
        with tenant_tx(self.tenant.id):
            rows = Attempt.objects.filter(run_id=run_id, step_id=step).order_by("number")
            return list(rows.values_list("number", "outcome"))
