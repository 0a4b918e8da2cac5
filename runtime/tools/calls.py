"""One tool call: a request in, a result out, nothing written anywhere (C3.2, B4.1, B4.4).

``call`` never raises. What happened outside is told by ``CallResult.kind``:

========== ==================================================================================================
``ok``       the tool answered, the answer is valid, and shows what the contract asks for as evidence of success
``error``    a call without effect failed; ``error_class`` says how
``refused``  a writing call was refused by the tool: nothing was applied
``absent``   a writing call surely was not applied: it never reached the tool, or the tool turned it away (429)
``unknown``  a writing call was sent and it is open whether it was applied; it must be queried, never sent blindly
``not_sent`` a check before the call said no, or the lease or the permission to start was gone: nothing left here
========== ==================================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from runtime.kernel.errors import TRANSIENT_CLASSES, BadInput, QuarterdeckError
from runtime.tools.contract_schema import ERROR_CLASSES, FINAL_CLASSES
from runtime.tools.errors import Refused, ToolError
from runtime.tools.outcome import (
    Answer,
    CallRequest,
    CallResult,
    Failed,
    NotSent,
    check_before_send,
    classify,
)
from runtime.tools.proof import NOT_PROVED, why_not_proved
from runtime.tools.redact import redact
from runtime.tools.validation import check_output, prepare


def call(request: CallRequest) -> CallResult:
    """Check, send, read and check again. Returns within the deadline plus the kill grace; never raises."""
    return _told(request, None)


def replay(request: CallRequest, recorded: Callable[[CallRequest], Answer]) -> CallResult:
    """Read a recorded answer as ``call`` reads a live one; ``recorded`` stands in the adapter's place. Never raises."""
    return _told(request, recorded)


def _told(request: CallRequest, recorded: Callable[[CallRequest], Answer] | None) -> CallResult:
    started = time.monotonic()
    try:
        result = _call(request, started, recorded)
    except Exception as error:  # the worker's slot must survive whatever a tool does
        result = _internal(request, error)
    return replace(result, duration=time.monotonic() - started)


def _call(request: CallRequest, started: float, recorded: Callable[[CallRequest], Answer] | None) -> CallResult:
    contract = request.tool
    try:
        if request.deadline_monotonic is None:
            request = replace(request, deadline_monotonic=started + contract.timeout_s)
        if request.arguments_bytes is None:
            request = replace(request, arguments_bytes=prepare(contract, request.arguments))
        check_before_send(request)
        answer = (recorded or _adapter(contract.adapter))(request)
    except BadInput as error:
        return CallResult(kind="not_sent", error_class="validation", code=error.code, message=_describe(error))
    except NotSent as error:
        return CallResult(kind="not_sent", error_class=error.error_class, code=error.code, message=redact(str(error)))
    except Failed as failure:
        return classify(contract, failure)
    return _checked(request, answer)


def _checked(request: CallRequest, answer: Answer) -> CallResult:
    contract = request.tool
    reference = redact(answer.external_ref, 500) if answer.external_ref is not None else None
    try:
        value_bytes = check_output(contract, answer.value)
    except BadInput as error:
        oversize = error.http_status == 413
        # The tool did something; only its answer cannot be used. For a write that is an open question.
        failure = Failed("oversize" if oversize else "protocol", _describe(error), sent=True, code=error.code)
        return replace(classify(contract, failure), external_ref=reference)
    if (why := _not_proved(request, answer, reference)) is not None:
        # Something answered; that the effect is there is a question for the query, or for a person.
        failure = Failed("protocol", why, sent=True, code=NOT_PROVED)
        return replace(classify(contract, failure), external_ref=reference)
    return CallResult(kind="ok", value=answer.value, value_bytes=value_bytes, external_ref=reference, sent=True)


def _not_proved(request: CallRequest, answer: Answer, reference: str | None) -> str | None:
    if request.tool.success_evidence is None:
        return None
    operation = {
        "id": request.operation_id,
        "business_key": request.business_key,
        "external_ref": reference,
        "epoch": request.epoch,
    }
    context = {"answer": answer.value, "arguments": request.arguments, "operation": operation}
    return why_not_proved(request.tool, "answer", context)


def _internal(request: CallRequest, error: Exception) -> CallResult:
    kind = "unknown" if request.tool.writes else "error"
    message = redact(f"{type(error).__name__}: {error}")
    return CallResult(kind=kind, error_class="internal", code="adapter_error", message=message, sent=True)


def _describe(error: QuarterdeckError) -> str:
    return redact(f"{error.where}: {error.detail}" if error.where else error.detail)


def _adapter(name: str) -> Callable[[CallRequest], Answer]:
    """Import the adapter when it is first needed: the client libraries take most of a second to load."""
    found = _ADAPTERS.get(name)
    if found is None:
        found = _ADAPTERS[name] = import_module(f"runtime.tools.adapters.{name}").send
    return found


_ADAPTERS: dict[str, Callable[[CallRequest], Answer]] = {}

__all__ = [
    "ERROR_CLASSES",
    "FINAL_CLASSES",
    "TRANSIENT_CLASSES",
    "CallRequest",
    "CallResult",
    "Refused",
    "ToolError",
    "call",
    "prepare",
    "replay",
]
