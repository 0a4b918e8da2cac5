"""Who asks: a bearer token, or the session of the browser. The tenant comes from the credential, never from a body."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from runtime.access.identity import actor_for_token, actor_for_user
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotAuthenticated

TENANT_HEADER = "X-Quarterdeck-Tenant"


class TokenOwner:
    """Stands in ``request.user`` for the owner of a token; the permissions are those of ``request.auth``."""

    is_authenticated = is_active = True
    is_anonymous = is_staff = is_superuser = False

    def __init__(self, actor: Actor) -> None:
        self.pk = self.id = actor.user_id
        self.username = actor.name

    def get_username(self) -> str:
        return self.username


class BearerToken(BaseAuthentication):
    """``Authorization: Bearer qd_…``; a token belongs to one tenant."""

    def authenticate(self, request: Request) -> tuple[Any, Actor] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        scheme, _, raw = header.partition(" ")
        if scheme.lower() != "bearer" or not raw.strip():
            raise NotAuthenticated("The Authorization header holds no bearer token.")
        actor = actor_for_token(raw.strip())
        return TokenOwner(actor), actor

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="quarterdeck"'


class SignedIn(SessionAuthentication):
    """The browser's session, with CSRF; members of several tenants name one in a header, or chose one on a page."""

    def authenticate(self, request: Request) -> tuple[Any, Actor] | None:
        user = getattr(request._request, "user", None)
        if user is None or not user.is_authenticated or not user.is_active:
            return None
        # The plain request: DRF's own would parse the body, which only the view may do.
        self.enforce_csrf(request._request)  # type: ignore[arg-type]
        return user, actor_for_user(user, request.headers.get(TENANT_HEADER) or request._request.session.get("tenant"))
