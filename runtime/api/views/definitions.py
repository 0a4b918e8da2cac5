"""workflows/, tools/: what is registered before anything runs."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.retiring import retire_tool, revoke_verifier
from runtime.actions.workflows import register_workflow
from runtime.api.base import PAGING, PREFIX, Endpoint, describe, ref
from runtime.api.http import json_body, json_bytes
from runtime.api.part_schemas import QUERY_BODY, SAMPLES_BODY, SIGN_BODY
from runtime.api.schemas import COUNT, FLAG, TEXT, body, many, maybe, paged, shape
from runtime.graph.spec import MAX_SPEC_BYTES, MAX_SPEC_DEPTH, workflow_schema
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import BadInput, NotFound
from runtime.queries import definitions as queries
from runtime.queries import samples
from runtime.queries.recovery import DEFAULT_DAYS, MOST_DAYS, recovery_points
from runtime.tools.contract_schema import CONTRACT_SCHEMA
from runtime.tools.registry import register_tool
from runtime.tools.samples import add_samples, check_samples, sign_samples

_SECONDS = maybe({"type": "number"})
_RECOVERY_POINT = shape(
    {
        "workflow": TEXT,
        "version": COUNT,
        "objective_s": {**_SECONDS, "description": "The workflow's recovery_point_s."},
        "runs": COUNT,
        "lost": {**COUNT, "description": "Attempts whose worker was lost."},
        "p50_s": _SECONDS,
        "p95_s": _SECONDS,
        "max_s": _SECONDS,
        "beyond": {**COUNT, "description": "Losses that cost more than the objective."},
        "running": COUNT,
        "at_risk_s": {**_SECONDS, "description": "What losing every worker now would cost the worst running step."},
    }
)


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
        "Register an immutable workflow version; warns where it would ask people in vain",
        tag="workflows",
        name="register_workflow",
        answers={201: ref("WorkflowRegistered"), 200: ref("WorkflowRegistered")},
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

    @describe("Read a workflow version", tag="workflows", name="read_version", answers={200: ref("WorkflowRead")})
    def get(self, request: Request, name: str, number: str) -> Response:
        self.params.done()
        return Response(queries.read_version(actor=self.actor, name=_name(name), number=_number(number)))


class WorkflowSchema(Endpoint):
    """The published JSON Schema of the workflow format."""

    public = True

    @describe(
        "Read the JSON Schema of workflows", tag="workflows", name="workflow_schema", answers={200: {"type": "object"}}
    )
    def get(self, request: Request) -> Response:
        return Response(workflow_schema())


class RecoveryPoints(Endpoint):
    """What the loss of a worker costs, by workflow version."""

    @describe(
        "Measure how much work lost workers cost, by workflow version",
        tag="workflows",
        name="recovery_points",
        answers={200: shape({"items": many(_RECOVERY_POINT), "days": COUNT, "cut": FLAG})},
        query={
            "workflow": (TEXT, "Only of this workflow."),
            "days": (COUNT, f"Of runs started within so many days, at most {MOST_DAYS}; {DEFAULT_DAYS} by default."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        workflow, days = params.text("workflow"), params.integer("days", DEFAULT_DAYS, low=1, high=MOST_DAYS)
        params.done()
        return Response(recovery_points(actor=self.actor, workflow=workflow, days=days))


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


class RetireTool(Endpoint):
    """A version that no new workflow takes."""

    @describe(
        "Retire a tool version: no workflow is registered with it any more",
        tag="tools",
        name="retire_tool",
        answers={200: ref("ToolRetired")},
        body=QUERY_BODY,
    )
    def post(self, request: Request, name: str, number: str) -> Response:
        reason = json_body(request, body("query"))["reason"]
        return Response(retire_tool(actor=self.actor, name=_name(name), version=_number(number), reason=reason))


class ToolSamples(Endpoint):
    """Recordings of what a version answers, and for which contract they are signed."""

    @describe("Read a tool version's samples", tag="tools", name="read_samples", answers={200: ref("ToolSamples")})
    def get(self, request: Request, name: str, number: str) -> Response:
        self.params.done()
        return Response(samples.read_samples(actor=self.actor, name=_name(name), version=_number(number)))

    @describe(
        "Keep recordings of what a tool version answers",
        tag="tools",
        name="add_samples",
        answers={201: ref("ToolSamplesKept"), 200: ref("ToolSamplesKept")},
        body=SAMPLES_BODY,
    )
    def post(self, request: Request, name: str, number: str) -> Response:
        given = json_body(request, body("samples"))["samples"]
        answer = add_samples(actor=self.actor, name=_name(name), version=_number(number), samples=given)
        return Response(answer, status=201 if answer["added"] else 200)


class CheckSamples(Endpoint):
    """Every recording, read as a live answer is read."""

    @describe(
        "Check a tool version's samples: each is read as a live answer, nothing is called",
        tag="tools",
        name="check_samples",
        answers={200: ref("ToolSamplesChecked")},
    )
    def post(self, request: Request, name: str, number: str) -> Response:
        return Response(check_samples(actor=self.actor, name=_name(name), version=_number(number)))


class SignSamples(Endpoint):
    """The samples of a version, signed for its contract."""

    @describe(
        "Sign a tool version's samples for its contract, once all pass",
        tag="tools",
        name="sign_samples",
        answers={200: ref("ToolSamplesSigned")},
        body=SIGN_BODY,
    )
    def post(self, request: Request, name: str, number: str) -> Response:
        given = json_body(request, body("sign"))
        answer = sign_samples(
            actor=self.actor, name=_name(name), version=_number(number), reason=given["reason"],
            taken_from=given.get("taken_from"),
        )  # fmt: skip
        return Response(answer)


class RevokeVerifier(Endpoint):
    """A verifier that decides no more."""

    @describe(
        "Revoke a verifier: it records no further outcome",
        tag="tasks",
        name="revoke_verifier",
        answers={200: ref("VerifierRevoked")},
        body=QUERY_BODY,
    )
    def post(self, request: Request, name: str, number: str) -> Response:
        reason = json_body(request, body("query"))["reason"]
        return Response(revoke_verifier(actor=self.actor, name=_name(name), version=_number(number), reason=reason))


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
        raise NotFound("There is nothing of that name in this tenant.")
    return name


def _number(number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 10 and 0 < int(number) < 2**31):
        raise NotFound("There is no such version.")
    return int(number)
