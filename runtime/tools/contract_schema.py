"""The published JSON Schema of a tool contract (C3.1)."""

from __future__ import annotations

from typing import Any

from runtime.tools.lookup import LOOKUP_SCHEMA
from runtime.tools.present import PRESENT_SCHEMA
from runtime.tools.proof import PROOF_SCHEMA

NAME_PATTERN = r"^[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$"
REFERENCE_PATTERN = r"^[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*@[1-9][0-9]{0,8}$"
PLACEHOLDER = r"\{[?&]?([A-Za-z_][A-Za-z0-9_]*)\}"
# A contract may name a variable of the worker's environment instead of holding a secret; only this prefix is open.
OWN_ENVIRONMENT = r"^QUARTERDECK_TOOL_[A-Z0-9_]{1,80}$"

ERROR_CLASSES = (
    "network",
    "timeout",
    "rate_limited",
    "server_error",
    "validation",
    "permission",
    "not_found",
    "business",
    "policy",
    "cancelled",
    "budget",
    "protocol",
    "internal",
    "oversize",
)
# Never retried, whatever a policy says (B4.1).
FINAL_CLASSES = ("validation", "permission", "not_found", "business", "policy", "cancelled", "budget")

_TEXT = {"type": "string", "maxLength": 4000}
_REFERENCE = {"anyOf": [{"type": "null"}, {"type": "string", "pattern": REFERENCE_PATTERN, "maxLength": 140}]}
_PLAIN_OR_ENVIRONMENT = {
    "anyOf": [
        {"type": "string", "maxLength": 8000, "pattern": "^[^\\r\\n\\u0000]*$"},
        {
            "type": "object",
            "required": ["env"],
            "additionalProperties": False,
            "properties": {"env": {"type": "string", "pattern": OWN_ENVIRONMENT}},
        },
    ]
}
_PLACE = {"type": "string", "minLength": 1, "maxLength": 2000, "pattern": "^[^\\u0000-\\u001f]+$"}
_STATUSES = {"type": "array", "maxItems": 50, "items": {"type": "integer", "minimum": 300, "maximum": 599}}

RETRY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 100},
        "initial_s": {"type": "number", "minimum": 0, "maximum": 86400},
        "max_s": {"type": "number", "minimum": 0, "maximum": 604800},
        "jitter": {"type": "number", "minimum": 0, "maximum": 1, "description": "Share of the delay added at most."},
        "retry_on": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["transient", *(name for name in ERROR_CLASSES if name not in FINAL_CLASSES)]},
        },
    },
}

_PYTHON = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "entry_point": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,120}$"},
        "callable": {"type": "string", "pattern": "^[A-Za-z0-9_.]+:[A-Za-z0-9_]+$", "maxLength": 200},
        "kill_grace_s": {"type": "number", "minimum": 0, "maximum": 60},
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cpu_s": {"type": "integer", "minimum": 1, "maximum": 86400},
                "memory_bytes": {"type": "integer", "minimum": 16777216, "maximum": 1099511627776},
                "open_files": {"type": "integer", "minimum": 16, "maximum": 65536},
            },
        },
    },
}
_HTTP = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "method": {"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]},
        "callback": {"type": "boolean", "description": "Send the address and token under which the tool may report."},
        "url": {**_PLACE, "description": "Address; {name} a path segment, {?name} and {&name} a query part."},
        "headers": {
            "type": "object",
            "maxProperties": 50,
            "propertyNames": {"pattern": "^[A-Za-z0-9-]{1,64}$"},
            "additionalProperties": _PLAIN_OR_ENVIRONMENT,
        },
        "body": {
            "enum": ["arguments", "rest", "none"],
            "description": "rest: arguments that the address does not use.",
        },
        "idempotency_header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
        "absent_statuses": {**_STATUSES, "description": "Statuses that surely mean: not applied."},
        "unknown_statuses": {**_STATUSES, "description": "Statuses that leave it open whether it was applied."},
        "result": {"enum": ["json", "text", "none"]},
        "reference_header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
        "result_headers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "uniqueItems": True,
            # A session's cookie is a secret, and an answer is kept.
            "items": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$", "not": {"enum": ["set-cookie", "set-cookie2"]}},
            "description": "Names in lower case, such as etag: the answer is {body, headers} then.",
        },
    },
}
_MCP = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "tool": {"type": "string", "minLength": 1, "maxLength": 200},
        "command": _PLACE,
        "args": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[^\\u0000]*$"}},
        "env": {
            "type": "object",
            "maxProperties": 100,
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,100}$"},
            "additionalProperties": _PLAIN_OR_ENVIRONMENT,
        },
        "cwd": _PLACE,
        "url": _PLACE,
        "headers": _HTTP["properties"]["headers"],  # type: ignore[index]
        "session": {"enum": ["call", "worker"]},
        "session_key": {"type": "string", "maxLength": 100, "description": "Argument whose value separates sessions."},
        "idle_s": {"type": "number", "minimum": 0, "maximum": 86400},
        "key_argument": {"type": "string", "maxLength": 100, "description": "Argument that carries the operation id."},
        "epoch_argument": {"type": "string", "maxLength": 100, "description": "Argument that carries the owner epoch."},
        "schema_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "result": {"enum": ["auto", "structured", "text"]},
    },
}


