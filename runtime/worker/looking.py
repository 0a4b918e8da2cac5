"""Looking at a call's target before its intent is written: in which version it is now (C5.6)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import QuarterdeckError
from runtime.tools.calls import CallRequest, CallResult, call, prepare
from runtime.tools.present import present_of
from runtime.tools.redact import redact
from runtime.worker.execute import Prepared, failed, perform, seconds_left, try_again
from runtime.worker.work import UNREAD, Report

_LOOK_SECONDS = 5.0  # an effect waits to be recorded meanwhile


def first_call(prepared: Prepared) -> Prepared | None:
    """Return the call that is made before any intent: a reading one itself, or the look at a writing one's target."""
    if not prepared.tool.contract.writes:
        return prepared
    return None if prepared.reader is None else replace(prepared, tool=prepared.reader)


def look(prepared: Prepared, lease_ok: Callable[[], bool], most_s: float = math.inf) -> Prepared | Report:
    """Read the present version of the call's target, in this thread, before its intent is written. Never raises.

    What cannot be read is not sent: the step is tried again by its policy, or fails; nothing has left by then.
    """
    claimed, reader = prepared.claimed, prepared.reader
    present = present_of(prepared.tool.contract)
    assert reader is not None
    assert present is not None
    try:
        arguments = present.input.render({"arguments": prepared.arguments})
        prepared.looked_at = digest(canonical_bytes([reader.contract.reference, arguments])).hex()
        request = CallRequest(
            tool=reader.contract,
            arguments=arguments,
            arguments_bytes=prepare(reader.contract, arguments),
            tenant_id=str(claimed.tenant_id),
            run_id=str(claimed.run_id),
            step_id=str(claimed.step_id),
            attempt=claimed.attempt,
            deadline_monotonic=time.monotonic() + min(most_s, reader.contract.timeout_s, seconds_left(prepared)),
            cancel=prepared.cancel,
            lease_ok=lease_ok,
        )
        result = call(request)
        if result.kind == "ok":
            prepared.present = present.version_in(prepared.arguments, result.value)
            return prepared
        return _unread(prepared, result, reader.contract.reference)
    except QuarterdeckError as problem:
        result = CallResult(kind="not_sent", error_class="validation", message=redact(problem.detail))
    except Exception as problem:  # a poisoned answer is one that cannot be read, not the end of the worker's slot
        result = CallResult(kind="not_sent", error_class="internal", message=redact(repr(problem)))
    return _unread(prepared, result)


def carry_out(prepared: Prepared, lease_ok: Callable[[], bool]) -> Report:
    """Make the call in this thread and report; never raises. Where people may have permitted several, look once more.

    The version that an applied effect left behind is what the next call on the same word may find.
    """
    report = perform(prepared, lease_ok)
    report.looked_by = None if prepared.reader is None else prepared.reader.contract.reference
    applied = report.outcome == "succeeded" and report.operation_status == "succeeded"
    if applied and prepared.reader is not None and prepared.claimed.plan.asks:
        looked = look(replace(prepared, present=None), lease_ok, _LOOK_SECONDS)
        if isinstance(looked, Prepared) and looked.present is not None:
            report.left = {"looked_at": looked.looked_at, "version": looked.present}
    return report


def _unread(prepared: Prepared, result: CallResult, asked: str | None = None) -> Report:
    claimed = prepared.claimed
    if prepared.cancel.is_set():
        return Report(claimed, "killed")
    if result.code == "lease_lost":
        return Report(claimed, "given_back", cause="given_back")
    message = f"The target's version cannot be read: {result.message}"
    report = failed(claimed, result.error_class or "network", message, code=UNREAD, sent=False)
    report.looked_by = asked
    try_again(prepared, replace(result, kind="not_sent"), report)
    return report
