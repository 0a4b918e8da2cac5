"""What every page shares: who reads it, in which tenant, with which permission, inside which shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any
from urllib.parse import urlencode

import psycopg
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.db import Error as DjangoError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from dashboard.pages import errors, navigation
from dashboard.pages.rendering import render
from runtime.access.authorize import authorize, may
from runtime.access.identity import actor_for_user
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, QuarterdeckError
from runtime.kernel.ids import parse_uuid
from runtime.queries.run_parts import database_now
from runtime.store import directory

TENANT = "tenant"


@dataclass
class Shell:
    """The frame around a page: the reader, the tenants they may choose from, where they are, what waits for them."""

    actor: Actor
    user: User
    tenant: directory.MembershipRow
    tenants: list[directory.MembershipRow]
    section: str
    path: str
    zone: str
    theme: str
    groups: list[navigation.Group] = field(default_factory=list)

    @property
    def inbox(self) -> navigation.Item | None:
        """Return the inbox's place in the navigation, for the bar of a phone."""
        return next((item for group in self.groups for item in group.items if item.key == "inbox"), None)


def actor_of_session(user: User | AnonymousUser | None, session: SessionBase | dict[str, Any]) -> Actor:
    """Return the signed-in user's actor in the tenant they chose; pages and sockets ask the same question.

    Raises NotAuthenticated and PermissionDenied.
    """
    return _place(user, session)[0]


def _place(
    user: User | AnonymousUser | None, session: SessionBase | dict[str, Any]
) -> tuple[Actor, directory.MembershipRow, list[directory.MembershipRow]]:
    if user is None or not user.is_authenticated:
        actor_for_user(None)
    assert isinstance(user, User)
    found = directory.memberships_of(user.pk)
    chosen = next((one for one in found if one.slug == session.get(TENANT)), found[0] if found else None)
    actor = actor_for_user(user, chosen.slug if chosen else None)
    assert chosen is not None
    return actor, chosen, found


View = Callable[..., HttpResponse]


def page(verb: str | None = None, *, section: str = "", methods: tuple[str, ...] = ("GET", "HEAD")) -> Any:
    """Make a view of ``(request, actor, …)`` a page: signed in, of one tenant, permitted, problems shown as pages.

    GET never changes anything: a view that acts names POST in ``methods``, and its forms say in which tenant they were
    shown (``components/shown.html``); a stale tab acts in no other.
    """

    def wrap(view: View) -> View:
        @wraps(view)
        def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                if not request.user.is_authenticated:
                    return _to_sign_in(request)
                request.shell = _shell(request, section)  # type: ignore[attr-defined]
                actor = request.shell.actor  # type: ignore[attr-defined]
                if request.method == "POST":
                    _refuse_elsewhere(request)
                elif other := _linked(request):
                    return _offer(request, other)
                if verb is not None:
                    authorize(actor, verb)
                return view(request, actor, *args, **kwargs)
            except QuarterdeckError as problem:
                return errors.show(request, problem)
            except (psycopg.Error, DjangoError) as problem:
                return errors.of_database(request, problem)

        return csrf_protect(require_http_methods(list(methods))(inner))

    return wrap


def _shell(request: HttpRequest, section: str) -> Shell:
    actor, chosen, tenants = _place(request.user, request.session)
    return Shell(
        actor=actor,
        user=request.user,  # type: ignore[arg-type]
        tenant=chosen,
        tenants=tenants,
        section=section,
        path=request.get_full_path(),
        # By its key: the name of a zone of one offset is that offset, which browsers do not know as a zone.
        zone=str(timezone.get_current_timezone()),
        theme=getattr(request, "theme", "auto"),
    )


def _refuse_elsewhere(request: HttpRequest) -> None:
    """Refuse an act that was shown in another tenant: the session's is one for all tabs, and is switched in any."""
    shown = {*request.POST.getlist("shown_tenant"), request.headers.get("X-Shown-Tenant", "")} - {""}
    if not shown:
        raise BadInput(
            _("The form does not say for which tenant it was shown, so nothing was done."),
            where="/shown_tenant",
            remediation=_("Load the page again and repeat the act."),
        )
    if shown != {request.shell.tenant.slug}:  # type: ignore[attr-defined]
        raise errors.OtherTenant(
            _("You switched tenant; nothing was done."), remediation=_("Load the page again, or switch back.")
        )


def _linked(request: HttpRequest) -> directory.MembershipRow | None:
    """Return the reader's other tenant that a link from outside names (``?tenant=``); None for all other addresses."""
    wanted, shell = request.GET.get("tenant"), request.shell  # type: ignore[attr-defined]
    return next((one for one in shell.tenants if one.slug == wanted and one.slug != shell.tenant.slug), None)


def _offer(request: HttpRequest, other: directory.MembershipRow) -> HttpResponse:
    """Offer to switch to the tenant that a link is of; following it switches nothing by itself."""
    rest = request.GET.copy()
    rest.pop("tenant")
    target = f"{request.path}?{rest.urlencode()}" if rest else request.path
    context = {"crumbs": [(_("Another tenant"), None)], "other": other, "target": target}
    return show(request, "pages/other_tenant.html", context)


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send a reader to sign in and back; an act is refused, never repeated after it."""
    if request.method in ("GET", "HEAD"):
        target = request.headers.get("HX-Current-URL") or request.get_full_path()
        where = f"{reverse('sign-in')}?{urlencode({'next': local_path(target)})}"
        if getattr(request, "htmx", False):
            response = HttpResponse(status=204)
            response["HX-Redirect"] = where
            return response
        return HttpResponseRedirect(where)
    return errors.show(request, errors.signed_out(request))


def local_path(target: str) -> str:
    """Return the path and query of an address of ours; ``/`` for anything else."""
    from urllib.parse import urlsplit

    parts = urlsplit(target)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def show(
    request: HttpRequest, template: str, context: dict[str, Any], *, fragment: str | None = None, status: int = 200
) -> HttpResponse:
    """Render a page in the shell; for htmx asking for ``fragment``'s place only that template.

    ``context["now"]`` is the database's time when a page read it, and is read here otherwise.
    """
    shell: Shell = request.shell  # type: ignore[attr-defined]
    now: datetime = context.get("now") or moment(shell.actor)
    htmx = getattr(request, "htmx", None)
    if fragment is None or not htmx or htmx.boosted:
        shell.groups = navigation.groups(shell.actor)
    else:
        template = fragment
    response = render(request, template, {**context, "shell": shell, "actor": shell.actor, "now": now}, status=status)
    if fragment is not None:
        response["Vary"] = "HX-Request, Cookie"
    return response


def moment(actor: Actor) -> datetime:
    """Return the database's now; this process's for those who may not read runs."""
    return database_now(actor=actor) if may(actor, "run.read") else timezone.now()


def identity(text: str, what: str) -> Any:
    """Return an id of an address. Raises NotFound for what is none."""
    value = parse_uuid(str(text))
    if value is None:
        raise NotFound(f"There is no {what} of that id in this tenant.")
    return value
