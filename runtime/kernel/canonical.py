"""JSON without loss: a strict parser, the canonical bytes of a value (RFC 8785) and their hash.

The canonical bytes are the truth of a payload: they are stored, hashed and executed. So whatever the canonical form
cannot carry is refused at the door, with the place and the mend: duplicate keys, NaN, lone surrogates, NUL, integers
beyond 2^53-1, decimals that a double does not hold.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

import orjson
import rfc8785

from runtime.kernel import strictjson
from runtime.kernel.errors import InvalidJSON, PayloadTooLarge
from runtime.kernel.strictjson import EXPONENT_FROM, SAFE_INT, number_problem, pointer

MAX_BYTES = 1_000_000
MAX_DEPTH = 64

# Whatever one of these meets is looked at again by the slow parser, which decides and names the place.
_SUSPICIOUS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_LONG_DIGITS = re.compile(r"\d{16}")


class _Doubt(Exception):
    """The fast parser met something the slow parser has to judge."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Doubt
    return result


def _float(text: str) -> float:
    value = float(text)
    # Nearly every decimal that people send is the shortest text of its double; the rest is judged slowly.
    if repr(value) != text and number_problem(text) is not None:
        raise _Doubt
    if SAFE_INT < abs(value) < EXPONENT_FROM:
        raise _Doubt
    return value


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > SAFE_INT:
        raise _Doubt
    return value


def _constant(text: str) -> NoReturn:
    raise _Doubt


_fast = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_float, parse_constant=_constant).decode
_fast_long = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_float, parse_constant=_constant, parse_int=_integer
).decode


def parse_strict(
    raw: bytes | bytearray | memoryview | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> Any:
    """Return the value of the JSON text ``raw``; ``1.0`` stays a float and ``1`` an int.

    Raises PayloadTooLarge above ``max_bytes`` (UTF-8), and InvalidJSON, whose ``where`` is a JSON pointer or the line
    and column, for anything the canonical form cannot carry or nested deeper than ``max_depth`` containers.
    """
    text = _text(raw, max_bytes)
    if _SUSPICIOUS.search(text) is None:
        try:
            value = (_fast_long if _LONG_DIGITS.search(text) else _fast)(text)
        except (_Doubt, ValueError, RecursionError):
            pass
        else:
            if text.count("[") + text.count("{") <= max_depth or not _deeper(value, max_depth):
                return value
    return strictjson.parse(text, max_depth)


def _text(raw: bytes | bytearray | memoryview | str, max_bytes: int) -> str:
    size = len(raw)
    if size <= max_bytes:
        try:
            if not isinstance(raw, str):
                return bytes(raw).decode("utf-8")
            if raw.isascii() or (size := len(raw.encode("utf-8"))) <= max_bytes:
                return raw
        except UnicodeDecodeError as problem:
            place = f"byte {problem.start + 1}"
            raise InvalidJSON(f"{place} is not UTF-8", where=place, remediation="Send UTF-8.") from None
        except UnicodeEncodeError as problem:
            line, column = strictjson.line_column(problem.object, problem.start)
            place = f"line {line}, column {column}"
            raise InvalidJSON(strictjson.HALF_PAIR[0], where=place, remediation=strictjson.HALF_PAIR[1]) from None
    raise PayloadTooLarge(f"the payload has {size} bytes; the limit is {max_bytes}", limit=max_bytes, size=size)


def _deeper(value: Any, max_depth: int) -> bool:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        if depth > max_depth:
            return True
        level = [item for box in level for item in (box.values() if isinstance(box, dict) else box)]
    return False


_ORJSON = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)


def canonical_bytes(value: Any, *, max_bytes: int | None = None) -> bytes:
    """Return the RFC 8785 form of ``value`` (dict, list, tuple, str, int, float, bool, None).

    Raises InvalidJSON with a JSON pointer for what that form cannot carry or ``parse_strict`` would refuse to read
    back: NaN, infinities, numbers beyond 2^53-1, lone surrogates, NUL, other types. Raises PayloadTooLarge above
    ``max_bytes``, before so much is written: a value may hold the same large part many times.
    """
    result = _written(value, max_bytes)
    if max_bytes is not None and len(result) > max_bytes:
        raise PayloadTooLarge(f"The value has {len(result)} bytes, the limit is {max_bytes}.", limit=max_bytes)
    return result


