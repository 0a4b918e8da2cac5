"""workflows/, tools/: what is registered before anything runs."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.workflows import register_workflow
from runtime.api.base import PAGING, PREFIX, Endpoint, describe, ref
from runtime.api.http import json_bytes
from runtime.api.schemas import paged
from runtime.graph.spec import MAX_SPEC_BYTES, MAX_SPEC_DEPTH, workflow_schema
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import BadInput, NotFound
from runtime.queries import definitions as queries
from runtime.tools.contract_schema import CONTRACT_SCHEMA
from runtime.tools.registry import register_tool


class Workflows(Endpoint):
    """Registered workflows."""

    @describe(
        "List workflows", tag="workflows", name="list_workflows", answers={200: paged(ref("Workflow"))}, query=PAGING
    )
    def get(self, request: Request) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        return Response(queries.list_workflows(actor=self.actor, cursor=cursor, limit=limit).as_json())

    @describe(
        "Register an immutable workflow version",
        tag="workflows",
        name="register_workflow",
        answers={201: ref("WorkflowVersion"), 200: ref("WorkflowVersion")},
        body={"type": "object", "description": "A workflow in the format of workflows/schema/."},
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.WORKFLOW_REGISTER)
        answer = register_workflow(actor=self.actor, raw=json_bytes(request, limit=MAX_SPEC_BYTES))
        where = f"{PREFIX}/workflows/{answer['name']}/versions/{answer['version']}/"
        return Response(answer, status=201 if answer["created"] else 200, headers={"Location": where})


class WorkflowVersions(Endpoint):
    """The versions of one workflow."""

    @describe(
        "List a workflow's versions, newest first",
        tag="workflows",
        name="list_versions",
        answers={200: paged(ref("WorkflowVersion"))},
        query=PAGING,
    )
    def get(self, request: Request, name: str) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        return Response(queries.list_versions(actor=self.actor, name=_name(name), cursor=cursor, limit=limit).as_json())


class WorkflowVersion(Endpoint):
    """One version with its specification."""

    @describe("Read a workflow version", tag="workflows", name="read_version", answers={200: ref("WorkflowVersion")})
    def get(self, request: Request, name: str, number: str) -> Response:
        self.params.done()
        if not (number.isascii() and number.isdigit() and 0 < int(number) < 2**31):
            raise NotFound("There is no such version.")
        return Response(queries.read_version(actor=self.actor, name=_name(name), number=int(number)))


class WorkflowSchema(Endpoint):
    """The published JSON Schema of the workflow format."""

    public = True

    @describe(
        "Read the JSON Schema of workflows", tag="workflows", name="workflow_schema", answers={200: {"type": "object"}}
    )
    def get(self, request: Request) -> Response:
        return Response(workflow_schema())


class Tools(Endpoint):
    """Registered tools: every immutable version."""

    @describe("List tools", tag="tools", name="list_tools", answers={200: paged(ref("Tool"))}, query=PAGING)
    def get(self, request: Request) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        return Response(queries.list_tools(actor=self.actor, cursor=cursor, limit=limit).as_json())

    @describe(
        "Register an immutable tool version",
        tag="tools",
        name="register_tool",
        answers={201: ref("Tool"), 200: ref("Tool")},
        body={"type": "object", "description": "A tool contract in the format of tools/schema/."},
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.TOOL_REGISTER)
        contract = parse_strict(json_bytes(request), max_depth=MAX_SPEC_DEPTH)
        if not isinstance(contract, dict):
            raise BadInput(
                "A tool contract is a JSON object.", where="/", remediation="GET tools/schema/ shows its form."
            )
        answer = register_tool(actor=self.actor, contract=contract)
        return Response(answer, status=201 if answer.get("created", True) else 200)


class ToolSchema(Endpoint):
    """The published JSON Schema of tool contracts."""

    public = True

    @describe(
        "Read the JSON Schema of tool contracts", tag="tools", name="tool_schema", answers={200: {"type": "object"}}
    )
    def get(self, request: Request) -> Response:
        return Response(CONTRACT_SCHEMA)


def _name(name: str) -> str:
    if "\x00" in name or len(name) > 200:
        raise NotFound("There is no such workflow in this tenant.")
    return name
