"""What differs between two JSON values, leaf by leaf, with types: numbers stay numbers, 1 is not "1". Pure."""

from __future__ import annotations

from typing import Any

_NOTHING = object()
MAX_CHANGES = 500


def changes(before: Any, after: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return the first changes and whether there are more.

    A change: {path (a JSON pointer), op: added | removed | changed, before?, after?, type_before?, type_after?}.
    """
    found: list[dict[str, Any]] = []
    _walk(before, after, "", found)
    return found[:MAX_CHANGES], len(found) > MAX_CHANGES


def _walk(before: Any, after: Any, path: str, found: list[dict[str, Any]]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            _walk(before.get(key, _NOTHING), after.get(key, _NOTHING), f"{path}/{_token(key)}", found)
    elif isinstance(before, list) and isinstance(after, list):
        for i in range(max(len(before), len(after))):
            old = before[i] if i < len(before) else _NOTHING
            new = after[i] if i < len(after) else _NOTHING
            _walk(old, new, f"{path}/{i}", found)
    elif type(before) is not type(after) or before != after:
        found.append(_change(before, after, path))


def _change(before: Any, after: Any, path: str) -> dict[str, Any]:
    if before is _NOTHING:
        return {"path": path, "op": "added", "after": after, "type_after": kind_of(after)}
    if after is _NOTHING:
        return {"path": path, "op": "removed", "before": before, "type_before": kind_of(before)}
    types = {"type_before": kind_of(before), "type_after": kind_of(after)}
    return {"path": path, "op": "changed", "before": before, "after": after, **types}


def kind_of(value: Any) -> str:
    """Return the JSON type of a value; whole numbers are told apart from others."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
