"""stops/, alerts/: holding external calls back, and what needs a person."""

from __future__ import annotations

from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.notices import add_target, remove_target
from runtime.actions.stops import lift_stop, set_stop
from runtime.api.base import COUNTING, PAGING, Endpoint, describe
from runtime.api.http import body_id, json_body, path_id, rfc3339
from runtime.api.schemas import COUNT, ID, OBJECT, TEXT, TIME, many, maybe, paged, shape
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.models.watch import ALERT_RULES, STOP_SCOPES
from runtime.queries import alerts as alert_queries
from runtime.queries import stops as stop_queries

_FLAG = {"type": "boolean"}
_REASON = {"type": "string", "maxLength": 2000, "description": "Why, for the audit and for whoever wonders."}
STOP_BODY = shape(
    {"scope": {"enum": list(STOP_SCOPES)}, "reason": {**_REASON, "minLength": 1}},
    {
        "name": {"type": "string", "maxLength": 200, "description": "A tool (name or name@version), or a workflow."},
        "until": maybe({**TIME, "description": "Ends by itself then."}),
        "replaces": {**ID, "description": "The standing stop of the same subject that this takes the place of."},
    },
    closed=True,
)
LIFT_BODY = shape({}, {"reason": _REASON}, closed=True)
TARGET_BODY = shape(
    {"kind": {"enum": ["mail", "webhook"]}, "address": {"type": "string", "minLength": 3, "maxLength": 500}},
    {"rules": maybe({"type": "array", "minItems": 1, "maxItems": 20, "items": {"enum": list(ALERT_RULES)}})},
    closed=True,
)
_STOP = shape(
    {
        "id": ID,
        "scope": {"enum": list(STOP_SCOPES)},
        "name": TEXT,
        "reason": TEXT,
        "set_by": TEXT,
        "set_at": TIME,
        "until": maybe(TIME),
        "standing": _FLAG,
        "known": {**_FLAG, "description": "Whether anything of that name is registered."},
        "lifted_at": maybe(TIME),
        "lifted_by": maybe(TEXT),
        "lift_reason": TEXT,
    }
)
_SUBJECT = {"stop_id": ID, "scope": TEXT, "name": TEXT}
_STOPPED = shape({**_SUBJECT, "set_by": TEXT, "set_at": TIME, "until": maybe(TIME), "replayed": _FLAG})
_STILL = shape({**_SUBJECT, "until": maybe(TIME), "address": TEXT})
_LIFTED = shape(
    {
        **_SUBJECT,
        "lifted": _FLAG,
        "still": {**many(_STILL), "description": "Stops that stand and hold back anything of the same subject."},
    }
)
_ALERT = shape(
    {
        "id": ID,
        "rule": {"enum": list(ALERT_RULES)},
        "severity": TEXT,
        "title": TEXT,
        "state": {"enum": ["open", "closed"]},
        "count": COUNT,
        "subjects": many(OBJECT),
        "first_at": TIME,
        "last_at": TIME,
        "notified_at": maybe(TIME),
        "closed_at": maybe(TIME),
    }
)
_TARGET = shape({"id": ID, "kind": TEXT, "address": TEXT, "rules": maybe(many(TEXT)), "created_by": TEXT})
_ADDED = shape({"target_id": ID, "kind": TEXT, "address": TEXT, "rules": maybe(many(TEXT)), "secret": maybe(TEXT)})


@cache
def _body(name: str) -> Compiled:
    return compile_schema({"stop": STOP_BODY, "lift": LIFT_BODY, "target": TARGET_BODY}[name])


class Stops(Endpoint):
    """Emergency stops."""

    @describe(
        "List stops, those that stand first",
        tag="stops",
        name="list_stops",
        answers={200: shape({"items": many(_STOP)})},
        query={"standing": ({"type": "boolean"}, "Only those that stand now.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        standing = params.flag("standing")
        params.done()
        return Response({"items": stop_queries.list_stops(actor=self.actor, standing=standing)})

    @describe(
        "Stop external calls: no new one starts, what was sent goes on",
        tag="stops",
        name="set_stop",
        answers={201: _STOPPED, 200: _STOPPED},
        body=STOP_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.STOP_SET)
        value = json_body(request, _body("stop"))
        until = rfc3339(value["until"], "/until") if value.get("until") else None
        replaces = body_id(value["replaces"], "/replaces") if "replaces" in value else None
        answer = set_stop(
            actor=self.actor,
            scope=value["scope"],
            name=value.get("name", ""),
            reason=value["reason"],
            until=until,
            replaces=replaces,
        )
        return Response(answer, status=200 if answer["replayed"] else 201)


class Stop(Endpoint):
    """One stop."""

    @describe("Read a stop", tag="stops", name="read_stop", answers={200: _STOP})
    def get(self, request: Request, stop_id: str) -> Response:
        self.params.done()
        return Response(stop_queries.read_stop(actor=self.actor, stop_id=path_id(stop_id, "stop")))


class LiftStop(Endpoint):
    """Lifting one stop."""

    @describe("Lift a stop", tag="stops", name="lift_stop", answers={200: _LIFTED}, body=LIFT_BODY)
    def post(self, request: Request, stop_id: str) -> Response:
        wanted = path_id(stop_id, "stop")
        value = json_body(request, _body("lift"), optional=True)
        return Response(lift_stop(actor=self.actor, stop_id=wanted, reason=value.get("reason", "")))


class Alerts(Endpoint):
    """What needs a person."""

    @describe(
        "List alerts, the newest first",
        tag="alerts",
        name="list_alerts",
        answers={200: paged(_ALERT)},
        query={
            **PAGING,
            **COUNTING,
            "state": ({"enum": list(alert_queries.STATES), "default": "open"}, "Open, closed, or all."),
            "rule": ({"enum": list(ALERT_RULES)}, "Only of this rule."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        states, rules = params.many("state", alert_queries.STATES), params.many("rule", ALERT_RULES)
        wanted: dict[str, Any] = {
            "state": states[-1] if states else "open",
            "rule": rules[-1] if rules else None,
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(alert_queries.list_alerts(actor=self.actor, **wanted).as_json())


class Targets(Endpoint):
    """Where alerts are sent."""

    @describe("List targets", tag="alerts", name="list_targets", answers={200: shape({"items": many(_TARGET)})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": alert_queries.list_targets(actor=self.actor)})

    @describe(
        "Send alerts to a mail address or a signed webhook too",
        tag="alerts",
        name="add_target",
        answers={201: _ADDED},
        body=TARGET_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.NOTICE_MANAGE)
        value = json_body(request, _body("target"))
        answer = add_target(actor=self.actor, kind=value["kind"], address=value["address"], rules=value.get("rules"))
        return Response(answer, status=201)


class Target(Endpoint):
    """One target."""

    @describe("Send no more alerts there", tag="alerts", name="remove_target", answers={200: OBJECT})
    def delete(self, request: Request, target_id: str) -> Response:
        return Response(remove_target(actor=self.actor, target_id=path_id(target_id, "target")))
