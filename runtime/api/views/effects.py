"""operations/, artifacts/: side effects and large contents."""

from __future__ import annotations

import base64
import binascii
import re

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.artifacts import upload_artifact
from runtime.actions.compensation import compensate_operation
from runtime.actions.verifying import Callback, ask_now, take_callback
from runtime.api.base import PREFIX, Endpoint, describe, ref
from runtime.api.http import json_body, path_id, raw_body
from runtime.api.part_schemas import CALLBACK_BODY, QUERY_BODY
from runtime.api.schemas import RUN_VERB_BODY, body
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput
from runtime.queries import effects as queries

_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):\s*(?:,|$)", re.ASCII)


class Operation(Endpoint):
    """One side effect."""

    @describe("Read an operation", tag="operations", name="read_operation", answers={200: ref("Operation")})
    def get(self, request: Request, operation_id: str) -> Response:
        self.params.done()
        return Response(queries.read_operation(actor=self.actor, operation_id=path_id(operation_id, "operation")))


class Compensate(Endpoint):
    """Order that a side effect is undone."""

    @describe(
        "Undo an operation by its declared compensation; asked again it answers with what is there",
        tag="operations",
        name="compensate_operation",
        answers={200: ref("Compensation")},
        body=RUN_VERB_BODY,
    )
    def post(self, request: Request, operation_id: str) -> Response:
        wanted = path_id(operation_id, "operation")
        value = json_body(request, body("run_verb"), optional=True)
        answer = compensate_operation(
            actor=self.actor,
            operation_id=wanted,
            reason=value.get("reason", ""),
            expected_version=value.get("expected_version"),
        )
        return Response(answer)


class QueryOperation(Endpoint):
    """Ask the other side now."""

    @describe(
        "Let the tool be asked now about an operation that is not settled",
        tag="operations",
        name="query_operation",
        answers={202: ref("QueryAsked")},
        body=QUERY_BODY,
    )
    def post(self, request: Request, operation_id: str) -> Response:
        wanted = path_id(operation_id, "operation")
        value = json_body(request, body("query"))
        return Response(ask_now(actor=self.actor, operation_id=wanted, reason=value["reason"]), status=202)


class AttemptCallback(Endpoint):
    """A tool's own, perhaps late, report on a call."""

    @describe(
        "Report on an attempt as the tool that was called; kept once, moves no status",
        tag="operations",
        name="report_attempt",
        answers={200: ref("CallbackTaken")},
        body=CALLBACK_BODY,
    )
    def post(self, request: Request, attempt_id: str) -> Response:
        value = json_body(request, body("callback"))
        return Response(take_callback(actor=self.actor, attempt_id=attempt_id, callback=Callback(**value)))


class Artifacts(Endpoint):
    """Upload content under its hash."""

    @describe(
        "Upload an artifact; the body is the content",
        tag="artifacts",
        name="upload_artifact",
        answers={201: ref("ArtifactStored"), 200: ref("ArtifactStored")},
        body={"type": "string", "format": "binary"},
        body_type="application/octet-stream",
        headers={"Content-Digest": "sha-256=:BASE64: (RFC 9530), computed by the sender. Required."},
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.ARTIFACT_WRITE)
        sha256 = _declared_digest(request)
        content = raw_body(request, limit=conf().max_result_bytes)
        media_type = request._request.META.get("CONTENT_TYPE") or "application/octet-stream"
        answer = upload_artifact(actor=self.actor, body=content, media_type=media_type, sha256=sha256)
        where = f"{PREFIX}/artifacts/{answer['artifact_id']}/"
        return Response(answer, status=201 if answer["created"] else 200, headers={"Location": where})


class Artifact(Endpoint):
    """Size, hash and type of an artifact."""

    @describe("Read an artifact's description", tag="artifacts", name="read_artifact", answers={200: ref("Artifact")})
    def get(self, request: Request, artifact_id: str) -> Response:
        self.params.done()
        answer = queries.read_artifact(actor=self.actor, artifact_id=path_id(artifact_id, "artifact"))
        return Response({**answer, "links": {"content": f"{PREFIX}/artifacts/{answer['id']}/content/"}})


class ArtifactContent(Endpoint):
    """The content of an artifact, byte for byte."""

    @describe(
        "Read an artifact's content (payload.read)",
        tag="artifacts",
        name="read_artifact_content",
        answers={},
    )
    def get(self, request: Request, artifact_id: str) -> HttpResponse:
        self.params.done()
        wanted = path_id(artifact_id, "artifact")
        content, media_type, sha256 = queries.read_artifact_content(actor=self.actor, artifact_id=wanted)
        # Content comes from outside: a browser saves it and runs nothing of it on our origin.
        return HttpResponse(
            content,
            content_type=media_type,
            headers={
                "Content-Disposition": f'attachment; filename="{wanted}"',
                "Content-Security-Policy": "sandbox; default-src 'none'",
                "X-Content-Type-Options": "nosniff",
                "Content-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:",
            },
        )


def _declared_digest(request: Request) -> bytes:
    """Return the SHA-256 the sender declared, from Content-Digest or ``X-Content-SHA256`` (hex)."""
    try:
        if plain := request.headers.get("X-Content-SHA256"):
            found = bytes.fromhex(plain.strip())
        else:
            match = _DIGEST.search(request.headers.get("Content-Digest", ""))
            found = base64.b64decode(match.group(1), validate=True) if match else b""
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != 32:
        raise BadInput(
            "An upload carries the SHA-256 of its body.",
            where="header Content-Digest",
            remediation="Send `Content-Digest: sha-256=:<base64>:` or `X-Content-SHA256: <hex>`.",
        )
    return found
