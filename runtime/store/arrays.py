"""Rows as binary PostgreSQL arrays, one per column, for ``unnest(%s::uuid[], …)``.

psycopg's own list adaptation walks every element in Python with a regular expression, and the server then parses the
text again; half of a completing batch's time went there. Types are one letter a column:

== ============================================ == ======================================
u  uuid                                         i  integer
l  bigint                                       f  float8
t  text                                         s  text of few different values
b  boolean                                      z  aware datetime
x  bytes
== ============================================ == ======================================
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format

_NULL = b"\xff\xff\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# A packer for so many numbers takes some 80 bytes a number: those of a worker's batches are kept, a bulk's are not.
_MOST_KEPT = 1024
_pack_length = struct.Struct("!i").pack
_pack_time = struct.Struct("!iq").pack


class Array(bytes):
    """One column, encoded; each subclass knows its type in PostgreSQL."""

    element = array = 0


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> Array:
        return obj


def _type(letter: str, element: int, array: int) -> type[Array]:
    """Make the class of one letter; the numbers are the types' fixed object ids (pg_type.dat)."""
    made = type(f"Array_{letter}", (Array,), {"element": element, "array": array})
    adapters.register_dumper(made, type(f"_Dumper_{letter}", (_ArrayDumper,), {"oid": array}))
    return made


_TYPES = {
    "u": _type("u", 2950, 2951),
    "i": _type("i", 23, 1007),
    "l": _type("l", 20, 1016),
    "f": _type("f", 701, 1022),
    "t": _type("t", 25, 1009),
    "b": _type("b", 16, 1000),
    "z": _type("z", 1184, 1185),
    "x": _type("x", 17, 1001),
}
_TYPES["s"] = _TYPES["t"]


@lru_cache(maxsize=256)
def _numbers(code: str, size: int, count: int) -> tuple[Callable[..., bytes], list[int]]:
    """Return what packs ``count`` numbers of one kind, and the row of lengths and places it is given."""
    return struct.Struct("!" + f"i{code}" * count).pack, [size] * (2 * count)


def _plain(code: str, size: int) -> Callable[[Sequence[Any]], bytes]:
    one = struct.Struct(f"!i{code}").pack

    def encode(column: Sequence[Any]) -> bytes:
        if len(column) > _MOST_KEPT or None in column:
            return b"".join([_NULL if v is None else one(size, v) for v in column])
        pack, places = _numbers(code, size, len(column))
        flat = places.copy()
        flat[1::2] = column
        return pack(*flat)

    return encode


def _uuids(column: Sequence[Any]) -> bytes:
    return b"".join([_NULL if v is None else b"\0\0\0\x10" + v.bytes for v in column])


def _text(value: str) -> bytes:
    data = value.encode()
    return _pack_length(len(data)) + data


def _texts(column: Sequence[Any]) -> bytes:
    return b"".join([_NULL if v is None else _text(v) for v in column])


def _symbols(column: Sequence[Any]) -> bytes:
    known = {value: _text(value) for value in set(column) if value is not None}
    known[None] = _NULL
    return b"".join([known[v] for v in column])


def _booleans(column: Sequence[Any]) -> bytes:
    return b"".join([_NULL if v is None else (b"\0\0\0\1\1" if v else b"\0\0\0\1\0") for v in column])


def _times(column: Sequence[Any]) -> bytes:
    known = {value: _time(value) for value in set(column) if value is not None}
    known[None] = _NULL
    return b"".join([known[v] for v in column])


def _time(value: datetime) -> bytes:
    since = value - _EPOCH
    return _pack_time(8, (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds)


def _bytes(column: Sequence[Any]) -> bytes:
    return b"".join([_NULL if v is None else _pack_length(len(v)) + v for v in column])


_ENCODERS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "u": _uuids,
    "i": _plain("i", 4),
    "l": _plain("q", 8),
    "f": _plain("d", 8),
    "s": _symbols,
    "t": _texts,
    "b": _booleans,
    "z": _times,
    "x": _bytes,
}
_header = struct.Struct("!iiiii").pack
_empty = struct.Struct("!iii").pack


def arrays(types: str, rows: Sequence[Sequence[Any]]) -> list[Array]:
    """Return one array per letter of ``types``. Raises ValueError when a row has another width."""
    if not rows:
        return [_TYPES[kind](_empty(0, 0, _TYPES[kind].element)) for kind in types]
    columns = list(zip(*rows, strict=True))
    if len(columns) != len(types):
        raise ValueError(f"{len(columns)} columns, {len(types)} types")
    try:
        return [_array(kind, column) for kind, column in zip(types, columns, strict=True)]
    except struct.error as problem:
        raise ValueError(f"A number does not fit its column: {problem}.") from None


def _array(kind: str, column: tuple[Any, ...]) -> Array:
    made, n, first = _TYPES[kind], len(column), column[0]
    # Most columns of a batch say the same in every row.
    if n > 1 and first == column[-1] and column.count(first) == n:
        body = _ENCODERS[kind]((first,)) * n
    else:
        body = _ENCODERS[kind](column)
    return made(_header(1, 1, made.element, n, 1) + body)
