"""The schemas of the API: request bodies, checked strictly, and answers, as OpenAPI shows them. One truth for both."""

from __future__ import annotations

from functools import cache
from typing import Any

from runtime.actions.outcomes import VERDICTS
from runtime.actions.submit import MAX_BULK
from runtime.actions.terms import TERMS
from runtime.api import part_schemas, workflow_schemas
from runtime.kernel.classes import PRIORITY_CLASSES
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.models.effects import OPERATION_STATUSES
from runtime.models.work import RUN_STATUSES, STEP_STATUSES

TEXT: dict[str, Any] = {"type": "string"}
ID: dict[str, Any] = {"type": "string", "format": "uuid"}
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
SHA256: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
OBJECT: dict[str, Any] = {"type": "object"}
FLAG: dict[str, Any] = {"type": "boolean"}
ANY: dict[str, Any] = {}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also takes null."""
    return {"anyOf": [schema, {"type": "null"}]}


def shape(required: dict[str, Any], optional: dict[str, Any] | None = None, *, closed: bool = False) -> dict[str, Any]:
    """Return an object schema; ``closed`` refuses members it does not name."""
    schema: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def many(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an array schema."""
    return {"type": "array", "items": schema}


def paged(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one page of a list."""
    counting = {"count": COUNT, "count_is": {"enum": ["exact", "at_least"]}}
    return shape({"items": many(schema), "next": maybe(TEXT)}, counting)


def _text(limit: int, low: int = 0) -> dict[str, Any]:
    return {"type": "string", "minLength": low, "maxLength": limit}


_REASON = {**_text(2000), "description": "Why, for the audit and for whoever reads the run later."}
_VERSION = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}

TASK_BODY = shape(
    {
        "workflow": {**_text(200, 1), "description": "The name of a registered workflow."},
        "input": {"description": "Any JSON that fits the workflow's input_schema. Money is a text."},
    },
    {
        "version": {**_VERSION, "description": "The newest when absent."},
        "goal": _text(20_000),
        "name": _text(300),
        "priority": {
            "anyOf": [{"type": "integer", "minimum": -100, "maximum": 100}, {"enum": list(PRIORITY_CLASSES)}],
            "default": 0,
            "description": ", ".join(f"{name}: {number}" for name, number in PRIORITY_CLASSES.items()),
        },
        "pool": _text(60, 1),
        "agent": _text(200),
        "session": {**_text(200, 1), "description": "The key of a session this task is attached to."},
        **TERMS,
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 315_360_000, "description": "Seconds."},
        "scheduled_at": {**TIME, "description": "Not before this time."},
        "data_time": {**TIME, "description": "The business time of the data."},
        "deadline": TIME,
        "parent": {**ID, "description": "The run that submits this task."},
    },
    closed=True,
)
_BULK_ITEM = {
    **TASK_BODY,
    "properties": {
        **TASK_BODY["properties"],
        "request_key": {**_text(200, 1), "description": "What the Idempotency-Key header is to a single task."},
    },
}
BULK_BODY = shape({"tasks": {"type": "array", "minItems": 1, "maxItems": MAX_BULK, "items": _BULK_ITEM}}, closed=True)
# The envelope alone: items are judged one by one, so that one wrong item does not refuse the others.
BULK_ENVELOPE = shape({"tasks": {"type": "array", "minItems": 1, "maxItems": MAX_BULK}}, closed=True)
RUN_VERB_BODY = shape({}, {"reason": _REASON, "expected_version": _VERSION}, closed=True)
_SHOWN = {**_VERSION, "description": "The step's version you were shown."}
STEP_VERB_BODY = shape({"expected_version": _SHOWN, "reason": _REASON}, closed=True)
FORCE_BODY = shape(
    STEP_VERB_BODY["properties"],
    {"evidence": {**_text(2000), "description": "What shows that it succeeded; left out or empty: there is none."}},
    closed=True,
)
NEW_RUN_BODY = shape({}, {"reason": _REASON, "budget": TERMS["budget"]}, closed=True)
OUTCOME_BODY = shape(
    {
        "run_id": ID,
        "verifier": {**_text(220, 3), "description": "name@version of an authorised verifier."},
        "verdict": {"enum": list(VERDICTS)},
        "criterion": _text(20_000, 1),
        "evidence": {"type": "array", "maxItems": 100, "items": part_schemas.CITED},
    },
    closed=True,
)
TOKEN_BODY = shape(
    {},
    {
        "name": _text(100),
        "user": {**_text(150, 1), "description": "Another member; needs token.manage."},
        "verbs": maybe({"type": "array", "minItems": 1, "maxItems": 200, "items": _text(60)}),
        "days": {"type": "number", "exclusiveMinimum": 0, "maximum": 366, "default": 30},
        "token_id": {**ID, "description": "Your own id of it: sent again, no second one is issued."},
    },
    closed=True,
)

_BODIES = {
    "task": TASK_BODY,
    "bulk_item": _BULK_ITEM,
    "bulk": BULK_ENVELOPE,
    "run_verb": RUN_VERB_BODY,
    "step_verb": STEP_VERB_BODY,
    "force": FORCE_BODY,
    "new_run": NEW_RUN_BODY,
    **part_schemas.BODIES,
    "outcome": OUTCOME_BODY,
    "token": TOKEN_BODY,
}


@cache
def body(name: str) -> Compiled:
    """Return the compiled schema of a request body."""
    return compile_schema(_BODIES[name])


_LINKS = {"type": "object", "additionalProperties": TEXT}
_STEP_STATUS, _RUN_STATUS = {"enum": list(STEP_STATUSES)}, {"enum": list(RUN_STATUSES)}
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}

STEP = shape(
    {
        "id": ID,
        "run_id": ID,
        "node": TEXT,
        "kind": TEXT,
        "execution_version": COUNT,
        "superseded": FLAG,
        "status": _STEP_STATUS,
        "cause": maybe(TEXT),
        "version": COUNT,
        "owner_epoch": COUNT,
        "attempt": COUNT,
        "priority": {"type": "integer"},
        "pool": TEXT,
        "prefer_until": {**maybe(TIME), "description": "It is queued in the pool its node prefers, until then."},
        "not_before": maybe(TIME),
        "hold_requested": FLAG,
        "forced": FLAG,
        "choice": maybe(many(TEXT)),
        "error": maybe(part_schemas.STEP_ERROR),
        "output_kind": part_schemas.OUTPUT_KIND,
        "created_at": TIME,
        "queued_at": maybe(TIME),
        "started_at": maybe(TIME),
        "finished_at": maybe(TIME),
    }
)
RUN_LISTED = shape(
    {
        "id": ID,
        "task_id": ID,
        "workflow": TEXT,
        "workflow_version": COUNT,
        "name": TEXT,
        "status": _RUN_STATUS,
        "output_kind": part_schemas.OUTPUT_KIND,
        "reason": TEXT,
        "version": COUNT,
        "seq": COUNT,
        "priority": {"type": "integer"},
        "paused": FLAG,
        "cancel_requested": FLAG,
        "rerun_of": maybe(ID),
        "parent": maybe(ID),
        "deadline": maybe(TIME),
        "created_at": TIME,
        "started_at": maybe(TIME),
        "finished_at": maybe(TIME),
        "counts": _COUNTS,
    }
)
_EVENT = shape(
    {
        "seq": COUNT,
        "type": TEXT,
        "step_id": maybe(ID),
        "node": maybe(TEXT),
        "from_status": maybe(TEXT),
        "to_status": maybe(TEXT),
        "cause": maybe(TEXT),
        "actor": TEXT,
        "reason": maybe(TEXT),
        "occurred_at": TIME,
        "output_kind": part_schemas.OUTPUT_KIND,
        "error": maybe(part_schemas.STEP_ERROR),
    }
)
_CHECKPOINT = shape(
    {"kind": TEXT, "run_seq": COUNT, "output_sha256": maybe(SHA256), "artifact_id": maybe(ID), "redacted": FLAG},
    {"output_kind": part_schemas.OUTPUT_KIND, "output": {"description": "Only with payload.read."}},
)
_OUTPUT = {
    "output_sha256": {**SHA256, "description": "Of a completed run whose workflow has an output."},
    "output_artifact_id": maybe(ID),
    "output": {"description": "Only with payload.read; a large one is read as artifact."},
    "output_error": {**TEXT, "description": "Why the output template did not evaluate."},
}
_TASK_LISTED = {
    "id": ID,
    "workflow": TEXT,
    "workflow_version": COUNT,
    "name": TEXT,
    "request_key": maybe(TEXT),
    "priority": {"type": "integer"},
    "pool": TEXT,
    "scheduled_at": maybe(TIME),
    "deadline": maybe(TIME),
    "created_by": TEXT,
    "created_at": TIME,
}


def components() -> dict[str, Any]:
    """Return the named schemas of answers, for ``components/schemas``."""
    step, run = {"$ref": "#/components/schemas/Step"}, {"$ref": "#/components/schemas/RunListed"}
    return {
        "Problem": shape(
            {
                "type": TEXT,
                "title": TEXT,
                "status": {"type": "integer"},
                "detail": TEXT,
                "code": {**TEXT, "description": "Stable; what programs decide by."},
                "retryable": FLAG,
                "retry_after": maybe({"type": "number", "description": "Seconds."}),
                "run_id": maybe(ID),
                "step_id": maybe(ID),
                "remediation": TEXT,
            },
            {
                "where": {**TEXT, "description": "The place: a JSON pointer, a header, a query parameter."},
                "instance": TEXT,
                "problems": many(OBJECT),
                "current_status": TEXT,
                "current_version": COUNT,
                "last_event": OBJECT,
            },
        ),
        "Accepted": shape(
            {"task_id": ID, "run_id": ID, "status": {"const": "accepted"}, "replayed": FLAG, "links": _LINKS}
        ),
        "BulkAnswer": shape({"items": many(OBJECT), "accepted": COUNT, "refused": COUNT}),
        "TaskListed": shape(_TASK_LISTED),
        "Task": shape(
            {**_TASK_LISTED, "goal": TEXT, "runs": many(OBJECT), "redacted": FLAG},
            {"input": {"description": "Only with payload.read."}, "state": OBJECT},
        ),
        "RunListed": RUN_LISTED,
        "Run": {
            **RUN_LISTED,
            "properties": {**RUN_LISTED["properties"], "links": _LINKS, **part_schemas.RUN_KEEPS, **_OUTPUT},
        },
        "RunAnswer": shape({"run_id": ID, "status": _RUN_STATUS, "version": COUNT}),
        "RecoveryPoint": shape(
            {
                "run_id": ID,
                "run_seq": COUNT,
                "status": _RUN_STATUS,
                "workflow": TEXT,
                "workflow_version": COUNT,
                "workflow_sha256": TEXT,
                "manifest": OBJECT,
                "steps": many(OBJECT),
                "operations": many(OBJECT),
                "approvals": many(OBJECT),
            }
        ),
        "Compensation": shape(
            {
                "operation_id": ID,
                "status": {"type": "string"},
                "version": COUNT,
                "run_id": ID,
                "run_status": _RUN_STATUS,
                "step_id": maybe(ID),
            }
        ),
        "NewRun": shape({"task_id": ID, "run_id": ID, "links": _LINKS}),
        "Step": STEP,
        "StepDetail": {
            **STEP,
            "properties": {
                **STEP["properties"],
                "attempts": {**many(OBJECT), "description": "The newest."},
                "attempts_more": FLAG,
                "operations": many(OBJECT),
                "execution_versions": many(OBJECT),
                "checkpoint": maybe(_CHECKPOINT),
                "forced_by": maybe(OBJECT),
                "heartbeat": maybe(part_schemas.HEARTBEAT),
            },
        },
        "StepAnswer": shape({"step_id": ID, "run_id": ID, "status": _STEP_STATUS, "version": COUNT}, {"asked": OBJECT}),
        "Steps": shape({"last_included_seq": COUNT, "items": many(step), "next": maybe(TEXT)}),
        "Events": shape(
            {"events": many(_EVENT), "last_seq": COUNT, "head_seq": COUNT, "run_status": _RUN_STATUS, "ended": FLAG}
        ),
        "Snapshot": shape({"snapshot_version": COUNT, "last_included_seq": COUNT, "run": run, "steps": many(step)}),
        "Graph": shape(
            {
                "last_included_seq": COUNT,
                "at": TIME,
                "workflow": TEXT,
                **dict.fromkeys(("run", "layout"), OBJECT),
                "nodes": many(shape(part_schemas.GRAPH_NODE)),
                "edges": many(shape(part_schemas.GRAPH_EDGE)),
                "undoing": many(shape(part_schemas.GRAPH_UNDOING)),
            }
        ),
        "SearchHits": shape({"items": many(shape({"kind": TEXT, "id": ID, "label": TEXT}))}),
        **workflow_schemas.ANSWERS,
        "Workflow": shape({"id": ID, "name": TEXT, "description": TEXT, "newest": maybe(COUNT), "versions": COUNT}),
        "Tool": shape({"name": TEXT, "version": COUNT}, {"contract": OBJECT, "created": FLAG}),
        **part_schemas.ANSWERS,
        "Operation": shape(
            {
                "id": ID,
                "business_key": TEXT,
                "tool": TEXT,
                "status": {"enum": list(OPERATION_STATUSES)},
                "output_kind": part_schemas.OUTPUT_KIND,
                "version": COUNT,
                "run_id": ID,
                "step_id": ID,
                "sends": COUNT,
                "payload_sha256": SHA256,
                "redacted": FLAG,
            },
            {"payload": ANY, "response": ANY},
        ),
        "Artifact": shape({"id": ID, "sha256": SHA256, "size": COUNT, "media_type": TEXT, "purged": FLAG}),
        "ArtifactStored": shape(
            {"artifact_id": ID, "sha256": SHA256, "size": COUNT, "media_type": TEXT, "created": FLAG}
        ),
        "Outcome": shape(
            {"outcome": maybe(OBJECT), "history": many(OBJECT), "evidence": many(OBJECT), "evidence_more": FLAG}
        ),
        "OutcomeRecorded": shape(
            {"outcome_id": ID, "task_id": ID, "verdict": {"enum": list(VERDICTS)}, "evidence": many(ID)}
        ),
        "AuditEntry": shape(
            {
                "number": COUNT,
                "at": TIME,
                "actor": TEXT,
                "verb": TEXT,
                "subject_kind": TEXT,
                "subject_id": TEXT,
                "run_id": maybe(ID),
                "result": TEXT,
                "reason": TEXT,
                "details": maybe(OBJECT),
                "sha256": SHA256,
            }
        ),
        "Token": shape({"id": ID, "user": TEXT, "name": TEXT, "verbs": maybe(many(TEXT)), "expires_at": TIME}),
        "TokenIssued": shape(
            {"token_id": ID, "token": TEXT, "user": TEXT, "expires_at": TIME, "verbs": maybe(many(TEXT))}
        ),
        "Member": shape({"id": ID, "username": TEXT, "role": TEXT, "verbs": many(TEXT)}),
        "MemberChanged": shape({"membership_id": ID, "user": TEXT, "role": TEXT, "created": FLAG}),
    }
