"""Parts of the API's schemas: a graph's nodes and edges, queries by hand, tools' own reports."""

from __future__ import annotations

from typing import Any

from runtime.access.roles import ROLES
from runtime.actions.evidence import Kind
from runtime.actions.verifying import REPORT
from runtime.kernel.errors import STRUCTURED
from runtime.queries.outputs import OUTPUT_KINDS

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_ID: dict[str, Any] = {"type": "string", "format": "uuid"}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_MAYBE_TEXT: dict[str, Any] = {"anyOf": [_TEXT, {"type": "null"}]}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_REASON: dict[str, Any] = {"type": "string", "maxLength": 2000, "description": "Why, for the audit and the run."}
_MOST = 2**31 - 1

OUTPUT_KIND: dict[str, Any] = {
    "enum": [*OUTPUT_KINDS, None],
    "description": (
        "What kind of output it is. final: what a run that ended came to. tool_result: what a tool answered. "
        "human_decision: what a person decided, answered or set by hand. failure: that it did not succeed. "
        "compensation: what undid an effect. partial: before an end, such as progress, a part of an effect, a switch's "
        "choice, or a run that goes on. null: nothing was given."
    ),
}
STEP_ERROR: dict[str, Any] = {
    "type": "object",
    "description": "An error of a step; it says the same as a problem.",
    "required": ["class", *STRUCTURED],
    "properties": {
        "class": {"type": "string", "description": "Of the classes in the schema of tool contracts."},
        "message": _TEXT,
        "code": _TEXT,
        "retryable": _FLAG,
        "retry_after": {"anyOf": [{"type": "number"}, {"type": "null"}], "description": "Seconds, when it waits."},
        "run_id": _ID,
        "step_id": {"anyOf": [_ID, {"type": "null"}]},
        "remediation": _TEXT,
    },
}

