"""What a resolution would meet on each of many cases, without a lock: permitted or not, and who else has to look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repair.law import COMPENSATE, DONE, HELD, KEEP_PENDING, RECORD_SUCCESS, UNKNOWN, UNREACHABLE, why_not
from repair.models import Case, Fact
from repair.policy import needs_second, policy_of
from repair.standing import About, why_not_now
from repair.undoing import why_not_undone
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound
from runtime.models import Operation, Run
from runtime.store.tx import Tx
from runtime.tools.contract import ToolContract
from runtime.tools.registry import tool_of

_NO_REFERENCE = "Nobody has said which reference it has outside."


def foresee_items(tx: Tx, actor: Actor, resolution: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return {why_not, second, asks} for each case, in their order; the carrying out decides anew, under the lock.

    ``asks``: its success is recorded by what the tool says of its key when the case's turn comes, or not at all.
    """
    policy = policy_of(tx.tenant_id)
    contracts = {tool: _contract(tx, tool) for tool in {case.tool for case in cases}}
    known = _references(cases) if resolution == RECORD_SUCCESS else set()
    versions = dict(Run.objects.filter(id__in={c.run_id for c in cases}).values_list("id", "workflow_version_id"))
    found = []
    for case in cases:
        contract = contracts[case.tool]
        why = _held_by_another(actor, case)
        asks = resolution == RECORD_SUCCESS and asks_first(case, contract, known=case.id in known)
        if why is None and not asks and resolution != KEEP_PENDING:
            why = why_not(resolution, case.recovery, case.answer, case.kind)
            why = why or why_not_now(tx, About.of(case), resolution)
        if why is None and resolution == COMPENSATE and case.recovery is not None:
            plan = plan_of(tx, versions[case.run_id]) if case.run_id in versions else None
            why = why_not_undone(plan, case.node, contract.compensation if contract else None)
        if why is None and not asks and resolution == RECORD_SUCCESS and case.id not in known:
            why = _NO_REFERENCE
        second = None
        if resolution != KEEP_PENDING:
            second = needs_second(
                policy,
                resolution,
                recovery=case.recovery,
                idempotency=contract.idempotency if contract else "none",
                answered_by="query" if asks else case.answered_by,
            )
        found.append({"why_not": why, "second": second, "asks": asks})
    return found


def asks_first(case: Case, contract: ToolContract | None, *, known: bool) -> bool:
    """Whether the tool can be asked for what nobody has said of the effect; ``known``: its reference was told."""
    askable = case.operation_id is not None and contract is not None and bool(contract.query)
    return askable and (case.answer in (UNKNOWN, UNREACHABLE) or (case.answer == DONE and not known))


def reference_of(case: Case) -> str | None:
    """Return the reference that the case's effect has outside, as the ledger or a person said last; None for none."""
    seen = (
        Fact.objects.filter(case_id=case.id, name="external", certain=True)
        .order_by("-id")
        .values_list("value", flat=True)
    )
    said = next((str(one["external_ref"]) for one in seen if one.get("external_ref")), None)
    if said is None and case.operation_id is not None:
        return Operation.objects.filter(id=case.operation_id).values_list("external_ref", flat=True).first()
    return said


def _references(cases: Sequence[Case]) -> set[Any]:
    """Return the cases whose effect has a reference outside that somebody told."""
    told = Fact.objects.filter(case_id__in=[case.id for case in cases], name="external", certain=True)
    known = {case_id for case_id, value in told.values_list("case_id", "value") if value.get("external_ref")}
    operations = {case.operation_id: case.id for case in cases if case.operation_id is not None}
    rows = Operation.objects.filter(id__in=operations, external_ref__isnull=False).values_list("id", flat=True)
    return known | {operations[one] for one in rows}


def _held_by_another(actor: Actor, case: Case) -> str | None:
    return f"{case.owner} holds it." if case.state in HELD and case.owner != actor.label else None


def _contract(tx: Tx, tool: str) -> ToolContract | None:
    try:
        return tool_of(tx, tool).contract if tool else None
    except NotFound:
        return None
