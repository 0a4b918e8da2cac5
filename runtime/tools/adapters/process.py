"""A Python function in a child process of its own, killed hard when its time is over (engine.md 5, C7.4).

The child loads the function, says "ready", waits for "go", and only then runs it: what fails before "go" surely had no
effect, and the lease is checked after the slow start, not before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, cast

from runtime.kernel import canonical
from runtime.kernel.errors import InvalidJSON
from runtime.tools.errors import ToolError
from runtime.tools.outcome import Answer, CallRequest, Failed, NotSent, check_before_send, tool_failure
from runtime.tools.redact import redact

_SLICE_S = 0.1
_ENVELOPE_BYTES = 65_536
_STDERR_BYTES = 4_096
PROGRESS = b"progress "  # how a line of the child begins that is no answer
# The child gets no connection string and no key of the product: only what a program needs to run.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "LD_LIBRARY_PATH")
_ROOT = str(Path(__file__).resolve().parents[3])


def run_in_child(request: CallRequest) -> Answer:
    """Run the contract's function in a child process; raises Failed or NotSent."""
    child = _Child(request)
    try:
        child.start()
        child.await_ready()
        check_before_send(request)
        child.go()
        return child.answer()
    finally:
        child.end()


def replay(request: CallRequest, line: bytes) -> Answer:
    """Read a recorded line of a child as one that came; no process is started. Raises Failed."""
    return _Child(request).read(line)


