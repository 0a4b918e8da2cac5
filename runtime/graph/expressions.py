"""Expressions (CEL) and templates: how a step computes its input from what came before (A9.3, C2.8).

Never ``eval``, no template language: CEL has no loops without bounds and no side effects. Plain paths such as
``nodes.load.output.amount``, which are most of what workflows hold, are walked in Python without the library.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runtime.graph.cellib import cel
from runtime.graph.celscan import MAX_CHARS, scan, shorten
from runtime.kernel.errors import InvalidExpression

CONTEXT_NAMES = frozenset({"input", "nodes", "run", "task"})
MAX_COMPREHENSION_ITEMS = 10_000
_SAFE_INT = 2**53 - 1

_NAME = r"(?!(?:true|false|null|in)\b)[A-Za-z_]\w*"
_PATH = re.compile(
    rf"""{_NAME}(?:\.{_NAME}|\[(?:\d{{1,9}}|"[^"\\\n]*"|'[^'\\\n]*')\])*\Z""",
    re.ASCII,
)
_PART = re.compile(r"""\.?([A-Za-z_]\w*)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]""", re.ASCII)

_SYNTAX = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*?)(?: expecting \{.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression.

    ``names`` are the context names it reads (``input``, ``nodes``, …), ``node_refs`` the node ids it reads through
    ``nodes.<id>`` or ``nodes["<id>"]``; ``path`` is set when it is a plain path and needs no library.
    """

    text: str
    names: frozenset[str]
    node_refs: frozenset[str]
    path: tuple[str | int, ...] | None = None
    program: Any = None
    macros: int = 0
    patterns: int = 0

    def evaluate(self, context: Mapping[str, Any], where: str | None = None) -> Any:
        """Return the value as JSON (times as RFC 3339 text, durations as seconds).

        ``context`` maps names to JSON; ``nodes`` maps ids to ``{"status", "output", "error"}``.
        Raises InvalidExpression when a member is missing, types do not fit or the value is no JSON.
        """
        if self.path is not None:
            return self._walk(context, where)
        variables = {name: context[name] for name in self.names if name in context}
        if "nodes" in variables:
            nodes = variables["nodes"]
            variables["nodes"] = {ref: nodes[ref] for ref in self.node_refs if ref in nodes}
        if self.macros and _count(variables, MAX_COMPREHENSION_ITEMS) > MAX_COMPREHENSION_ITEMS:
            raise self._failed(f"runs over more than {MAX_COMPREHENSION_ITEMS} values", where)
        try:
            value = self.program.execute(variables)
        except BaseException as problem:
            # The library's panics derive from BaseException only; anything else of that kind must pass.
            if isinstance(problem, Exception) or type(problem).__name__ == "PanicException":
                raise self._failed(_first_line(problem), where) from None
            raise
        return _as_json(value, self, where)

    def test(self, context: Mapping[str, Any], where: str | None = None) -> bool:
        """Return the value of a condition. Raises InvalidExpression when it is not true or false."""
        value = self.evaluate(context, where)
        if isinstance(value, bool):
            return value
        raise self._failed(f"gives {_kind(value)} where true or false is needed", where)

    def _walk(self, context: Mapping[str, Any], where: str | None) -> Any:
        value: Any = context
        for depth, part in enumerate(self.path or ()):
            try:
                if isinstance(value, (str, bytes)) or (isinstance(part, str) and isinstance(value, list)):
                    raise TypeError
                value = value[part]
            except (KeyError, IndexError, TypeError):
                parent = "the context" if depth == 0 else "`" + _path_text(self.path[:depth]) + "`"  # type: ignore[index]
                raise self._failed(f"{parent} has no member `{part}`", where) from None
        return value

    def _failed(self, detail: str, where: str | None) -> InvalidExpression:
        return InvalidExpression(
            f"`{shorten(self.text)}`: {detail}",
            where=where,
            remediation="Correct the expression, or guard it: `has(a.b) ? a.b : null`.",
        )


@lru_cache(maxsize=8192)
def compile_expression(text: str, allowed: frozenset[str] = CONTEXT_NAMES) -> Expression:
    """Compile ``text``; equal texts share one compiled expression.

    Raises InvalidExpression for a syntax error, an unknown name or function, a computed node id, or an expression
    longer or deeper than the bounds of ``celscan``.
    """
    stripped = text.strip()
    if len(stripped) <= MAX_CHARS and _PATH.match(stripped):
        parts = _split(stripped)
        _check_names({str(parts[0])}, allowed, text)
        refs = frozenset([_node_of(parts, text)]) if parts[0] == "nodes" else frozenset()
        return Expression(text, frozenset([str(parts[0])]), refs, path=parts)
    found = scan(text)
    _check_names(found.roots, allowed, text)
    try:
        program = cel.compile(text)
    except BaseException as problem:
        if isinstance(problem, Exception) or type(problem).__name__ == "PanicException":
            raise InvalidExpression(
                f"`{shorten(text)}`: {_first_line(problem)}", remediation="Correct the syntax; expressions are CEL."
            ) from None
        raise
    return Expression(
        text, frozenset(found.roots), frozenset(found.node_refs), None, program, found.macros, found.patterns
    )


def _split(path: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for match in _PART.finditer(path):
        name, number, double, single = match.groups()
        parts.append(int(number) if number is not None else next(p for p in (name, double, single) if p is not None))
    return tuple(parts)


def _path_text(parts: tuple[str | int, ...]) -> str:
    return "".join(
        f"[{p}]" if isinstance(p, int) else (f".{p}" if p.isidentifier() else f'["{p}"]') for p in parts
    ).lstrip(".")


def _node_of(parts: tuple[str | int, ...], text: str) -> str:
    if len(parts) < 2 or isinstance(parts[1], int):
        raise InvalidExpression(
            f"`{shorten(text)}`: `nodes` must be followed by the id of a node",
            remediation='Write `nodes.load.output` or `nodes["an id"].output`.',
        )
    return parts[1]


def _check_names(names: set[str], allowed: frozenset[str], text: str) -> None:
    unknown = sorted(names - allowed)
    if unknown:
        raise InvalidExpression(
            f"`{shorten(text)}`: nothing is named `{unknown[0]}`",
            remediation=f"Known here: {', '.join(sorted(allowed))}. Texts need quotes.",
        )


def _first_line(problem: BaseException) -> str:
    if isinstance(problem, KeyError):
        return f"no member {problem}"
    text = str(problem)
    syntax = _SYNTAX.search(text)
    if syntax is not None:
        return f"line {syntax[1]}, column {syntax[2]}: {shorten(syntax[3])}"
    lines = [line for line in text.splitlines() if line.strip()]
    return shorten(lines[0] if lines else type(problem).__name__, 200)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}.get(
        type(value), "an object"
    )


def _count(value: Any, limit: int) -> int:
    """Return the number of values inside ``value``; counting stops above ``limit``."""
    total, stack = 0, [value]
    while stack and total <= limit:
        item = stack.pop()
        if isinstance(item, dict):
            total += len(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            total += len(item)
            stack.extend(item)
    return total


def _as_json(value: Any, expression: Expression, where: str | None) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if -_SAFE_INT <= value <= _SAFE_INT:
            return value
        raise expression._failed("gives an integer beyond 2^53-1, which JSON does not carry safely", where)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise expression._failed("gives a number that is not finite", where)
    if isinstance(value, list):
        return [_as_json(item, expression, where) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _as_json(item, expression, where) for key, item in value.items()}
        raise expression._failed("gives an object whose keys are not texts", where)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise expression._failed(f"gives a {type(value).__name__}, which is no JSON", where)
