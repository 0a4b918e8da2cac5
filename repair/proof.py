"""A case records a success only with the evidence that the tool's contract asks for (C3.1)."""

from __future__ import annotations

from typing import Any

from repair.actions.base import Desk, there
from repair.errors import NotProved
from runtime.kernel.canonical import loads
from runtime.models import Operation
from runtime.tools.contract import ToolContract
from runtime.tools.proof import place_of, why_not_proved

_ASK = "Ask the tool until its answer shows the evidence; or let the effect be undone, or keep the case pending."
_GIVE = "Give the tool's own answer as `output`, with the evidence in it, as it stands outside."


def insist_on_proof(desk: Desk, output: Any, reference: str | None) -> None:
    """Raise NotProved where a person's word lacks the evidence that the contract of the case's tool declares.

    ``output`` is the tool's answer as the person gives it. What the tool itself has told is proved by then.
    """
    contract = desk.contract()
    if contract is None or desk.case.operation_id is None or (place := place_of(contract)) is None:
        return
    if place == "query":
        why = f"Only what {contract.query} answers proves this effect; nobody's word stands for it."
        raise NotProved(why, remediation=_ASK, **there(desk.case))
    why_not = why_not_proved(contract, "answer", _context(desk, contract, output, reference))
    if why_not is not None:
        raise NotProved(why_not, where="/arguments/output", remediation=_GIVE, **there(desk.case))


def _context(desk: Desk, contract: ToolContract, output: Any, reference: str | None) -> dict[str, Any]:
    assert desk.case.operation_id is not None
    columns = ("id", "business_key", "payload", "owner_epoch")
    row = Operation.objects.filter(id=desk.case.operation_id).values(*columns).get()
    operation = {
        "id": str(row["id"]),
        "business_key": row["business_key"],
        "external_ref": reference,
        "epoch": row["owner_epoch"],
    }
    return {"answer": output, "arguments": loads(bytes(row["payload"])), "operation": operation}
