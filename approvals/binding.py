"""Which arguments of a call its identity is made of: its business key, and the target that was approved. Pure.

A person's edit changes neither. A field that the workflow takes from the same place as the key would say one thing
while the key, by which the effect is known for ever, says another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from runtime.graph.celscan import paths
from runtime.graph.expressions import Expression
from runtime.graph.plan import Plan
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import BadInput

Place = tuple[str | int, ...]
_NOTHING = object()
_CONVERTED = re.compile(r"(?:string|int|uint|double|dyn)\((.*)\)", re.DOTALL)
_PATH = re.compile(r"""[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d+|"[^"\\]*"|'[^'\\]*')\])*""")


def refuse_rebinding(plan: Plan, asked_at: str, node: str, before: Any, after: Any) -> None:
    """Raise BadInput when an edit of ``node``'s arguments changes one that its key or target is made of."""
    template, key, target = plan.nodes[node].input, plan.nodes[node].business_key, plan.nodes[asked_at].target
    if template is None:
        return
    targets = [] if target is None else [expression for _place, expression in target.sources()]
    for what, expressions in (("business key", [key] if key is not None else []), ("target", targets)):
        fixed = {path for expression in expressions for path in paths(expression.text)}
        for place in _made_of(template.sources(), fixed):
            if _at(before, place) != _at(after, place):
                where = "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in place)
                raise BadInput(
                    f"The call's {what} is made of this value and stays as it is.",
                    where=f"/arguments/{where}" if where else "/arguments",
                    remediation="Leave it as it is; or reject the request and start a run with another input.",
                )


def _made_of(sources: Iterable[tuple[Place, Expression]], fixed: set[tuple[str, ...]]) -> Iterator[Place]:
    """Yield the places of the arguments that come from where ``fixed`` comes from, as narrow as can be told.

    A text that was put together is no such place: a letter may be reworded though it names whom the key names.
    """
    for place, expression in sources:
        if not (own := _plain(expression.text)):
            continue
        for path in fixed:
            if own == path[: len(own)]:
                yield (*place, *path[len(own) :])
            elif path == own[: len(path)]:
                yield place


def _plain(text: str) -> tuple[str, ...]:
    """Return the path of an expression that is one, converted at most; nothing for any other."""
    inner = text.strip()
    if (converted := _CONVERTED.fullmatch(inner)) is not None:
        inner = converted[1].strip()
    return next(iter(paths(inner)), ()) if _PATH.fullmatch(inner) else ()


def _at(value: Any, place: Place) -> Any:
    """Return the canonical bytes of what is at a place, nothing where there is nothing."""
    for part in place:
        if isinstance(value, list) and str(part).isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return _NOTHING
    return canonical_bytes(value)
