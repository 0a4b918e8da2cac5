"""The bodies and answers of repairs/, as JSON Schema."""

from __future__ import annotations

from typing import Any

from repair.actions.chain import MOST_LINKS
from repair.actions.resolve import DECISIONS
from repair.board import EVIDENCE, STANDS
from repair.law import ANSWERS, RESOLUTIONS, SETTLED, STATES
from runtime.api.schemas import ANY, COUNT, ID, OBJECT, TEXT, TIME, many, maybe, shape
from runtime.kernel.seams import CASE_KINDS

_VERSION = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1, "description": "The version you were shown."}
_REASON = {"type": "string", "maxLength": 2000, "description": "Why, for the audit and the next person."}
_LONG = {"type": "string", "maxLength": 2000}
_FLAG = {"type": "boolean"}

VERSIONED = shape({"expected_version": _VERSION}, {"reason": _REASON}, closed=True)
REASONED = shape({"expected_version": _VERSION, "reason": _REASON}, closed=True)
HAND_OVER = shape(
    {"to": {"type": "string", "maxLength": 150, "description": "A member's name."}, "reason": _REASON},
    {"expected_version": _VERSION},
    closed=True,
)
INVESTIGATE = shape(
    {"expected_version": _VERSION},
    {
        "answer": {"enum": list(ANSWERS), "description": "What you saw outside; left out: the tool is asked by key."},
        "evidence": _LONG,
        "source": {**_LONG, "description": "Where you saw it."},
        "reference": {**_LONG, "description": "The receipt, booking or message number; `done` needs it."},
    },
    closed=True,
)
PROPOSE = shape(
    {"resolution": {"enum": list(RESOLUTIONS)}, "reason": _REASON, "expected_version": _VERSION},
    {
        "arguments": {
            **OBJECT,
            "description": "record_success: {external_ref, output?}; compensate: {output?}; resume_step: {preview?}, "
            "the hash of the preview that was shown.",
        },
        "repair_id": {**ID, "description": "Your own id of this proposal; sent again, it is answered as before."},
    },
    closed=True,
)
REVIEW = shape(
    {"repair_id": ID, "decision": {"enum": list(DECISIONS)}, "expected_version": _VERSION},
    {"comment": _REASON},
    closed=True,
)
RESOLVE = shape({"expected_version": _VERSION}, {"repair_id": ID}, closed=True)
KEEP_PENDING = shape({"due_at": TIME, "reason": _REASON, "expected_version": _VERSION}, closed=True)

