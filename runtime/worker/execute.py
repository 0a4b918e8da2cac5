"""Running a claimed step, as a pipeline of named stages: context → arguments → intent → call → report.

Nothing here writes a status. Reading stages never raise: what goes wrong becomes a report, so that a poisoned
payload fails its own step alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import psycopg

from runtime.graph.context import expression_context
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError, Unavailable
from runtime.machine.rows import UNDO_KINDS
from runtime.tools.calls import FINAL_CLASSES, CallRequest, CallResult, call, prepare
from runtime.tools.present import present_of
from runtime.tools.redact import redact
from runtime.tools.registry import RegisteredTool
from runtime.tools.retry import may_retry, next_delay
from runtime.tools.showing import NOBODY, Showing
from runtime.worker.permits import refused_by_budget, refused_by_policy, refused_by_scope, waits_for_signature
from runtime.worker.work import Claimed, Report

_rng = random.Random()
_CHECK_SECONDS, _CHECK_MOST_SECONDS = 0.5, 60.0
LAST_YEAR = 9998  # the API takes times up to its end; Python reads no row with one after 9999


@dataclass(slots=True)
class Prepared:
    """A tool call that passed every check before the call (C3.2) and waits for its intent or its slot."""

    claimed: Claimed
    tool: RegisteredTool
    arguments: dict[str, Any]
    arguments_bytes: bytes
    input_sha256: bytes
    context: dict[str, Any]
    cancel: threading.Event = field(default_factory=threading.Event)
    before_edit: tuple[dict[str, Any], bytes, bytes] | None = None
    # Where the contract says how to look at the target: the tool that is asked, what of it (by hash), and the version
    # that it told.
    reader: RegisteredTool | None = None
    looked_at: str | None = None
    present: str | None = None
    showing: Showing = NOBODY  # where the call tells how far it is, from its begin on

    def send_instead(self, arguments: bytes) -> None:
        """Send these canonical bytes: a person edited the call, and they were checked and approved (C5.4)."""
        self.before_edit = (self.arguments, self.arguments_bytes, self.input_sha256)
        self.arguments, self.arguments_bytes = orjson.loads(arguments), arguments
        self.input_sha256 = digest(arguments)

    def as_prepared(self) -> None:
        """Take the edit back: a call whose intent is tried again is known by what the workflow itself would send."""
        if self.before_edit is not None:
            self.arguments, self.arguments_bytes, self.input_sha256 = self.before_edit
            self.before_edit = None


def context_of(claimed: Claimed) -> dict[str, Any]:
    """Return what expressions may read: input, nodes, run, task."""
    task = claimed.task
    assert task is not None
    return expression_context(
        run_id=claimed.run_id,
        task_id=task.id,
        value=task.value(),
        name=task.name,
        goal=task.goal,
        data_time=task.data_time,
        created_by=task.created_by,
        nodes=claimed.upstream,
    )


def failed(claimed: Claimed, error_class: str, message: str, **more: Any) -> Report:
    """Return a final failure."""
    return Report(claimed, "failed", error={"class": error_class, "message": message, **more})


def begin(claimed: Claimed, tool_of: Callable[[str], RegisteredTool]) -> Report | Prepared:
    """Run a control node at once, or prepare a tool call. Raises only what says that the database is away."""
    if claimed.gone:
        # What is missing is not taken for nothing, and the step is not skipped (C4.4).
        names = ", ".join(claimed.gone[:5])
        error = {"class": "internal", "code": "payload_gone", "message": f"The stored output of {names} is gone."}
        return Report(claimed, "parked", error=error)
    if claimed.poisoned is not None:
        message = f"The stored output of {claimed.poisoned} cannot be read."
        return failed(claimed, "validation", message, code="poisoned_payload")
    try:
        kind = claimed.node.kind
        if kind in ("tool", "verifier"):
            return _prepare(claimed, tool_of)
        if kind in UNDO_KINDS:
            return _prepare_undo(claimed, tool_of)
        if kind == "switch":
            return _switch(claimed)
        if kind == "wait":
            return _wait(claimed)
        if kind == "input":
            return _answered(claimed)
        return _done(claimed, {"approved": True})
    except (Unavailable, psycopg.OperationalError, psycopg.InterfaceError):
        raise  # the tool's contract could not be read: that is not the step's fault
    except QuarterdeckError as problem:
        known = {"code": problem.code, "where": problem.where}
        return failed(claimed, "validation", redact(problem.detail), **{k: v for k, v in known.items() if v})
    except Exception as problem:  # a poisoned payload must not take the worker's other steps along
        return failed(claimed, "internal", redact(f"{type(problem).__name__}: {problem}"))


def _done(claimed: Claimed, value: Any, **more: Any) -> Report:
    output = canonical_bytes(value)
    return Report(claimed, "succeeded", output=output, output_sha256=digest(output), **more)


def _answered(claimed: Claimed) -> Report:
    """A person's answer is the step's output, as it was checked and stored with their name (A7.1)."""
    offer = claimed.offer
    if offer is None:
        return failed(claimed, "internal", "The answer to this input is not there.")
    return Report(claimed, "succeeded", output=offer.output, output_sha256=offer.output_sha256)


def _switch(claimed: Claimed) -> Report:
    targets = list(claimed.node.choose(context_of(claimed)))
    return _done(claimed, {"to": targets}, choice=targets)


def _wait(claimed: Claimed) -> Report:
    if claimed.node.event is not None:
        return _done(claimed, claimed.signal or {"event": claimed.node.event, "payload": None}, kind="external_fact")
    until = claimed.node.wait_until
    if until is not None:
        at = _time(until.evaluate(context_of(claimed)))
        if at is None:
            return failed(claimed, "validation", "`until` does not give a time in RFC 3339.", where="/until")
        if at > claimed.now:
            return Report(claimed, "yielded", cause="timer", not_before=at)
    return _done(claimed, {"waited": True})


def _time(text: Any) -> datetime | None:
    """Return an RFC 3339 time in UTC, None when it is none or lies beyond what can be read back from the database."""
    try:
        at = datetime.fromisoformat(text)
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if at.year <= LAST_YEAR else None


def _prepare(claimed: Claimed, tool_of: Callable[[str], RegisteredTool]) -> Report | Prepared:
    node = claimed.node
    tool = tool_of(node.tool or "")
    if (refusal := _not_allowed(claimed, tool)) is not None:
        return refusal
    template = node.input
    context = context_of(claimed) if _reads_context(claimed, tool) else {}
    arguments = template.render(context) if template is not None else {}
    data = prepare(tool.contract, arguments)
    if tool.contract.writes:
        claimed.business_key = _business_key(claimed, context)
    input_sha256, offer = digest(data), claimed.offer
    if offer is not None and offer.input_sha256 == input_sha256 and node.kind == "tool" and not tool.contract.writes:
        report = Report(claimed, "succeeded", output=offer.output, output_sha256=offer.output_sha256)
        report.input_sha256, report.adopted_from = input_sha256, offer.run_id
        return report
    if (spent := refused_by_budget(claimed)) is not None:
        return spent
    prepared = Prepared(claimed, tool, arguments, data, input_sha256, context)
    if (present := present_of(tool.contract)) is not None:
        prepared.reader = tool_of(present.tool)
        if prepared.reader.contract.writes:
            detail = f"{present.tool} has an effect: it cannot read the target's version."
            return failed(claimed, "policy", detail, code="unfit_tool")
        if (closed := refused_by_policy(claimed.policy, prepared.reader.contract)) is not None:
            return failed(claimed, "policy", closed[1], code=closed[0], sent=False)
        return waits_for_signature(claimed, prepared.reader) or prepared
    return prepared


def _prepare_undo(claimed: Claimed, tool_of: Callable[[str], RegisteredTool]) -> Report | Prepared:
    """Prepare the call that undoes an effect, or that asks for the business fact afterwards (C4.5)."""
    node, undo = claimed.node, claimed.undo
    assert undo is not None
    if claimed.deadline is not None and claimed.deadline <= claimed.now:
        return failed(claimed, "timeout", "The effect was not undone in time.", code="deadline")
    tool = tool_of(node.tool or "")
    checks = node.kind == "compensation_check"
    if tool.contract.writes is checks:
        detail = f"{tool.contract.reference} {'has' if checks else 'has no'} effect: it cannot stand here."
        return failed(claimed, "policy", detail, code="unfit_tool")
    if (refusal := _not_allowed(claimed, tool)) is not None:
        return refusal
    context = {**context_of(claimed), "operation": undo.value()}
    arguments = (
        node.input.render(context) if node.input is not None else {} if checks else context["operation"]["arguments"]
    )
    data = prepare(tool.contract, arguments)
    if not checks:
        claimed.business_key = undo.business_key
    return Prepared(claimed, tool, arguments, data, digest(data), context)


def _not_allowed(claimed: Claimed, tool: RegisteredTool) -> Report | None:
    """Refuse a tool that the tenant's policy or the task's scope leaves out; what these hold is not told (C3.2).

    One whose samples are not signed waits for that (C8.8).
    """
    contract = tool.contract
    refusal = refused_by_policy(claimed.policy, contract)
    if refusal is None and claimed.task is not None and claimed.undo is None:
        refusal = refused_by_scope(claimed.task.scope, contract)
    if refusal is None:
        return waits_for_signature(claimed, tool)
    return failed(claimed, "policy", refusal[1], code=refusal[0], sent=False)


def _reads_context(claimed: Claimed, tool: RegisteredTool) -> bool:
    template = claimed.node.input
    computed = template is not None and template.part is not None
    return computed or tool.contract.writes or claimed.node.kind == "verifier"


def _business_key(claimed: Claimed, context: dict[str, Any]) -> str:
    """Return the key of the intent: declared, or the task's node; without run, attempt or version (engine.md 14)."""
    declared = claimed.node.business_key
    if declared is None:
        assert claimed.task is not None
        return f"task:{claimed.task.id}:{claimed.node.id}"
    key = declared.evaluate(context)
    text = key if isinstance(key, str) else canonical_bytes(key).decode()
    if not 0 < len(text) <= 500 or "\x00" in text:
        raise QuarterdeckError("A business key has 1 to 500 characters and no NUL.", where="/business_key")
    return text


