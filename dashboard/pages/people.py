"""Members with their roles, and tokens; both are changed by POST through the same actions as the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.forms.people import MemberForm, TokenForm
from dashboard.pages.console import identity, page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.access.roles import ROLES, verbs_of_role
from runtime.actions.tenants import add_member, end_membership
from runtime.actions.tokens import issue_token, revoke_token
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import AlreadyIssued, BadInput, Conflict, NotFound, PermissionDenied, QuarterdeckError
from runtime.queries.people import page_members, page_tokens
from runtime.queries.settings import list_settings

PAGE = 100
_REFUSALS = (BadInput, Conflict, NotFound, PermissionDenied)


@page(v.MEMBER_READ, section="members", methods=("GET", "HEAD", "POST"))
def members(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show members and roles; an admin adds somebody, changes a role or ends a membership."""
    form, problem = MemberForm(), None
    if request.method == "POST":
        form = MemberForm(request.POST)
        try:
            if ended := request.POST.get("end"):
                end_membership(actor=actor, membership_id=identity(ended, "membership"))
                messages.success(request, _("The membership ended, and with it its tokens."))
                return HttpResponseRedirect(reverse("members"))
            if form.is_valid():
                answer = add_member(actor=actor, username=form.cleaned_data["username"], role=form.cleaned_data["role"])
                text = _("%(name)s was added.") if answer["created"] else _("The role of %(name)s was changed.")
                messages.success(request, text % {"name": answer["user"]})
                return HttpResponseRedirect(reverse("members"))
        except _REFUSALS as refused:
            problem = refused
    verbs = seams.known_verbs()
    roles: list[dict[str, Any]] = [
        {"name": name, "text": text, "verbs": sorted(verbs_of_role(name)), "all": len(verbs)}
        for name, text in ROLES.items()
    ]
    found = page_members(actor=actor, cursor=request.GET.get("cursor"), limit=PAGE)
    context = {
        "crumbs": [(_("Members"), None)],
        "page": found,
        "rows": found.items,
        "first": not request.GET.get("cursor"),
        "roles": roles,
        "verbs": sorted(verbs.items()),
        "matrix": [(verb, text, [verb in role["verbs"] for role in roles]) for verb, text in sorted(verbs.items())],
        "form": form,
        "problem": problem,
        "settings": list_settings(actor=actor) if may(actor, v.LIMIT_READ) else [],
        "may_manage": may(actor, v.MEMBER_MANAGE),
    }
    return show(request, "pages/members.html", context, status=_status(request, problem))


@page(v.TOKEN_ISSUE, section="tokens", methods=("GET", "HEAD", "POST"))
def tokens(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show tokens and issue one; its text is on the answer to the POST alone and is never read again."""
    form, problem, made = TokenForm(actor=actor), None, None
    if request.method == "POST":
        form = TokenForm(request.POST, actor=actor)
        if form.is_valid():
            try:
                made = issue_token(actor=actor, **form.cleaned_data)
                form = TokenForm(actor=actor)
            except _REFUSALS as refused:
                problem = refused
                if isinstance(problem, AlreadyIssued):  # what is sent from here is another one
                    form = TokenForm(actor=actor)
    found = page_tokens(actor=actor, cursor=request.GET.get("cursor"), limit=PAGE)
    context: dict[str, Any] = {
        "crumbs": [(_("Tokens"), None)],
        "page": found,
        "rows": found.items,
        "form": form,
        "made": made,
        "problem": problem,
        "verbs": sorted((name, seams.known_verbs()[name]) for name in actor.verbs),
        "everybody": may(actor, v.TOKEN_MANAGE),
    }
    status = 200 if made else _status(request, problem)
    return show(request, "pages/tokens.html", context, status=status)


@page(v.TOKEN_ISSUE, section="tokens", methods=("POST",))
def revoke(request: HttpRequest, actor: Actor, token_id: uuid.UUID) -> HttpResponse:
    """Revoke a token."""
    revoke_token(actor=actor, token_id=token_id)
    messages.success(request, _("The token was revoked; it opens nothing any more."))
    return HttpResponseRedirect(reverse("tokens"))


def _status(request: HttpRequest, problem: QuarterdeckError | None) -> int:
    if problem is not None:
        return problem.http_status
    return 400 if request.method == "POST" else 200