QUERY_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": _REASON},
}
SAMPLES_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["samples"],
    "additionalProperties": False,
    "properties": {
        "samples": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "type": "object",
                "description": "{name, kind, recording, expect}; the manual says what each is.",
            },
        }
    },
}
SIGN_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {
        "reason": _REASON,
        "taken_from": {
            "type": "integer",
            "minimum": 1,
            "maximum": 999999999,
            "description": "Another version whose recordings are taken over first, those of new names.",
        },
    },
}
CALLBACK_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["token", "epoch", "version", "status"],
    "additionalProperties": False,
    "properties": {
        "token": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What came with the call."},
        "epoch": {"type": "integer", "minimum": 0, "maximum": _MOST, "description": "The epoch of the call."},
        **REPORT,
    },
}
MEMBER_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["user", "role"],
    "additionalProperties": False,
    "properties": {
        "user": {"type": "string", "minLength": 1, "maxLength": 150},
        "role": {"enum": sorted(ROLES)},
        "extra_verbs": {"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 60}},
    },
}
BODIES = {
    "query": QUERY_BODY,
    "callback": CALLBACK_BODY,
    "samples": SAMPLES_BODY,
    "sign": SIGN_BODY,
    "member": MEMBER_BODY,
}
_OBJECT: dict[str, Any] = {"type": "object"}
# What a run keeps of its making, and what became of its task's criterion (C1.2, A4.1).
RUN_KEEPS: dict[str, Any] = {
    "trace_id": _ID,
    "request_sha256": {**_TEXT, "description": "Of all that was asked for when the task was submitted."},
    "tools": {"type": "object", "additionalProperties": _TEXT, "description": "name@version: hash of its contract."},
    "scope": {**_OBJECT, "description": "What the task permits its runs to call."},
    "budget": {**_OBJECT, "description": "What the run may use; empty for no bound."},
    "budget_used": {
        "type": "object",
        "properties": {"calls": {"type": "integer"}, "effects": {"type": "integer"}},
        "description": "How much of what the budget bounds was used by the run and by runs below it.",
    },
    "success": {
        "anyOf": [
            {
                "type": "object",
                "required": ["status", "criterion", "verifier", "evidence", "missing", "outcome"],
                "properties": {
                    "status": {"enum": ["met", "not_met", "undecided"]},
                    "criterion": _MAYBE_TEXT,
                    "verifier": _MAYBE_TEXT,
                    "evidence": _TEXTS,
                    "missing": {**_TEXTS, "description": "Kinds of evidence that the Outcome does not cite."},
                    "outcome": {"anyOf": [_OBJECT, {"type": "null"}]},
                },
            },
            {"type": "null"},
        ],
        "description": "Whether the task's criterion is met, by the Outcomes there are now; null without one.",
    },
    "children": {
        "type": "array",
        "description": "The newest runs of tasks that this run submitted; GET runs/?parent= lists them all.",
        "items": {
            "type": "object",
            "properties": {"id": _ID, "task_id": _ID, "status": _TEXT, "workflow": _TEXT, "name": _TEXT},
        },
    },
    "children_more": _FLAG,
}
_HASH: dict[str, Any] = {
    "type": "string",
    "pattern": "^[0-9a-f]{64}$",
    "description": "Of what was looked at; another one than that of what is stored is refused.",
}
CITED_KINDS: dict[str, Kind] = {"artifact_id": "artifact", "operation_id": "operation", "step_id": "checkpoint"}
_CITED_WORDS = {
    "artifact_id": "One that the task's input names, that its runs made, or that the verifier uploaded.",
    "operation_id": "The stored answer of an operation of this task.",
    "step_id": "The checkpoint of a step of this task.",
}
CITED: dict[str, Any] = {
    "description": "Evidence of this task by its id, or what becomes evidence by being cited.",
    "if": {"type": "object"},
    "then": {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in CITED_KINDS],
        "properties": {
            **{name: {**_ID, "description": words} for name, words in _CITED_WORDS.items()},
            "sha256": _HASH,
        },
    },
    "else": _ID,
}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_MAYBE_COUNT: dict[str, Any] = {"anyOf": [_COUNT, {"type": "null"}]}
_MAYBE_NUMBER: dict[str, Any] = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}
_MAYBE_TIME: dict[str, Any] = {"anyOf": [_TIME, {"type": "null"}]}
_TOLD: dict[str, dict[str, Any]] = {
    "seq": {**_COUNT, "description": "How often the tool told its progress in this attempt."},
    "done": {"type": "number", "minimum": 0, "description": "In units of the tool's own."},
    "total": _MAYBE_NUMBER,
    "share": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]},
    "stage": {**_MAYBE_TEXT, "description": "A code; never text of a payload."},
    "at": _TIME,
}
_BEAT: dict[str, dict[str, Any]] = {
    "worker_session_id": _ID,
    "run_id": _ID,
    "step_id": _ID,
    "node": _TEXT,
    "attempt": _COUNT,
    "started_at": _TIME,
    "at": {**_TIME, "description": "Of the beat that told this."},
    "progress": {
        "description": "Null where the tool tells none.",
        "anyOf": [{"type": "object", "required": [*_TOLD], "properties": _TOLD}, {"type": "null"}],
    },
    "usual_s": {**_MAYBE_NUMBER, "description": "How long the tool's calls took this worker lately."},
    "eta": {
        **_MAYBE_TIME,
        "description": "When it may end, by its progress or else by what is usual; null: unknown.",
    },
    "checkpoint": {**_COUNT, "description": "The run_seq up to which everything is kept if the worker is lost."},
    "cpu_s": {**_MAYBE_NUMBER, "description": "Of a tool that runs in a process of its own."},
    "rss_bytes": _MAYBE_COUNT,
    "standing": {"enum": ["quiet", "slow", None], "description": "Its worker lives, and it does not come on as usual."},
}
HEARTBEAT: dict[str, Any] = {"type": "object", "required": [*_BEAT], "properties": _BEAT}
_WORKER: dict[str, dict[str, Any]] = {
    "id": _ID,
    "host": _TEXT,
    "pid": _COUNT,
    "pools": _TEXTS,
    "alive": _FLAG,
    "busy": {**_COUNT, "description": "Steps in its hands."},
    "progress_seq": {
        **_MAYBE_COUNT,
        "description": "Steps it has written: it comes on where this grows. Null for all but operators.",
    },
    "cpu_s": {**_MAYBE_NUMBER, "description": "CPU seconds of its process so far. Null for all but operators."},
    "rss_bytes": {**_MAYBE_COUNT, "description": "Memory its process holds. Null for all but operators."},
    "attempts": {"type": "array", "items": HEARTBEAT, "description": "Of the steps in its hands those of this tenant."},
}
_CHECKED: dict[str, Any] = {
    "tool": _TEXT,
    "contract_sha256": _TEXT,
    "samples_sha256": _TEXT,
    "passed": {**_FLAG, "description": "Every recording is read as it should be, and no kind is missing."},
    "missing": {**_TEXTS, "description": "Kinds that can happen to it and have no recording."},
    "checks": {"type": "array", "items": {"type": "object"}},
}
ANSWERS: dict[str, Any] = {
    "Worker": {"type": "object", "required": [*_WORKER], "properties": _WORKER},
    "ForcePreview": {
        "type": "object",
        "required": [
            "step_id",
            "run_id",
            "node",
            "status",
            "version",
            "why_not",
            "second",
            "starts",
            "may_start",
            "still_open",
            "killed_attempt",
        ],
        "properties": {
            "step_id": _ID,
            "run_id": _ID,
            "node": _TEXT,
            "status": _TEXT,
            "version": {"type": "integer", "minimum": 1},
            "why_not": {**_MAYBE_TEXT, "description": "Null where the law has the move."},
            "second": {**_MAYBE_TEXT, "description": "Why another admin has to agree; null: nobody has to."},
            "starts": _TEXTS,
            "may_start": {**_TEXTS, "description": "Behind a switch that has not decided."},
            "still_open": {
                "type": "array",
                "items": {"type": "object", "properties": {"id": _ID, "business_key": _TEXT, "status": _TEXT}},
            },
            "killed_attempt": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        },
    },
    "RerunPreview": {
        "type": "object",
        "required": [
            "step_id",
            "run_id",
            "node",
            "status",
            "version",
            "execution_version",
            "why_not",
            "how",
            "runs",
            "may_run",
            "ended",
            "reused",
            "still_open",
        ],
        "properties": {
            "step_id": _ID,
            "run_id": _ID,
            "node": _TEXT,
            "status": _TEXT,
            "version": {"type": "integer", "minimum": 1},
            "execution_version": {"type": "integer", "minimum": 1},
            "why_not": {**_MAYBE_TEXT, "description": "Null where it may be run again."},
            "how": {"enum": ["again", "new_run", "nothing"]},
            "runs": _TEXTS,
            "may_run": {**_TEXTS, "description": "Behind a switch that has not decided."},
            "ended": {**_TEXTS, "description": "Under way; ended first."},
            "reused": {**_TEXTS, "description": "Their results are read again; they do not run."},
            "still_open": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": _ID, "node": _TEXT, "business_key": _TEXT, "status": _TEXT},
                },
            },
        },
    },
    "StepArguments": {
        "type": "object",
        "required": ["step_id", "attempt", "input_sha256", "source", "why_not", "redacted"],
        "properties": {
            "step_id": _ID,
            "attempt": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "input_sha256": _MAYBE_TEXT,
            "source": {"enum": ["operation", "recomputed", None]},
            "why_not": {"enum": ["not_recorded", "not_the_same", None]},
            "redacted": _FLAG,
            "input": {"description": "Only with payload.read, and with this very hash."},
        },
    },
    "ToolRetired": {
        "type": "object",
        "required": ["tool", "retired_at", "changed"],
        "properties": {"tool": _TEXT, "retired_at": _TIME, "changed": _FLAG},
    },
    "ToolSamples": {
        "type": "object",
        "required": ["tool", "required", "signed", "blocked", "added", "samples", "signatures"],
        "properties": {
            "tool": _TEXT,
            "required": {**_FLAG, "description": "Its contract asks for signed samples."},
            "signed": {**_FLAG, "description": "Samples were signed for exactly this contract."},
            "blocked": {**_FLAG, "description": "No call of it starts."},
            "added": {"type": "integer", "minimum": 0, "description": "Recordings since the newest signature."},
            "samples": {"type": "array", "items": {"type": "object"}},
            "signatures": {"type": "array", "items": {"type": "object"}},
        },
    },
    "ToolSamplesKept": {
        "type": "object",
        "required": ["tool", "added", "kept"],
        "properties": {"tool": _TEXT, "added": _COUNT, "kept": _COUNT},
    },
    "ToolSamplesChecked": {"type": "object", "required": sorted(_CHECKED), "properties": _CHECKED},
    "ToolSamplesSigned": {
        "type": "object",
        "required": [*sorted(_CHECKED), "replayed", "signed_at", "signed_by"],
        "properties": {**_CHECKED, "signed_by": _TEXT, "signed_at": _TIME, "replayed": _FLAG},
    },
    "VerifierRevoked": {
        "type": "object",
        "required": ["verifier", "revoked_at", "changed"],
        "properties": {"verifier": _TEXT, "revoked_at": _TIME, "changed": _FLAG},
    },
    "QueryAsked": {
        "type": "object",
        "required": ["operation_id", "status", "asked"],
        "properties": {"operation_id": {"type": "string", "format": "uuid"}, "status": _TEXT, "asked": _FLAG},
    },
    "CallbackTaken": {
        "type": "object",
        "required": ["attempt_id", "replayed", "late", "operation_status"],
        "properties": {
            "attempt_id": _TEXT,
            "replayed": _FLAG,
            "late": _FLAG,
            "operation_status": {"anyOf": [_TEXT, {"type": "null"}]},
        },
    },
}

_PIXELS: dict[str, Any] = {"type": "number", "description": "Pixels, of the upper left corner."}
GRAPH_NODE: dict[str, Any] = {
    "id": _TEXT,
    "kind": _TEXT,
    "title": _TEXT,
    "level": {"type": "integer", "minimum": 0},
    "x": _PIXELS,
    "y": _PIXELS,
    "step": {"anyOf": [{"type": "object"}, {"type": "null"}]},
}
# A step that undoes an effect is in no drawing.
GRAPH_UNDOING: dict[str, Any] = {
    **{name: GRAPH_NODE[name] for name in ("id", "kind", "title", "level")},
    "undoes": _TEXT,
    "step": {"type": "object"},
}
GRAPH_EDGE: dict[str, Any] = {
    "source": _TEXT,
    "target": _TEXT,
    "on_failure": _TEXT,
    "optional": _FLAG,
    "points": {"type": "array", "items": {"type": "number"}, "description": "x, y, x, y, … of its corners."},
}