LISTED: dict[str, Any] = {
    "id": ID,
    "kind": {"enum": list(CASE_KINDS)},
    "subject_kind": TEXT,
    "run_id": maybe(ID),
    "task_id": maybe(ID),
    "step_id": maybe(ID),
    "operation_id": maybe(ID),
    "node": TEXT,
    "workflow": TEXT,
    "tool": TEXT,
    "recovery": maybe(TEXT),
    "title": TEXT,
    "fingerprint": TEXT,
    "error_class": TEXT,
    "risk": {"enum": ["high", "medium", "low"]},
    "state": {"enum": list(STATES)},
    "version": COUNT,
    "answer": {"enum": list(ANSWERS)},
    "answered_by": maybe(TEXT),
    "answered_at": maybe(TIME),
    "owner": maybe(TEXT),
    "tool_owner": {**maybe(TEXT), "description": "Who answers for the tool, by its contract."},
    "owner_epoch": maybe(COUNT),
    "claimed_at": maybe(TIME),
    "opened_by": TEXT,
    "opened_at": TIME,
    "due_at": TIME,
    "overdue": _FLAG,
    "escalations": COUNT,
    "escalated_to": TEXT,
    "resolution": maybe({"enum": [*RESOLUTIONS, SETTLED]}),
    "resolved_by": maybe(TEXT),
    "resolved_at": maybe(TIME),
    "verified_by": maybe(TEXT),
}
WAITS = shape({"repair_id": ID, "resolution": {"enum": list(RESOLUTIONS)}, "proposed_by": TEXT, "proposed_at": TIME})
EFFECTS = shape(
    {
        "items": many(
            shape(
                {
                    "operation_id": ID,
                    "business_key": TEXT,
                    "node": TEXT,
                    "tool": TEXT,
                    "status": TEXT,
                    "stands": {"enum": list(STANDS)},
                    "evidence": shape(dict.fromkeys(EVIDENCE, ANY)),
                    "owner": maybe(TEXT),
                    "case_id": maybe(ID),
                    "case_state": maybe({"enum": list(STATES)}),
                    "undone_by": maybe(OBJECT),
                }
            )
        ),
        "more": _FLAG,
    }
)
RUNBOOK: dict[str, Any] = {
    "tool": TEXT,
    "error_class": TEXT,
    "version": COUNT,
    "text": {**TEXT, "description": "Markdown."},
    "written_by": TEXT,
    "written_at": TIME,
    "reason": TEXT,
}
WRITE_RUNBOOK = shape(
    {
        "text": {"type": "string", "maxLength": 40_000, "description": "Markdown; empty takes the runbook away."},
        "expected_version": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "description": "0: it is new."},
    },
    {
        "tool": {"type": "string", "maxLength": 220, "description": "name@version, a name, or empty: every tool."},
        "error_class": {"type": "string", "maxLength": 40},
        "reason": _REASON,
    },
    closed=True,
)
_LINK = {
    "to": {"type": "string", "maxLength": 40, "description": "A role, `user:NAME` of a member, or `owner`."},
    "after_minutes": {"type": "integer", "minimum": 0, "description": "After the due date."},
}
CHAIN: dict[str, Any] = {
    "version": {**COUNT, "description": "0: nobody set one."},
    "links": many(shape(_LINK)),
    "default": {**_FLAG, "description": "The links are everybody's."},
}
CHAIN_SET = shape({**CHAIN, "set_by": maybe(TEXT), "set_at": maybe(TIME), "reason": TEXT})
SET_CHAIN = shape(
    {
        "links": {
            **many(shape(_LINK, closed=True)),
            "maxItems": MOST_LINKS,
            "description": "Each later than the one before; none: the default counts again.",
        },
        "expected_version": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2**31 - 1,
            "description": "0: nobody set one.",
        },
    },
    {"reason": _REASON},
    closed=True,
)
_FACT = shape({"name": TEXT, "value": ANY, "source": TEXT, "observed_at": TIME})
_MOVE = shape({"resolution": TEXT, "permitted": _FLAG, "why_not": maybe(TEXT), "second": maybe(TEXT)})
WHOLE = shape(
    {
        **LISTED,
        "confirmed": many(_FACT),
        "doubts": many(_FACT),
        "moves": many(_MOVE),
        "entries": many(shape({"type": TEXT, "actor": TEXT, "reason": TEXT, "data": ANY, "at": TIME})),
        "proposals": many(OBJECT),
        "contract": maybe(OBJECT),
        "operation": maybe(OBJECT),
        "run": maybe(OBJECT),
        "step": maybe(OBJECT),
        "lease": maybe(
            shape(
                {
                    "host": TEXT,
                    "pid": COUNT,
                    "code_version": TEXT,
                    "owner_epoch": COUNT,
                    "attempt": COUNT,
                    "beat_at": maybe(TIME),
                    "lease_until": TIME,
                    "alive": _FLAG,
                }
            )
        ),
        "concerned": many(OBJECT),
        "epochs": many(OBJECT),
        "stale": many(OBJECT),
        "chain": many(OBJECT),
        "left": shape({"deadline": maybe(TIME), "attempts": maybe(COUNT)}),
        "alike": COUNT,
        "escalation": many(shape({"to": TEXT, "at": TIME, "state": {"enum": ["told", "next", "later"]}})),
        "runbook": maybe(shape(RUNBOOK)),
        "verification": maybe(
            shape(
                {
                    "state": {"enum": ["pending", "verified", "failed", "unverified"]},
                    "by": maybe(TEXT),
                    "at": maybe(TIME),
                    "order": maybe(OBJECT),
                    "later": maybe(ID),
                }
            )
        ),
        "now": TIME,
    }
)
_AHEAD = shape(
    {
        "node": TEXT,
        "title": TEXT,
        "kind": TEXT,
        "tool": maybe(TEXT),
        "status": TEXT,
        "writes": _FLAG,
        "sends_again": _FLAG,
    }
)
PREVIEW = shape(
    {
        "how": {"enum": ["goes_on", "again", "new_run", "undoing", "nothing"]},
        "why_not": maybe(TEXT),
        "runs": many(_AHEAD),
        "perhaps": many(_AHEAD),
        "reused": many(_AHEAD),
        "ended": many(_AHEAD),
        "cost": maybe(
            shape(
                {
                    "calls": COUNT,
                    "calls_most": COUNT,
                    "writes": COUNT,
                    "people": COUNT,
                    "seconds_most": {"type": "number", "minimum": 0},
                }
            )
        ),
        "preview": maybe({**TEXT, "description": "An order to resume quotes it."}),
    }
)
ANSWER = shape(
    {
        "case_id": ID,
        "state": {"enum": list(STATES)},
        "version": COUNT,
        "owner": maybe(TEXT),
        "owner_epoch": maybe(COUNT),
        "answer": {"enum": list(ANSWERS)},
        "due_at": TIME,
        "resolution": maybe(TEXT),
        "run_id": maybe(ID),
        "step_id": maybe(ID),
        "replayed": _FLAG,
    },
    {
        "repair_id": ID,
        "needs_review": _FLAG,
        "why_review": maybe(TEXT),
        "run_released": _FLAG,
        "external_ref": TEXT,
        "resumed": OBJECT,
        "undoing": shape({"operation_id": ID, "status": TEXT, "step_id": maybe(ID)}),
        "undone": many(ID),
        "undo_steps": many(ID),
        "left": COUNT,
        "topic": TEXT,
        "messages": COUNT,
        "replayed_ids": many(ID),
        "handed_to": TEXT,
        "epoch_before": maybe(COUNT),
        "fenced_count": COUNT,
        "fenced": {
            "type": "object",
            "description": "Node → what its step's epoch was and is; older owners change nothing any more. "
            "The first 50 of fenced_count.",
            "additionalProperties": shape({"step_id": ID, "epoch_before": COUNT, "epoch": COUNT}),
        },
        "finding": TEXT,
    },
)
