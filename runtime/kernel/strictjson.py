"""The slow half of ``canonical``: reads JSON by hand, without recursion, and names the place of what is wrong.

It judges what the fast parser doubts; for anything acceptable both give the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # the scanner json itself uses
from typing import Any

from runtime.kernel.errors import InvalidJSON

SAFE_INT = 2**53 - 1
# RFC 8785 writes whole numbers below this with all their digits, so that they read back as integers.
EXPONENT_FROM = 1e21

NUL = ("the text holds a NUL character", "Remove the character U+0000.")
HALF_PAIR = ("the text holds half of a surrogate pair", "Remove the character or send the whole pair.")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_HALF = re.compile(r"[\ud800-\udfff]")
_WORDS = {"true": True, "false": False, "null": None}
_ALIEN = re.compile(r"-?(?:NaN|Infinity|nan|inf|None|True|False|undefined)\b")
_MISSING = object()


def pointer(path: Iterable[str | int]) -> str:
    """Return ``path`` as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def line_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column, both from 1, of position ``at``."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def text_problem(text: str) -> tuple[str, str] | None:
    """Return (detail, mend) when ``text`` cannot be stored, else None."""
    if "\x00" in text:
        return NUL
    return HALF_PAIR if not text.isascii() and _HALF.search(text) else None


def number_problem(text: str) -> tuple[str, str] | None:
    """Return (detail, mend) when the number ``text`` does not survive as a double in canonical form, else None.

    It survives when the shortest text of its double has the same value and the canonical form does not write it as an
    integer beyond 2^53-1, which other readers round.
    """
    mend = "Send it as a text."
    shown = text if len(text) <= 40 else text[:37] + "..."
    if text.lstrip("-").isdigit():
        if len(text) > 17 or abs(int(text)) > SAFE_INT:
            return f"the integer {shown} is beyond 2^53-1 and would be rounded", mend
        return None
    value = float(text)
    if value in (float("inf"), float("-inf")) or value != value:
        return f"the number {shown} is beyond what a double holds", mend
    if SAFE_INT < abs(value) < EXPONENT_FROM:
        return f"the number {shown} is beyond 2^53-1 and would be rounded", mend
    # Decimal compares exactly, but expanding an exponent of millions would take forever: bound the text first.
    if value == 0.0:
        same = not re.search(r"[1-9]", re.split("[eE]", text)[0])
    else:
        same = len(text) <= 400 and Decimal(text) == Decimal(repr(value))
    if not same:
        return f"the number {shown} has more digits than a double holds: it would become {value!r}", mend
    return None


class _Parser:
    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.at = 0
        self.path: list[str | int] = []
        # One frame per open container; the parts of ``path`` are the members being read.
        self.boxes: list[dict[str, Any] | list[Any]] = []

    def refuse(self, detail: str, mend: str, at: int | None = None, *, syntax: bool = False) -> InvalidJSON:
        line, column = line_column(self.text, self.at if at is None else at)
        place = f"line {line}, column {column}"
        where = pointer(self.path)
        if syntax or not where:
            return InvalidJSON(f"{detail} at {place}", where=place, remediation=mend)
        if len(where) > 300:
            where = where[:300] + "…"
        return InvalidJSON(f"{detail} ({place})", where=where, remediation=mend)

    def space(self) -> str:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def parse(self) -> Any:
        value = self._value_or_open()
        while self.boxes:
            box = self.boxes[-1]
            if value is not _MISSING:
                if isinstance(box, list):
                    box.append(value)
                else:
                    box[self.path[-1]] = value  # type: ignore[index]
            value = self._next(box, first=value is _MISSING)
        if self.space():
            raise self.refuse("text after the end of the JSON value", "Send exactly one value.", syntax=True)
        return value

    def _next(self, box: dict[str, Any] | list[Any], *, first: bool) -> Any:
        """Go on in ``box``: return a member's value, the closed box as a value, or _MISSING for an opened one."""
        char, end = self.space(), "]" if isinstance(box, list) else "}"
        if char == end:
            self.at += 1
            self.boxes.pop()
            self.path.pop()
            return box
        if not first:
            if char != ",":
                raise self.refuse(f"expected `,` or `{end}`", "Correct the JSON text.", syntax=True)
            self.at += 1
        if isinstance(box, list):
            self.path[-1] = len(box)
        else:
            self._key(box)
        return self._value_or_open()

    def _key(self, box: dict[str, Any]) -> None:
        if self.space() != '"':
            raise self.refuse("expected a key in double quotes", "Correct the JSON text.", syntax=True)
        start = self.at
        key = self._string()
        self.path[-1] = key
        if (problem := text_problem(key)) is not None:
            self.path.pop()
            raise self.refuse(f"a key cannot be kept: {problem[0]}", problem[1], start)
        if key in box:
            raise self.refuse("the key is given twice", "Keep one of the two members.", start)
        if self.space() != ":":
            raise self.refuse("expected `:`", "Correct the JSON text.", syntax=True)
        self.at += 1

    def _value_or_open(self) -> Any:
        char = self.space()
        if char == '"':
            start = self.at
            text = self._string()
            if (problem := text_problem(text)) is not None:
                raise self.refuse(problem[0], problem[1], start)
            return text
        if char in ("{", "["):
            if len(self.boxes) >= self.max_depth:
                raise self.refuse(f"nested deeper than {self.max_depth}", "Flatten the value.")
            self.boxes.append({} if char == "{" else [])
            self.path.append(0)
            self.at += 1
            return _MISSING
        return self._scalar()

    def _scalar(self) -> Any:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        if (alien := _ALIEN.match(self.text, self.at)) is not None:
            raise self.refuse(f"{alien.group()} is no JSON value", "Send null, or the value as a text.")
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            if self.text.startswith("\ufeff", self.at):
                raise self.refuse("the text starts with a byte order mark", "Send UTF-8 without one.", syntax=True)
            raise self.refuse("expected a value", "Correct the JSON text.", syntax=True)
        text = number.group()
        if (problem := number_problem(text)) is not None:
            raise self.refuse(*problem)
        self.at = number.end()
        return int(text) if number.group(1) is None and number.group(2) is None else float(text)

    def _string(self) -> str:
        text: str
        try:
            text, self.at = scanstring(self.text, self.at + 1, True)
        except JSONDecodeError as problem:
            detail = problem.msg[0].lower() + problem.msg[1:].removesuffix(" at")
            raise self.refuse(
                detail, "Escape control characters and close the text.", problem.pos, syntax=True
            ) from None
        return text


def parse(text: str, max_depth: int) -> Any:
    """Return the value of ``text``. Raises InvalidJSON with the place of the first thing that is wrong."""
    return _Parser(text, max_depth).parse()
