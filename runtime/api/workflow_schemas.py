"""Parts of the API's schemas: workflow versions, and what is warned of when one is registered or read."""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}

WARNINGS: dict[str, Any] = {
    "type": "array",
    "description": "Where people would be asked in vain as it stands today, such as a role that nobody has.",
    "items": {
        "type": "object",
        "required": ["where", "detail", "remediation"],
        "properties": {"where": {**_TEXT, "description": "JSON pointer."}, "detail": _TEXT, "remediation": _TEXT},
    },
}
_VERSION: dict[str, Any] = {
    "workflow_version_id": {"type": "string", "format": "uuid"},
    "name": _TEXT,
    "version": _COUNT,
    "spec_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_BY: dict[str, Any] = {"created_by": _TEXT, "created_at": {"type": "string", "format": "date-time"}}
_CREATED: dict[str, Any] = {"type": "boolean", "description": "false: a version with this content was there."}


def _answer(more: dict[str, Any], **optional: Any) -> dict[str, Any]:
    required = {**_VERSION, **more}
    return {"type": "object", "required": [*required], "properties": {**required, **optional}}


ANSWERS: dict[str, Any] = {
    "WorkflowVersion": _answer(_BY),
    "WorkflowRegistered": _answer({"created": _CREATED, "warnings": WARNINGS}, warnings_left_out=_COUNT),
    "WorkflowRead": _answer({**_BY, "spec": {"type": "object"}, "warnings": WARNINGS}, warnings_left_out=_COUNT),
}
