"""Bytes in, bytes out: strict bodies, JSON answers, query parameters. Nothing here knows what is asked for."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import orjson
from django.http import HttpRequest
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from runtime.kernel.canonical import parse_strict
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, NotFound, PayloadTooLarge, QuarterdeckError
from runtime.kernel.ids import parse_uuid
from runtime.kernel.schemas import Compiled
from runtime.queries.base import DEFAULT_LIMIT, MAX_LIMIT

MAX_INT = 2**63 - 1


class UnsupportedMediaType(QuarterdeckError):
    """The body is not in a media type this endpoint reads."""

    code, http_status, title = "unsupported_media_type", 415, "Unsupported media type"
    remediation = "Send the body in a media type that the address reads; the schema names them."


class JSONAnswer(BaseRenderer):
    """Times as RFC 3339 in UTC, ids as text; nothing is ever rounded."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else dump(data)


def dump(data: Any) -> bytes:
    """Return ``data`` as JSON bytes."""
    return orjson.dumps(data, default=_plain, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, frozenset | set):
        return sorted(value)
    return str(value)


class AlwaysJSON(BaseContentNegotiation):
    """There is one answer format, so no Accept header is an error."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return None

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


def raw_body(request: Request, *, limit: int) -> bytes:
    """Return the body, never reading more than ``limit`` + 1 bytes of it. Raises PayloadTooLarge."""
    plain: HttpRequest = request._request
    length = plain.META.get("CONTENT_LENGTH") or ""
    if length.isdigit() and int(length) > limit:
        raise PayloadTooLarge(f"The body has {length[:20]} bytes; the limit is {limit}.", limit=limit)
    raw = plain.read(limit + 1)
    if len(raw) > limit:
        raise PayloadTooLarge(f"The body has more than {limit} bytes, which is the limit.", limit=limit)
    return raw


def json_bytes(request: Request, *, limit: int | None = None) -> bytes:
    """Return the bytes of a JSON body. Raises UnsupportedMediaType and PayloadTooLarge."""
    kind, _, rest = (request._request.META.get("CONTENT_TYPE") or "").partition(";")
    limit = conf().max_payload_bytes if limit is None else limit
    if not kind and not (raw := raw_body(request, limit=limit)):
        return raw
    kind, rest = kind.strip().lower(), rest.strip().lower().replace('"', "")
    if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        raise UnsupportedMediaType(
            f"The body is {kind[:80] or 'of no declared type'}.",
            where="header Content-Type",
            remediation="Send `Content-Type: application/json`.",
        )
    if rest.startswith("charset=") and rest.removeprefix("charset=") not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(
            "JSON is UTF-8.", where="header Content-Type", remediation="Send UTF-8 without another charset."
        )
    return raw_body(request, limit=limit)


def json_body(request: Request, schema: Compiled, *, limit: int | None = None, optional: bool = False) -> Any:
    """Return the strictly parsed body once it fits ``schema``; with ``optional`` no body at all is an empty object.

    Raises BadInput (InvalidJSON, PayloadTooLarge) naming the place and the mend.
    """
    limits = conf()
    limit = limits.max_payload_bytes if limit is None else limit
    if optional and (request._request.META.get("CONTENT_LENGTH") or "0") == "0":
        raw = raw_body(request, limit=limit)
        if not raw:
            return {}
    else:
        raw = json_bytes(request, limit=limit)
    value = parse_strict(raw, max_bytes=limit, max_depth=limits.max_json_depth)
    check(schema, value)
    return value


def check(schema: Compiled, value: Any, where: str = "") -> None:
    """Raise BadInput with every place (at most ten) where ``value`` does not fit, ``where`` before the pointers."""
    if schema.fits(value):
        return
    problems = [
        {"where": f"{where}{problem.where}" or "/", "detail": problem.detail, "remediation": problem.mend}
        for problem in schema.problems(value)
    ]
    first = problems[0]
    raise BadInput(first["detail"], where=first["where"], remediation=first["remediation"], problems=problems)


def idempotency_key(request: Request, *, limit: int = 200) -> str | None:
    """Return the Idempotency-Key of a request, None without one. Raises BadInput."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    key = key.strip()
    if not 1 <= len(key) <= limit or not key.isprintable():
        raise BadInput(
            f"An Idempotency-Key has 1 to {limit} printable characters.",
            where="header Idempotency-Key",
            remediation="Send a UUID.",
        )
    return key


