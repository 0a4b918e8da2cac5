"""Intent before effect: the operation row goes ``intended → sent`` and is committed before any writing call (C3.3).

All writing steps of one claim share one transaction: it asks the gates, takes or finds the row of each business key,
and says for every step whether it may call, has its answer already, or must not go on.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from runtime.graph.plans import plan_of
from runtime.kernel import seams
from runtime.kernel.ids import uuid7
from runtime.machine.apply import touch
from runtime.machine.frame import Frame
from runtime.machine.operations import OPEN, OperationState, move_operation, note_intent, write_operations
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx, tenant_tx
from runtime.worker import stops
from runtime.worker.budgets import within_effects
from runtime.worker.execute import Prepared, failed
from runtime.worker.gates import serial_of
from runtime.worker.work import Report

_IN_PROGRESS_SECONDS, _IN_PROGRESS_MOST_SECONDS = 2.0, 60.0


def intend(tenant_id: uuid.UUID, prepared: list[Prepared]) -> tuple[list[Prepared], list[Report]]:
    """Commit the intents of writing steps. Returns those that may call now, and reports for all others.

    May be called again with the same steps when it raised: nobody knows then whether it was committed.
    """
    for item in prepared:
        item.as_prepared()
    calls: list[Prepared] = []
    reports: list[Report] = []
    with tenant_tx(tenant_id) as tx:
        frame = Frame(tx, plan_of)
        frame.lock({p.claimed.run_id for p in prepared})
        frame.load({(p.claimed.run_id, p.claimed.node.id) for p in prepared})
        willing: list[Prepared] = []
        for item in prepared:
            refusal = _may_start(frame, item)
            if refusal is None:
                willing.append(item)
            else:
                reports.append(refusal)
        # Nobody is asked to agree to what the budget refuses anyway.
        going, answers = _let_through(tx, within_effects(tx, willing, reports, together=False), reports)
        # By the arguments that are sent: a person may have edited the call, and so the state that it writes.
        going = within_effects(tx, _one_writer(frame, going, reports), reports)
        fresh, rows = _take_rows(frame, going)
        moved: list[OperationState] = []
        for item in going:
            operation = rows[item.claimed.business_key or ""]
            report = _decide(frame, item, operation, fresh)
            if report is None:
                calls.append(item)
                if operation.version != operation.read_version:
                    moved.append(operation)
            else:
                reports.append(report)
        write_operations(tx, moved)
        frame.flush()
        if granted := [(item, answers[item.claimed.step_id]) for item in calls if item.claimed.step_id in answers]:
            seams.tell_sent(tx, granted)
    return calls, reports


def _may_start(frame: Frame, item: Prepared) -> Report | None:
    """Nothing new starts in a run that is cancelled, paused or past its deadline (invariant 6)."""
    run, step = _subject(frame, item)
    if step.id != item.claimed.step_id or step.owner_epoch != item.claimed.owner_epoch or step.status != "running":
        return Report(item.claimed, "killed")  # complete() finds it stale and records that
    # What undoes an effect has a deadline of its own, and neither a pause nor a cancel keeps it back.
    deadline, whose = (item.claimed.deadline, "order's") if step.undoes else (run.deadline, "run's")
    if deadline is not None and run.now is not None and deadline <= run.now:
        return failed(
            item.claimed, "timeout", f"The {whose} deadline passed before the call was sent.", code="deadline"
        )
    if not run.dispatchable and not step.undoes:
        return Report(item.claimed, "given_back", cause="given_back")
    return None


def _one_writer(frame: Frame, willing: list[Prepared], reports: list[Report]) -> list[Prepared]:
    """Let one step at a time write a state (C2.7); the others are parked until it is theirs.

    A state stays its writer's while the outcome is unknown, also past the writer's end.
    """
    states = {p.claimed.step_id: s for p in willing if (s := p.tool.contract.state(p.arguments)) is not None}
    if not states:
        return willing
    tenant_id = willing[0].claimed.tenant_id
    wanted = {step_id: serial_of(tenant_id, state) for step_id, state in states.items()}
    ids = arrays("u", [(one,) for one in sorted(set(wanted.values()))])
    frame.tx.send("lock_serials", ids)
    busy = {row[0] for row in frame.tx.rows("busy_serials", {"ids": ids[0]})}
    going, won = [], set()
    for item in willing:
        serial = wanted.get(item.claimed.step_id)
        run, step = _subject(frame, item)
        if serial is None or step.serial == serial:
            going.append(item)
        elif serial in busy:
            reports.append(Report(item.claimed, "given_back", cause="given_back", waits_for=serial))
        else:
            busy.add(serial)
            won.add(serial)
            step.serial = serial
            touch(run, step)
            going.append(item)
    if won:
        frame.tx.send("forget_serials", arrays("u", [(one,) for one in sorted(won)]))
    return going


def _let_through(
    tx: Tx, willing: list[Prepared], reports: list[Report]
) -> tuple[list[Prepared], dict[uuid.UUID, seams.GateAnswer]]:
    """Ask for emergency stops and the gates; return who may go on, and the answers that said more than yes."""
    going: list[Prepared] = []
    answers: dict[uuid.UUID, seams.GateAnswer] = {}
    if not willing:
        return going, answers
    standing = stops.own(tx)
    free = []
    for item in willing:
        stop = stops.first(standing, item)
        if stop is None:
            free.append(item)
        else:
            reports.append(stops.held_back(item, stop))
    for item, answer in zip(free, seams.ask_gates("operation", tx, free), strict=True):
        if answer.verdict == "deny":
            detail = answer.reason or "Policy denies this operation."
            reports.append(failed(item.claimed, "policy", detail, code="denied"))
        elif answer.verdict == "park":
            error = {"class": "policy", "code": "parked", "message": answer.reason}
            reports.append(Report(item.claimed, "parked", error=error))
        elif answer.verdict == "hold":
            reports.append(Report(item.claimed, "yielded", cause="approval", present=item.present))
        else:
            if (edited := answer.details.get("arguments")) is not None:
                item.send_instead(edited)
            going.append(item)
            if answer.details:
                answers[item.claimed.step_id] = answer
    return going, answers


def _subject(frame: Frame, item: Prepared) -> tuple[RunState, StepState]:
    run = frame.runs[item.claimed.run_id]
    return run, run.steps[item.claimed.node.id]


def _take_rows(frame: Frame, going: list[Prepared]) -> tuple[set[uuid.UUID], dict[str, OperationState]]:
    """Insert a row per business key where there is none, then lock and return the rows of all keys."""
    if not going:
        return set(), {}
    tx = frame.tx
    drafts = []
    for item in sorted(going, key=lambda p: p.claimed.business_key or ""):
        run, step = _subject(frame, item)
        drafts.append(
            (
                uuid7(), item.claimed.business_key, item.arguments_bytes, item.input_sha256, item.tool.id,
                item.tool.contract.recovery, run.id, step.id, step.execution_version, step.attempt, step.owner_epoch,
                item.claimed.task.created_by if item.claimed.task else "engine",
            )
        )  # fmt: skip
    now = next(iter(frame.runs.values())).now
    inserted = {row[0] for row in tx.rows("insert_operations", (tx.tenant_id, now, *arrays("utxxusuuiiit", drafts)))}
    keys = [draft[1] for draft in drafts]
    found = [OperationState(*row) for row in tx.rows("operations_by_key", (tx.tenant_id, keys))]
    return inserted, {operation.business_key: operation for operation in found}


def _decide(frame: Frame, item: Prepared, operation: OperationState, fresh: set[uuid.UUID]) -> Report | None:
    """Return None when the call may be made now (the row is then ``sent``), else the step's report."""
    run, step = _subject(frame, item)
    claimed = item.claimed
    if operation.id in fresh:
        fresh.discard(operation.id)  # a second step of this batch with the same key finds it in progress
        note_intent(run, step, operation)
    elif bytes(operation.payload_sha256) != item.input_sha256:
        return failed(
            claimed,
            "business",
            f"Business key {operation.business_key!r} was used before with other arguments.",
            code="operation_conflict",
            operation_id=str(operation.id),
        )
    elif operation.status == "sent" and operation.sent_by(step.id, step.attempt, step.owner_epoch):
        # Our intent was committed, only nobody confirmed it to us (the database went away): nothing was called yet.
        claimed.operation_id = operation.id
        return None
    elif operation.status == "absent" and _may_resend(item, operation):
        operation.run_id, operation.step_id = run.id, step.id
        operation.execution_version, operation.attempt = step.execution_version, step.attempt
        operation.owner_epoch = step.owner_epoch
    else:
        return _held_answer(item, operation)
    claimed.operation_id = operation.id
    move_operation(run, step, operation, "sent", by="owner")
    return None


