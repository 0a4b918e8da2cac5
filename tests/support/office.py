"""A tenant with people, writing tools and approvals, whose steps run in the test's own process."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from approvals.actions.decide import decide_request
from approvals.actions.policies import propose_policy
from approvals.queries import get_request, list_requests
from runtime.kernel.actor import Actor
from runtime.models import Operation, Tenant
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool, tool_of
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, begin
from runtime.worker.intents import intend
from runtime.worker.looking import carry_out, look
from runtime.worker.work import Claimed, Report
from tests.support.actors import member
from tests.support.engine import Engine


def writing(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    """Return the contract of a tool that writes; it answers with its arguments."""
    return {
        "name": name,
        "version": version,
        "adapter": "python",
        "config": {"callable": "runtime.tools.builtin:echo"},
        "input_schema": {"type": "object"},
        "side_effect": "write",
        "recovery": "idempotent",
        "idempotency": "natural",
        "runs": "inline",
        **more,
    }


def asking(name: str = "pay-out", **ask: Any) -> dict[str, Any]:
    """Return a workflow: look up, ask, pay (writes), tell (writes, not gated)."""
    return {
        "format": "quarterdeck/1",
        "name": name,
        "nodes": [
            {"id": "load", "kind": "tool", "tool": "core.echo@1", "input": {"rate": "2.50", "for": {"$": "input.to"}}},
            {
                "id": "ask",
                "kind": "approval",
                "after": ["load"],
                "title": "Pay out",
                "role": "approver",
                "expires_s": 3600,
                "payload": {"to": {"$": "input.to"}, "rate": {"$": "nodes.load.output.rate"}},
                **ask,
            },
            {
                "id": "pay",
                "kind": "tool",
                "tool": "office.pay@1",
                "after": ["ask"],
                "business_key": "'pay:' + input.to",
                "input": {"to": {"$": "input.to"}, "rate": {"$": "nodes.load.output.rate"}},
            },
            {
                "id": "tell",
                "kind": "tool",
                "tool": "office.tell@1",
                "after": ["pay"],
                "input": {"text": {"$": "nodes.pay.output.to"}},
            },
        ],
    }


class Office(Engine):
    """An engine with an approver, an operator and the tools ``office.pay@1`` and ``office.tell@1``."""

    def __init__(self, tenant: Tenant) -> None:
        super().__init__(tenant)
        self.approver, self.oncall, self.admin = (member(tenant, role) for role in ("approver", "oncall", "admin"))
        self.integrator = member(tenant, "integrator")
        for name in ("office.pay", "office.tell"):
            register_tool(actor=self.actor, contract=writing(name))

    def work(self, rounds: int = 20) -> None:
        """Claim, call and report until nothing is ready."""
        for _ in range(rounds):
            claimed = self.claim()
            if not claimed:
                return
            self.call(claimed)
        raise AssertionError("the run does not come to rest")

    def call(self, claimed: list[Claimed]) -> None:
        """Run claimed steps and report them in one batch."""
        reports: list[Report] = []
        calls: list[Prepared] = []
        for item in claimed:
            begun = self._begin(item)
            (reports if isinstance(begun, Report) else calls).append(begun)  # type: ignore[arg-type]
        looked = [look(call, lambda: True) if call.reader is not None else call for call in calls]
        reports += [one for one in looked if isinstance(one, Report)]
        calls = [one for one in looked if isinstance(one, Prepared)]
        going = [call for call in calls if not call.tool.contract.writes]
        if writing_calls := [call for call in calls if call.tool.contract.writes]:
            sent, held = intend(self.tenant.id, writing_calls)
            reports += held
            going += sent
        reports += [carry_out(call, lambda: True) for call in going]
        complete(self.tenant.id, reports)

    def lose(self, claimed: Claimed) -> None:
        """Send a writing call and lose its answer."""
        begun = self._begin(claimed)
        assert isinstance(begun, Prepared)
        (sent,), _held = intend(self.tenant.id, [begun])
        error = {"class": "network", "message": "the answer was lost"}
        complete(self.tenant.id, [Report(sent.claimed, "unknown", error=error, operation_status="unknown")])

    def _begin(self, item: Claimed) -> Report | Prepared:
        def tool(reference: str) -> Any:
            with tenant_tx(self.tenant.id) as tx:
                return tool_of(tx, reference)

        return begin(item, tool)

    def ask(self, value: Any = None, **ask: Any) -> uuid.UUID:
        """Submit :func:`asking` and work until it waits for a person; returns the run's id."""
        run_id = self.submit(asking(**ask), value or {"to": f"p-{uuid.uuid4().hex[:8]}"})
        self.work()
        return run_id

    def requests(self, run_id: uuid.UUID, state: str | None = None) -> list[dict[str, Any]]:
        """Return a run's requests, oldest first."""
        rows = list_requests(actor=self.admin, state=state, run_id=run_id, limit=500).items
        return sorted(rows, key=lambda row: row["id"])

    def pending(self, run_id: uuid.UUID) -> dict[str, Any]:
        """Return the one request that waits, whole."""
        (row,) = self.requests(run_id, "pending")
        return get_request(actor=self.admin, request_id=row["id"])

    def decide(
        self, request: dict[str, Any], decision: str = "approve", actor: Actor | None = None, **more: Any
    ) -> dict[str, Any]:
        """Decide a request as it was shown."""
        words = {"version": request["version"], "payload_hash": request["payload_hash"], **more}
        return decide_request(actor=actor or self.approver, request_id=request["id"], decision=decision, **words)

    def activate(self, rules: list[dict[str, Any]]) -> dict[str, Any]:
        """Propose rules, let another admin approve them, and return what the proposer was told."""
        proposed = propose_policy(actor=self.admin, rules=rules, note="new rules")
        request = get_request(actor=self.admin, request_id=proposed["approval_id"])
        self.decide(request, actor=member(self.tenant, "admin"))
        return proposed

    def run_now(self) -> datetime:
        """Return the database's time."""
        with tenant_tx(self.tenant.id) as tx:
            return tx.now()

    def states(self, run_id: uuid.UUID) -> list[str]:
        return [row["state"] for row in self.requests(run_id)]

    def sends(self, run_id: uuid.UUID) -> dict[str, int]:
        """Return business key → how often it was sent."""
        with tenant_tx(self.tenant.id):
            return dict(Operation.objects.filter(run_id=run_id).values_list("business_key", "sends"))
