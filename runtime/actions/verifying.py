"""Looking at an effect again: a person asks now, or the tool reports late (A6.3, C3.6). Neither moves a status."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.callback import is_callback_token, parse_attempt_id
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import AskedTooSoon, Conflict, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.machine.apply import note
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import Tx

UNSETTLED = ("unknown", "needs_human")
ASK_AGAIN_SECONDS = 10.0
# So far back in the run's ledger an earlier request is looked for; more events than that within the pause are rare.
_RECENT_EVENTS = 1000
_queryable: dict[uuid.UUID, bool] = {}


def can_be_asked(tx: Tx, operation: OperationState) -> bool:
    """Say whether the contract of the operation's tool names a query."""
    if operation.recovery == "query":
        return True
    found = _queryable.get(operation.tool_version_id)
    if found is None:
        row = tx.one("tool_version_contract", (operation.tool_version_id,))
        found = row is not None and json.loads(bytes(row[0])).get("query") is not None
        if len(_queryable) > 10_000:
            _queryable.clear()
        _queryable[operation.tool_version_id] = found
    return found


def ask_now(*, actor: Actor, operation_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Let the reconciler ask the tool about an operation at once; what it finds is in the run's events.

    Returns {operation_id, status, asked}. Raises NotFound, PermissionDenied, Conflict (it is settled, or its tool names
    no query), AskedTooSoon (within 10 s of the last time, or before the reconciler has come to it). Verb
    ``operation.query``.
    """
    text = check_reason(reason)
    authorize(actor, v.OPERATION_QUERY)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            run, step, operation = _operation(unit, operation_id)
            if operation.status not in UNSETTLED:
                raise Conflict(
                    f"The operation is {operation.status}: there is nothing to ask.",
                    remediation="Only an operation that is unknown or needs a person is asked about.",
                    run_id=run.id,
                    current_status=operation.status,
                )
            if not can_be_asked(unit.tx, operation):
                raise Conflict(
                    "The contract of its tool names no query.",
                    remediation="Look at the other side by hand and settle it in its repair case.",
                    run_id=run.id,
                )
            _check_pause(unit.tx, run, operation)
            payload = {"operation_id": str(operation.id), "business_key": operation.business_key}
            note(run, "QUERY_REQUESTED", step, actor=actor.label, reason=text, payload=payload, cause="operation")
            unit.flush()
            unit.tx.send("query_soon", ([operation.id],))
            audit.record(
                unit.tx,
                actor=actor,
                verb=v.OPERATION_QUERY,
                subject_kind="operation",
                subject_id=str(operation.id),
                run_id=run.id,
                result="asked",
                reason=text,
                details={"business_key": operation.business_key},
            )
            return {"operation_id": str(operation.id), "status": operation.status, "asked": True}

    return insist(once)


def _check_pause(tx: Tx, run: RunState, operation: OperationState) -> None:
    """Raise AskedTooSoon: a person who clicks again and again must not become a load on the other side."""
    wanted = {"id": operation.id, "run": run.id, "pause": ASK_AGAIN_SECONDS, "seq": run.seq - _RECENT_EVENTS}
    row = tx.one("query_pause", wanted)
    left = row[0] if row is not None else None
    if left is not None and left > 0:
        text = "The tool was asked about this operation a moment ago, or is about to be."
        raise AskedTooSoon(text, retry_after=round(left, 1), run_id=run.id)


def _operation(unit: Frame, operation_id: uuid.UUID) -> tuple[RunState, StepState | None, OperationState]:
    place = unit.tx.one("operation_place", (operation_id,))
    if place is None:
        raise NotFound("There is no operation of that id in this tenant.")
    run_id, node, key = place[:3]
    run = unit.run(run_id)
    unit.load([(run_id, node)])
    [row] = unit.tx.rows("operations_by_key", (unit.tx.tenant_id, [key]))
    operation = OperationState(*row)
    step = run.steps.get(node)
    return run, step if step is not None and step.id == operation.step_id else None, operation


_MOST = 2**31 - 1
# What a report says, beside the token and the epoch that came with the call.
REPORT: dict[str, Any] = {
    "version": {"type": "integer", "minimum": 1, "maximum": _MOST, "description": "Counts the sender's reports."},
    "status": {"enum": ["in_progress", "succeeded", "partially_applied", "failed"]},
    "external_ref": {"anyOf": [{"type": "string", "maxLength": 500}, {"type": "null"}]},
    "result": {"description": "Any JSON; its hash is kept in the events, itself in the inbox."},
    "message": {"type": "string", "maxLength": 2000},
}


def leads_to(askable: bool) -> Literal["query", "case"]:
    """Return what a report on an unsettled effect leads to: it moves no status, whatever it says."""
    return "query" if askable else "case"


@dataclass(frozen=True, slots=True)
class Callback:
    """What a tool or worker reports of an attempt. ``version`` numbers the sender's own reports; the same number with
    the same content is the same report."""

    token: str
    epoch: int
    version: int
    status: str
    external_ref: str | None = None
    result: Any = None
    message: str = ""

    def content(self) -> bytes:
        """Return the canonical bytes that tell one report from another."""
        told = {"status": self.status, "external_ref": self.external_ref, "result": self.result, "epoch": self.epoch}
        return canonical_bytes({**told, "message": self.message})


def take_callback(*, actor: Actor, attempt_id: str, callback: Callback) -> dict[str, Any]:
    """Keep a report on an attempt, once, and let it feed the verification of the attempt's operation (A6.3).

    It moves no status: the owner's own answer does, or what the tool says when it is asked, which is at once when the
    operation is unknown. Returns {attempt_id, replayed, late, operation_status}. Raises NotFound, PermissionDenied
    (also for a token that is not this attempt's), Conflict (this version came with other content). Verb
    ``attempt.report``.
    """
    authorize(actor, v.ATTEMPT_REPORT)
    wanted = parse_attempt_id(attempt_id)
    if wanted is None:
        raise NotFound("There is no attempt of that id in this tenant.")

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            run, step = unit.step(wanted[0])
            row = unit.tx.one("attempt_epoch", (run.id, step.id, wanted[1]))
            if row is None:
                raise NotFound("There is no attempt of that id in this tenant.")
            if row[0] != callback.epoch or not is_callback_token(
                callback.token, actor.tenant_id, step.id, wanted[1], callback.epoch
            ):
                raise PermissionDenied(
                    "The token is not that of this attempt and epoch.", remediation="Send what came with the call."
                )
            if _known(unit.tx, attempt_id, callback):
                return {"attempt_id": attempt_id, "replayed": True, "late": True, "operation_status": None}
            return _take(unit, actor, run, step, attempt_id, wanted[1], callback)

    return insist(once)


def _known(tx: Tx, attempt_id: str, callback: Callback) -> bool:
    """Record the report in the inbox. Raises Conflict when this version was there with other content."""
    content = callback.content()
    key = (f"attempt:{attempt_id}", str(callback.version))
    if tx.one("inbox_callback", (uuid7(), tx.tenant_id, *key, content, digest(content))) is not None:
        return False
    held = tx.one("inbox_callback_sha256", (tx.tenant_id, *key))
    if held is None or bytes(held[0]) != digest(content):
        raise Conflict(
            f"Version {callback.version} of this attempt's report came before with other content.",
            remediation="Count the version up for a new report.",
        )
    return True


def _take(
    unit: Frame, actor: Actor, run: RunState, step: StepState, attempt_id: str, number: int, callback: Callback
) -> dict[str, Any]:
    late = step.status != "running" or (step.attempt, step.owner_epoch) != (number, callback.epoch)
    rows = unit.tx.rows("operations_of_steps", (unit.tx.tenant_id, [step.id]))
    operation = next((o for o in (OperationState(*r) for r in rows) if o.attempt == number), None)
    told = {
        "attempt": attempt_id,
        "version": callback.version,
        "epoch": callback.epoch,
        "status": callback.status,
        "external_ref": callback.external_ref,
        "late": late,
        "operation_id": str(operation.id) if operation is not None else None,
        "operation_status": operation.status if operation is not None else None,
    }
    sha256 = digest(canonical_bytes(callback.result)) if callback.result is not None else None
    note(
        run,
        "CALLBACK_RECEIVED",
        None if step.superseded else step,
        actor=actor.label,
        payload={name: value for name, value in told.items() if value is not None},
        cause="operation",
        output_sha256=sha256,
    )
    asked = False
    if operation is not None and operation.status in UNSETTLED:
        asked = can_be_asked(unit.tx, operation)
        if leads_to(asked) == "case":
            why = "The tool itself reports on an effect nobody was certain of."
            need_case(run, "operation_unknown", why, operation=operation, facts={"callback": told}, source="callback")
    unit.flush()
    if asked and operation is not None:
        unit.tx.send("query_soon", ([operation.id],))
    audit.record(
        unit.tx,
        actor=actor,
        verb=v.ATTEMPT_REPORT,
        subject_kind="step",
        subject_id=str(step.id),
        run_id=run.id,
        result="late" if late else "taken",
        details={"attempt": attempt_id, "version": callback.version, "status": callback.status},
    )
    status = operation.status if operation is not None else None
    return {"attempt_id": attempt_id, "replayed": False, "late": late, "operation_status": status}
