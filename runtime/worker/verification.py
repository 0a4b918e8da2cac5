"""What follows from a finding: an operation is settled by compare-and-set, and its step with it (C3.6, C4.4).

Found: succeeded, and the step has its result. Found in part or as another effect: a person. Surely absent: sent again
by itself only as ``engine.md`` 13 allows, else a person. Not certain yet: asked again, for a bounded time. Kept back by
a stop, a breaker or a limit: looked at again later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from runtime.actions.base import WORK_CHANNEL
from runtime.graph.plans import plan_of
from runtime.graph.propagate import attention, go_on, propagate, settle
from runtime.kernel.canonical import digest
from runtime.kernel.conf import conf
from runtime.machine.apply import move_step, note
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.operations import OperationState, move_operation, write_operations
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx, tenant_tx
from runtime.tools.contract import ToolContract
from runtime.tools.query import Finding, Question
from runtime.worker.checkpoints import checkpoint_row, store_large
from runtime.worker.doubts import hand_over
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS

_FIRST_SECONDS, _MOST_SECONDS, _JITTER = 1.0, 300.0, 0.2
_HELD_SECONDS, _HELD_MOST_SECONDS = 2.0, 10.0
# The tenant's policy leaves the query out: nothing but a person's change makes it go.
_CLOSED = frozenset({"data_region", "scope"})
_rng = random.Random()


@dataclass(slots=True)
class _Case:
    """One operation under lock, with what was asked about it and the step that waits for it (None: no step does)."""

    frame: Frame
    run: RunState
    step: StepState | None
    operation: OperationState
    question: Question
    finding: Finding
    queries: int
    next_query_at: datetime | None = None
    checkpoint: tuple[Any, ...] | None = None

    @property
    def waits(self) -> bool:
        step = self.step
        return step is not None and step.status == "unknown" and (step.undoes or not self.run.ended)


def settle_finding(question: Question, finding: Finding) -> str:
    """Write what a finding means; return the operation's status after it.

    An operation that is settled by now, or was sent again meanwhile, is left alone.
    """
    with tenant_tx(question.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        case, before = _read(tx, question, finding)
        if case is None:
            return before[0]
        operation = case.operation
        _tell(case, before[1])
        if operation.status == "unknown" or finding.kind == "held":
            _SETTLE[finding.kind](case)
        propagate(case.frame.runs, _ended(case), case.frame.load)
        write_operations(tx, [operation] if operation.version != operation.read_version else [])
        settle(case.frame)
        if finding.kind == "held":
            tx.send("hold_query", (case.next_query_at, operation.id))
        else:
            tx.send("note_query", (finding.kind, finding.kind != "unreachable", case.next_query_at, operation.id))
        row = store_large(case.frame, [case.checkpoint])[0] if case.checkpoint is not None else None
        also = partial(_write_checkpoint, row=row, now=tx.now()) if row is not None else None
        case.frame.flush(also)
        if any(run.woke for run in case.frame.runs.values()):
            tx.notify(WORK_CHANNEL)
        return operation.status


def _read(tx: Tx, question: Question, finding: Finding) -> tuple[_Case | None, tuple[str, str | None]]:
    """Lock run, step and operation. Returns no case for one that is settled or was sent again since it was asked."""
    place = tx.one("operation_place", (question.operation_id,))
    if place is None:
        return None, ("gone", None)
    run_id, node, key, queries, last = place
    frame = Frame(tx, plan_of)
    run = frame.run(run_id)
    frame.load([(run_id, node)])
    [row] = tx.rows("operations_by_key", (tx.tenant_id, [key]))
    operation = OperationState(*row)
    same = (operation.run_id, operation.sent_at) == (run_id, question.sent_at)
    if not same or operation.status not in ("unknown", "needs_human"):
        return None, (operation.status, last)
    step = run.steps.get(node)
    mine = step is not None and step.id == operation.step_id
    return _Case(frame, run, step if mine else None, operation, question, finding, queries), (operation.status, last)


def _write_checkpoint(tx: Tx, *, row: tuple[Any, ...], now: datetime) -> None:
    tx.send("insert_checkpoints", (tx.tenant_id, now, *arrays("utiuiiulsxxxuu", [row])))


def _ended(case: _Case) -> list[tuple[RunState, StepState]]:
    return [(case.run, case.step)] if case.step is not None and case.step.ended and case.step.dirty else []


def _tell(case: _Case, last: str | None) -> None:
    """Append what was asked and found; an answer that says what the last one said, and decides nothing, is counted."""
    finding = case.finding
    payload = {"operation_id": str(case.operation.id), "business_key": case.operation.business_key}
    if finding.kind == "held":
        if last != "held":
            note(case.run, "QUERY_HELD", case.step, payload={**payload, **finding.facts()}, cause="operation")
        return
    if finding.kind == last and finding.kind in ("unreachable", "in_progress", "not_found") and not finding.proves:
        return
    asked = {**payload, **finding.facts(), "queries": case.queries + 1}
    sha256 = finding.answer_sha256
    note(case.run, "OPERATION_QUERIED", case.step, payload=asked, cause="operation", output_sha256=sha256)


def _applied(case: _Case) -> None:
    """The effect is there: record it, and give the step that waits for it its result."""
    run, step, operation, finding = case.run, case.step, case.operation, case.finding
    operation.external_ref = finding.external_ref or operation.external_ref
    if finding.result is not None:
        operation.response, operation.response_sha256 = finding.result, digest(finding.result)
    move_operation(run, step, operation, "succeeded", by="reconciler", reason="found at the tool")
    if not case.waits or step is None:
        if run.cancel_requested or run.ended:
            why = "The execution was cancelled or had ended; the effect outside was applied all the same."
            need_case(run, "late_success", why, step=step, operation=operation, facts=finding.facts())
        return
    if finding.result is None:
        _ask_person(case, "operation_unknown", f"Operation {operation.business_key}: {finding.message}")
        return
    seq = move_step(
        run,
        step,
        "succeeded",
        by="reconciler",
        cause="reconciled",
        input_sha256=bytes(operation.payload_sha256),
        output_sha256=operation.response_sha256,
    )
    case.checkpoint = checkpoint_row(
        case.frame,
        run,
        step,
        seq=seq,
        attempt=operation.attempt,
        owner_epoch=step.owner_epoch,
        kind="external_fact",
        input_sha256=bytes(operation.payload_sha256),
        output=operation.response,
        output_sha256=operation.response_sha256,
    )


def _partial(case: _Case) -> None:
    operation = case.operation
    operation.external_ref = case.finding.external_ref or operation.external_ref
    move_operation(case.run, case.step, operation, "partially_applied", by="reconciler", reason="found in part")
    _ask_person(case, "partially_applied", f"Operation {operation.business_key} was applied in part.")


def _conflicts(case: _Case) -> None:
    _needs_human(case, f"Operation {case.operation.business_key}: {case.finding.message}", kind="operation_conflicts")


def _not_found(case: _Case) -> None:
    """Absent, if that is certain; then sent again if it may be. Else asked again, or given to a person."""
    run, step, operation, finding = case.run, case.step, case.operation, case.finding
    key = operation.business_key
    if not finding.proves:
        if finding.decisive_at is None and "consistent_after_s" in (case.question.tool.lookup or {}):
            _needs_human(case, f"Operation {key}: its tool no longer keeps the key, so not found says nothing.")
        else:
            _again(case, not_before=finding.decisive_at)
        return
    over = case.question.over_at is not None
    if not case.waits or step is None:
        if over:
            _absent(case)
        else:
            _again(case)  # nobody waits for it, but a process that may still live could send it yet
    elif may_resend(case.question.tool, operation, over=over):
        _absent(case)
        move_step(run, step, "waiting", by="reconciler", cause="reconciled", reason="absence was proved")
        go_on(run, step)
    else:
        why = "its contract allows no further send" if over else "its tool cannot tell a second send"
        _needs_human(case, f"Operation {key}: the tool knows nothing of it, and {why}.")


def _absent(case: _Case) -> None:
    error = {
        "class": "network",
        "code": "absence_proved",
        "message": "The tool was asked and knows nothing of it.",
        "resend": True,
    }
    move_operation(case.run, case.step, case.operation, "absent", by="reconciler", error=error, reason="not found")


def may_resend(tool: ToolContract, operation: OperationState, *, over: bool) -> bool:
    """Say whether an operation that is proved absent is sent again by itself (engine.md 13).

    Only if the tool tells a second send by key or epoch, or the first call surely is over (``over``); never for a tool
    that only a person may repeat, and not more often than its retry policy allows.
    """
    if tool.recovery == "human" or operation.sends >= int(tool.retry.get("max_attempts", 1)):
        return False
    return over or tool.idempotency != "none"


def _in_progress(case: _Case) -> None:
    _again(case)


def _unreachable(case: _Case) -> None:
    if case.finding.code in ("no_query", "query_writes") or case.finding.code in _CLOSED:
        _needs_human(case, f"Operation {case.operation.business_key}: {case.finding.message}")
    else:
        _again(case)


def _kept_back(case: _Case) -> None:
    if case.operation.status == "unknown" and _is_overdue(case.question, case.finding):
        _needs_human(case, f"Operation {case.operation.business_key}: {case.finding.message}")
    else:
        case.next_query_at = _look_again_at(case.question, case.finding)


def _is_overdue(question: Question, finding: Finding) -> bool:
    """A stop is a person's word and holds as long as it stands; what else keeps a question back is given up with it."""
    since = question.sent_at or question.intended_at
    return finding.code != "stopped" and question.clock() - since > timedelta(seconds=conf().query_give_up_seconds)


