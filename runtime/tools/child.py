"""The program of a child process that runs one tool call: ``python -m runtime.tools.child PARENT_PID``.

It reads one request line, answers "ready", waits for "go", runs the function and answers one JSON line. Lines before
that begin with "progress": the function tells how far it is. It dies with its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

from runtime.tools.errors import ToolError
from runtime.tools.functions import CallContext, ToolNotInstalled, load
from runtime.tools.lifeline import die_with_parent
from runtime.tools.showing import Showing, Told

_LIMITS = {"cpu_s": "RLIMIT_CPU", "memory_bytes": "RLIMIT_AS", "open_files": "RLIMIT_NOFILE"}
_APART_S = 0.05
_AT_ONCE = 20  # reports at once; over time one each _APART_S, whatever they say


def main() -> int:
    """Serve one call; the exit status is 0 when an answer was written."""
    die_with_parent(int(sys.argv[1]))
    requests, answers = _private_pipes()
    line = requests.readline()
    if not line:
        return 1
    request: dict[str, Any] = json.loads(line)
    cancel = threading.Event()
    try:
        _limit(request["config"].get("limits", {}))
        function = load(request["config"])
    except (ToolNotInstalled, OSError, ValueError) as error:
        _write(answers, {"detail": str(error)})
        return 0
    if function.wants_context:  # a tool that can hear of a cancel gets the time to act on it
        _hear_cancel(cancel)
    answers.write(b"ready\n")
    if requests.readline() != b"go\n":
        return 1
    deadline = time.monotonic() + request["remaining_s"]
    showing = _Telling(answers)
    context = CallContext(**request["context"], deadline=deadline, cancel=cancel, showing=showing)
    reply = _run(function, request, context)
    showing.close()
    _write(answers, reply)
    return 0


class _Telling(Showing):
    """Tells the parent how far the function is, until it has ended; any of its threads may."""

    __slots__ = ("answers", "at", "kept", "left", "lock", "pid", "stage")

    def __init__(self, answers: BinaryIO) -> None:
        self.answers: BinaryIO | None = answers
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self.at, self.left, self.stage = time.monotonic() - 1.0, float(_AT_ONCE), ""
        self.kept: Told | None = None

    def put(self, told: Told) -> None:
        """Write one line; of many in a moment, those that begin a stage and the last unit's, as long as they are few.

        A process that the function forked says nothing: its lines would come between those of the answer.
        """
        if os.getpid() != self.pid:
            return
        now, stage = time.monotonic(), told.stage or ""
        with self.lock:
            self.kept = told
            since = now - self.at
            left = min(float(_AT_ONCE), self.left + since / _APART_S)
            telling = stage != self.stage or told.done == told.total
            if self.answers is None or left < 1.0 or (since < _APART_S and not telling):
                return
            self.at, self.left, self.stage = now, left - 1.0, stage
            self._tell()

    def _tell(self) -> None:
        if self.answers is not None and self.kept is not None:
            line = f"progress {json.dumps(list(self.kept))}\n".encode()
            self.kept = None
            with contextlib.suppress(OSError):  # the parent has left
                _write_all(self.answers, line)

    def refuse(self, why: str) -> None:
        """Leave a word where the parent looks when the call goes wrong."""
        print(why, file=sys.stderr)

    def close(self) -> None:
        """Say what was kept back, and nothing more: the next line is the answer."""
        with self.lock:
            self._tell()
            self.answers = None


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the two pipes away from stdin and stdout, so that a tool that prints cannot garble the answer."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    return requests, answers


def _hear_cancel(cancel: threading.Event) -> None:
    """Set ``cancel`` at SIGTERM, from a thread: a handler that took the event's lock could block its own waiter."""
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)

    def wait() -> None:
        while os.read(heard, 1) != bytes([signal.SIGTERM]):
            pass
        cancel.set()

    threading.Thread(target=wait, daemon=True).start()


def _limit(limits: dict[str, int]) -> None:
    if not limits:
        return
    import resource

    for name, value in limits.items():
        resource.setrlimit(getattr(resource, _LIMITS[name]), (value, value))


def _run(function: Any, request: dict[str, Any], context: CallContext) -> dict[str, Any]:
    try:
        value = function.invoke(request["arguments"], lambda: context)
    except ToolError as error:
        return {
            "error_class": error.error_class,
            "message": str(error),
            "code": error.code,
            "retry_after": error.retry_after,
            "applied": error.applied,
        }
    except Exception as error:
        return {"error_class": "internal", "message": f"{type(error).__name__}: {error}", "code": "tool_raised"}
    return {"value": value}


def _write(answers: BinaryIO, reply: dict[str, Any]) -> None:
    try:
        data = json.dumps(reply, ensure_ascii=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        message = f"The answer is no JSON: {type(error).__name__}."
        data = json.dumps({"unreadable": message}).encode()
    _write_all(answers, data + b"\n")


def _write_all(answers: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[answers.write(view) or 0 :]


if __name__ == "__main__":
    sys.exit(main())
