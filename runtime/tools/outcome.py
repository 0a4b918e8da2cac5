"""What goes into a tool call and what may come out of it, and the rules that sort failures (B4.1, B4.4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runtime.kernel.errors import TRANSIENT_CLASSES
from runtime.tools.contract import ToolContract
from runtime.tools.errors import ToolError
from runtime.tools.redact import redact
from runtime.tools.showing import NOBODY, Showing

# ``sent`` is committed before the call, so a call that was stopped at the last look leaves the operation absent.
OPERATION_STATUS = {
    "ok": "succeeded",
    "refused": "refused",
    "absent": "absent",
    "unknown": "unknown",
    "not_sent": "absent",
}


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """Everything a call needs. ``arguments_bytes`` are the canonical bytes that were hashed and agreed to.

    ``deadline_monotonic`` is on the clock of ``time.monotonic()``; None means the contract's timeout from now.
    ``lease_ok`` is asked immediately before the send; ``cancel`` is set by whoever wants the call to end early;
    ``showing`` takes what the call tells of itself while it runs.
    """

    tool: ToolContract
    arguments: dict[str, Any]
    arguments_bytes: bytes | None = None
    operation_id: str | None = None
    business_key: str | None = None
    epoch: int = 0
    tenant_id: str = ""
    run_id: str = ""
    step_id: str = ""
    attempt: int = 1
    deadline_monotonic: float | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    lease_ok: Callable[[], bool] = _always
    showing: Showing = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of a call. ``message`` is redacted and bounded; ``value_bytes`` are the canonical bytes of ``value``.

    ``sent`` says whether anything may have left this process; ``duration`` and ``retry_after`` are seconds.
    """

    kind: str
    value: Any = None
    value_bytes: bytes | None = None
    error_class: str | None = None
    code: str | None = None
    message: str = ""
    retry_after: float | None = None
    external_ref: str | None = None
    sent: bool = False
    duration: float = 0.0

    @property
    def transient(self) -> bool:
        """True when the same request may do better later (B4.1); whether it may be sent again is another question."""
        return self.error_class in TRANSIENT_CLASSES

    @property
    def operation_status(self) -> str | None:
        """The operation's status after a *writing* call; None for a call without effect."""
        return OPERATION_STATUS.get(self.kind)


class NotSent(Exception):
    """Raised by an adapter when a check immediately before the send said no. Nothing left the process."""

    def __init__(self, error_class: str, code: str, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.code = code


class Failed(Exception):
    """Raised by an adapter when a call went wrong.

    ``applied`` is False when the effect surely did not happen, None when that is open. ``sent`` is False only when
    nothing can have reached the tool.
    """

    def __init__(
        self,
        error_class: str,
        message: str = "",
        *,
        sent: bool,
        applied: bool | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.sent = sent
        self.applied = False if not sent else applied
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Answer:
    """What an adapter returns when the tool answered: a JSON value and the tool's own reference of what it did."""

    value: Any
    external_ref: str | None = None


def check_before_send(request: CallRequest) -> None:
    """The last look before something leaves the process: cancel, deadline, lease (engine.md 4). Raises NotSent."""
    if request.cancel.is_set():
        raise NotSent("cancelled", "cancelled", "The call was cancelled before it was sent.")
    if request.deadline_monotonic is not None and time.monotonic() >= request.deadline_monotonic:
        raise NotSent("timeout", "deadline", "The deadline passed before the call was sent.")
    if not request.lease_ok():
        # Lease loss is one of the passing classes of B4.1: whoever claims the step next may make the call.
        raise NotSent("network", "lease_lost", "This worker's lease is no longer certain; nothing was sent.")


def classify(contract: ToolContract, failure: Failed) -> CallResult:
    """Turn a failure into a result by the rules of B4.1 and B4.4.

    A call without effect is an ``error``. A writing call that surely was not applied is ``refused`` when the reason is
    final and ``absent`` when it may pass; anything else is ``unknown``.
    """
    if not contract.writes:
        kind = "error"
    elif failure.applied is False:
        kind = "refused" if failure.sent and failure.error_class not in TRANSIENT_CLASSES else "absent"
    else:
        kind = "unknown"
    return CallResult(
        kind=kind,
        error_class=failure.error_class,
        code=failure.code,
        message=redact(str(failure)),
        retry_after=failure.retry_after,
        sent=failure.sent,
    )


def tool_failure(contract: ToolContract, error: ToolError) -> Failed:
    """Read a tool's own report of an error: its ``applied`` first, then the contract's ``on_error``."""
    applied = error.applied
    if applied is None and contract.on_error == "refused":
        applied = False
    return Failed(
        error.error_class,
        str(error),
        sent=True,
        applied=applied,
        code=error.code,
        retry_after=error.retry_after,
    )
