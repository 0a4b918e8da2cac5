"""A stdio connection to an MCP server in a process of its own that ends with us.

The library's own transport neither bounds an answer nor says whether the server is still there; both decide here
whether a write is an open question.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from runtime.tools.lifeline import guarded
from runtime.tools.redact import redact

_ENVIRONMENT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "SSL_CERT_FILE")
_STDERR_BYTES = 2_048
_GRACE_S = 2.0


class Wire:
    """What is known about a connection: whether the server is there, and what broke it.

    ``broken`` is None, "protocol" or "oversize". ``hurried`` asks for a hard end without grace.
    """

    __slots__ = ("alive", "broken", "hurried", "pid", "stderr")

    def __init__(self) -> None:
        self.alive = True
        self.broken: str | None = None
        self.hurried = False
        self.pid: int | None = None
        self.stderr = bytearray()

    def last_words(self) -> str:
        """The last line that the server wrote to its error output, redacted."""
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return redact(lines[-1], 200) if lines else ""


def server_environment(extra: dict[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few names of ours, programs beside our interpreter first, and ``extra``."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environment.get("PATH", os.defpath)])
    return environment | extra


@asynccontextmanager
async def stdio_transport(
    command: str, args: list[str], env: dict[str, str], cwd: str | None, max_line: int, wire: Wire
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server and yield the streams of an MCP transport. A line longer than ``max_line`` ends the connection.

    Raises OSError when the process cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *guarded(command, args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=server_environment(env),
        cwd=cwd,
        start_new_session=True,  # so that everything the server started can be killed with it
        limit=max_line,
    )
    wire.pid = process.pid
    inward, session_reads = anyio.create_memory_object_stream[SessionMessage | Exception](32)
    session_writes, outward = anyio.create_memory_object_stream[SessionMessage](32)
    tasks = [
        asyncio.create_task(_read(process, inward, wire)),
        asyncio.create_task(_write(process, outward)),
        asyncio.create_task(_listen(process, wire)),
    ]
    try:
        yield session_reads, session_writes
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, wire)
        for task in tasks:
            task.cancel()
        for stream in (inward, session_reads, session_writes, outward):
            stream.close()


async def _read(process: asyncio.subprocess.Process, inward: Any, wire: Wire) -> None:
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            message = _message(line, wire)
            if wire.broken:
                break
            if message is not None:
                await inward.send(message)
    except ValueError:  # longer than the limit
        wire.broken = "oversize"
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # our own end of the connection is closing
    finally:
        wire.alive = False
        inward.close()  # the session sees the end, and whoever waits for an answer learns of it at once


def _message(line: bytes, wire: Wire) -> SessionMessage | None:
    """Return a message; None for a stray line of text; marks the wire as broken by a message that cannot be read."""
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        if line.lstrip().startswith((b"{", b"[")):
            wire.broken = "protocol"
        return None


async def _write(process: asyncio.subprocess.Process, outward: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError, anyio.ClosedResourceError):
        async for item in outward:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _listen(process: asyncio.subprocess.Process, wire: Wire) -> None:
    """Keep the end of the error output; a server whose error pipe is full would stop."""
    assert process.stderr is not None
    while data := await process.stderr.read(4_096):
        wire.stderr = (wire.stderr + data)[-_STDERR_BYTES:]


async def _end(process: asyncio.subprocess.Process, wire: Wire) -> None:
    wire.alive = False
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    if not wire.hurried and not wire.broken:
        # A server ends by itself when its input closes; waiting for its pipes instead could take for ever.
        with anyio.move_on_after(_GRACE_S):
            while process.returncode is None:
                await asyncio.sleep(0.005)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(_GRACE_S):
        while process.returncode is None:
            await asyncio.sleep(0.005)
