"""What a task may say of its retries, success, budget and scope: the forms that the API shows, the action checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.graph.spec import RETRY
from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import compile_schema

_NAMES = {"type": "array", "maxItems": 1000, "items": {"type": "string", "minLength": 1, "maxLength": 200}}
TERMS: dict[str, dict[str, Any]] = {
    "retry": {**RETRY, "description": "Laid over the workflow's and the tools' own policies, member by member."},
    "success": {
        "type": "object",
        "description": "Met by an Outcome of this verifier that cites this evidence (A4.1, A2.5).",
        "properties": {
            "criterion": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "In words."},
            "verifier": {
                "type": "string",
                "maxLength": 220,
                "pattern": r"^[^@\s]{1,200}@[1-9][0-9]{0,8}$",
                "description": "name@version of a registered verifier; without it any authorised one.",
            },
            "evidence": {
                **_NAMES,
                "maxItems": 100,
                "description": "Kinds that the Outcome has to cite: artifact, operation, checkpoint, or a tool's name.",
            },
        },
        "additionalProperties": False,
    },
    "budget": {
        "type": "object",
        "description": "What each run of the task may use; what goes beyond it fails with class budget, unsent (C3.2).",
        "properties": {
            "calls": {
                "type": "integer",
                "minimum": 0,
                "maximum": 2**31 - 1,
                "description": "Calls, retries too.",
            },
            "effects": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "description": "Operations begun."},
            "limit": {
                "type": "string",
                "maxLength": 30,
                "pattern": r"^[0-9]+(\.[0-9]+)?$",
                "description": "Money; kept, not enforced while costs are not metered.",
            },
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "ISO 4217."},
        },
        "dependentRequired": {"limit": ["currency"]},
        "additionalProperties": False,
    },
    "scope": {
        "type": "object",
        "description": "The permissions of the task's runs: which tools they may call, and with which scopes (C1.2).",
        "properties": {
            "tools": {**_NAMES, "description": "name or name@version; without it any."},
            "scopes": {**_NAMES, "description": "What called tools may ask for; without it anything."},
        },
    },
}
_COMPILED = {name: compile_schema(schema) for name, schema in TERMS.items()}


def check_terms(terms: Mapping[str, Any]) -> None:
    """Raise BadInput, naming the place, when one of a task's terms has another form."""
    for name, compiled in _COMPILED.items():
        if name in terms and not compiled.fits(terms[name]):
            problem = compiled.problems(terms[name], 1)[0]
            raise BadInput(f"{name}: {problem.detail}", where=f"/{name}{problem.where}", remediation=problem.mend)


def known_budget(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a task's stored budget has today's form: earlier versions kept whatever came."""
    return {name: value for name, value in stored.items() if _COMPILED["budget"].fits({name: value})}
