"""The preview of *resume the step*: which steps will run, what is reused, what it may cost, before anybody orders it.

The order quotes the preview's hash; where something else would run by the time it is carried out, it is refused.
"""

from __future__ import annotations

import uuid
from typing import Any

from repair.errors import OtherPreview
from repair.law import RESUME_STEP, why_not
from repair.models import Case
from repair.verbs import READ
from runtime.actions.acting import Act
from runtime.graph.foresee import AGAIN, NEW_RUN, Foresight, foresee
from runtime.graph.plan import NodePlan
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import NotFound
from runtime.machine.law import RERUN_SOURCES
from runtime.machine.rows import RunState, StepState
from runtime.queries.base import found, reading
from runtime.store.tx import Tx
from runtime.tools.contract import ToolContract
from runtime.tools.registry import tool_of

_PEOPLE = ("approval", "input")


def same_execution(contract: ToolContract | None, *, about_effect: bool) -> bool:
    """Whether the step goes on under its execution version: nothing was sent, or its tool tells a second send."""
    tells = contract is None or contract.idempotency != "none" or contract.recovery in ("idempotent", "query")
    return not about_effect or tells


def insist_on_preview(act: Act, step: StepState, same: bool, shown: str) -> None:
    """Raise OtherPreview unless what would run now is what ``shown`` is the hash of."""
    act.load_all()
    if _hash(foresee(act.run, step, same_execution=same)) != shown:
        raise OtherPreview("Other steps would run now than were shown.", run_id=act.run.id, step_id=step.id)


def preview_resume(*, actor: Actor, case_id: uuid.UUID) -> dict[str, Any]:
    """Return what resuming the case's step would do: {how, why_not, runs, perhaps, reused, ended, cost, preview}.

    ``why_not`` is None where it may be ordered. The four lists hold steps as {node, title, kind, tool, status, writes,
    sends_again}, foreseen for the case that all succeed; ``perhaps`` stand behind a switch that has not decided.
    ``cost`` is {calls, calls_most (with retries), writes, people, seconds_most}; no money, which nothing meters yet.
    ``preview`` is the hash that an order quotes. Raises NotFound. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        case = found(Case.objects.filter(id=case_id).first(), "case")
        return preview_of(tx, case)


def preview_of(tx: Tx, case: Case) -> dict[str, Any]:
    """Return the preview of a case in an open transaction; nothing is locked, nothing is changed."""
    rows = tx.rows("run_unlocked", (case.run_id,)) if case.run_id and case.node else []
    if not rows:
        return _nothing("The case names no step to resume.")
    run = RunState(*rows[0])
    run.now, run.plan = tx.now(), plan_of(tx, run.workflow_version_id)
    run.steps = {row[2]: StepState(*row) for row in tx.rows("steps_of_runs", ([run.id],))}
    step = run.steps.get(case.node)
    if step is None or step.id != case.step_id:
        return _nothing("Its step was run again since.")
    contract = _contract(tx, case.tool)
    ahead = foresee(run, step, same_execution=same_execution(contract, about_effect=case.operation_id is not None))
    names = _shown(tx, run, ahead)
    return {
        "how": ahead.how,
        "why_not": why_not(RESUME_STEP, case.recovery, case.answer, case.kind) or _why_not(tx, run, step, ahead),
        **names,
        "cost": _cost(tx, run, [*ahead.runs, *ahead.perhaps]),
        "preview": _hash(ahead),
    }


def _nothing(why: str) -> dict[str, Any]:
    lists: dict[str, Any] = {name: [] for name in ("runs", "perhaps", "reused", "ended")}
    return {"how": "nothing", "why_not": why, **lists, "cost": None, "preview": None}


def _hash(ahead: Foresight) -> str:
    # What is reused is read when a step needs it; that it is more by then changes nothing of what runs.
    value = {"how": ahead.how, "runs": list(ahead.runs), "perhaps": list(ahead.perhaps), "ended": list(ahead.ended)}
    return digest(canonical_bytes(value)).hex()


def _why_not(tx: Tx, run: RunState, step: StepState, ahead: Foresight) -> str | None:
    if ahead.how == NEW_RUN:
        latest = tx.one("latest_run_of_task", (run.task_id,))
        return "A newer run of the task is there." if latest is not None and latest[0] != run.id else None
    past = run.deadline is not None and run.now is not None and run.deadline <= run.now
    if run.cancel_requested or past or run.status == "compensating":
        return "Nothing new starts in the run."
    if ahead.how == AGAIN and step.status not in (*RERUN_SOURCES, "unknown"):
        return "The step has not ended; it goes on by itself."
    return None


def _shown(tx: Tx, run: RunState, ahead: Foresight) -> dict[str, list[dict[str, Any]]]:
    def one(name: str) -> dict[str, Any]:
        node, step = _node(run, name), run.steps[name]
        contract = _contract(tx, node.tool)
        writes = contract is not None and contract.writes
        return {
            "node": name,
            "title": node.title or name,
            "kind": node.kind,
            "tool": node.tool,
            "status": step.status,
            "writes": writes,
            # What succeeded is answered by the ledger under its business key; nothing of it is sent.
            "sends_again": writes and step.status != "succeeded",
        }

    lists = {"runs": ahead.runs, "perhaps": ahead.perhaps, "reused": ahead.reused, "ended": ahead.ended}
    return {label: [one(name) for name in names] for label, names in lists.items()}


def _node(run: RunState, name: str) -> NodePlan:
    node: NodePlan = run.plan.nodes[name]
    return node


def _cost(tx: Tx, run: RunState, names: list[str]) -> dict[str, Any]:
    calls = most = writes = people = 0
    seconds = 0.0
    for name in names:
        node = _node(run, name)
        people += node.kind in _PEOPLE
        contract = _contract(tx, node.tool)
        if contract is None:
            continue
        tries = int({**contract.retry, **node.retry}.get("max_attempts", 1))
        calls, most = calls + 1, most + tries
        writes += contract.writes and run.steps[name].status != "succeeded"
        seconds += tries * (node.timeout_s or contract.timeout_s)
    return {"calls": calls, "calls_most": most, "writes": writes, "people": people, "seconds_most": round(seconds, 1)}


def _contract(tx: Tx, tool: str | None) -> ToolContract | None:
    if not tool:
        return None
    try:
        return tool_of(tx, tool).contract
    except NotFound:
        return None