def path_id(text: str, what: str) -> uuid.UUID:
    """Return the id in a path. Raises NotFound when it is none: whatever it is, it is not there."""
    value = parse_uuid(text)
    if value is None or str(value) != text.lower():
        raise NotFound(f"There is no {what} of that id in this tenant.")
    return value


def body_id(text: str, where: str) -> uuid.UUID:
    """Return the id in a body. Raises BadInput naming its place."""
    value = parse_uuid(text)
    if value is None:
        raise BadInput("It is a UUID.", where=where, remediation="Send one like 0192f0c1-2b3a-7c4d-8e5f-60718293a4b5.")
    return value


class Query:
    """The query parameters of a request, each read at most once by name; a name nobody reads is refused by ``done``."""

    def __init__(self, request: Request) -> None:
        self._values = request._request.GET
        self._read: set[str] = set()

    def text(self, name: str, *, limit: int = 300) -> str | None:
        """Return a text, None when it is absent or empty."""
        self._read.add(name)
        value = self._values.get(name) or None
        if value is not None and (len(value) > limit or "\x00" in value):
            raise _bad(name, f"{name} has at most {limit} characters and no NUL.")
        return value

    def many(self, name: str, allowed: Any) -> list[str]:
        """Return the values of a parameter given several times or comma-separated. Raises BadInput for others."""
        self._read.add(name)
        values = [part for value in self._values.getlist(name) for part in value.split(",") if part]
        for value in values:
            if value not in allowed:
                raise _bad(name, f"{value[:60]!r} is no {name}.", f"Choose from: {', '.join(allowed)}.")
        return values

    def integer(self, name: str, default: int, *, low: int = 0, high: int = MAX_INT) -> int:
        """Return an integer within bounds."""
        text = self.text(name, limit=30)
        if text is None:
            return default
        if not (text.lstrip("-").isascii() and text.removeprefix("-").isdigit() and low <= int(text) <= high):
            raise _bad(name, f"{name} is a whole number from {low} to {high}.")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether a parameter says yes (1, true)."""
        text = self.text(name, limit=10)
        if text not in (None, "0", "1", "true", "false"):
            raise _bad(name, f"{name} is true or false.")
        return text in ("1", "true")

    def time(self, name: str) -> datetime | None:
        """Return an RFC 3339 time."""
        text = self.text(name, limit=60)
        return None if text is None else rfc3339(text, f"query {name}")

    def identity(self, name: str) -> uuid.UUID | None:
        """Return an id."""
        text = self.text(name, limit=60)
        value = parse_uuid(text) if text else None
        if text and value is None:
            raise _bad(name, f"{name} is a UUID.")
        return value

    def limit(self) -> int:
        """Return how many items a page has."""
        return self.integer("limit", DEFAULT_LIMIT, low=1, high=MAX_LIMIT)

    def cursor(self) -> str | None:
        """Return the cursor of a list."""
        return self.text("cursor", limit=2000)

    def done(self) -> None:
        """Raise BadInput for a parameter that nobody has read: a misspelt filter must not look like one."""
        unknown = sorted(set(self._values) - self._read - {"format"})
        if unknown:
            raise _bad(
                unknown[0][:60],
                f"There is no parameter {unknown[0][:60]!r} here.",
                f"Known are: {', '.join(sorted(self._read)) or 'none'}.",
            )


def _bad(name: str, detail: str, mend: str = "Correct the parameter.") -> BadInput:
    return BadInput(detail, where=f"query {name}", remediation=mend)


def rfc3339(text: str, where: str) -> datetime:
    """Return a time in UTC. Raises BadInput unless it is RFC 3339 with an offset, between 1970 and 9998."""
    mend = "Write it like 2030-01-31T12:00:00Z."
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput("The time is not RFC 3339.", where=where, remediation=mend) from None
    if value.tzinfo is None or len(text) < 20 or not 1970 <= value.year <= 9998:
        raise BadInput("The time has no offset or lies out of range.", where=where, remediation=mend)
    return value.astimezone(UTC)