def perform(prepared: Prepared, lease_ok: Callable[[], bool]) -> Report:
    """Make the call in this thread and report. Never raises."""
    began = time.monotonic()
    try:
        result = call(_request(prepared, lease_ok))
    except (Exception, SystemExit) as problem:  # an adapter's fault must not lose the step and its slot
        kind = "unknown" if prepared.tool.contract.writes else "error"
        took, message = time.monotonic() - began, redact(repr(problem))  # by its time it counts as a call
        result = CallResult(kind=kind, error_class="internal", code="adapter_error", message=message, duration=took)
    try:
        return _report(prepared, result)
    except Exception as problem:
        return _judged_late(prepared, result, problem)


def _request(prepared: Prepared, lease_ok: Callable[[], bool]) -> CallRequest:
    claimed = prepared.claimed
    return CallRequest(
        tool=prepared.tool.contract,
        arguments=prepared.arguments,
        arguments_bytes=prepared.arguments_bytes,
        operation_id=str(claimed.operation_id) if claimed.operation_id else None,
        business_key=claimed.business_key,
        epoch=claimed.owner_epoch,
        tenant_id=str(claimed.tenant_id),
        run_id=str(claimed.run_id),
        step_id=str(claimed.step_id),
        attempt=claimed.attempt,
        deadline_monotonic=time.monotonic() + seconds_left(prepared),
        cancel=prepared.cancel,
        lease_ok=lease_ok,
        showing=prepared.showing,
    )


