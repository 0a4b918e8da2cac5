"""What proves that an effect came about: the ``success_evidence`` of a contract, and how it is looked for (C3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from runtime.graph.expressions import Expression, compile_expression
from runtime.kernel.errors import InvalidExpression

if TYPE_CHECKING:
    from runtime.tools.contract import ToolContract

NAMES = frozenset({"answer", "arguments", "operation"})
NOT_PROVED = "not_proved"
Place = Literal["answer", "query"]

PROOF_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["holds"],
            "properties": {
                "holds": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 4000,
                    "description": "True: the effect is proved. Over answer, arguments and operation.",
                },
                "from": {
                    "enum": ["answer", "query"],
                    "description": "answer: the call's, or what a lookup puts in its place. query: the query's only.",
                },
                "kind": {"type": "string", "minLength": 1, "maxLength": 100, "description": "What it is: a receipt."},
            },
        },
    ]
}


def compile_proof(declared: Mapping[str, Any]) -> Expression:
    """Compile the condition of a contract's ``success_evidence``. Raises InvalidExpression."""
    return compile_expression(declared["holds"], NAMES)


def place_of(contract: ToolContract) -> Place | None:
    """Return whose answer has to show the evidence, None where a contract declares none."""
    declared = contract.success_evidence
    if declared is None:
        return None
    return "query" if declared.get("from") == "query" else "answer"


def why_not_proved(contract: ToolContract, place: Place, context: Mapping[str, Any]) -> str | None:
    """Return why an answer of ``place`` is no success, one sentence; None when it proves one, or none is declared.

    ``context`` has answer, arguments and operation. An answer in which the condition cannot be evaluated shows nothing.
    """
    declared, wanted = contract.success_evidence, place_of(contract)
    if declared is None:
        return None
    what = declared.get("kind", "evidence")
    if wanted != place:
        return f"Only what {contract.query} answers is the {what} of an effect."
    try:
        if compile_proof(declared).test(context):
            return None
    except InvalidExpression:
        return f"The answer lacks what its contract names as the {what} of an effect."
    return f"The answer does not show the {what} that its contract asks for."
