"""Connections to MCP servers: one per call, or kept per worker process, tenant, server and session key."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from typing import Any

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ToolListChangedNotification

from runtime.kernel import canonical
from runtime.tools.adapters.mcp_stdio import Wire, stdio_transport
from runtime.tools.commands import command_allowed
from runtime.tools.contract import ToolContract
from runtime.tools.dialing import AddressRefused, JudgedTransport
from runtime.tools.egress import refused_at
from runtime.tools.loop import first_leaf, spawn
from runtime.tools.outcome import CallRequest, Failed, NotSent
from runtime.tools.redact import environment_secret

IDLE_S = 60.0
_LINE_FLOOR = 1_048_576
_MAX_PAGES = 100
_kept: dict[tuple[int, bytes], Session] = {}


class Session:
    """One connection, opened and closed by one task, since the library's scopes must end where they began."""

    def __init__(self, request: CallRequest) -> None:
        self.contract = request.tool
        self.wire = Wire()
        self.turn = asyncio.Lock()  # one call at a time: a kept server holds state
        self.users = 0
        self.schemas: dict[str, str] | None = None
        self._settings = resolved(self.contract)
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._task = spawn(self._live())

    async def _live(self) -> None:
        try:
            async with self._client() as client:
                self._opened.set_result(client)
                await self._end.wait()
        except BaseException as error:
            # After the opening, what broke the connection is told by the call that was waiting for an answer.
            if not self._opened.done():
                self._opened.set_exception(_not_opened(first_leaf(error), self.wire))
        finally:
            self.wire.alive = False
            self._closed.set()

    def _client(self) -> mcp.Client:
        config = self.contract.config
        transport: Any
        if "command" in config:
            if not command_allowed(config["command"]):
                raise NotSent("policy", "command_refused", "This program may not be started here.")
            limit = max(_LINE_FLOOR, self.contract.max_result_bytes * 6)
            transport = stdio_transport(
                config["command"], config.get("args", []), self._settings, config.get("cwd"), limit, self.wire
            )
        else:
            client = httpx2.AsyncClient(
                transport=_Watched(),
                headers=self._settings,
                timeout=httpx2.Timeout(86_400.0, connect=30.0),
                follow_redirects=False,
            )
            transport = streamable_http_client(config["url"], http_client=client)
        return mcp.Client(transport, cache=None, message_handler=self._notice)

    async def _notice(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.schemas = None

    async def client(self) -> Any:
        """Return the opened client; raises Failed (nothing sent) when the server cannot be used."""
        return await asyncio.shield(self._opened)

    async def schema_digest(self, tool: str) -> str | None:
        """Return the hash of the tool's input schema as the server lists it now, None when it lists no such tool."""
        if self.schemas is None:
            client, cursor = await self.client(), None
            found: dict[str, str] = {}
            for _ in range(_MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                found |= {listed.name: schema_sha256(listed.input_schema) for listed in page.tools}
                cursor = page.next_cursor
                if cursor is None:
                    break
            self.schemas = found
        return self.schemas.get(tool)

    def rest(self, seconds: float) -> None:
        """Close after ``seconds`` without another use."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end.set)

    def wake(self) -> None:
        """Take back ``rest``."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def usable(self) -> bool:
        """False once the server is gone or the session is closing."""
        return self.wire.alive and not self._end.is_set() and not self._closed.is_set()

    async def close(self, *, hurried: bool = False, wait: bool = True) -> None:
        """End the session; ``hurried`` kills the server at once."""
        self.wire.hurried = hurried
        self._end.set()
        if not self._opened.done():  # a server that does not answer the greeting would never see the end
            self._task.cancel()
        if wait:
            await self._closed.wait()


class _Watched(JudgedTransport):
    """A transport that refuses closed and private addresses behind a name, in words that the library understands."""

    def __init__(self) -> None:
        super().__init__(refused_at)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except AddressRefused as why:
            raise httpx2.ConnectError(str(why)) from why


def resolved(contract: ToolContract) -> dict[str, str]:
    """Return the server's environment or headers with the worker's secrets filled in; raises NotSent."""
    result = {}
    for name, value in contract.config.get("env" if "command" in contract.config else "headers", {}).items():
        if isinstance(value, dict):
            secret = environment_secret(value["env"])
            if secret is None:
                raise NotSent("policy", "secret_missing", f"The worker has no variable {value['env']}.")
            value = secret
        result[name] = value
    return result


def schema_sha256(schema: dict[str, Any]) -> str:
    """Return the hex hash by which a contract pins a tool's input schema (``config.schema_sha256``)."""
    return canonical.digest(canonical.canonical_bytes(schema)).hex()


def kept(request: CallRequest) -> Session:
    """Return the kept session for a call, opening one when there is none that lives."""
    config = request.tool.config
    server = {name: config.get(name) for name in ("command", "args", "env", "cwd", "url", "headers")}
    value = request.arguments.get(config["session_key"]) if "session_key" in config else None
    # The tenant is part of the key: a server process is shared by nobody else (C8.6).
    identity = canonical.canonical_bytes([request.tenant_id, server, value])
    key = (os.getpid(), hashlib.sha256(identity).digest())
    session = _kept.get(key)
    if session is None or not session.usable:
        _drop_closed()
        session = _kept[key] = Session(request)
    session.wake()
    return session


def _drop_closed() -> None:
    for key in [key for key, session in _kept.items() if not session.usable]:
        del _kept[key]


def sessions() -> list[Session]:
    """Return the sessions that are kept open in this process."""
    return [session for (pid, _), session in _kept.items() if pid == os.getpid() and session.usable]


async def close_all() -> None:
    """Close every kept session."""
    for session in sessions():
        with contextlib.suppress(asyncio.CancelledError):
            await session.close()


def _not_opened(error: BaseException, wire: Wire) -> BaseException:
    if isinstance(error, (Failed, NotSent, asyncio.CancelledError)):
        return error
    text = wire.last_words() or f"{type(error).__name__}: {error}"
    error_class = "protocol" if wire.broken else "network"
    return Failed(error_class, f"The MCP server could not be opened. {text}", sent=False, code="server_not_opened")
