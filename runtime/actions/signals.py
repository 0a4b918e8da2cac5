"""External events for a run: deduplicated, correlated, delivered to the step that waits; a late one is recorded (C5.1).

The event is untrusted: it is data for the step that declared it, and nothing else. The scheduler's duty delivers what
came before its step waited, and ends waits that took too long.
"""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.actions.acting import Act, insist, permit
from runtime.actions.base import check_reason, frame
from runtime.actions.inbox import handled, take_in
from runtime.graph.context import run_context
from runtime.graph.plan import NodePlan
from runtime.graph.spec import EVENT_NAME
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import BadInput, InvalidExpression, NotFound
from runtime.machine.apply import note
from runtime.machine.rows import RunState, StepState

# What became of an event: a step waited and got it; it waits for its step; too late; it was for nobody who waits.
DELIVERED, KEPT, LATE, UNMATCHED = "delivered", "kept", "late", "unmatched"


def signal_run(
    *, actor: Actor, run_id: uuid.UUID, name: str, event_id: str, payload: Any, correlation_id: str | None = None
) -> dict[str, Any]:
    """Take an external event in for a run; returns {run_id, name, event_id, result, replayed, node}.

    The same ``event_id`` again answers what it did the first time (``replayed``). ``result``: delivered, kept (its
    step does not wait yet), late (recorded, changes nothing) or unmatched (recorded; no waiting step has this
    correlation id). Raises PermissionDenied, NotFound (no such run, no step of it waits for this name), BadInput,
    MessageConflict. Verb ``run.signal``.
    """
    if not re.fullmatch(EVENT_NAME, name):
        raise BadInput("An event's name has lower-case letters, digits and . _ -", where="/name")
    check_reason(correlation_id or "")
    permit(actor, v.RUN_SIGNAL, "workflow_of_run", run_id)
    body = canonical_bytes([correlation_id, payload])

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            run = unit.run(run_id)
            waits = [node for node in run.plan.nodes.values() if node.event == name]
            if not waits:
                raise NotFound(
                    f"Nothing in this run's workflow waits for {name!r}.",
                    where="/name",
                    remediation="Use the `event` of one of the workflow's wait nodes.",
                )
            taken = take_in(
                unit.tx,
                source=f"signal:{run_id}:{name}",
                message_id=event_id,
                payload=body,
                run_id=run_id,
                name=name,
                correlation_id=correlation_id,
            )
            answer = {"run_id": str(run_id), "name": name, "event_id": event_id, "replayed": not taken.fresh}
            if not taken.fresh:
                return {**answer, "result": taken.result or KEPT, "node": None}
            act = Act(unit, run, actor, "")
            result, step = deliver(act, taken.id, name, correlation_id, event_id, waits)
            act.close()
            details = {"name": name, "event_id": event_id, "result": result, "correlation_id": correlation_id}
            act.record(v.RUN_SIGNAL, "run", run_id, details=details)
            return {**answer, "result": result, "node": step.node if step else None}

    answer: dict[str, Any] = insist(once)
    return answer


def deliver(
    act: Act, inbox_id: uuid.UUID, name: str, correlation_id: str | None, event_id: str, waits: list[NodePlan]
) -> tuple[str, StepState | None]:
    """Give an event to the first step that waits for it, inside the caller's act; return what became of it."""
    run = act.run
    act.unit.load([(run.id, node.id) for node in waits])
    told = {"event": name, "event_id": event_id, "correlation_id": correlation_id, "inbox_id": str(inbox_id)}
    steps = [(node, run.steps[node.id]) for node in waits]
    held = [(node, step) for node, step in steps if step.status == "hold" and step.cause == "external"]
    waiting = [(node, step) for node, step in held if not _passed(run, step.not_before)]
    stopping = run.ended or run.cancel_requested or _passed(run, run.deadline)
    if not stopping:
        for node, step in waiting:
            if _correlates(act, node, correlation_id):
                act.move(step, "waiting", by="engine", type="EVENT_RECEIVED", cause="granted", payload=told)
                act.move(step, "queued", by="engine")
                handled(act.unit.tx, inbox_id, DELIVERED, step.id)
                return DELIVERED, step
        if any(step.status in ("waiting", "hold") and (node, step) not in held for node, step in steps):
            return KEPT, None
    result = UNMATCHED if waiting and not stopping else LATE
    note(run, f"EVENT_{result.upper()}", actor=act.label, payload=told)
    handled(act.unit.tx, inbox_id, result)
    return result, None


def _passed(run: RunState, at: datetime | None) -> bool:
    return at is not None and run.now is not None and at <= run.now


def _correlates(act: Act, node: NodePlan, correlation_id: str | None) -> bool:
    """Say whether an event's correlation id is the one that the node declared over input and outputs."""
    if node.correlation is None:
        return True
    try:
        wanted = node.correlation.evaluate(run_context(act.unit, act.run, node.correlation.node_refs))
    except InvalidExpression:
        return False
    return isinstance(wanted, str) and wanted == correlation_id