def put_off(question: Question, finding: Finding) -> bool:
    """Look again later at a question that is kept back as it was the last time, and return whether that is so.

    Takes no run's lock and tells nothing.
    """
    if finding.kind != "held" or question.finding != "held" or _is_overdue(question, finding):
        return False
    with tenant_tx(question.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        tx.send("hold_query", (_look_again_at(question, finding), question.operation_id))
    return True


def _look_again_at(question: Question, finding: Finding) -> datetime:
    """Return when a question that is kept back is looked at again: what ends a stop brings it forward.

    What waits long is looked at rarely, so that many of them leave room for what can be asked.
    """
    now = question.clock()
    age = (now - (question.sent_at or question.intended_at)).total_seconds()
    most = _MOST_SECONDS if finding.code == "stopped" else _HELD_MOST_SECONDS
    at = now + timedelta(seconds=min(most, max(_HELD_SECONDS, age / 10)) * (1.0 + _rng.uniform(0.0, _JITTER)))
    return min(at, finding.decisive_at) if finding.decisive_at is not None else at


def _again(case: _Case, *, not_before: datetime | None = None) -> None:
    """Ask again later: d0·2^k with jitter, not before an answer can decide; a person when it has taken too long."""
    now, operation = case.run.now, case.operation
    assert now is not None
    since = operation.sent_at or operation.intended_at
    if now - since > timedelta(seconds=conf().query_give_up_seconds):
        minutes = round((now - since).total_seconds() / 60)
        _needs_human(case, f"Operation {operation.business_key}: {case.finding.kind} for {minutes} minutes.")
        return
    delay = min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(case.queries, 20))
    at = now + timedelta(seconds=delay * (1.0 + _rng.uniform(0.0, _JITTER)))
    if not_before is not None and not_before > now:
        at = max(not_before, now + timedelta(seconds=_FIRST_SECONDS / 10))
    case.next_query_at = at


def _needs_human(case: _Case, evidence: str, *, kind: str = "operation_unknown") -> None:
    move_operation(case.run, case.step, case.operation, "needs_human", by="reconciler", reason=evidence[:500])
    _ask_person(case, kind, evidence)


def _ask_person(case: _Case, kind: str, evidence: str) -> None:
    run, operation = case.run, case.operation
    if kind == "operation_unknown":
        hand_over(run, operation, evidence, step=case.step, owner=case.question.tool.owner)
        return
    need_case(run, kind, evidence, step=case.step, operation=operation, facts=case.finding.facts())
    if run.attention is None and not run.ended:
        attention(run, evidence, case.question.tool.owner)


_SETTLE = {
    "applied": _applied,
    "partial": _partial,
    "conflicts": _conflicts,
    "not_found": _not_found,
    "in_progress": _in_progress,
    "unreachable": _unreachable,
    "held": _kept_back,
}
