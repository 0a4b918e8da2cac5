"""Completion: results, checkpoints, events, successors and the run's own status in one transaction, set-based.

A batch that fails is cut in halves, so that a poison step fails alone (engine.md 2). A report of an owner that is no
longer one changes nothing and leaves a STALE_SUBMIT event (invariant 2).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import psycopg
import structlog

from runtime.actions.judging import own_the_doubt
from runtime.graph.plans import plan_of
from runtime.graph.propagate import go_on, park, propagate, settle
from runtime.kernel.errors import Unavailable
from runtime.machine.apply import move_step, note
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.operations import OperationState, move_operation, write_operations
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import RETRYABLE, Tx, is_away, retrying, tenant_tx
from runtime.worker.checkpoints import checkpoint_row, store_large
from runtime.worker.circuits import tell_circuits
from runtime.worker.gates import Gates, note_parked, park_steps
from runtime.worker.onward import Onward
from runtime.worker.outcomes import record_verdict
from runtime.worker.retries import refuse_exhausted
from runtime.worker.work import Claimed, Report

log = structlog.get_logger(__name__)

_AGAIN = ("retry", "yielded", "given_back", "parked")


class Completed(NamedTuple):
    """How many steps became ready for anybody, those started for this worker, and what parked steps may go on.

    ``freed``: by limit, breaker, run or state, how many.
    """

    ready: int
    taken: list[Claimed]
    freed: dict[uuid.UUID, int]


def complete(tenant_id: uuid.UUID, reports: Sequence[Report], onward: Onward | None = None) -> Completed:
    """Write the reports; with ``onward`` start what becomes ready, as far as that has room.

    Raises Unavailable when the database is away, and psycopg's error when others hold the rows all the time; the
    reports are then still to be written, all of them or some (mark them ``resent``).
    """
    try:
        return retrying(lambda: _write(tenant_id, reports, onward))
    except Unavailable:
        raise
    except RETRYABLE as problem:
        if len(reports) == 1:
            raise
        return _halves(tenant_id, reports, problem)
    except Exception as problem:  # whatever it is, it must not take the other reports along
        if is_away(problem):
            raise
        return _halves(tenant_id, reports, problem)


def _halves(tenant_id: uuid.UUID, reports: Sequence[Report], problem: Exception) -> Completed:
    if len(reports) > 1:
        middle = len(reports) // 2
        parts = [complete(tenant_id, reports[:middle]), complete(tenant_id, reports[middle:])]
        return Completed(sum(part.ready for part in parts), [], {**parts[0].freed, **parts[1].freed})
    report = reports[0]
    log.error("report refused", step=str(report.claimed.step_id), problem=repr(problem)[:500])
    bare = Report(report.claimed, "failed", operation_status=report.operation_status, external_ref=report.external_ref)
    bare.error = {"class": "internal", "code": "report_refused", "message": f"{type(problem).__name__}"}
    if (report.error or {}).get("sent") is not False:
        bare.seconds = report.seconds  # by these a call counts as made
    try:
        return _write(tenant_id, [bare], None)
    except Exception as worse:
        if isinstance(worse, (Unavailable, *RETRYABLE)) or is_away(worse):
            raise
        # Nothing can be written of it now. The step is then one that its worker does not know, and is given back so.
        log.exception("report dropped", step=str(report.claimed.step_id))
        return Completed(0, [], {})


def _write(tenant_id: uuid.UUID, reports: Sequence[Report], onward: Onward | None) -> Completed:
    with tenant_tx(tenant_id, deferred=True) as tx:
        frame = Frame(tx, plan_of)
        pairs = {(r.claimed.run_id, r.claimed.node.id) for r in reports}
        for r in reports:
            if r.outcome not in ("retry", "unknown", "yielded", "given_back", "parked"):
                pairs.update((r.claimed.run_id, target) for target, _edge in r.claimed.node.successors)
        bounds: list[psycopg.Cursor] = []

        def ask(tx: Tx) -> None:
            bounds.append(tx.send("gates"))
            if onward is not None:
                onward.ask(tx)

        frame.lock_with_steps({r.claimed.run_id for r in reports}, pairs, ask)
        gates = Gates(bounds[0].fetchall(), tx)
        operations = _operations(tx, reports)
        refuse_exhausted(tx, reports)
        batch = _Batch(frame, operations)
        for report in reports:
            batch.apply(report)
        propagate(frame.runs, batch.ended, frame.load)
        if onward is not None:
            onward.take(frame, gates)
        # Before the runs are settled: what is to be undone is read from the ledger.
        write_operations(tx, [o for o in operations.values() if o.version != o.read_version])
        settle(frame)
        batch.checkpoints = store_large(frame, batch.checkpoints)
        taken = onward.taken if onward is not None else []

        def also(tx: Tx) -> None:
            batch.write(tx)
            if onward is not None and taken:
                onward.write(tx)

        freed = gates.freed(frame.runs.values())
        frame.flush(also)
        park_steps(tx, batch.gated)
        freed.update(tell_circuits(tx, gates, batch.told))
        if onward is not None and taken:
            onward.read(tx)
        return Completed(sum(run.woke for run in frame.runs.values()) - len(taken), taken, freed)


def _operations(tx: Tx, reports: Sequence[Report]) -> dict[uuid.UUID, OperationState]:
    keys = sorted({r.claimed.business_key or "" for r in reports if r.claimed.operation_id is not None})
    if not keys:
        return {}
    found = (OperationState(*row) for row in tx.rows("operations_by_key", (tx.tenant_id, keys)))
    return {operation.id: operation for operation in found}


class _Batch:
    """Applies reports to the frame and gathers the rows that go with them."""

    def __init__(self, frame: Frame, operations: dict[uuid.UUID, OperationState]) -> None:
        self.frame, self.operations = frame, operations
        self.ended: list[tuple[RunState, StepState]] = []
        self.attempts: list[tuple[Any, ...]] = []
        self.checkpoints: list[tuple[Any, ...]] = []
        self.gated: list[tuple[uuid.UUID, uuid.UUID]] = []
        self.told: list[Report] = []
        self.now: Any = None

    def apply(self, report: Report) -> None:
        """Move one step by its report, or record that the report came from an owner that is no longer one."""
        claimed = report.claimed
        run = self.frame.runs.get(claimed.run_id)
        if run is None:
            return
        self.now = run.now
        step = run.steps.get(claimed.node.id)
        current = step is not None and step.id == claimed.step_id
        if report.resent and _is_written(step, claimed):
            return
        self._settle_operation(run, step if current else None, report)
        self.told.append(report)
        if step is None or not current or step.status != "running" or step.owner_epoch != claimed.owner_epoch:
            self._stale(run, step if current else None, report)
            return
        stopped = run.cancel_requested and not step.undoes and report.outcome in _AGAIN
        getattr(self, "_killed" if stopped else f"_{report.outcome}")(run, step, report)
        self.attempts.append(
            (
                run.id, step.id, claimed.attempt, report.outcome, _json(report.error), report.input_sha256,
                report.output_sha256, _json(_resources(report)),
            )
        )  # fmt: skip

    def _stale(self, run: RunState, step: StepState | None, report: Report) -> None:
        claimed = report.claimed
        payload = {
            "step_id": str(claimed.step_id),
            "node": claimed.node.id,
            "outcome": report.outcome,
            "submitted_epoch": claimed.owner_epoch,
            "attempt": claimed.attempt,
            "operation_status": report.operation_status,
            "external_ref": report.external_ref,
        }
        note(run, "STALE_SUBMIT", step, payload=payload, output_sha256=report.output_sha256)

    def _settle_operation(self, run: RunState, step: StepState | None, report: Report) -> None:
        """What the call told about the effect is recorded even when the step is no longer this owner's."""
        if report.operation_status is None or report.claimed.operation_id is None:
            return
        claimed, operation = report.claimed, self.operations.get(report.claimed.operation_id)
        if operation is not None and operation.status == "unknown" and operation.next_query_at is not None:
            self.frame.tx.send("query_soon", ([operation.id],))  # what a late owner tells is a reason to look again
        if operation is None or operation.status != "sent":
            return
        if not operation.sent_by(claimed.step_id, claimed.attempt, claimed.owner_epoch):
            return
        operation.external_ref = report.external_ref
        if report.operation_status == "succeeded":
            operation.response, operation.response_sha256 = report.output, report.output_sha256
        move_operation(run, step, operation, report.operation_status, by="owner", error=report.error)
        if report.operation_status == "unknown":
            own_the_doubt(self.frame.tx, run, operation, f"receipt unknown on {claimed.node.tool or ''}")
        elif (run.cancel_requested or run.ended) and report.operation_status in ("succeeded", "partially_applied"):
            why = "The execution was cancelled or had ended; the effect outside was applied all the same."
            need_case(run, "late_success", why, step=step, operation=operation)

    def _succeeded(self, run: RunState, step: StepState, report: Report) -> None:
        step.choice = report.choice
        payload: dict[str, Any] = {} if report.choice is None else {"choice": report.choice}
        if report.adopted_from is not None:
            payload["adopted_from"] = str(report.adopted_from)
        seq = move_step(
            run,
            step,
            "succeeded",
            by="owner",
            payload=payload or None,
            input_sha256=report.input_sha256,
            output_sha256=report.output_sha256,
        )
        self.ended.append((run, step))
        if report.verdict is not None:
            record_verdict(self.frame.tx, run, step, report)
        self.checkpoints.append(
            checkpoint_row(
                self.frame,
                run,
                step,
                seq=seq,
                attempt=step.attempt,
                owner_epoch=step.owner_epoch,
                kind=report.kind,
                input_sha256=report.input_sha256,
                output=report.output,
                output_sha256=report.output_sha256,
                adopted_from=report.adopted_from,
            )
        )

    def _failed(self, run: RunState, step: StepState, report: Report) -> None:
        move_step(run, step, "failed", by="owner", error=report.error, input_sha256=report.input_sha256)
        self.ended.append((run, step))

    def _killed(self, run: RunState, step: StepState, report: Report) -> None:
        cause = "cancelled" if run.cancel_requested and not step.undoes else None
        move_step(run, step, "killed", by="owner", cause=cause, error=report.error)
        self.ended.append((run, step))

    def _unknown(self, run: RunState, step: StepState, report: Report) -> None:
        move_step(run, step, "unknown", by="owner", cause="receipt_unknown", error=report.error, fence=True)
        if run.cancel_requested and not step.undoes:
            # Execution is cancelled, the external action is to be verified: its operation stays open.
            move_step(run, step, "killed", by="cancel", cause="cancelled", error=report.error)
            self.ended.append((run, step))

    def _retry(self, run: RunState, step: StepState, report: Report) -> None:
        self._wait(run, step, report, "RETRY_SCHEDULED")

    def _yielded(self, run: RunState, step: StepState, report: Report) -> None:
        self._wait(run, step, report, "STEP_YIELDED")
        if report.cause == "approval":
            step.present = report.present
            move_step(run, step, "hold", by="engine", cause="approval", type="APPROVAL_REQUIRED")

    def _given_back(self, run: RunState, step: StepState, report: Report) -> None:
        self._wait(run, step, report, "STEP_GIVEN_BACK")
        if report.waits_for is not None and step.status == "waiting":
            go_on(run, step, reason="it goes on when its turn comes")
            if step.claimable:
                step.claimable = False
                run.woke -= 1
                self.gated.append((step.id, report.waits_for))
                note_parked(run, step, {"kind": "state", "name": ""})

    def _parked(self, run: RunState, step: StepState, report: Report) -> None:
        move_step(run, step, "waiting", by="owner", type="STEP_YIELDED", cause="yielded")
        park(run, step, str((report.error or {}).get("message", "")))

    def _wait(self, run: RunState, step: StepState, report: Report, type: str) -> None:
        move_step(
            run,
            step,
            "waiting",
            by="owner",
            type=type,
            cause=report.cause or report.outcome,
            not_before=report.not_before or (None if report.cause == "approval" else run.now),
            error=report.error,
        )
        if step.hold_requested and report.cause != "approval":
            step.hold_requested = False
            move_step(run, step, "hold", by="engine", cause="pause")

    def write(self, tx: Tx) -> None:
        """Send the attempts' ends and the checkpoints; the artifacts they refer to are written already."""
        if self.attempts:
            tx.send("finish_attempts", (self.now, *arrays("uuistxxt", self.attempts)))
        if self.checkpoints:
            tx.send("insert_checkpoints", (tx.tenant_id, self.now, *arrays("utiuiiulsxxxuu", self.checkpoints)))


def _is_written(step: StepState | None, claimed: Claimed) -> bool:
    """Whether this owner's report is there already: whoever else ends an attempt takes a new epoch."""
    if step is None or step.id != claimed.step_id or step.status == "running":
        return False
    return (step.attempt, step.owner_epoch) == (claimed.attempt, claimed.owner_epoch)


def _resources(report: Report) -> dict[str, Any] | None:
    """Return what is kept of a call beside its outcome: how long it took, in which version it left its target."""
    found: dict[str, Any] = {"seconds": round(report.seconds, 6)} if report.seconds else {}
    if report.left is not None:
        found["target"] = report.left
    return found or None


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
