"""A payload as fields that people compare: name, type, value; and what follows a decision. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from runtime.kernel.unseen import has_hidden

MAX_FIELDS = 200


class Fields(NamedTuple):
    """Rows as people compare them; ``cut``: there are more, so who reads only these has not read all of it."""

    rows: list[dict[str, str]]
    cut: bool = False


def fields(value: Any, path: str = "") -> Fields:
    """Return {path, name, type, value} of the first leaves; a deep or long value stays one row of JSON."""
    rows: list[dict[str, str]] = []
    _walk(value, path, rows, 0)
    return Fields(rows[:MAX_FIELDS], len(rows) > MAX_FIELDS)


def _walk(value: Any, path: str, rows: list[dict[str, str]], depth: int) -> None:
    if isinstance(value, dict) and value and depth < 3:
        for key, inner in value.items():
            _walk(inner, f"{path}.{key}" if path else str(key), rows, depth + 1)
    elif isinstance(value, list) and value and depth < 3 and any(isinstance(one, dict) for one in value):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", rows, depth + 1)
    elif value is not None or path:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        last = path.rpartition(".")[2] or path
        rows.append({"path": path, "name": _name(last), "type": kind(value), "value": text})


def hides(value: Any) -> bool:
    """Say whether any text in a value, a name included, has characters that nobody sees."""
    if isinstance(value, str):
        return has_hidden(value)
    if isinstance(value, dict):
        return any(has_hidden(str(key)) or hides(inner) for key, inner in value.items())
    return isinstance(value, list) and any(hides(inner) for inner in value)


def _name(key: str) -> str:
    """Return a field's name as words: ``order_id`` is read "Order id"."""
    words = key.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def kind(value: Any) -> str:
    """Return a value's type in plain words."""
    if value is None:
        return _("nothing")
    if isinstance(value, bool):
        return _("yes or no")
    if isinstance(value, int | float):
        return _("number")
    if isinstance(value, str):
        return _("text")
    return _("list") if isinstance(value, list) else _("object")


def amount_of(value: Any) -> str:
    """Return the amount that a payload names, with its currency; an empty text when it names none."""
    if not isinstance(value, dict):
        return ""
    amount = next((value[key] for key in ("amount", "total", "sum") if key in value), None)
    if not isinstance(amount, str | int | float) or isinstance(amount, bool):
        return ""
    currency = value.get("currency")
    return f"{currency} {amount}" if isinstance(currency, str) and len(currency) <= 5 else str(amount)


def follows(graph: dict[str, Any], node: str) -> list[dict[str, Any]]:
    """Return the steps that may start after ``node``, in the order of the graph: {title, tool, kind}."""
    after: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        if edge["taken"] is not False:
            after.setdefault(edge["source"], []).append(edge["target"])
    reached, ahead = {node}, [node]
    while ahead:
        fresh = [one for one in after.get(ahead.pop(), ()) if one not in reached]
        reached.update(fresh)
        ahead += fresh
    return [
        {"title": one["title"], "tool": one["tool"], "kind": one["kind"]}
        for one in graph["nodes"]
        if one["id"] in reached and one["id"] != node
    ]