def child_environment() -> dict[str, str]:
    """Return the environment of a child: a few names, and this process's import path."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("QUARTERDECK_TOOL_")}
    paths = [_ROOT, *(path for path in sys.path if path and os.path.isdir(path) and path != _ROOT)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


class _Child:
    """One child and the two pipes to it."""

    def __init__(self, request: CallRequest) -> None:
        self.request = request
        self.contract = request.tool
        self.deadline = request.deadline_monotonic or time.monotonic() + self.contract.timeout_s
        self.limit = self.contract.max_result_bytes * 6 + _ENVELOPE_BYTES  # JSON text escapes to six bytes a character
        self.buffer = bytearray()
        self.stderr = bytearray()
        self.gone = False
        self.sent = False
        self.ends_at: float | None = None  # when it is killed; set once it was asked to end

    def start(self) -> None:
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runtime.tools.child", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=child_environment(),
                start_new_session=True,  # so that the whole family can be killed
                bufsize=0,
            )
        except OSError as error:
            raise NotSent("internal", "child_not_started", f"The child process did not start: {error}.") from error
        self.request.showing.child(self.process.pid)
        self.selector = selectors.DefaultSelector()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_READ)
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        self._write(self._request_line())

    def _request_line(self) -> bytes:
        request = self.request
        head = {
            "config": self.contract.config,
            "context": {
                "operation_id": request.operation_id,
                "business_key": request.business_key,
                "epoch": request.epoch,
                "tenant_id": request.tenant_id,
                "run_id": request.run_id,
                "step_id": request.step_id,
                "attempt": request.attempt,
            },
            "remaining_s": max(0.0, self.deadline - time.monotonic()),
        }
        arguments = request.arguments_bytes or canonical.canonical_bytes(request.arguments)
        return json.dumps(head).encode()[:-1] + b', "arguments": ' + arguments + b"}\n"

    def await_ready(self) -> None:
        line = self._line()
        if line == b"ready":
            return
        if line is None:
            raise NotSent("internal", "child_ended", f"The child ended before it was ready. {self._last_words()}")
        try:
            detail = str(json.loads(line).get("detail", ""))
        except ValueError:
            detail = "The child answered with something else."
        raise NotSent("internal", "tool_not_installed", detail)

    def go(self) -> None:
        self.sent = True
        self._write(b"go\n")

    def answer(self) -> Answer:
        """Return what the tool answered. Raises Failed; one that was stopped may still say what became of its call."""
        try:
            line = self._line()
        except Failed as stopped:
            if not self._has_last_word(stopped.error_class):
                raise
            try:
                return self.read(self._taken())
            except Failed as told:
                if stopped.error_class == "timeout" and told.error_class == "cancelled":
                    told.error_class = "timeout"  # it stopped because its time was over
                raise told from stopped
        if line is None:
            code = self.process.wait(timeout=5)
            raise Failed(
                "internal", f"The tool's process ended with {code}. {self._last_words()}", sent=True, code="died"
            )
        return self.read(line)

    def read(self, line: bytes) -> Answer:
        """Read the line that the child answered with. Raises Failed."""
        try:
            reply: dict[str, Any] = canonical.parse_strict(line, max_bytes=self.limit, max_depth=200)
        except InvalidJSON as error:
            raise Failed("protocol", f"The answer is no JSON that can be stored: {error.detail}", sent=True) from error
        if "value" in reply:
            return Answer(reply["value"])
        if "unreadable" in reply:  # the function returned, so what it did is done, whatever on_error says
            raise Failed("protocol", str(reply["unreadable"]), sent=True, code="not_json")
        raise tool_failure(self.contract, _reported(reply))

    def _line(self) -> bytes | None:
        """Return the next line of the child, None when it has ended; raises Failed at cancel, deadline or oversize."""
        while b"\n" not in self.buffer:
            if self.gone:
                return None
            self._check_time()
            self._hear(min(_SLICE_S, max(0.0, self.deadline - time.monotonic())))
        return self._taken()

    def _has_last_word(self, reason: str) -> bool:
        """Ask the tool to end and wait for its answer, no longer than its grace; tell whether there is one.

        A tool that hears of the end may know that it did nothing, or that it was done by then (C5.5).
        """
        if not self.sent or reason not in ("cancelled", "timeout"):
            return False
        ends_at = self._ask_to_end()
        while b"\n" not in self.buffer and not self.gone and (left := ends_at - time.monotonic()) > 0:
            ended = self.process.poll() is not None  # what it started may hold the pipe open
            self._hear(0 if ended else min(_SLICE_S, left))
            if ended:
                break
        return b"\n" in self.buffer

    def _hear(self, seconds: float) -> None:
        """Take what the child writes within this time. Raises Failed when it is too much."""
        for key, _ in self.selector.select(seconds):
            self._receive(cast(IO[bytes], key.fileobj))
        if len(self.buffer) > self.limit:
            raise Failed("oversize", f"The answer is larger than {self.contract.max_result_bytes} bytes.", sent=True)

    def _taken(self) -> bytes:
        """Take the line that is there."""
        line, _, rest = self.buffer.partition(b"\n")
        self.buffer = rest
        return bytes(line)

    def _receive(self, pipe: IO[bytes]) -> None:
        data = pipe.read(65_536)
        if pipe is self.process.stderr:
            self.stderr = (self.stderr + (data or b""))[-_STDERR_BYTES:]
            if data == b"":
                self.selector.unregister(pipe)
        elif data == b"":
            self.gone = True
        else:
            self.buffer += data or b""
            self._hear_progress()

    def _hear_progress(self) -> None:
        """Take the lines that tell how far the tool is: none may lie where an answer is looked for."""
        while self.buffer.startswith(PROGRESS) and b"\n" in self.buffer:
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                self.request.showing.progress(*json.loads(self._taken()[len(PROGRESS) :]))

    def _write(self, data: bytes) -> None:
        pipe, view = self.process.stdin, memoryview(data)
        assert pipe is not None
        with selectors.DefaultSelector() as writable:
            writable.register(pipe, selectors.EVENT_WRITE)
            while view:
                self._check_time()
                if not writable.select(_SLICE_S):
                    continue
                try:
                    view = view[os.write(pipe.fileno(), view[:65_536]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    return  # it has ended; reading tells how

    def _check_time(self) -> None:
        if self.request.cancel.is_set():
            raise Failed("cancelled", "The call was cancelled and its process stopped.", sent=self.sent)
        if time.monotonic() >= self.deadline:
            raise Failed("timeout", "The time limit passed and the process was stopped.", sent=self.sent)

    def _last_words(self) -> str:
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return redact(lines[-1], 200) if lines else ""

    def end(self) -> None:
        """Stop the child and everything it started: a request to end, a moment, then SIGKILL to its whole group."""
        process = getattr(self, "process", None)
        if process is None:
            return
        if process.poll() is None and self.sent and b"\n" not in self.buffer:
            ends_at = self._ask_to_end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends_at - time.monotonic()))
        self._signal(signal.SIGKILL)
        process.wait()
        self.selector.close()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()

    def _ask_to_end(self) -> float:
        """Ask the whole group to end, once; return when its grace is over, on the clock of ``time.monotonic()``."""
        if self.ends_at is None:
            self._signal(signal.SIGTERM)
            self.ends_at = time.monotonic() + self.contract.config.get("kill_grace_s", 1.0)
        return self.ends_at

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is gone
            os.killpg(self.process.pid, number)


def _reported(reply: dict[str, Any]) -> ToolError:
    applied = reply.get("applied")
    return ToolError(
        str(reply.get("message", "")),
        error_class=str(reply.get("error_class", "internal")),
        code=reply.get("code"),
        retry_after=reply.get("retry_after"),
        applied=applied if isinstance(applied, bool) else None,
    )
