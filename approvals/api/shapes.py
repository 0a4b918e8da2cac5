"""What the endpoints of this app read and answer, as JSON Schema."""

from __future__ import annotations

from approvals.actions.decide import DECISIONS
from approvals.actions.own import MAX_KEY, MAX_TITLE
from approvals.askable import LEFT_TO
from approvals.law import EVENTS, HOOK_FORMATS, ON_TIMEOUT, RISKS, RUN_EVENTS, SEPARATIONS, STATES
from approvals.records import REPORTS
from runtime.access.roles import ROLES
from runtime.api.schemas import ANY, COUNT, ID, SHA256, TEXT, TIME, many, maybe, shape
from runtime.kernel.errors import STRUCTURED

_VERSION = {"type": "integer", "minimum": 1, "maximum": 32767, "description": "The version you were shown."}
_HASH = {**SHA256, "description": "The hash of what you were shown."}
REASON = {"type": "string", "maxLength": 2000, "description": "Kept in the audit."}
_NAME = {"type": "string", "minLength": 1, "maxLength": 150, "description": "A member's user name."}
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 7_776_000}
DECIDE_BODY = shape(
    {"decision": {"enum": list(DECISIONS)}, "version": _VERSION, "payload_hash": _HASH},
    {"comment": REASON},
    closed=True,
)
PROPOSE_BODY = shape(
    {
        "arguments": {**ANY, "description": "What the call sends instead."},
        "version": _VERSION,
        "payload_hash": _HASH,
        "comment": REASON,
    },
    {"node": {**TEXT, "description": "Which call, where the request permits several."}},
    closed=True,
)
CLAIM_BODY = shape({}, {"version": _VERSION}, closed=True)
WITHDRAW_BODY = shape({"version": _VERSION}, {"reason": REASON}, closed=True)
REASON_BODY = shape({}, {"reason": REASON}, closed=True)
REVOKE_BODY = shape({"reason": REASON}, closed=True)
DELEGATE_BODY = shape({"to": _NAME, "reason": REASON}, {"version": _VERSION}, closed=True)
EXTEND_BODY = shape(
    {"seconds": {**_SECONDS, "description": "Until when, from now."}, "reason": REASON},
    {"version": _VERSION},
    closed=True,
)
ESCALATE_BODY = shape(
    {"reason": REASON},
    {
        "role": {**_NAME, "description": "A role, group:NAME or manager; by default the next of its ladder."},
        "version": _VERSION,
    },
    closed=True,
)
_REFERENCE = {"artifact_id": ID, "sha256": SHA256}
_FILE = {"type": "string", "maxLength": 200}
COMMENT_BODY = shape(
    {"text": {**REASON, "minLength": 1}},
    {
        "attachments": {
            "type": "array",
            "maxItems": 10,
            "items": shape(_REFERENCE, {"name": _FILE}, closed=True),
            "description": "Uploaded before (POST artifacts/); at most 10 MB each, no markup, programs or archives.",
        }
    },
    closed=True,
)
COMMENTED = shape(
    {
        "approval_id": ID,
        "mentions": many(TEXT),
        "attachments": many(shape({**_REFERENCE, "size": COUNT, "media_type": TEXT, "name": TEXT})),
    }
)
BULK_BODY = shape(
    {
        "decision": {"enum": list(DECISIONS)},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": shape({"id": ID, "version": _VERSION, "payload_hash": _HASH}, closed=True),
        },
    },
    {"comment": REASON, "confirm": {**TEXT, "description": "What is asked for above low risk: `approve N`."}},
    closed=True,
)
INPUT_BODY = shape(
    {"value": {**ANY, "description": "The answer; it fits the form that the request shows."}},
    {"version": _VERSION, "payload_hash": _HASH, "comment": REASON},
    closed=True,
)
FLAG = {"type": "boolean"}
LISTED = {
    "id": ID,
    "kind": {
        "enum": ["node", "call", "input", "subject"],
        "description": "An approval node, one call that lacks a grant, an input, or a subject that is no step.",
    },
    "subject_kind": TEXT,
    "workflow": TEXT,
    "run_id": maybe(ID),
    "task_id": maybe(ID),
    "step_id": maybe(ID),
    "node": TEXT,
    "title": TEXT,
    "role": TEXT,
    "state": {"enum": list(STATES)},
    "version": COUNT,
    "payload_hash": SHA256,
    "calls": COUNT,
    "target": maybe(TEXT),
    "requested_by": TEXT,
    "created_at": TIME,
    "deadline": maybe(TIME),
    "decided_at": maybe(TIME),
    "decided_by": maybe(TEXT),
    "closed_at": maybe(TIME),
    "outcome_reason": TEXT,
    "problem": maybe(TEXT),
    "risk": {"enum": list(RISKS)},
    "quorum": COUNT,
    "approvals": COUNT,
    "assignee": maybe(TEXT),
    "level": COUNT,
    "editor": maybe(TEXT),
    "on_timeout": {"enum": list(ON_TIMEOUT)},
    "may_decide": FLAG,
}
_ACTION = shape(
    {
        "node": TEXT,
        "tool": TEXT,
        "business_key": TEXT,
        "arguments_hash": SHA256,
        "edited": FLAG,
        "contract_hash": SHA256,
        "operation_id": maybe(ID),
        "consumed_at": maybe(TIME),
    }
)
_DECISION = shape(
    {
        "decision": {"enum": list(DECISIONS)},
        "actor": TEXT,
        "for_actor": maybe(TEXT),
        "version": COUNT,
        "comment": TEXT,
        "at": TIME,
        "output_kind": {"const": "human_decision"},
    }
)
_NOTE = shape({"kind": TEXT, "actor": TEXT, "text": TEXT, "details": maybe(ANY), "at": TIME})
_PROPOSAL = shape({"id": ID, "version": COUNT, "state": {"enum": list(STATES)}, "editor": maybe(TEXT)})
WHOLE = shape(
    {
        **LISTED,
        "goal": TEXT,
        "action_hash": SHA256,
        "actions": many(_ACTION),
        "decisions": many(_DECISION),
        "approvals": COUNT,
        "separation": {"enum": list(SEPARATIONS)},
        "notes": {**many(_NOTE), "description": "What was done with it, oldest first; the newest 500."},
        "notes_cut": {**FLAG, "description": "There are older notes than `notes` lists."},
        "deciders": many(shape({"actor": TEXT, "role": TEXT})),
        "proposals": many(_PROPOSAL),
        "supersedes": maybe(ID),
        "superseded_by": maybe(ID),
        "assigned_by": maybe(TEXT),
        "blocked": maybe({**TEXT, "description": "The code of why you may not decide it."}),
        "waits_for": {
            "enum": [*LEFT_TO, None],
            "description": "Who could decide it today: somebody it asks, only admins, or too few people; null: closed.",
        },
        "revision": {**COUNT, "description": "How often people changed it: claims, hand-overs, more time, voices."},
        "start_by": maybe(TIME),
        "target_version": maybe(TEXT),
        "comment": TEXT,
        "now": TIME,
        "redacted": FLAG,
    },
    {
        "shown": {**ANY, "description": "Exactly what payload_hash is the hash of (RFC 8785); needs payload.read."},
        "answer": {**ANY, "description": "What was answered to a request for an input; needs payload.read."},
        "changes": {**many(ANY), "description": "What it changes of the proposal before, leaf by leaf, with types."},
        "changes_cut": {**FLAG, "description": "It changes more than `changes` lists; compare `shown`."},
    },
)
DECIDED = shape(
    {
        "approval_id": ID,
        "decision": {"enum": list(DECISIONS)},
        "state": {"enum": list(STATES)},
        "version": COUNT,
        "payload_hash": SHA256,
        "approvals": COUNT,
        "quorum": COUNT,
        "decided_by": maybe(TEXT),
        "decided_at": maybe(TIME),
        "run_id": maybe(ID),
        "step_id": maybe(ID),
        "step_status": maybe(TEXT),
        "run_status": maybe(TEXT),
        "replayed": FLAG,
    },
    {"start_by": maybe(TIME)},
)
STANDING = shape(
    {
        "approval_id": ID,
        "state": {"enum": list(STATES)},
        "version": COUNT,
        "payload_hash": SHA256,
        "role": TEXT,
        "level": COUNT,
        "assignee": maybe(TEXT),
        "assigned_by": maybe(TEXT),
        "deadline": maybe(TIME),
    },
    {"supersedes": ID},
)
WAITED = shape(
    {
        "approval_id": ID,
        "state": {"enum": list(STATES)},
        "version": COUNT,
        "outcome_reason": TEXT,
        "decided_at": maybe(TIME),
        "decided_by": maybe(TEXT),
        "comment": TEXT,
        "deadline": maybe(TIME),
        "start_by": maybe(TIME),
        "superseded_by": maybe(ID),
        "action_hash": SHA256,
        "payload_hash": SHA256,
        "now": TIME,
    }
)
_LONG = {"type": "number", "exclusiveMinimum": 0, "maximum": 7_776_000}
OWN_BODY = shape(
    {
        "action": shape(
            {
                "tool": {**TEXT, "description": "name@version"},
                "arguments": {**ANY, "description": "What it is called with."},
            },
            {
                "target": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What it changes."},
                "target_version": {"type": "string", "minLength": 1, "maxLength": 200},
            },
            closed=True,
        ),
        "title": {"type": "string", "minLength": 1, "maxLength": MAX_TITLE},
    },
    {
        "goal": {**REASON, "description": "Why; people are shown it."},
        "role": {"enum": sorted(ROLES), "default": "approver", "description": "Who decides."},
        "quorum": {"type": "integer", "minimum": 1, "maximum": 20, "default": 1},
        "risk": {"enum": list(RISKS), "description": "At least this."},
        "expires_s": {**_LONG, "description": "Until when it can be decided, from now."},
        "start_within_s": {**_LONG, "description": "How long the permission to start lasts, from the approval."},
        "evidence": {"type": "array", "maxItems": 50, "items": shape(_REFERENCE, closed=True)},
    },
    closed=True,
)
CONSUME_BODY = shape(
    {
        "action_hash": {**SHA256, "description": "The `action_hash` that you were told when you asked."},
        "arguments": {**ANY, "description": "What you are about to send; compared with what was approved."},
    },
    {
        "target_version": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "In which version the target is now; to be told where you asked for one. Another voids it.",
        },
        "use_key": {"type": "string", "maxLength": MAX_KEY, "description": "Names this use, to be asked again."},
    },
    closed=True,
)
OUTCOME_BODY = shape({"outcome": {"enum": list(REPORTS)}}, {"detail": REASON}, closed=True)
_OWN = {**STANDING["properties"], "action_hash": SHA256, "replayed": FLAG}
_OWN.pop("supersedes")
OWN_STANDING = shape(_OWN)
ASKED = shape({**_OWN, "links": ANY})
CONSUMED = shape(
    {**_OWN, "use_id": {**ID, "description": "Send it on as the effect's idempotency key."}, "used_at": TIME}
)
REPORTED = shape(
    {"approval_id": ID, "state": {"enum": list(STATES)}, "outcome": {"enum": list(REPORTS)}, "replayed": FLAG}
)
BULK_ANSWER = shape(
    {
        "decision": {"enum": list(DECISIONS)},
        "decided": COUNT,
        "refused": COUNT,
        "items": many(shape({"id": ID, "ok": FLAG}, dict.fromkeys((*STRUCTURED, "detail"), ANY))),
    }
)
_EVENTS = {
    "type": "array",
    "minItems": 1,
    "items": {"enum": [*EVENTS, *RUN_EVENTS]},
    "description": "Which events; without it all of approvals, and none of runs.",
}
_FORMAT = {
    "enum": list(HOOK_FORMATS),
    "description": "standard: signed by Standard Webhooks; chat: {text}, as incoming hooks of chats take it.",
}
HOOK_BODY = shape(
    {"url": {"type": "string", "minLength": 1, "maxLength": 500}}, {"format": _FORMAT, "events": _EVENTS}, closed=True
)
ROTATE_BODY = shape(
    {
        "expected_version": {
            "type": "integer",
            "minimum": 1,
            "maximum": 32_767,
            "description": "The secret_version that was shown; sent again, it makes no further secret.",
        }
    },
    {
        "overlap_s": {
            "type": "number",
            "minimum": 0,
            "maximum": 2_592_000,
            "description": "How long the secret before signs too; a day by default, 0: no more at once.",
        }
    },
    closed=True,
)
_SECRET = {**TEXT, "description": "Told this once."}
_HOOK = {"hook_id": ID, "url": TEXT, "format": _FORMAT, "events": maybe(many(TEXT)), "secret_version": COUNT}
HOOK = shape({**_HOOK, "old_until": maybe(TIME), "created_by": TEXT, "created_at": TIME})
ADDED_HOOK = shape({**_HOOK, "secret": _SECRET})
ROTATED = shape({"hook_id": ID, "secret_version": COUNT, "secret": _SECRET, "old_until": maybe(TIME)})
_MOST = {"type": "integer", "minimum": 1, "maximum": 10_000}
REVIEW_BODY = shape(
    {
        "most_held": maybe({**_MOST, "description": "Pending requests that one person holds at once; null: no limit."}),
        "most_decided": maybe({**_MOST, "description": "What one person decides within an hour; null: no limit."}),
    },
    closed=True,
)
REVIEW = shape({"most_held": maybe(COUNT), "most_decided": maybe(COUNT)}, {"set_by": TEXT, "set_at": TIME})
REVIEW_LOAD = shape({"most_held": maybe(COUNT), "most_decided": maybe(COUNT), "held": COUNT, "decided": COUNT})