def _may_resend(item: Prepared, operation: OperationState) -> bool:
    """A key that is proved absent is sent again by the tool's contract, or after a person's rerun (engine.md 13).

    So is one that its owner itself, alive and with a valid report, never let out of its process.
    """
    contract = item.tool.contract
    error = operation.error or {}
    if error.get("sent") is False or error.get("resend"):
        return True
    if contract.idempotency != "none" or contract.recovery in ("idempotent", "query"):
        return True
    return item.claimed.execution_version > operation.execution_version


def _held_answer(item: Prepared, operation: OperationState) -> Report:
    """Same key, same payload: the answer of the row (C3.3)."""
    claimed = item.claimed
    if operation.status == "compensated":
        detail = f"What {operation.business_key!r} did was undone; a new intent needs a key of its own."
        return failed(claimed, "business", detail, code="compensated", operation_id=str(operation.id))
    if operation.response is None and operation.response_sha256 is not None:
        # Past its retention the answer is gone and the fact stays: a key is never sent as a new one (C3.6).
        message = "The answer under this business key is past its retention; nothing is sent again."
        return failed(claimed, "business", message, code="operation_expired", operation_id=str(operation.id))
    if operation.status == "succeeded":
        report = Report(claimed, "succeeded", output=operation.response, output_sha256=operation.response_sha256)
        report.kind, report.external_ref = "external_fact", operation.external_ref
        report.input_sha256 = item.input_sha256
        return report
    if operation.status in OPEN:
        later = claimed.now + timedelta(seconds=_seconds_to_wait(claimed.attempt))
        return Report(claimed, "yielded", cause="yielded", not_before=later)
    error = operation.error or {"class": "business", "message": f"The operation is {operation.status}."}
    return failed(claimed, **{**_named(error), "operation_id": str(operation.id), "operation": operation.status})


def _seconds_to_wait(attempt: int) -> float:
    """Return how long to wait before looking again at an operation in progress.

    A look is an attempt, and their number is a small one: whoever waits for a person's decision looks ever more rarely,
    so that years go by before the number is used up.
    """
    most = _IN_PROGRESS_MOST_SECONDS * max(1.0, attempt / 200)
    return min(_IN_PROGRESS_SECONDS * 1.5 ** min(attempt - 1, 40), most)


def _named(error: dict[str, str]) -> dict[str, str]:
    return {
        "error_class": error.get("class") or "business",
        "message": error.get("message") or "",
        **({"code": error["code"]} if error.get("code") else {}),
    }
