"""An office with a repair desk: effects that got lost, cases about them, two people on call and an admin."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from repair.actions.claim import claim_case, release_case
from repair.actions.investigate import record_answer
from repair.actions.open import open_case
from repair.actions.propose import propose_resolution
from repair.actions.resolve import resolve_case, review_proposal
from repair.models import Case
from repair.queries import get_case
from runtime.kernel.actor import Actor
from runtime.models import Operation, Tenant
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support.actors import member
from tests.support.office import Office, writing
from tests.support.specs import workflow

# How a contract of each recovery class says it can be told a second send.
CLASSES: dict[str, dict[str, Any]] = {
    "idempotent": {"recovery": "idempotent", "idempotency": "key"},
    "query": {
        "recovery": "query",
        "idempotency": "none",
        "query": "core.echo@1",
        # Outside it is there when the payee's name begins so.
        "lookup": {
            "applied": "arguments.to.startsWith('there')",
            "reference": "'P-' + operation.business_key",
            "result": {"to": {"$": "arguments.to"}},
            "consistent_after_s": 0,
        },
    },
    "compensable": {"recovery": "compensable", "idempotency": "none", "compensation": "office.tell@1"},
    "human": {"recovery": "human", "idempotency": "none"},
}


class Desk(Office):
    """An office whose ``desk.<class>@1`` tools write; their answers can be lost."""

    def __init__(self, tenant: Tenant) -> None:
        super().__init__(tenant)
        self.second = member(tenant, "oncall")
        self.numbers = itertools.count(1)
        for name, terms in CLASSES.items():
            register_tool(actor=self.actor, contract=writing(f"desk.{name}", **terms))

    def lost(self, recovery: str = "human", payee: str = "") -> uuid.UUID:
        """Run pay → tell, lose the payment's answer, return the run's id; ``payee`` begins the name that is paid."""
        number = next(self.numbers)
        pay = {
            "id": "pay",
            "kind": "tool",
            "tool": f"desk.{recovery}@1",
            "business_key": "'pay:' + input.to",
            "input": {"to": {"$": "input.to"}},
        }
        tell = {"id": "tell", "kind": "tool", "tool": "core.echo@1", "after": ["pay"], "input": {"text": "paid"}}
        run_id = self.submit(
            workflow(pay, tell, name=f"pay-{recovery}"), {"to": f"{payee or recovery}-{number}-{self.tenant.slug}"}
        )
        [claimed] = [one for one in self.claim() if one.run_id == run_id]
        self.lose(claimed)
        return run_id

    def cases(self, run_id: uuid.UUID | None = None, *, resolved: bool = False) -> list[Case]:
        """Return the open cases (of a run), oldest first."""
        with tenant_tx(self.tenant.id):
            rows = Case.objects.order_by("id")
            rows = rows.filter(run_id=run_id) if run_id else rows
            return list(rows if resolved else rows.exclude(state="resolved"))

    def case(self, run_id: uuid.UUID) -> dict[str, Any]:
        """Return the one open case of a run, whole."""
        (row,) = self.cases(run_id)
        return self.read(row.id)

    def read(self, case_id: Any) -> dict[str, Any]:
        return get_case(actor=self.admin, case_id=case_id)

    def operation(self, run_id: uuid.UUID) -> Operation:
        """Return the run's one operation."""
        with tenant_tx(self.tenant.id):
            return Operation.objects.get(run_id=run_id)

    def opened(self, run_id: uuid.UUID, node: str) -> uuid.UUID:
        """Open a case about a step by hand and return its id."""
        answer = open_case(actor=self.oncall, run_id=run_id, step_id=self.step(run_id, node).id, reason="it is asked")
        return uuid.UUID(answer["case_id"])

    def taken(self, run_id: uuid.UUID, actor: Actor | None = None) -> dict[str, Any]:
        """Claim the run's case and return it, whole."""
        case = self.case(run_id)
        claim_case(actor=actor or self.oncall, case_id=case["id"], expected_version=case["version"])
        return self.read(case["id"])

    def release(self, case_id: uuid.UUID, actor: Actor | None = None) -> None:
        """Give a case back."""
        release_case(actor=actor or self.oncall, case_id=case_id, expected_version=None, reason="for others")

    def saw(self, case: dict[str, Any], answer: str, actor: Actor | None = None) -> dict[str, Any]:
        """Record what a person saw outside and return the case."""
        record_answer(
            actor=actor or self.oncall,
            case_id=case["id"],
            answer=answer,
            evidence=f"the books say {answer}",
            source="the shop's books",
            reference="P-77" if answer == "done" else "",
            expected_version=case["version"],
        )
        return self.read(case["id"])

    def propose(self, case: dict[str, Any], resolution: str, actor: Actor | None = None, **more: Any) -> dict[str, Any]:
        """Propose a resolution of the case as it was shown."""
        arguments = {"external_ref": "P-77"} if resolution == "record_success" else {}
        words = {"expected_version": case["version"], "reason": "looked it up", "arguments": arguments, **more}
        return propose_resolution(actor=actor or self.oncall, case_id=case["id"], resolution=resolution, **words)

    def finish_case(self, case: dict[str, Any], resolution: str, **more: Any) -> dict[str, Any]:
        """Propose a resolution, have it reviewed when that is asked for, and return the last answer."""
        said = self.propose(case, resolution, **more)
        repair_id = uuid.UUID(said["repair_id"])
        if said["needs_review"]:
            return review_proposal(
                actor=self.admin,
                case_id=case["id"],
                repair_id=repair_id,
                decision="approve",
                expected_version=said["version"],
            )
        return resolve_case(
            actor=more.get("actor") or self.oncall,
            case_id=case["id"],
            expected_version=said["version"],
            repair_id=repair_id,
        )
