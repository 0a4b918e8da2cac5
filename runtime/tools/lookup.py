"""How a tool's effects are looked up by key: the ``lookup`` of its contract, and how an answer is read (B4.4, C3.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.graph.expressions import Expression, compile_expression
from runtime.graph.templates import Template, compile_template
from runtime.kernel.errors import InvalidExpression

if TYPE_CHECKING:
    from runtime.tools.contract import ToolContract

NAMES = frozenset({"answer", "arguments", "operation"})
_TEXT = {"type": "string", "minLength": 1, "maxLength": 4000}
_TESTS = ("applied", "partial", "in_progress", "matches")

LOOKUP_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "input": {
                    "type": "object",
                    "description": "The query tool's arguments, a template. Default: key, the operation's id.",
                },
                "applied": {**_TEXT, "description": "True: it was applied, in part or whole. Default: answer.found"},
                "partial": {**_TEXT, "description": "True: only a part was applied."},
                "in_progress": {**_TEXT, "description": "True: the tool still works on it."},
                "matches": {**_TEXT, "description": "False: what stands under the key is another effect."},
                "result": {"description": "What the step's output becomes, a template. Default: the answer."},
                "reference": {**_TEXT, "description": "The tool's own reference of the effect."},
                "consistent_after_s": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 8640000,
                    "description": "Before so many seconds have passed since the call, not found says nothing.",
                },
                "retention_s": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 3.2e9,
                    "description": "The tool knows a key at least so long; later, not found says nothing.",
                },
            },
        },
    ]
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A compiled ``lookup``. Expressions read ``answer``, ``arguments`` and ``operation``."""

    input: Template
    applied: Expression
    partial: Expression | None
    in_progress: Expression | None
    matches: Expression | None
    result: Template
    reference: Expression | None

    def test(self, name: str, context: Mapping[str, Any], otherwise: bool) -> bool:
        """Return a condition's value, ``otherwise`` when the contract has none. Raises InvalidExpression."""
        expression: Expression | None = getattr(self, name)
        return otherwise if expression is None else expression.test(context)


def compile_lookup(lookup: Mapping[str, Any] | None) -> Reading:
    """Compile a contract's lookup; None is the convention ``{"found": …}``. Raises InvalidExpression with a place."""
    value = dict(lookup or {})
    tests = {name: _compiled(value.get(name), f"/lookup/{name}") for name in (*_TESTS, "reference")}
    return Reading(
        input=compile_template(value.get("input", {"key": {"$": "operation.id"}}), "/lookup/input", NAMES),
        applied=tests["applied"] or compile_expression("answer.found", NAMES),
        partial=tests["partial"],
        in_progress=tests["in_progress"],
        matches=tests["matches"],
        result=compile_template(value.get("result", {"$": "answer"}), "/lookup/result", NAMES),
        reference=tests["reference"],
    )


def _compiled(text: str | None, where: str) -> Expression | None:
    if text is None:
        return None
    try:
        return compile_expression(text, NAMES)
    except InvalidExpression as problem:
        problem.where = where
        raise


_readings: dict[bytes, Reading] = {}


def reading_of(contract: ToolContract) -> Reading:
    """Return the compiled lookup of a contract, compiled once."""
    found = _readings.get(contract.digest)
    if found is None:
        if len(_readings) > 4096:
            _readings.clear()
        found = _readings[contract.digest] = compile_lookup(contract.lookup)
    return found
