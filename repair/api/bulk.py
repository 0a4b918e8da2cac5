"""bulk-repairs/: one resolution for many cases, prepared, ordered, reviewed, watched and stopped."""

from __future__ import annotations

from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from repair.actions import bulk as actions
from repair.actions.resolve import DECISIONS
from repair.bulks import get_bulk, list_bulks
from repair.law import BULK_STATES, IN_BULK, ITEM_STATES, STATES
from repair.verbs import REVIEW, WORK
from runtime.access.authorize import authorize
from runtime.api.base import PAGING, Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import COUNT, ID, OBJECT, TEXT, TIME, many, maybe, paged, shape
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.kernel.seams import CASE_KINDS

_FLAG = {"type": "boolean"}
_VERSION = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1, "description": "The version you were shown."}
_REASON = {"type": "string", "maxLength": 2000}
_FILTER = shape(
    {},
    {
        "kind": {"enum": list(CASE_KINDS)},
        "tool": TEXT,
        "risk": {"enum": ["high", "medium", "low"]},
        "alike": TEXT,
        "run": ID,
        "mine": _FLAG,
        "unowned": _FLAG,
        "overdue": _FLAG,
    },
    closed=True,
)
PREPARE = shape(
    {"resolution": {"enum": list(IN_BULK)}, "filter": _FILTER, "reason": _REASON},
    {
        "per_minute": {
            "type": "integer",
            "minimum": 1,
            "maximum": actions.MOST_PER_MINUTE,
            "description": "60 by itself.",
        },
        "hours": {"type": "number", "exclusiveMinimum": 0, "maximum": 720, "description": "Of keep_pending alone."},
    },
    closed=True,
)
ORDER = shape({"expected_version": _VERSION}, closed=True)
REVIEW_BODY = shape(
    {"decision": {"enum": list(DECISIONS)}, "expected_version": _VERSION}, {"comment": _REASON}, closed=True
)
BRAKE = shape({}, {"reason": _REASON}, closed=True)
ABORT = shape({"reason": _REASON}, closed=True)
ANSWER = shape(
    {
        "bulk_id": ID,
        "state": {"enum": list(BULK_STATES)},
        "version": COUNT,
        "needs_review": _FLAG,
        "why_review": TEXT,
    },
    {"total": COUNT, "left_out": COUNT},
)
LISTED: dict[str, Any] = {
    "id": ID,
    "resolution": {"enum": list(IN_BULK)},
    "filter": OBJECT,
    "reason": TEXT,
    "hours": maybe({"type": "number"}),
    "per_minute": COUNT,
    "state": {"enum": list(BULK_STATES)},
    "version": COUNT,
    "why_state": TEXT,
    "needs_review": _FLAG,
    "why_review": TEXT,
    "created_by": TEXT,
    "created_at": TIME,
    "reviewed_by": maybe(TEXT),
    "reviewed_at": maybe(TIME),
    "started_at": maybe(TIME),
    "finished_at": maybe(TIME),
    "watch": OBJECT,
    "counts": shape(dict.fromkeys(ITEM_STATES, COUNT)),
    "total": COUNT,
}
_ITEM = shape(
    {
        "id": ID,
        "position": COUNT,
        "case_id": ID,
        "case_version": COUNT,
        "state": {"enum": list(ITEM_STATES)},
        "result": OBJECT,
        "finished_at": maybe(TIME),
        "title": TEXT,
        "node": TEXT,
        "tool": TEXT,
        "workflow": TEXT,
        "case_state": {"enum": list(STATES)},
        "run_id": maybe(ID),
    }
)
WHOLE = shape({**LISTED, "mine": _FLAG, "items": many(_ITEM), "now": TIME})
_BODIES = {"PREPARE": PREPARE, "ORDER": ORDER, "REVIEW": REVIEW_BODY, "BRAKE": BRAKE, "ABORT": ABORT}


@cache
def _compiled(name: str) -> Compiled:
    return compile_schema(_BODIES[name])


class Bulks(Endpoint):
    """Bulk repairs."""

    @describe(
        "List bulk repairs, newest first",
        tag="repairs",
        name="list_bulk_repairs",
        answers={200: paged(shape(LISTED))},
        query={**PAGING, "review": ({"enum": ["mine"]}, "Only what waits for your review.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        cursor, limit, review = params.cursor(), params.limit(), bool(params.many("review", ("mine",)))
        params.done()
        return Response(list_bulks(actor=self.actor, cursor=cursor, limit=limit, review=review).as_json())

    @describe(
        "Freeze the open cases that fit and preview one resolution for all; nothing is ordered by it",
        tag="repairs",
        name="prepare_bulk_repair",
        answers={201: ANSWER},
        body=PREPARE,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, WORK)
        return Response(actions.prepare_bulk(actor=self.actor, **json_body(request, _compiled("PREPARE"))), status=201)


class Bulk(Endpoint):
    """One bulk repair."""

    @describe("Read a bulk repair, item by item", tag="repairs", name="read_bulk_repair", answers={200: WHOLE})
    def get(self, request: Request, bulk_id: str) -> Response:
        self.params.done()
        return Response(get_bulk(actor=self.actor, bulk_id=path_id(bulk_id, "bulk repair")))


class BulkVerb(Endpoint):
    """A verb on a bulk repair."""

    def read(self, request: Request, bulk_id: str, body: str, verb: str = WORK) -> dict[str, Any]:
        """Return what the action takes: the actor, the id and the checked body."""
        authorize(self.actor, verb)
        wanted = path_id(bulk_id, "bulk repair")
        value = json_body(request, _compiled(body), optional=body == "BRAKE")
        return {"actor": self.actor, "bulk_id": wanted, **value}


def _verb(summary: str, name: str, body: Any) -> Any:
    return describe(summary, tag="repairs", name=name, answers={200: ANSWER}, body=body)


class Order(BulkVerb):
    """Ordering what was prepared."""

    @_verb("Order a prepared bulk repair", "order_bulk_repair", ORDER)
    def post(self, request: Request, bulk_id: str) -> Response:
        return Response(actions.order_bulk(**self.read(request, bulk_id, "ORDER")))


class Review(BulkVerb):
    """The second person's review."""

    @_verb("Approve an ordered bulk repair, which begins it, or send it back", "review_bulk_repair", REVIEW_BODY)
    def post(self, request: Request, bulk_id: str) -> Response:
        return Response(actions.review_bulk(**self.read(request, bulk_id, "REVIEW", REVIEW)))


class Pause(BulkVerb):
    """Stopping it."""

    @_verb("Stop a bulk repair after the item under way", "pause_bulk_repair", BRAKE)
    def post(self, request: Request, bulk_id: str) -> Response:
        return Response(actions.pause_bulk(**self.read(request, bulk_id, "BRAKE")))


class GoOn(BulkVerb):
    """Letting it go on."""

    @_verb("Let a paused bulk repair go on from where it stands", "resume_bulk_repair", BRAKE)
    def post(self, request: Request, bulk_id: str) -> Response:
        return Response(actions.go_on_with_bulk(**self.read(request, bulk_id, "BRAKE")))


class Abort(BulkVerb):
    """Giving it up."""

    @_verb("Give a bulk repair up; what is done stays", "abort_bulk_repair", ABORT)
    def post(self, request: Request, bulk_id: str) -> Response:
        return Response(actions.abort_bulk(**self.read(request, bulk_id, "ABORT")))
