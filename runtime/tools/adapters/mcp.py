"""Calls of tools on MCP servers (B7.1, C3.8): stdio or streamable HTTP, schema pinned, lost answers left open."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from runtime.kernel import canonical
from runtime.kernel.errors import InvalidJSON
from runtime.tools.adapters.mcp_sessions import IDLE_S, Session, close_all, kept, schema_sha256
from runtime.tools.adapters.mcp_stdio import Wire
from runtime.tools.errors import ToolError
from runtime.tools.loop import Progress, first_leaf, loop, run
from runtime.tools.outcome import Answer, CallRequest, Failed, NotSent, check_before_send, tool_failure
from runtime.tools.showing import NOBODY

# The server says that it did not even look at the call.
_NEVER_RUN = {-32700: "protocol", -32600: "validation", -32601: "not_found", -32602: "validation"}


def send(request: CallRequest) -> Answer:
    """Call the tool of an mcp contract. Raises Failed or NotSent; see ``runtime.tools.calls``."""
    return run(request, lambda progress: _call(request, progress))


def shutdown(timeout_s: float = 5.0) -> None:
    """Close every kept session of this process; for a worker that ends cleanly."""
    asyncio.run_coroutine_threadsafe(close_all(), loop()).result(timeout_s)


async def _call(request: CallRequest, progress: Progress) -> Answer:
    config = request.tool.config
    keep = config.get("session", "call") == "worker"
    session = kept(request) if keep else Session(request)
    session.users += 1
    well = False
    try:
        async with session.turn:
            answer = await _on(session, request, progress)
        well = True
        return answer
    except (Failed, NotSent) as failure:
        # A tool's own error leaves the connection whole; anything else makes it useless for the next call.
        broken = isinstance(failure, Failed) and failure.error_class in ("network", "protocol")
        well = session.wire.alive and not broken
        raise
    finally:
        session.users -= 1
        if not well or not keep:
            # A cancelled call must return now; the server is killed behind it.
            await session.close(hurried=not well, wait=well)
        elif session.users == 0:
            session.rest(config.get("idle_s", IDLE_S))


async def _on(session: Session, request: CallRequest, progress: Progress) -> Answer:
    config = request.tool.config
    client = await session.client()
    await _check_schema(session, client, config)
    arguments = dict(request.arguments)
    if "key_argument" in config and request.operation_id is not None:
        arguments[config["key_argument"]] = request.operation_id
    if "epoch_argument" in config:
        arguments[config["epoch_argument"]] = request.epoch
    params = mcp_types.CallToolRequestParams(name=config["tool"], arguments=arguments)
    message = mcp_types.CallToolRequest(params=params)
    if not session.wire.alive:
        text = f"The MCP server has ended. {session.wire.last_words()}"
        raise Failed("network", text, sent=False, code="server_ended")
    check_before_send(request)
    progress.sent = True
    try:
        # Not the client's call_tool: that may send a second time by itself, and checks answers after the fact.
        result = await client.session.send_request(
            message, mcp_types.CallToolResult, progress_callback=_progress(request)
        )
    except asyncio.CancelledError:
        raise
    except Exception as error:
        raise _broken(first_leaf(error), session.wire, request) from error
    return _answer(request, result)


def _answer(request: CallRequest, result: Any) -> Answer:
    if result.is_error:
        raise tool_failure(request.tool, ToolError(_text(result) or "The tool reported an error.", code="tool_error"))
    return Answer(_value(result, request.tool.config.get("result", "auto")))


def replay(request: CallRequest, message: Any, wire: Wire) -> Answer:
    """Read a recorded JSON-RPC answer, {result} or {error: {code, message}}, as one that came over ``wire``."""
    check_before_send(request)
    try:
        if wire.broken or not wire.alive:
            raise MCPError(mcp_types.CONNECTION_CLOSED, "Connection closed")
        if "error" in message:
            raise MCPError(message["error"]["code"], message["error"]["message"])
        result = mcp_types.CallToolResult.model_validate(message["result"])
    except Exception as error:
        raise _broken(error, wire, request) from error
    return _answer(request, result)


def _progress(request: CallRequest) -> Any:
    """Return what hears the server's progress notifications: their numbers only, since a message may say anything."""
    if request.showing is NOBODY:
        return None

    async def heard(done: float, total: float | None, _message: str | None) -> None:
        request.showing.progress(done, total)

    return heard


async def _check_schema(session: Session, client: Any, config: dict[str, Any]) -> None:
    """Refuse before sending when the tool is no longer the one that was registered (C3.8)."""
    pinned = config.get("schema_sha256")
    modern = client.session.discover_result is not None  # such servers want the list read before a call
    if pinned is None and not modern:
        return
    try:
        listed = await session.schema_digest(config["tool"])
    except (MCPError, ValidationError, httpx2.HTTPError) as error:
        raise Failed("network", f"The server's tools could not be listed: {error}", sent=False) from error
    if pinned is not None and listed != pinned:
        detail = "is not offered any more" if listed is None else "has another input schema than the registered version"
        raise NotSent("policy", "contract_changed", f"The server's tool {config['tool']!r} {detail}.")


def _broken(error: BaseException, wire: Wire, request: CallRequest) -> Failed:
    """Sort what came instead of an answer. Everything that leaves it open whether the tool ran has applied=None."""
    if wire.broken == "oversize":
        return Failed("oversize", f"The answer is larger than {request.tool.max_result_bytes} bytes.", sent=True)
    if wire.broken:
        return Failed("protocol", "The server answered with something that is no JSON-RPC message.", sent=True)
    if isinstance(error, MCPError):
        if error.code == mcp_types.CONNECTION_CLOSED:
            text = f"The connection to the server was lost. {wire.last_words()}"
            return Failed("network", text, sent=True, code="connection_lost")
        code = f"jsonrpc_{error.code}"
        if error.code in _NEVER_RUN:
            return Failed(_NEVER_RUN[error.code], error.message, sent=True, applied=False, code=code)
        error_class = "server_error" if error.code == mcp_types.INTERNAL_ERROR else "business"
        return tool_failure(request.tool, ToolError(error.message, error_class=error_class, code=code))
    if isinstance(error, (ValidationError, ValueError)):
        return Failed("protocol", "The server's answer does not have the form of a tool result.", sent=True)
    if isinstance(error, httpx2.TimeoutException):
        return Failed("timeout", type(error).__name__, sent=True)
    return Failed("network", f"{type(error).__name__}: {error}", sent=True)


def _value(result: Any, kind: str) -> Any:
    """Return the answer: structured content where there is some, else the text, as JSON when it holds JSON."""
    if result.structured_content is not None and kind != "text":
        return result.structured_content
    if kind == "structured":
        raise Failed("protocol", "The tool gave no structured content.", sent=True, code="unstructured")
    if any(block.type != "text" for block in result.content):
        return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    text = _text(result)
    if kind == "auto" and text[:1] in ("{", "["):
        try:
            return canonical.parse_strict(text, max_bytes=50_000_000, max_depth=100)
        except InvalidJSON:
            return text
    return text


def _text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


__all__ = ["replay", "schema_sha256", "send", "shutdown"]
