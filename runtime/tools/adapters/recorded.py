"""Recorded answers in the place of a tool, so that the code which reads live ones reads them (C8.8).

Nothing leaves the process: no address is asked, no server or child is started, no secret is read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from runtime.tools.errors import ToolError
from runtime.tools.functions import Function
from runtime.tools.outcome import Answer, CallRequest

_CHUNK = 65_536


def recorded(request: CallRequest, recording: dict[str, Any]) -> Answer:
    """Play a recording of the contract's adapter. Raises Failed or NotSent as the adapter itself does."""
    return _PLAYERS[request.tool.adapter](request, recording)


def _http(request: CallRequest, recording: dict[str, Any]) -> Answer:
    import httpx2

    from runtime.tools.adapters import http

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in _body(recording["answer"]):
                yield chunk

    class Transport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, sent: httpx2.Request) -> httpx2.Response:
            broken = recording.get("broken")
            if broken == "refused":
                raise httpx2.ConnectError("Connection refused")
            await sent.extensions["trace"]("recorded.send_request_headers.started", {})
            if broken == "timeout":
                raise httpx2.ReadTimeout("Read timed out")
            if broken is not None:
                raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
            answer = recording["answer"]
            return httpx2.Response(answer["status"], headers=answer.get("headers", {}), stream=Body())

    return http.replay(request, Transport())


def _body(answer: dict[str, Any]) -> list[bytes] | Any:
    """Yield a body in chunks; one of so many ``bytes`` is never held whole."""
    if "bytes" in answer:
        left = answer["bytes"]
        yield b'"'
        while left > 0:
            yield b"x" * min(_CHUNK, left)
            left -= _CHUNK
        yield b'"'
    elif "json" in answer:
        yield json.dumps(answer["json"]).encode()
    elif "base64" in answer:
        yield base64.b64decode(answer["base64"])
    else:
        yield answer.get("body", "").encode()


def _mcp(request: CallRequest, recording: dict[str, Any]) -> Answer:
    from runtime.tools.adapters import mcp
    from runtime.tools.adapters.mcp_stdio import Wire

    wire, broken = Wire(), recording.get("broken")
    wire.alive = broken != "closed"
    wire.broken = {"oversize": "oversize", "garbage": "protocol"}.get(broken or "")
    return mcp.replay(request, recording, wire)


def _python(request: CallRequest, recording: dict[str, Any]) -> Answer:
    from runtime.tools.adapters import process, python

    if request.tool.runs == "process":
        return process.replay(request, _line(recording))
    return python.replay(request, Function(_function(recording), wants_context=False))


def _line(recording: dict[str, Any]) -> bytes:
    """Return what a child process would have written."""
    if "raw" in recording:
        return str(recording["raw"]).encode()
    if "raises" in recording:
        return json.dumps(recording["raises"]).encode()
    return json.dumps({"value": _value(recording["answer"])}).encode()


def _function(recording: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    def play(_arguments: dict[str, Any]) -> Any:
        if "raises" in recording:
            told = dict(recording["raises"])
            raise ToolError(told.pop("message", ""), **told)
        if "raw" in recording:
            try:
                return json.loads(recording["raw"])  # NaN and the like, which a function can return and nobody store
            except ValueError:
                return recording["raw"]
        return _value(recording["answer"])

    return play


def _value(answer: dict[str, Any]) -> Any:
    return "x" * answer["bytes"] if "bytes" in answer else answer["value"]


_PLAYERS = {"http": _http, "mcp": _mcp, "python": _python}