def seconds_left(prepared: Prepared) -> float:
    """Return how long a call may take now: its own limit, within the run's deadline."""
    claimed = prepared.claimed
    limit = claimed.node.timeout_s or prepared.tool.contract.timeout_s
    if claimed.deadline is not None:
        # The deadline duty ends the run and cancels the call; this is for a worker that it does not reach.
        left = (claimed.deadline - claimed.now).total_seconds() + 2 * conf().poll_seconds
        limit = min(limit, max(0.0, left))
    return limit


def _judged_late(prepared: Prepared, result: CallResult, problem: Exception) -> Report:
    """A call ended but its report could not be made (a criterion that does not evaluate): the effect still counts."""
    report = failed(prepared.claimed, "validation", redact(f"{type(problem).__name__}: {problem}"))
    report.input_sha256, report.seconds = prepared.input_sha256, result.duration
    report.operation_status = result.operation_status if prepared.tool.contract.writes else None
    return report


def _report(prepared: Prepared, result: CallResult) -> Report:
    claimed, contract = prepared.claimed, prepared.tool.contract
    report = Report(claimed, "succeeded", input_sha256=prepared.input_sha256, seconds=result.duration)
    report.external_ref = result.external_ref
    if contract.writes:
        report.operation_status, report.kind = result.operation_status, "external_fact"
    if result.kind == "ok":
        report.output = result.value_bytes
        report.output_sha256 = digest(result.value_bytes or b"")
        if claimed.node.kind == "verifier":
            _judge(prepared, report, result.value)
        if claimed.node.kind == "compensation_check" and not _undone(prepared, result.value):
            return _ask_again(prepared, report, "The business fact does not show yet that the effect is undone.")
        return report
    report.error = {"class": result.error_class, "message": result.message}
    if result.code:
        report.error["code"] = result.code
    if result.kind == "unknown":
        report.outcome = "unknown"
        return report
    if result.kind == "not_sent":
        report.error["sent"] = False
    if prepared.cancel.is_set():
        report.outcome = "killed"
        return report
    if result.code == "lease_lost":
        # It never left this process, and that says nothing about the step: whoever holds a lease makes the call.
        report.outcome = report.cause = "given_back"
        return report
    if claimed.node.kind == "compensation_check" and result.error_class not in FINAL_CLASSES:
        return _ask_again(prepared, report, result.message)
    report.outcome = "failed"
    try_again(prepared, result, report)
    return report


