"""delegations/: who stands in for whom, from when to when."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import standing
from approvals.actions.delegations import add_delegation, end_delegation
from approvals.verbs import DECIDE
from runtime.access.authorize import authorize
from runtime.api.base import PAGING, Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import ID, TEXT, TIME, maybe, paged, shape
from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import Compiled, compile_schema

_FLAG = {"type": "boolean"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 150, "description": "A member's user name."}
_REASON = {"type": "string", "maxLength": 2000, "description": "Kept in the audit."}
_STATES = (*standing.DELEGATION_STATES, standing.OPEN)
_DELEGATION = shape(
    {"delegation_id": ID, "from": TEXT, "to": TEXT, "starts_at": TIME, "ends_at": TIME},
    {
        "reason": TEXT,
        "created_by": TEXT,
        "created_at": TIME,
        "ended_at": maybe(TIME),
        "ended_by": maybe(TEXT),
        "state": {"enum": list(standing.DELEGATION_STATES)},
        "active": _FLAG,
        "created": {**_FLAG, "description": "False where one of the same two lasts all that time already."},
    },
)
_BODIES = {
    "add": shape(
        {"to": _NAME, "ends_at": TIME, "reason": _REASON},
        {
            "starts_at": TIME,
            "from": {**_NAME, "description": "In whose place; by an admin only. By default your own."},
        },
        closed=True,
    ),
    "end": shape({}, {"version": {"type": "integer", "minimum": 1}}, closed=True),
}


@cache
def _body(name: str) -> Compiled:
    return compile_schema(_BODIES[name])


class Delegations(Endpoint):
    """Who stands in for whom."""

    @describe(
        "List delegations from or to you, the newest first; an admin sees all",
        tag="approvals",
        name="list_delegations",
        answers={200: paged(_DELEGATION)},
        query={
            **PAGING,
            "state": ({"enum": list(_STATES)}, "Only in this state; open: coming or active."),
            "member": ({"type": "string"}, "Only from or to this member (a user name)."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "state": next(reversed(params.many("state", _STATES)), None),
            "member": params.text("member") or None,
            "cursor": params.cursor(),
            "limit": params.limit(),
        }
        params.done()
        return Response(standing.page_delegations(actor=self.actor, **wanted).as_json())

    @describe(
        "Let a member decide in your place until a day",
        tag="approvals",
        name="add_delegation",
        answers={201: _DELEGATION, 200: _DELEGATION},
        body=_BODIES["add"],
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, DECIDE)
        value = json_body(request, _body("add"))
        times_of = {name: _time(value[name], name) for name in ("starts_at", "ends_at") if name in value}
        answer = add_delegation(
            actor=self.actor, to=value["to"], reason=value["reason"], whose=value.get("from"), **times_of
        )
        return Response(answer, status=201 if answer["created"] else 200)


class EndDelegation(Endpoint):
    """The end of a delegation."""

    @describe(
        "End a delegation now",
        tag="approvals",
        name="end_delegation",
        answers={200: shape({"delegation_id": ID, "ended": _FLAG})},
        body=_BODIES["end"],
    )
    def post(self, request: Request, delegation_id: str) -> Response:
        authorize(self.actor, DECIDE)
        json_body(request, _body("end"))
        return Response(end_delegation(actor=self.actor, delegation_id=path_id(delegation_id, "delegation")))


def _time(text: str, name: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        mend = "Write a time like 2026-12-24T18:00:00Z."
        raise BadInput("It is no RFC 3339 time with a zone.", where=f"/{name}", remediation=mend)
    return at
