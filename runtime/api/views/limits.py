"""limits/, classes/, breakers/, policy/: what bounds the work, and in what order it starts."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.limits import MOST, close_breaker, open_breaker, remove_limit, set_limit, set_policy
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import COUNT, FLAG, ID, OBJECT, TEXT, TIME, many, maybe, shape
from runtime.kernel.classes import PRIORITY_CLASSES
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.models.limits import BREAKER_STATES, LIMIT_SCOPES
from runtime.queries import limits as queries
from runtime.queries.classes import list_classes

_REASON = {"type": "string", "maxLength": 2000}
_NAMES = maybe({"type": "array", "maxItems": 200, "uniqueItems": True, "items": {"type": "string", "maxLength": 100}})
_BOUND = {"type": "integer", "minimum": 1, "maximum": MOST}
LIMIT_BODY = shape(
    {"scope": {"enum": list(LIMIT_SCOPES)}},
    {
        "name": {"type": "string", "maxLength": 200, "description": "The tool (name or name@version) or workflow."},
        "most": {**_BOUND, "description": "Calls that run at once."},
        "calls": {**_BOUND, "description": "Calls that start in each `per_s` seconds."},
        "per_s": {"type": "number", "minimum": 0.001, "maximum": 86_400},
        "reason": _REASON,
        "expected_version": {
            **COUNT,
            "maximum": 2**31 - 1,
            "description": "The version that was shown; 0 where none stood.",
        },
    },
    closed=True,
)
_SHOWN = {"enum": list(BREAKER_STATES), "description": "The state that was shown."}
CLOSE_BODY = shape({"reason": {**_REASON, "minLength": 1}}, {"expected_state": _SHOWN}, closed=True)
OPEN_BODY = shape(
    {"reason": {**_REASON, "minLength": 1}},
    {
        "seconds": {"type": "number", "minimum": 1, "maximum": 86_400, "description": "Until one call is the probe."},
        "expected_state": _SHOWN,
    },
    closed=True,
)
POLICY_BODY = shape({"data_regions": _NAMES, "scopes": _NAMES}, closed=True)

_LIMIT = shape(
    {
        "id": ID,
        "scope": {"enum": list(LIMIT_SCOPES)},
        "name": TEXT,
        "origin": {"enum": ["contract", "settings"]},
        "most": maybe(COUNT),
        "calls": maybe(COUNT),
        "per_s": maybe({"type": "number"}),
        "used": maybe(COUNT),
        "waiting": COUNT,
        "reason": TEXT,
        "set_by": TEXT,
        "set_at": TIME,
        "version": COUNT,
    }
)
_SET = shape(
    {"limit_id": ID, "scope": TEXT, "name": TEXT, "most": maybe(COUNT), "calls": maybe(COUNT), "version": COUNT},
    {"warning": {**TEXT, "description": "Nothing of that name is registered."}},
)
_BREAKER = shape(
    {
        "id": ID,
        "tool": TEXT,
        "error_class": TEXT,
        "state": {"enum": list(BREAKER_STATES)},
        "failures": COUNT,
        "last_failure_at": TIME,
        "opened_at": maybe(TIME),
        "open_until": maybe(TIME),
        "opens": COUNT,
        "waiting": COUNT,
    }
)
_CLASS = shape(
    {
        "class": {"enum": list(PRIORITY_CLASSES)},
        "priority": {"type": "integer", "description": "The least that belongs to it."},
        "start_s": {"type": "number", "description": "From ready to started."},
        "end_s": maybe({"type": "number", "description": "The deadline of tasks that have none of their own."}),
        "waiting": {**COUNT, "description": "Steps that wait to start, what people hold back not among them."},
        "late": COUNT,
        "oldest": maybe(TIME),
    }
)
_LATE = shape(
    {
        "step_id": ID,
        "run_id": ID,
        "node": TEXT,
        "class": {"enum": list(PRIORITY_CLASSES)},
        "queued_at": TIME,
        "start_by": TIME,
        "parked": {**FLAG, "description": "It waits for a limit, a breaker or another call."},
    }
)
_POLICY = shape({"data_regions": maybe(many(TEXT)), "scopes": maybe(many(TEXT))})


@cache
def _body(name: str) -> Compiled:
    return compile_schema({"limit": LIMIT_BODY, "close": CLOSE_BODY, "open": OPEN_BODY, "policy": POLICY_BODY}[name])


class Limits(Endpoint):
    """How much may run at once, and how much may start."""

    @describe(
        "List limits with the tokens held",
        tag="limits",
        name="list_limits",
        answers={200: shape({"items": many(_LIMIT)})},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_limits(actor=self.actor)})

    @describe("Set or change a limit", tag="limits", name="set_limit", answers={201: _SET}, body=LIMIT_BODY)
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.LIMIT_SET)
        return Response(set_limit(actor=self.actor, **json_body(request, _body("limit"))), status=201)


class Limit(Endpoint):
    """One limit."""

    @describe(
        "Take a limit away",
        tag="limits",
        name="remove_limit",
        answers={200: OBJECT},
        query={"expected_version": (COUNT, "The version that was shown."), "reason": (TEXT, "Kept in the audit.")},
        problems={409: "Another version stands than the one that was shown."},
    )
    def delete(self, request: Request, limit_id: str) -> Response:
        params = self.params
        shown, reason = params.integer("expected_version", -1), params.text("reason", limit=2000) or ""
        params.done()
        wanted = path_id(limit_id, "limit")
        expected = None if shown < 0 else shown
        return Response(remove_limit(actor=self.actor, limit_id=wanted, reason=reason, expected_version=expected))


class Classes(Endpoint):
    """The classes of work."""

    @describe(
        "List the classes of work with what they aim at and what waits, and the steps that wait too long",
        tag="limits",
        name="list_classes",
        answers={200: shape({"items": many(_CLASS), "late": many(_LATE)})},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response(list_classes(actor=self.actor))


class Breakers(Endpoint):
    """Tools that keep failing."""

    @describe(
        "List breakers that have seen failures, the open ones first",
        tag="limits",
        name="list_breakers",
        answers={200: shape({"items": many(_BREAKER)})},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_breakers(actor=self.actor)})


class CloseBreaker(Endpoint):
    """Closing one breaker by hand."""

    @describe("Let calls of the tool go on", tag="limits", name="close_breaker", answers={200: OBJECT}, body=CLOSE_BODY)
    def post(self, request: Request, breaker_id: str) -> Response:
        wanted = path_id(breaker_id, "breaker")
        value = json_body(request, _body("close"))
        return Response(close_breaker(actor=self.actor, breaker_id=wanted, **value))


class OpenBreaker(Endpoint):
    """Opening one breaker by hand."""

    @describe(
        "Let no call of the tool start for a while, then one as a probe",
        tag="limits",
        name="open_breaker",
        answers={200: OBJECT},
        body=OPEN_BODY,
    )
    def post(self, request: Request, breaker_id: str) -> Response:
        wanted = path_id(breaker_id, "breaker")
        value = json_body(request, _body("open"))
        return Response(open_breaker(actor=self.actor, breaker_id=wanted, **value))


class Policy(Endpoint):
    """Which data regions and scopes the tenant's tools may have."""

    @describe("Read the policy", tag="limits", name="read_policy", answers={200: _POLICY})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response(queries.read_policy(actor=self.actor))

    @describe(
        "Set the policy; null bounds nothing", tag="limits", name="set_policy", answers={200: _POLICY}, body=POLICY_BODY
    )
    def put(self, request: Request) -> Response:
        authorize(self.actor, v.LIMIT_SET)
        return Response(set_policy(actor=self.actor, **json_body(request, _body("policy"))))
