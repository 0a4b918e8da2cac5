"""approvals/hooks/: where events of requests, and ends of runs, are posted."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import queries
from approvals.actions.hooks import add_hook, remove_hook, rotate_hook
from approvals.api import shapes
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import OBJECT, many, shape
from runtime.kernel.schemas import Compiled, compile_schema


@cache
def _body(name: str) -> Compiled:
    return compile_schema(getattr(shapes, name))


class Hooks(Endpoint):
    """Where events of requests are posted."""

    @describe("List hooks", tag="approvals", name="list_hooks", answers={200: shape({"items": many(shapes.HOOK)})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_hooks(actor=self.actor)})

    @describe(
        "Post events of requests to a signed webhook or a chat; the secret is told this once",
        tag="approvals",
        name="add_hook",
        answers={201: shapes.ADDED_HOOK},
        body=shapes.HOOK_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.NOTICE_MANAGE)
        return Response(add_hook(actor=self.actor, **json_body(request, _body("HOOK_BODY"))), status=201)


class Hook(Endpoint):
    """One hook."""

    @describe("Post nothing there any more", tag="approvals", name="remove_hook", answers={200: OBJECT})
    def delete(self, request: Request, hook_id: str) -> Response:
        return Response(remove_hook(actor=self.actor, hook_id=path_id(hook_id, "hook")))


class RotateHook(Endpoint):
    """A new secret for one hook."""

    @describe(
        "Give a hook a new secret; the one before signs too for a while",
        tag="approvals",
        name="rotate_hook",
        answers={200: shapes.ROTATED},
        body=shapes.ROTATE_BODY,
    )
    def post(self, request: Request, hook_id: str) -> Response:
        authorize(self.actor, v.NOTICE_MANAGE)
        wanted = path_id(hook_id, "hook")
        value = json_body(request, _body("ROTATE_BODY"))
        return Response(rotate_hook(actor=self.actor, hook_id=wanted, **value))
