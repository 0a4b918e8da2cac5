"""The published form of a workflow: JSON Schema 2020-12 for ``quarterdeck/1`` (A9.1-A9.4, ``GET workflows/schema/``).

The schema says what a document looks like; what it means (ids, edges, loops, expressions) is checked by ``validate``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

FORMAT = "quarterdeck/1"
MAX_SPEC_BYTES = 4_000_000
MAX_SPEC_DEPTH = 64
MAX_NODES = 10_000
MAX_ID_CHARS = 200

TOOL_REFERENCE = r"^[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*@[1-9][0-9]{0,8}$"
EVENT_NAME = r"^[a-z][a-z0-9_.-]{0,99}$"
RETRY_CLASSES = (
    "transient", "network", "timeout", "rate_limited", "server_error", "protocol", "internal", "oversize",
)  # fmt: skip

_TEXT = {"type": "string", "maxLength": 4000}
_SHORT = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"}
_EXPRESSION = {"type": "string", "minLength": 1, "maxLength": 4000, "description": "A CEL expression."}
_TEMPLATE = {
    "description": 'Any JSON; an object with the single key "$" is a CEL expression over input, nodes, run and task.'
}
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000}
_ID = {**_SHORT, "description": "Unique in the workflow; any printable characters."}
_TARGETS = {"type": "array", "maxItems": MAX_NODES, "items": {"$ref": "#/$defs/id"}}

RETRY = {
    "type": "object",
    "additionalProperties": False,
    "description": "Laid over the tool's own policy, member by member.",
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 100},
        "initial_s": {"type": "number", "minimum": 0, "maximum": 86_400},
        "max_s": {"type": "number", "minimum": 0, "maximum": 604_800},
        "jitter": {"type": "number", "minimum": 0, "maximum": 1, "description": "Largest share of the delay added."},
        "retry_on": {"type": "array", "uniqueItems": True, "items": {"enum": list(RETRY_CLASSES)}},
    },
}

_AFTER = {
    "type": "array",
    "maxItems": MAX_NODES,
    "description": "What must have ended before: node ids, or objects that say what a failure there means here.",
    "items": {
        "if": {"type": "object"},
        "then": {
            "type": "object",
            "required": ["node"],
            "additionalProperties": False,
            "properties": {
                "node": {"$ref": "#/$defs/id"},
                "on_failure": {"$ref": "#/$defs/on_failure"},
                "optional": {"type": "boolean"},
            },
        },
        "else": {"$ref": "#/$defs/id"},
    },
}

_JOIN = {
    "type": "object",
    "additionalProperties": False,
    "description": "all: wait for every input, then ask the policy. any: start at the first that is satisfied.",
    "properties": {
        "mode": {"enum": ["all", "any"]},
        "policy": {"enum": ["all_succeeded", "at_least", "all_done"]},
        "n": {"type": "integer", "minimum": 1, "maximum": MAX_NODES},
        "timeout_s": {
            **_SECONDS,
            "description": "From the first input that ended: inputs that have not ended by then count as failed.",
        },
    },
}

_COMMON: dict[str, Any] = {
    "id": {"$ref": "#/$defs/id"},
    "kind": {"enum": ["tool", "switch", "approval", "input", "wait", "verifier"]},
    "title": {**_TEXT, "minLength": 1, "maxLength": 300, "description": "What people call it; by default its id."},
    "description": _TEXT,
    "after": _AFTER,
    "join": {"$ref": "#/$defs/join"},
}
_RUNS: dict[str, Any] = {
    "retry": {"$ref": "#/$defs/retry"},
    "timeout_s": _SECONDS,
    "pool": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
    "prefer": {
        "type": "object",
        "required": ["pool", "for_s"],
        "additionalProperties": False,
        "description": "A pool it waits in first; who is not claimed there in time goes to its ordinary pool.",
        "properties": {
            "pool": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,59}$"},
            "for_s": {
                "type": "number",
                "minimum": 1,
                "maximum": 3600,
                "description": "Seconds from when it is queued.",
            },
        },
    },
    "priority": {"type": "integer", "minimum": -100, "maximum": 100},
}
_TOOL = {"type": "string", "maxLength": 140, "pattern": TOOL_REFERENCE, "description": "name@version"}
_ON_LOST: dict[str, Any] = {
    "enum": ["recompute", "query", "hold"],
    "description": "When its worker is lost: make the call again (the default of one that reads), ask first what "
    "became of it (always of one that writes and was sent), or hold until a person releases it (nothing was sent).",
}
_VERIFY = {
    "type": "object",
    "required": ["tool", "criterion"],
    "additionalProperties": False,
    "description": "Asks for the business fact: a tool that reads, and what its `output` has to show.",
    "properties": {"tool": _TOOL, "input": _TEMPLATE, "criterion": _EXPRESSION},
}
# Two forms, told apart by `owner`.
_COMPENSATION = {
    "type": "object",
    "description": "How the effect is undone: a tool, or the person who takes care where nothing undoes it safely.",
    "if": {"required": ["owner"]},
    "then": {
        "required": ["owner", "consequence"],
        "additionalProperties": False,
        "properties": {
            "owner": _SHORT,
            "consequence": {**_TEXT, "minLength": 1},
            "within_s": {**_SECONDS, "description": "How long it may take; a day by default."},
        },
    },
    "else": {
        "additionalProperties": False,
        "properties": {
            "tool": {**_TOOL, "description": "name@version; by default the compensation of the tool's contract."},
            "input": {**_TEMPLATE, "description": "May read `operation`; by default the arguments that were sent."},
            "retry": {"$ref": "#/$defs/retry"},
            "timeout_s": _SECONDS,
            "deadline_s": {**_SECONDS, "description": "How long it may take in all; an hour by default."},
            "verify": _VERIFY,
        },
    },
}


def _kind(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["id", "kind", *required],
        "additionalProperties": False,
        "properties": {**_COMMON, **properties},
    }


_ASKS: dict[str, Any] = {
    "title": {**_TEXT, "minLength": 1},
    "role": _SHORT,
    "expires_s": {**_SECONDS, "description": "How long a person has to decide; three days by default."},
    "on_timeout": {
        "enum": ["reject", "keep", "escalate"],
        "description": "After that: reject (default), go on waiting, or ask the next of `escalation`.",
    },
    "escalation": {
        "type": "array",
        "minItems": 1,
        "maxItems": 5,
        "description": "Who is asked one after the other when nobody decided; after the last it is rejected.",
        "items": {
            "type": "object",
            "required": ["role"],
            "additionalProperties": False,
            "properties": {"role": _SHORT, "expires_s": _SECONDS},
        },
    },
    "payload": {**_TEMPLATE, "description": "What the person is shown, beside the calls that would be made."},
}


_KINDS: dict[str, dict[str, Any]] = {
    "tool": _kind(
        ["tool"],
        tool=_TOOL,
        input=_TEMPLATE,
        business_key=_EXPRESSION,
        compensation=_COMPENSATION,
        on_lost=_ON_LOST,
        **_RUNS,
    ),
    "switch": _kind(
        ["cases"],
        cases={
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "description": "The first case whose condition is true is taken.",
            "items": {
                "type": "object",
                "required": ["when", "to"],
                "additionalProperties": False,
                "properties": {"when": _EXPRESSION, "to": _TARGETS},
            },
        },
        default={**_TARGETS, "description": "Taken when no case is; nothing by default."},
    ),
    "approval": _kind(
        ["title"],
        **_ASKS,
        quorum={"type": "integer", "minimum": 1, "maximum": 20, "description": "How many people have to approve; 1."},
        separation={
            "enum": ["none", "requester", "two_people"],
            "description": "Who may not approve: nobody, the requester (default), or also whoever edited it.",
        },
        risk={"enum": ["low", "medium", "high"], "description": "How risky it is at least, beside what tools say."},
        evidence={**_TEMPLATE, "description": "Artifact ids, a list: what the decision is made by, bound by hash."},
        start_within_s={**_SECONDS, "description": "How long after it its calls may start; a day by default."},
        target={
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "description": "What would be changed, and the version of it that the decision is about; templates.",
            "properties": {"id": _TEMPLATE, "version": _TEMPLATE},
        },
        gates={
            **_TARGETS,
            "description": "The tool nodes behind it that need its grant; by default the first writing on every way.",
        },
    ),
    "input": _kind(
        ["title", "form"],
        **_ASKS,
        form={"type": "object", "description": "JSON Schema 2020-12 of the answer, which is the step's output."},
    ),
    "wait": _kind(
        [],
        seconds={"type": "number", "minimum": 0, "maximum": 31_536_000},
        until=_EXPRESSION,
        event={
            "type": "string",
            "pattern": EVENT_NAME,
            "description": "Waits for an external event of this name (POST runs/{id}/signals/{name}/).",
        },
        correlation={**_EXPRESSION, "description": "The correlation id the event must carry; by default any."},
        expires_s={**_SECONDS, "description": "How long the event may take; then the step is skipped (deadline)."},
    ),
    "verifier": _kind(
        ["verifier", "criterion"],
        verifier=_TOOL,
        tool=_TOOL,
        input=_TEMPLATE,
        criterion=_EXPRESSION,
        on_lost=_ON_LOST,
        **_RUNS,
    ),
}

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:quarterdeck:workflow:1",
    "title": "Quarterdeck workflow",
    "type": "object",
    "required": ["format", "name", "nodes"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": FORMAT},
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,99}$"},
        "description": _TEXT,
        "defaults": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "on_failure": {"enum": ["fail_fast", "continue_on_error", "manual_review", "compensate"]},
                **_RUNS,
            },
        },
        "input_schema": {"type": "object", "description": "JSON Schema 2020-12 of the task's input."},
        "output": {**_TEMPLATE, "description": "The run's output, a template."},
        "state": {
            "type": "object",
            "description": "The task's business State from the end of a completed run on: a template of an object.",
        },
        "success": {**_EXPRESSION, "description": "When the finished run counts as completed."},
        "max_parallel": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_NODES,
            "description": "How many steps of a run are under way at once; without it, as many as there is room for.",
        },
        "recovery_point_s": {
            **_SECONDS,
            "description": "How many seconds of a step's work a lost worker may cost at most; more of it is an alert.",
        },
        "nodes": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_NODES,
            "items": {
                "type": "object",
                "required": ["id", "kind"],
                "properties": {"kind": _COMMON["kind"]},
                "allOf": [
                    {
                        "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                        "then": {"$ref": f"#/$defs/{name}"},
                    }
                    for name in _KINDS
                ],
            },
        },
    },
    "$defs": {
        "id": _ID,
        "on_failure": {"enum": ["fail_fast", "continue_on_error", "fallback", "manual_review", "compensate"]},
        "retry": RETRY,
        "join": _JOIN,
        **_KINDS,
    },
}


def workflow_schema() -> dict[str, Any]:
    """Return the schema; the caller owns the copy."""
    return deepcopy(_SCHEMA)
