"""Who decides in whose place, from when to when; made and ended by POST through the same actions as the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.delegations import add_delegation, end_delegation
from approvals.standing import ENDED, OPEN, names_to_ask, page_delegations, sees_all
from approvals.verbs import DECIDE, READ
from dashboard.forms.delegations import DelegationForm
from dashboard.pages.console import moment, page, show
from runtime.access.authorize import authorize, may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError

PAGE = 50


@page(READ, section="inbox", methods=("GET", "HEAD", "POST"))
def delegations(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show delegations from and to the reader, an admin all of them, and the form that makes one."""
    if request.method != "POST":
        return _show(request, actor)
    authorize(actor, DECIDE)
    form = _form(actor, request.POST)
    if form.is_valid():
        try:
            answer = add_delegation(actor=actor, **form.asked())
        except (BadInput, PermissionDenied) as problem:
            field = DelegationForm.FIELDS.get(problem.where or "") if isinstance(problem, BadInput) else None
            if field not in form.fields:
                return _show(request, actor, form=form, problem=problem)
            form.add_error(field, f"{problem.detail} {problem.remediation or ''}")
        else:
            messages.success(request, _told(answer, actor), extra_tags="succeeded")
            return HttpResponseRedirect(reverse("delegations"))
    return _show(request, actor, form=form, status=400)


@page(READ, section="inbox", methods=("POST",))
def end(request: HttpRequest, actor: Actor, delegation_id: uuid.UUID) -> HttpResponse:
    """End a delegation, or call it off before it begins."""
    try:
        end_delegation(actor=actor, delegation_id=delegation_id)
    except Conflict as problem:
        return _show(request, actor, problem=problem)
    messages.success(request, _("Ended. What was decided so far stays."), extra_tags="succeeded")
    return HttpResponseRedirect(reverse("delegations"))


def _form(actor: Actor, sent: Any = None) -> DelegationForm:
    names = names_to_ask(actor=actor)
    return DelegationForm(sent, actor=actor, now=moment(actor), names=names, others=sees_all(actor))


def _told(answer: dict[str, Any], actor: Actor) -> str:
    names = {"to": answer["to"].partition(":")[2], "name": answer["from"].partition(":")[2]}
    if not answer["created"]:
        return _("%(to)s stands in for %(name)s all that time already. Nothing was changed.") % names
    if answer["from"] == actor.label:
        return _("%(to)s decides in your place in that time.") % names
    return _("%(to)s decides in the place of %(name)s in that time.") % names


def _show(
    request: HttpRequest,
    actor: Actor,
    *,
    form: DelegationForm | None = None,
    problem: QuarterdeckError | None = None,
    status: int = 200,
) -> HttpResponse:
    view = ENDED if request.GET.get("view") == ENDED else OPEN
    everybody = sees_all(actor)
    member = request.GET.get("member", "")[:150].replace("\x00", "") if everybody else ""
    if form is None and may(actor, DECIDE):
        form = _form(actor)
    cursor = request.GET.get("cursor")
    found = page_delegations(actor=actor, state=view, member=member or None, cursor=cursor, limit=PAGE)
    context = {
        "now": moment(actor),
        "crumbs": [(_("Inbox"), reverse("inbox")), (_("Delegations"), None)],
        "view": view,
        "member": member,
        "everybody": everybody,
        "page": found,
        "rows": found.items,
        "may_end": may(actor, DECIDE),
        "form": form,
        "names": form.names if form else [],
        "problem": problem,
    }
    return show(request, "pages/delegations.html", context, status=problem.http_status if problem else status)
