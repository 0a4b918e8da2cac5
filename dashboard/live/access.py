"""Who opens a socket: a bearer token, or the browser's session from a page of ours. Asked again while it is open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.http.request import validate_host

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.access.identity import actor_for_token, actor_for_user
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotAuthenticated, PermissionDenied
from runtime.store import directory

TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller showed. ``tenant`` names which of a signed-in member's tenants is meant, None the session's."""

    token: str | None = None
    session_key: str | None = None
    tenant: str | None = None

    def actor(self, verb: str = v.RUN_READ) -> Actor:
        """Return who this is now, with this permission. Raises NotAuthenticated and PermissionDenied; reads rows."""
        if self.token is not None:
            actor = actor_for_token(self.token)
        elif self.session_key:
            actor = self._signed_in()
        else:
            raise NotAuthenticated()
        authorize(actor, verb)
        return actor

    def bound_to(self, actor: Actor) -> Credential:
        """Return the same credential for the tenant it was used in, whatever the session's is later.

        Raises PermissionDenied when the person has left it meanwhile: no other tenant stands in for it.
        """
        if self.token is not None or actor.user_id is None:
            return self
        slug = next((o.slug for o in directory.memberships_of(actor.user_id) if o.tenant_id == actor.tenant_id), None)
        if slug is None:
            raise PermissionDenied("You belong to no such tenant.")
        return replace(self, tenant=slug)

    def _signed_in(self) -> Actor:
        session = import_module(settings.SESSION_ENGINE).SessionStore(self.session_key)
        user = get_user(_Request(session))  # type: ignore[arg-type]
        if not user.is_authenticated:
            raise NotAuthenticated()
        assert user.pk is not None
        slugs = [one.slug for one in directory.memberships_of(user.pk)]
        wanted = self.tenant or session.get(TENANT)
        if wanted not in slugs:
            if self.tenant is not None:
                raise PermissionDenied("You belong to no such tenant.")
            wanted = slugs[0] if slugs else None
        return actor_for_user(user, wanted)


@dataclass(slots=True)
class _Request:
    """As much of a request as Django's ``get_user`` reads."""

    session: Any


def credential_of(scope: dict[str, Any]) -> Credential:
    """Return the credential in an ASGI scope.

    Raises PermissionDenied for a session that comes from a page which is not ours: a cookie alone proves nothing about
    who opened the socket, and sockets know no CSRF token. A bearer token is not sent by browsers on their own.
    """
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return Credential(token=token.strip())
    cookies = _cookies(headers.get("cookie", ""))
    session_key = cookies.get(settings.SESSION_COOKIE_NAME)
    if session_key is None:
        return Credential()
    if not own_origin(headers.get("origin"), headers.get("host", "")):
        raise PermissionDenied("This socket was opened from a page that is not ours.")
    return Credential(session_key=session_key)


def own_origin(origin: str | None, host: str) -> bool:
    """Return whether ``origin`` is the page's own host or one that CSRF_TRUSTED_ORIGINS names."""
    if not origin:
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    parts = urlsplit(origin)
    allowed = validate_host((parts.hostname or "").lower(), settings.ALLOWED_HOSTS)
    return parts.scheme in ("http", "https") and allowed and parts.netloc.lower() == host.lower()


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}
