"""runbooks/: what to do about the cases of a tool and an error class, as Markdown in versions."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from repair.actions.runbooks import write_runbook
from repair.api import schemas
from repair.runbooks import list_runbooks, runbook_versions
from repair.verbs import RUNBOOK
from runtime.access.authorize import authorize
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body
from runtime.api.schemas import COUNT, TEXT, many, shape
from runtime.kernel.schemas import Compiled, compile_schema

_ITEMS = shape({"items": many(shape(schemas.RUNBOOK))})
_WRITTEN = shape({"tool": TEXT, "error_class": TEXT, "version": COUNT, "replayed": {"type": "boolean"}})


@cache
def _body() -> Compiled:
    return compile_schema(schemas.WRITE_RUNBOOK)


class Runbooks(Endpoint):
    """The runbooks that stand."""

    @describe("List runbooks, the newest version of each", tag="repairs", name="list_runbooks", answers={200: _ITEMS})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": list_runbooks(actor=self.actor)})

    @describe(
        "Write the next version of a runbook",
        tag="repairs",
        name="write_runbook",
        answers={200: _WRITTEN},
        body=schemas.WRITE_RUNBOOK,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, RUNBOOK)
        value = {"tool": "", "error_class": "", **json_body(request, _body())}
        return Response(write_runbook(actor=self.actor, **value))


class Versions(Endpoint):
    """Every version of one runbook."""

    @describe(
        "Read every version of a runbook, newest first",
        tag="repairs",
        name="read_runbook_versions",
        answers={200: _ITEMS},
        query={"tool": (TEXT, "Its tool; left out: every tool."), "error_class": (TEXT, "Its error class.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        tool, error_class = params.text("tool") or "", params.text("error_class") or ""
        params.done()
        return Response({"items": runbook_versions(actor=self.actor, tool=tool, error_class=error_class)})
