"""How a tool's target is looked at before a call: the ``target_version`` of its contract (C5.3, C5.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.graph.expressions import Expression, compile_expression
from runtime.graph.templates import Template, compile_template
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import InvalidExpression, QuarterdeckError

if TYPE_CHECKING:
    from runtime.tools.contract import ToolContract

NAMES = frozenset({"answer", "arguments"})
MOST_CHARACTERS = 200

PRESENT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["tool", "input", "version"],
            "properties": {
                "tool": {"type": "string", "minLength": 1, "maxLength": 220, "description": "A tool that reads."},
                "input": {"type": "object", "description": "Its arguments, a template over the call's `arguments`."},
                "version": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 4000,
                    "description": "The target's version or etag, an expression over its `answer`.",
                },
            },
        },
    ]
}


@dataclass(frozen=True, slots=True)
class Present:
    """A compiled ``target_version``: the tool that is asked, with what, and where its answer has the version."""

    tool: str
    input: Template
    version: Expression

    def version_in(self, arguments: Mapping[str, Any], answer: Any) -> str:
        """Return the version as an answer has it, in the form that requests keep it. Raises QuarterdeckError."""
        value = self.version.evaluate({"arguments": arguments, "answer": answer})
        text = value if isinstance(value, str) else canonical_bytes(value).decode()
        if value is None or not 0 < len(text) <= MOST_CHARACTERS or "\x00" in text:
            raise QuarterdeckError(f"A target's version has 1 to {MOST_CHARACTERS} characters and no NUL.")
        return text


def compile_present(value: Mapping[str, Any] | None) -> Present | None:
    """Compile a contract's ``target_version``. Raises InvalidExpression with a place."""
    if value is None:
        return None
    try:
        version = compile_expression(value["version"], NAMES)
    except InvalidExpression as problem:
        problem.where = "/target_version/version"
        raise
    return Present(value["tool"], compile_template(value["input"], "/target_version/input", NAMES), version)


_compiled: dict[bytes, Present | None] = {}


def present_of(contract: ToolContract) -> Present | None:
    """Return the compiled ``target_version`` of a contract, compiled once; None when it declares none."""
    if contract.target_version is None:
        return None
    if contract.digest not in _compiled:
        if len(_compiled) > 4096:
            _compiled.clear()
        _compiled[contract.digest] = compile_present(contract.target_version)
    return _compiled[contract.digest]
