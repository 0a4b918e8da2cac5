"""What a task may say of its retries, success and budget: the forms that the API shows and the action checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.graph.spec import RETRY
from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import compile_schema

# Success and budget may say more than is named here: it is kept as it came.
TERMS: dict[str, dict[str, Any]] = {
    "retry": {**RETRY, "description": "Laid over the workflow's and the tools' own policies, member by member."},
    "success": {
        "type": "object",
        "description": "The success criterion, citing evidence and a verifier; kept, not acted on yet.",
        "properties": {
            "criterion": {"type": "string", "minLength": 1, "maxLength": 20_000},
            "verifier": {"type": "string", "minLength": 1, "maxLength": 220, "description": "name@version"},
            "evidence": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1}},
        },
    },
    "budget": {
        "type": "object",
        "description": "What the task may cost; kept, not acted on yet.",
        "properties": {
            "limit": {"type": "string", "maxLength": 30, "pattern": r"^[0-9]+(\.[0-9]+)?$", "description": "Money."},
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "ISO 4217."},
        },
        "dependentRequired": {"limit": ["currency"]},
    },
}
_COMPILED = {name: compile_schema(schema) for name, schema in TERMS.items()}


def check_terms(terms: Mapping[str, Any]) -> None:
    """Raise BadInput, naming the place, when one of a task's ``retry``, ``success`` and ``budget`` has another form."""
    for name, compiled in _COMPILED.items():
        if not compiled.fits(terms[name]):
            problem = compiled.problems(terms[name], 1)[0]
            raise BadInput(f"{name}: {problem.detail}", where=f"/{name}{problem.where}", remediation=problem.mend)