def _written(value: Any, max_bytes: int | None) -> bytes:
    if max_bytes is not None and _larger(value, max_bytes):
        raise PayloadTooLarge(f"The value has more than {max_bytes} bytes, the limit.", limit=max_bytes)
    try:
        result = orjson.dumps(value, option=_ORJSON) if _same_in_orjson(value) else _by_rfc8785(value)
    except (ValueError, TypeError, RecursionError):
        _explain(value)
    if b"\\u0000" in result:
        _refuse_nul(value)
    return result


def _same_in_orjson(value: Any) -> bool:
    """Return whether orjson writes ``value`` as RFC 8785 does.

    It does for ASCII keys (UTF-16 order is byte order then), safe integers, and decimals that neither form writes with
    an exponent or without a fraction. Its escapes are the same.
    """
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is dict:
            for key in item:
                if type(key) is not str or not key.isascii():
                    return False
            stack.extend(item.values())
        elif kind is list:
            stack.extend(item)
        elif kind is float:
            if item.is_integer() or not 1e-4 <= abs(item) < 1e15:
                return False
        elif not (kind is str or kind is int or kind is bool or item is None):
            return False
    return True


def _larger(value: Any, most: int) -> bool:
    """Return whether ``value`` surely has more than ``most`` bytes; it is looked through no further than that."""
    size, stack = 0, [value]
    while stack and size <= most:
        item = stack.pop()
        if isinstance(item, (str, dict, list, tuple)):
            size += len(item) + 2
        else:
            size += 1
        if isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return size > most


def _by_rfc8785(value: Any) -> bytes:
    for item in _floats(value):
        if SAFE_INT < abs(item) < EXPONENT_FROM:
            raise ValueError
    return rfc8785.dumps(value)


def _floats(value: Any) -> list[float]:
    found, stack = [], [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            found.append(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return found


def _explain(value: Any) -> NoReturn:
    """Raise InvalidJSON that names the first place of ``value`` which has no canonical form."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        if len(path) > 900:
            raise InvalidJSON("nested too deeply", where=pointer(path[:8]) + "/…", remediation="Flatten the value.")
        problem = _problem(item)
        if problem is not None:
            raise InvalidJSON(problem[0], where=pointer(path), remediation=problem[1])
        if isinstance(item, dict):
            stack.extend(((*path, key), member) for key, member in reversed(item.items()))
        elif isinstance(item, (list, tuple)):
            stack.extend(((*path, i), member) for i, member in reversed(list(enumerate(item))))
    raise InvalidJSON("the value has no canonical form")


def _problem(item: Any) -> tuple[str, str] | None:
    if item is None or isinstance(item, (bool, list, tuple)):
        return None
    if isinstance(item, (int, float)):
        return number_problem(repr(float(item)) if isinstance(item, float) else str(int(item)))
    if isinstance(item, str):
        return strictjson.text_problem(item)
    if isinstance(item, dict):
        for key in item:
            if not isinstance(key, str):
                return f"the key {key!r} is a {type(key).__name__}, not a text", "Use texts as keys."
            if (problem := strictjson.text_problem(key)) is not None:
                return problem
        return None
    return f"a {type(item).__name__} is no JSON", "Convert it to a text, number, list or object first."


def _refuse_nul(value: Any) -> None:
    # The bytes may also hold an escaped backslash before "u0000", which is harmless: look at the texts themselves.
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str) and "\x00" in item:
            raise InvalidJSON(strictjson.NUL[0], where=pointer(path), remediation=strictjson.NUL[1])
        if isinstance(item, dict):
            stack.extend(((*path, key), member) for key, member in item.items())
            stack.extend((path, key) for key in item)
        elif isinstance(item, (list, tuple)):
            stack.extend(((*path, i), member) for i, member in enumerate(item))


def loads(canonical: bytes | memoryview | str) -> Any:
    """Return the value of bytes this module wrote. Trusts them: nothing is checked."""
    return orjson.loads(canonical)


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of ``data``, 32 bytes."""
    return hashlib.sha256(data).digest()


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the canonical bytes of ``value`` in hex. Raises as ``canonical_bytes`` does."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
