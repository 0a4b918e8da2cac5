"""Calls of Python functions: in the caller's thread, in a helper thread with a time limit, or in a child process."""

from __future__ import annotations

import threading
import time
from typing import Any

from runtime.tools.adapters.process import run_in_child
from runtime.tools.errors import ToolError
from runtime.tools.functions import CallContext, Function, ToolNotInstalled, load
from runtime.tools.outcome import Answer, CallRequest, Failed, NotSent, check_before_send, tool_failure
from runtime.tools.redact import redact

_SLICE_S = 0.1
_GRACE_S = 1.0


def send(request: CallRequest) -> Answer:
    """Call the function of the contract. Raises Failed or NotSent; see ``runtime.tools.calls``."""
    contract = request.tool
    if contract.runs == "process":
        return run_in_child(request)
    try:
        function = load(contract.config)
    except ToolNotInstalled as error:
        raise NotSent("internal", "tool_not_installed", str(error)) from error
    check_before_send(request)
    if contract.runs == "inline":
        return Answer(_invoke(request, function, request.cancel))
    return Answer(_in_thread(request, function))


def replay(request: CallRequest, function: Function) -> Answer:
    """Call a function that plays a recorded answer as the contract's own would be called in the caller's thread."""
    check_before_send(request)
    return Answer(_invoke(request, function, request.cancel))


def _invoke(request: CallRequest, function: Function, cancel: threading.Event) -> Any:
    try:
        return function.invoke(request.arguments, lambda: context_of(request, cancel))
    except ToolError as error:
        raise tool_failure(request.tool, error) from error
    except (Exception, SystemExit) as error:
        # A bug inside the tool: where it stopped is not known, so a write stays open unless the contract says more.
        failure = ToolError(redact(f"{type(error).__name__}: {error}"), error_class="internal", code="tool_raised")
        raise tool_failure(request.tool, failure) from error


def context_of(request: CallRequest, cancel: threading.Event) -> CallContext:
    """Return what the function may know about its call."""
    return CallContext(
        operation_id=request.operation_id,
        business_key=request.business_key,
        epoch=request.epoch,
        tenant_id=request.tenant_id,
        run_id=request.run_id,
        step_id=request.step_id,
        attempt=request.attempt,
        deadline=request.deadline_monotonic or time.monotonic() + request.tool.timeout_s,
        cancel=cancel,
        showing=request.showing,
    )


class _Box:
    """Where the helper thread leaves what came of it."""

    __slots__ = ("done", "error", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None


def _in_thread(request: CallRequest, function: Function) -> Any:
    """Run in a daemon thread, so that a function that never returns costs one thread and not the slot.

    A thread cannot be killed: at the deadline it is told through ``context.cancel``, given a moment, and left behind.
    """
    box, cancel = _Box(), threading.Event()

    def body() -> None:
        try:
            box.value = _invoke(request, function, cancel)
        except BaseException as error:
            box.error = error
        finally:
            box.done.set()

    threading.Thread(target=body, name=f"tool {request.tool.reference}", daemon=True).start()
    reason = wait_for(request, box.done.wait)
    if reason is not None:
        cancel.set()
        if not box.done.wait(_GRACE_S):
            raise Failed(reason, f"The tool did not end in time ({reason}).", sent=True)
    if isinstance(box.error, Failed):
        if reason == "timeout" and box.error.error_class == "cancelled":  # it stopped because its time was over
            box.error.error_class = "timeout"
        raise box.error
    if box.error is not None:
        raise Failed("internal", f"{type(box.error).__name__}: {box.error}", sent=True)
    return box.value


def wait_for(request: CallRequest, wait: Any) -> str | None:
    """Wait until ``wait(seconds)`` is true; return "cancelled" or "timeout" when that comes first, else None."""
    deadline = request.deadline_monotonic or time.monotonic() + request.tool.timeout_s
    while True:
        remaining = deadline - time.monotonic()
        if wait(max(0.0, min(_SLICE_S, remaining))):
            return None
        if request.cancel.is_set():
            return "cancelled"
        if remaining <= 0:
            return "timeout"
