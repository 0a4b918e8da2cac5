"""Calls over HTTP, with exact knowledge of whether anything was sent (C3.2, B4.3, B4.4).

The transport reports each phase: before the request's headers leave, a failure surely had no effect; afterwards a
failed write is open. Writes use a new connection each: a kept one that the server has just closed would turn a request
that was never read into an open question.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from runtime.kernel import canonical
from runtime.kernel.callback import attempt_id, callback_token
from runtime.kernel.conf import conf
from runtime.kernel.errors import InvalidJSON, SchemaMismatch
from runtime.tools.contract import ToolContract
from runtime.tools.dialing import AddressRefused, JudgedTransport
from runtime.tools.egress import refused_at
from runtime.tools.loop import Progress, run
from runtime.tools.outcome import Answer, CallRequest, Failed, NotSent, check_before_send
from runtime.tools.redact import environment_secret
from runtime.tools.urls import check_target, expand, placeholders

_REDIRECTS = 3
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "user-agent"})
_ERROR_BODY = 16_384
# The transport says so of a connection that ended in the middle: the network did that, not the tool.
_CUT = re.compile(r"disconnected|peer closed connection")
_BODILESS = ("GET", "HEAD", "DELETE")
_CLASSES = {
    400: "validation", 401: "permission", 403: "permission", 404: "not_found", 407: "permission", 410: "not_found",
    413: "validation", 414: "validation", 415: "validation", 422: "validation", 431: "validation", 451: "policy",
}  # fmt: skip
_clients: dict[tuple[int, int, bool], httpx2.AsyncClient] = {}


def send(request: CallRequest) -> Answer:
    """Make the call of an http contract. Raises Failed or NotSent; see ``runtime.tools.calls``."""
    contract = request.tool
    try:
        url = expand(contract, request.arguments)
    except SchemaMismatch as error:
        raise NotSent("policy" if error.code == "target_refused" else "validation", error.code, error.detail) from error
    headers, body = _headers(request), _body(request)
    return run(request, lambda progress: _exchange(request, progress, url, headers, body))


def replay(request: CallRequest, transport: httpx2.AsyncBaseTransport) -> Answer:
    """Make the call over a transport that plays a recorded answer: nothing leaves, no secret is read."""
    client = httpx2.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)
    url = expand(request.tool, request.arguments)
    return run(request, lambda progress: _exchange(request, progress, url, {}, None, client))


async def _exchange(
    request: CallRequest,
    progress: Progress,
    url: str,
    headers: dict[str, str],
    body: bytes | None,
    client: httpx2.AsyncClient | None = None,
) -> Answer:
    contract = request.tool
    method = contract.config.get("method", "GET" if not contract.writes else "POST")
    client = client or _client(keep=not contract.writes)
    for _ in range(_REDIRECTS + 1):
        try:
            async with client.stream(
                method, url, headers=headers, content=body, extensions={"trace": _trace(request, progress)}
            ) as response:
                if not response.is_redirect:
                    return await _read(contract, response)
                here, url = str(response.url), _redirected(contract, response)
                if not _same_origin(here, url):
                    # What the contract sends along, secrets among it, was meant for the first host alone.
                    headers = {name: value for name, value in headers.items() if name in _PLAIN_HEADERS}
        except AddressRefused as why:
            raise NotSent("policy", "target_refused", str(why)) from why
        except httpx2.HTTPError as error:
            raise _broken(error, progress) from error
    raise Failed("protocol", "The tool redirects in a circle.", sent=True, code="redirects")


def _client(keep: bool) -> httpx2.AsyncClient:
    """Return the client of this loop, which connects to judged addresses only.

    Proxies and netrc of the environment are not used: they widen the egress.
    """
    key = (os.getpid(), id(asyncio.get_running_loop()), keep)
    client = _clients.get(key)
    if client is None:
        limits = httpx2.Limits(max_connections=256, max_keepalive_connections=32 if keep else 0, keepalive_expiry=5)
        # Time limits are the call's own deadline; the long ones here are only a net below it.
        client = _clients[key] = httpx2.AsyncClient(
            transport=JudgedTransport(refused_at, limits=limits),
            timeout=httpx2.Timeout(86_400.0),
            follow_redirects=False,
            trust_env=False,
        )
    return client


def _trace(request: CallRequest, progress: Progress) -> Any:
    """Return the transport's callback: the last look before the first byte."""

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith(".send_request_headers.started"):
            check_before_send(request)
            progress.sent = True

    return trace


def _same_origin(one: str, other: str) -> bool:
    a, b = urlsplit(one), urlsplit(other)
    return (a.scheme, a.hostname, a.port) == (b.scheme, b.hostname, b.port)


def _headers(request: CallRequest) -> dict[str, str]:
    config = request.tool.config
    headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "quarterdeck"}
    for name, value in config.get("headers", {}).items():
        if isinstance(value, dict):
            secret = environment_secret(value["env"])
            if secret is None:
                raise NotSent("policy", "secret_missing", f"The worker has no variable {value['env']}.")
            value = secret
        headers[name.lower()] = value
    if request.operation_id is not None:
        headers[config.get("idempotency_header", "Idempotency-Key").lower()] = request.operation_id
        headers["x-quarterdeck-epoch"] = str(request.epoch)
    if request.deadline_monotonic is not None:
        # How long anybody waits for the answer: a tool that cannot be done by then had better not begin.
        headers["x-quarterdeck-timeout"] = f"{max(0.0, request.deadline_monotonic - time.monotonic()):.3f}"
    if config.get("callback"):
        number = request.attempt
        address = f"api/v1/attempts/{attempt_id(request.step_id, number)}/callback/"
        headers["x-quarterdeck-epoch"] = str(request.epoch)
        headers["x-quarterdeck-callback"] = urljoin(conf().public_url, address)
        headers["x-quarterdeck-callback-token"] = callback_token(
            request.tenant_id, request.step_id, number, request.epoch
        )
    if request.tool.config.get("method", "POST") not in _BODILESS:
        headers.setdefault("content-type", "application/json")
    return headers


