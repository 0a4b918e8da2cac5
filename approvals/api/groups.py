"""approvals/groups/ and approvals/managers/: whom rules and ladders ask beside a role."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import teams
from approvals.actions.groups import MOST_MEMBERS, put_group, remove_group, set_manager
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body
from runtime.api.schemas import TEXT, TIME, many, maybe, shape
from runtime.kernel.schemas import Compiled, compile_schema

_FLAG = {"type": "boolean"}
_REASON = {"type": "string", "maxLength": 2000, "description": "Kept in the audit."}
_NAME = {"type": "string", "minLength": 1, "maxLength": 150, "description": "A member's user name."}
_GROUP = shape({"name": TEXT, "members": many(TEXT), "created_by": TEXT, "created_at": TIME})
_MANAGER = shape({"user": TEXT, "manager": TEXT, "set_by": TEXT, "set_at": TIME})
_GROUPS = shape({"items": many(_GROUP)})
_CHANGED = shape({"name": TEXT, "members": many(TEXT), "created": _FLAG, "added": many(TEXT), "ended": many(TEXT)})
_MEMBERS = {"type": "array", "maxItems": MOST_MEMBERS, "uniqueItems": True, "items": _NAME}
GROUP_BODY = shape(
    {"name": {"type": "string", "maxLength": 60}, "members": _MEMBERS},
    {
        "reason": _REASON,
        "expected_members": {**_MEMBERS, "description": "Who was shown to be in it: refused when others are by now."},
    },
    closed=True,
)
MANAGER_BODY = shape({"user": _NAME, "manager": maybe(_NAME)}, {"reason": _REASON}, closed=True)
_BODIES = {"group": GROUP_BODY, "manager": MANAGER_BODY}


@cache
def _body(name: str) -> Compiled:
    return compile_schema(_BODIES[name])


class Groups(Endpoint):
    """Groups of members that decide."""

    @describe("List groups that decide", tag="approvals", name="list_groups", answers={200: _GROUPS})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": teams.list_groups(actor=self.actor)})

    @describe(
        "Say who is in a group; it is made where there is none",
        tag="approvals",
        name="put_group",
        answers={201: _CHANGED, 200: _CHANGED},
        body=GROUP_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.MEMBER_MANAGE)
        answer = put_group(actor=self.actor, **json_body(request, _body("group")))
        return Response(answer, status=201 if answer["created"] else 200)


class Group(Endpoint):
    """One group, by its name."""

    @describe(
        "Remove a group that no policy and no request names",
        tag="approvals",
        name="remove_group",
        answers={200: shape({"name": TEXT, "removed": _FLAG})},
    )
    def delete(self, request: Request, name: str) -> Response:
        authorize(self.actor, v.MEMBER_MANAGE)
        return Response(remove_group(actor=self.actor, name=name))


class Managers(Endpoint):
    """Who is whose manager."""

    @describe("List managers", tag="approvals", name="list_managers", answers={200: shape({"items": many(_MANAGER)})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": teams.list_managers(actor=self.actor)})

    @describe(
        "Say who a member's manager is; null: nobody",
        tag="approvals",
        name="set_manager",
        answers={200: shape({"user": TEXT, "manager": maybe(TEXT), "before": maybe(TEXT)})},
        body=MANAGER_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.MEMBER_MANAGE)
        value = json_body(request, _body("manager"))
        return Response(set_manager(actor=self.actor, username=value.pop("user"), **value))
