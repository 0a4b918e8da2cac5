"""Lists as files: CSV that no spreadsheet executes, or JSON. Sent page by page as it is read, bounded, and it says so.

A file that was cut ends with it: the JSON has ``truncated``, the CSV a last row that begins with ``# truncated``. The
header ``X-Row-Limit`` names the bound before the first row comes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson
from django.db import connections
from django.http import Http404, StreamingHttpResponse
from django.utils import timezone

from dashboard.live.threads import in_thread
from runtime.queries.base import Page

MAX_ROWS = 50_000
PAGE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Columns = dict[str, Callable[[dict[str, Any]], Any]]
Chunk = Callable[[str | None], Page]


def stream(kind: str, name: str, columns: Columns, chunk: Chunk) -> StreamingHttpResponse:
    """Answer with a file of the rows of every page that ``chunk(cursor)`` gives, at most MAX_ROWS.

    ``kind`` is csv or json. The first page is read here, so that a refusal is still an error and not a broken file; the
    others are read in threads, one after the other.
    """
    if kind not in _FORMS:
        raise Http404
    form = _FORMS[kind](columns)
    first = _part(form, chunk(None), MAX_ROWS)
    response = StreamingHttpResponse(_file(form, chunk, first), content_type=form.media)
    stamp = timezone.localtime().strftime("%Y%m%d-%H%M%S")
    response["Content-Disposition"] = f'attachment; filename="{name}-{stamp}.{kind}"'
    response["Cache-Control"] = "no-store"
    response["X-Row-Limit"] = str(MAX_ROWS)
    # The rest is read in transactions of its own: this thread's connection would otherwise stay out all the while.
    connections.close_all()
    return response


@dataclass(frozen=True, slots=True)
class _Part:
    """A page as it is sent; ``next`` continues it, ``cut`` says that the bound left rows out."""

    text: bytes
    rows: int
    next: str | None
    cut: bool


def _part(form: _Form, page: Page, left: int) -> _Part:
    items = page.items[:left]
    more = page.next is not None or len(page.items) > len(items)
    cut = more and len(items) >= left
    return _Part(form.rows(items), len(items), None if cut else page.next, cut)


async def _file(form: _Form, chunk: Chunk, part: _Part) -> AsyncIterator[bytes]:
    sent = 0
    yield form.head()
    while True:
        yield part.text
        sent += part.rows
        if part.next is None:
            break
        part = await in_thread(_read, form, chunk, part.next, MAX_ROWS - sent)
    if foot := form.foot(part.cut):
        yield foot


def _read(form: _Form, chunk: Chunk, cursor: str, left: int) -> _Part:
    return _part(form, chunk(cursor), left)


class _Form(Protocol):
    media: str

    def head(self) -> bytes: ...
    def rows(self, items: list[dict[str, Any]]) -> bytes: ...
    def foot(self, cut: bool) -> bytes: ...


class _Csv:
    media = "text/csv; charset=utf-8"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def head(self) -> bytes:
        return _lines([list(self.columns)])

    def rows(self, items: list[dict[str, Any]]) -> bytes:
        return _lines([[cell(read(row)) for read in self.columns.values()] for row in items])

    def foot(self, cut: bool) -> bytes:
        return _lines([[f"# truncated: only the first {MAX_ROWS} rows are here"]]) if cut else b""


def _lines(rows: list[list[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


def cell(value: Any) -> str:
    """Return a cell's text; one that a spreadsheet would take for a formula gets an apostrophe before it.

    An object or a list is JSON with sorted keys, so that what was hashed can be read back.
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(timezone.get_default_timezone()).isoformat().replace("+00:00", "Z")
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z | orjson.OPT_SORT_KEYS).decode()
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


class _Json:
    """``{"items": […], "truncated": false, "limit": 50000}``."""

    media = "application/json"

    def __init__(self, columns: Columns) -> None:
        self.columns, self.comma = columns, b"\n"

    def head(self) -> bytes:
        return b'{"items": ['

    def rows(self, items: list[dict[str, Any]]) -> bytes:
        found = []
        for row in items:
            body = {name: read(row) for name, read in self.columns.items()}
            found.append(self.comma + orjson.dumps(body, default=str, option=orjson.OPT_UTC_Z))
            self.comma = b",\n"
        return b"".join(found)

    def foot(self, cut: bool) -> bytes:
        return b'\n], "truncated": %b, "limit": %d}\n' % (b"true" if cut else b"false", MAX_ROWS)


_FORMS: dict[str, type[_Csv] | type[_Json]] = {"csv": _Csv, "json": _Json}