def _when(adapter: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "if": {"properties": {"adapter": {"const": adapter}}, "required": ["adapter"]},
        "then": {"properties": {"config": config}},
    }


CONTRACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:quarterdeck:schema:tool-contract:1",
    "title": "Quarterdeck tool contract",
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "version", "adapter", "config", "input_schema", "side_effect", "recovery"],
    "properties": {
        "name": {"type": "string", "pattern": NAME_PATTERN, "maxLength": 120},
        "version": {"type": "integer", "minimum": 1, "maximum": 999999999},
        "description": _TEXT,
        "adapter": {"enum": ["python", "http", "mcp"]},
        "config": {"type": "object"},
        "input_schema": {"type": "object"},
        "output_schema": {"type": ["object", "null"]},
        "side_effect": {"enum": ["none", "read", "write"]},
        "recovery": {"enum": ["replayable", "idempotent", "query", "compensable", "human"]},
        "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
        "runs": {"enum": ["inline", "thread", "process"]},
        "query": _REFERENCE,
        "lookup": LOOKUP_SCHEMA,
        "target_version": PRESENT_SCHEMA,
        "success_evidence": PROOF_SCHEMA,
        "samples": {
            "enum": ["optional", "required"],
            "description": "required: no call starts before recordings of its answers are signed for this contract.",
        },
        "compensation": _REFERENCE,
        "idempotency": {"enum": ["none", "key", "epoch", "natural"]},
        "on_error": {"enum": ["refused", "unknown"]},
        "retry": RETRY_SCHEMA,
        "targets": {
            "type": "array",
            "maxItems": 100,
            "uniqueItems": True,
            "items": {
                "type": "string",
                "maxLength": 260,
                "pattern": r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$",
            },
        },
        "data_region": {"type": ["string", "null"], "maxLength": 100},
        "owner": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "Who answers for it: a role, a member's name, or a team. Doubts about its effects go there.",
        },
        "scopes": {"type": "array", "maxItems": 50, "uniqueItems": True, "items": {"type": "string", "maxLength": 100}},
        "rate_limit": {
            "anyOf": [
                {"type": "null"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "minProperties": 1,
                    "dependentRequired": {"calls": ["per_s"], "per_s": ["calls"]},
                    "properties": {
                        "calls": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
                        "per_s": {
                            "type": "number",
                            "exclusiveMinimum": 0,
                            "maximum": 86400,
                            "description": "So many calls in each of so many seconds, in the whole tenant.",
                        },
                        "concurrency": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
                    },
                },
            ]
        },
        "serial": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": 300,
            "description": "The state a write changes, such as account:{account_id}: one call at a time writes it.",
        },
        "pool": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,62}$"},
        "max_result_bytes": {"type": "integer", "minimum": 1, "maximum": 50_000_000},
    },
    "allOf": [_when("python", _PYTHON), _when("http", _HTTP), _when("mcp", _MCP)],
}