def try_again(prepared: Prepared, result: CallResult, report: Report) -> None:
    """Schedule another try when policy, contract and the run's deadline leave room for one (B4.1, B4.2)."""
    claimed, contract = prepared.claimed, prepared.tool.contract
    policy = _policy(claimed, prepared)
    if not may_retry(
        policy,
        result.error_class,
        contract.side_effect,
        contract.recovery,
        claimed.tries,
        kind=result.kind,
        idempotency=contract.idempotency,
    ):
        return
    delay = next_delay(policy, claimed.tries, _rng, result.retry_after)
    at = claimed.now + timedelta(seconds=delay + result.duration)
    if claimed.deadline is not None and at >= claimed.deadline:
        report.error = {**(report.error or {}), "retry": "The run's deadline comes before the next try."}
        return
    report.outcome, report.cause, report.not_before = "retry", "retry_scheduled", at


def _undone(prepared: Prepared, output: Any) -> bool:
    criterion = prepared.claimed.node.criterion
    return criterion is not None and criterion.evaluate({**prepared.context, "output": output}) is True


def _ask_again(prepared: Prepared, report: Report, why: str) -> Report:
    """Let a check be made again later, until the order's deadline: other systems show what they did after a while."""
    claimed = prepared.claimed
    error_class = (report.error or {}).get("class") or "business"
    report.output = report.output_sha256 = None
    report.error = {"class": error_class, "code": "not_verified", "message": why}
    delay = min(_CHECK_MOST_SECONDS, _CHECK_SECONDS * 2.0 ** min(claimed.attempt - 1, 10))
    report.not_before = claimed.now + timedelta(seconds=delay + report.seconds)
    over = claimed.deadline is not None and report.not_before >= claimed.deadline
    report.outcome = "failed" if over else "retry"
    report.cause = None if over else "retry_scheduled"
    if over:
        report.not_before = None
    return report


def _policy(claimed: Claimed, prepared: Prepared) -> dict[str, Any]:
    """Return the tool's retry policy, refined by the workflow's node and then by the task."""
    task = claimed.task.retry if claimed.task is not None and claimed.undo is None else {}
    return {**prepared.tool.contract.retry, **claimed.node.retry, **task}


def _judge(prepared: Prepared, report: Report, output: Any) -> None:
    """Let a verifier node decide by its criterion over the observed output (A2.5)."""
    node = prepared.claimed.node
    assert node.criterion is not None
    held = node.criterion.evaluate({**prepared.context, "output": output})
    report.verdict = {
        "verifier": node.verifier,
        "verdict": "achieved" if held is True else "not_achieved",
        "criterion": node.criterion.text,
        "source": prepared.tool.contract.reference,
    }
