"""schema/, docs/, and whatever has no address."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

from runtime.api import problems, schemas
from runtime.api.base import Endpoint
from runtime.api.http import AlwaysJSON
from runtime.kernel.errors import NotFound

VERSION = "1"


class Generator(SchemaGenerator):
    """Adds the named answers to what is found at the endpoints."""

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        schema = super().get_schema(request=request, public=public)
        schema.setdefault("components", {}).setdefault("schemas", {}).update(schemas.components())
        return schema


class BearerScheme(OpenApiAuthenticationExtension):
    """How the token is shown in the schema."""

    target_class = "runtime.api.auth.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "`qd_…`, of POST tokens/ or `manage.py token`."}


class SessionScheme(OpenApiAuthenticationExtension):
    """How the browser's session is shown in the schema."""

    target_class = "runtime.api.auth.SignedIn"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "Writes also need X-CSRFToken."}


# Swagger UI brings a style sheet in its page, and nothing else from anywhere but here.
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class _JSONFirst(AlwaysJSON):
    """JSON unless ``?format=yaml`` asks otherwise."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        wanted = 1 if request._request.GET.get("format") == "yaml" else 0
        return renderers[wanted], renderers[wanted].media_type


class Schema(SpectacularAPIView):
    """The OpenAPI 3.1 document."""

    authentication_classes: Any = []
    permission_classes: Any = []
    renderer_classes: Any = [OpenApiJsonRenderer, OpenApiYamlRenderer]
    content_negotiation_class = _JSONFirst
    generator_class = Generator
    api_version = VERSION

    def get_exception_handler(self) -> Any:
        return problems.answer

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class Docs(SpectacularSwaggerSplitView):
    """The document, browsable; every file of it comes from this server, its script under an address of its own."""

    authentication_classes: Any = []
    permission_classes: Any = []
    url_name = "api-schema"

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        answer = super().get(request, *args, **kwargs)
        answer["Content-Security-Policy"] = DOCS_POLICY
        return answer


class Nowhere(Endpoint):
    """Answers every address that is none."""

    public = True
    authentication_classes: Any = []

    def _nowhere(self, request: Request, rest: str = "") -> Response:
        mend = "The addresses are listed at /api/v1/docs/."
        if not request.path.endswith("/"):
            mend = f"Addresses end with a slash: {request.path[:200]}/"
        raise NotFound("There is nothing at this address.", remediation=mend)

    get = post = put = patch = delete = extend_schema(exclude=True)(_nowhere)
