"""The base of every endpoint of ``/api/v1/``, also of the apps above: credential, strict input, problem details."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runtime.api import problems
from runtime.api.auth import TENANT_HEADER, BearerToken, SignedIn
from runtime.api.http import AlwaysJSON, JSONAnswer, Query
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotAuthenticated

PREFIX = "/api/v1"


class Endpoint(APIView):
    """A controller: reads the request, calls one action or query as :attr:`actor`, answers JSON.

    Raise QuarterdeckError anywhere; the answer is its problem detail.
    """

    authentication_classes: Any = [BearerToken, SignedIn]
    permission_classes: Any = []
    parser_classes: Any = []
    throttle_classes: Any = []
    renderer_classes: Any = [JSONAnswer]
    content_negotiation_class = AlwaysJSON
    public: ClassVar[bool] = False

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not self.public and not isinstance(request.auth, Actor):
            raise NotAuthenticated()

    def get_exception_handler(self) -> Callable[..., Response]:
        return problems.answer

    @property
    def actor(self) -> Actor:
        """Return who asks; there is always somebody (A10.1)."""
        actor = self.request.auth
        if not isinstance(actor, Actor):
            raise NotAuthenticated()
        return actor

    @property
    def params(self) -> Query:
        """Return the reader of the query parameters."""
        return Query(self.request)


def ref(name: str) -> dict[str, Any]:
    """Return a reference to a schema of ``runtime.api.schemas``."""
    return {"$ref": f"#/components/schemas/{name}"}


_PROBLEMS = {
    400: "The input is wrong; `where` names the place.",
    401: "No valid credential.",
    403: "This identity may not do that.",
    404: "Nothing of that id in this tenant.",
    405: "This address does not answer that method.",
    503: "The database is away or the queue is full; retryable.",
}
_WRITES = {
    409: "It contradicts the stored state: stale version, refused move, key used otherwise.",
    413: "The body is too large.",
    415: "The body is not of a media type that is read here.",
}


def describe(
    summary: str,
    *,
    answers: dict[int, Any],
    body: Any = None,
    body_type: str = "application/json",
    query: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    demands: tuple[str, ...] = (),
    problems: dict[int, str] | None = None,
    name: str | None = None,
    media_type: str = "application/json",
    tag: str,
) -> Callable[[Any], Any]:
    """Document a method: its answers by status, its body's schema, its query parameters (name → (schema, sentence)).

    ``demands`` names headers that a request has to have. ``media_type`` is that of its answers; problems are always
    ``application/problem+json``.
    """
    told = {**_PROBLEMS, **(_WRITES if body is not None else {}), **(problems or {})}
    responses: dict[Any, Any] = {(status, media_type): schema for status, schema in answers.items()}
    responses.update({(status, "application/problem+json"): ref("Problem") for status in told})
    parameters = [
        OpenApiParameter(key, schema, OpenApiParameter.QUERY, description=sentence)
        for key, (schema, sentence) in (query or {}).items()
    ]
    headers = {TENANT_HEADER: "For a signed-in member of several tenants: which one.", **(headers or {})}
    parameters += [
        OpenApiParameter(
            key, {"type": "string"}, OpenApiParameter.HEADER, description=sentence, required=key in demands
        )
        for key, sentence in headers.items()
    ]
    return extend_schema(
        operation_id=name,
        summary=summary,
        tags=[tag],
        request={body_type: body} if body is not None else None,
        responses=responses,
        parameters=parameters,
    )


TEXT: dict[str, Any] = {"type": "string"}
PAGING: dict[str, Any] = {
    "cursor": (TEXT, "The `next` of the page before."),
    "limit": ({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}, "Items on a page."),
}
COUNTING: dict[str, Any] = {"count": ({"type": "boolean"}, "Ask for a count, exact up to 1000.")}