def _body(request: CallRequest) -> bytes | None:
    config = request.tool.config
    method = config.get("method", "POST" if request.tool.writes else "GET")
    kind = config.get("body", "none" if method in _BODILESS else "rest")
    if kind == "none":
        return None
    if kind == "arguments":
        return request.arguments_bytes or canonical.canonical_bytes(request.arguments)
    used = placeholders(config["url"])
    return canonical.canonical_bytes({name: part for name, part in request.arguments.items() if name not in used})


def _redirected(contract: ToolContract, response: httpx2.Response) -> str:
    """Return where a read goes on; a write is never sent twice, and no call leaves the allow-list."""
    if contract.writes:
        raise Failed("protocol", f"The tool redirects a write ({response.status_code}).", sent=True, code="redirect")
    url = urljoin(str(response.url), response.headers.get("location", ""))
    if response.url.scheme == "https" and urlsplit(url).scheme != "https":
        raise Failed("policy", "The tool redirects from https to http.", sent=True, code="redirect_downgrade")
    try:
        check_target(contract, url)
    except SchemaMismatch as error:
        raise Failed(
            "policy", "The tool redirects to a host outside its targets.", sent=True, code=error.code
        ) from error
    return url


async def _read(contract: ToolContract, response: httpx2.Response) -> Answer:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise Failed("protocol", "The answer is compressed, which was not asked for.", sent=True, code="encoding")
    good = response.is_success
    limit = contract.max_result_bytes if good else _ERROR_BODY
    data = bytearray()
    async for chunk in response.aiter_raw(65_536):
        data += chunk
        if len(data) > limit:
            if good:
                raise Failed("oversize", f"The answer is larger than {limit} bytes.", sent=True)
            break
    if not good:
        raise _status_failure(contract, response, bytes(data))
    name = contract.config.get("reference_header")
    value = _with_headers(contract, response, _value(contract, response, bytes(data)))
    return Answer(value, response.headers.get(name) if name else None)


def _with_headers(contract: ToolContract, response: httpx2.Response, value: Any) -> Any:
    """Return {body, headers} where the contract names headers; one that did not come is left out."""
    names = contract.config.get("result_headers")
    if names is None:
        return value
    return {"body": value, "headers": {name: response.headers[name] for name in names if name in response.headers}}


def _value(contract: ToolContract, response: httpx2.Response, data: bytes) -> Any:
    kind = contract.config.get("result", "json")
    if kind == "none" or response.status_code == 204:
        return None
    try:
        if kind == "text":
            return data.decode("utf-8")
        return canonical.parse_strict(data, max_bytes=contract.max_result_bytes, max_depth=100)
    except (InvalidJSON, UnicodeDecodeError) as error:
        detail = error.detail if isinstance(error, InvalidJSON) else "not UTF-8"
        raise Failed("protocol", f"The answer cannot be read: {detail}", sent=True, code="unreadable") from error


def _status_failure(contract: ToolContract, response: httpx2.Response, data: bytes) -> Failed:
    """Map a status to an error class and to what it says about a write (B4.1)."""
    status = response.status_code
    applied: bool | None = False
    if status == 429:
        error_class = "rate_limited"
    elif status in (408, 425):
        error_class, applied = ("timeout", None) if status == 408 else ("network", False)
    elif status >= 500 or status < 400:
        error_class, applied = "server_error" if status >= 500 else "protocol", None
    else:
        error_class = _CLASSES.get(status, "business")
    if status in contract.config.get("absent_statuses", ()):
        error_class, applied = "server_error", False
    if status in contract.config.get("unknown_statuses", ()):
        applied = None
    code, detail = _problem(data)
    message = f"HTTP {status}: {detail}" if detail else f"HTTP {status}"
    return Failed(
        error_class, message, sent=True, applied=applied, code=code or f"http_{status}",
        retry_after=_retry_after(response.headers.get("retry-after")),
    )  # fmt: skip


def _problem(data: bytes) -> tuple[str | None, str]:
    """Return code and detail of an RFC 9457 body or something like it; nothing of any other body is repeated."""
    try:
        body = canonical.parse_strict(data, max_bytes=_ERROR_BODY, max_depth=20)
    except InvalidJSON:
        return None, ""
    if not isinstance(body, dict):
        return None, ""
    code = body.get("code")
    detail = next((body[key] for key in ("detail", "title", "message", "error") if isinstance(body.get(key), str)), "")
    return (code if isinstance(code, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", code) else None), detail[:200]


def _retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    if value.strip().isdigit():
        return min(float(value), 86_400.0)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return min(max(0.0, (when - datetime.now(UTC)).total_seconds()), 86_400.0)


def _broken(error: httpx2.HTTPError, progress: Progress) -> Failed:
    if isinstance(error, httpx2.TimeoutException):
        return Failed("timeout", type(error).__name__, sent=progress.sent)
    if progress.sent and isinstance(error, httpx2.ProtocolError) and not _CUT.search(str(error)):
        return Failed("protocol", str(error) or type(error).__name__, sent=True)
    return Failed("network", str(error) or type(error).__name__, sent=progress.sent)
