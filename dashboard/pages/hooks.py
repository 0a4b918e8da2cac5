"""Where events of approvals and ends of runs are posted: set, given a new secret and taken away by POST."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.hooks import add_hook, remove_hook, rotate_hook
from approvals.queries import list_hooks
from dashboard.forms.hooks import WORDS, HookForm
from dashboard.pages.console import moment, page, show
from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, QuarterdeckError


@page(v.NOTICE_MANAGE, section="hooks", methods=("GET", "HEAD", "POST"))
def hooks(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the hooks and add one; its secret is on the answer to the POST alone."""
    form, problem, made = HookForm(), None, None
    if request.method == "POST":
        form = HookForm(request.POST)
        if form.is_valid():
            try:
                made = add_hook(actor=actor, **form.cleaned_data)
                form = HookForm()
            except (BadInput, Conflict) as refused:
                problem = refused
        if made is None:
            return _show(request, actor, form, problem=problem, status=problem.http_status if problem else 400)
    return _show(request, actor, form, made=made)


@page(v.NOTICE_MANAGE, section="hooks", methods=("POST",))
def rotate(request: HttpRequest, actor: Actor, hook_id: uuid.UUID) -> HttpResponse:
    """Give a hook a new secret, shown on this answer alone; with ``now`` the one before signs no more.

    The form quotes the secret's version as it was shown: two clicks make one secret.
    """
    now = {"overlap_s": 0.0} if request.POST.get("now") else {}
    shown = request.POST.get("expected_version", "")
    version = int(shown) if shown.isdecimal() and len(shown) < 10 else 0
    try:
        made = rotate_hook(actor=actor, hook_id=hook_id, expected_version=version, **now)
    except Conflict as refused:
        return _show(request, actor, HookForm(), unmade=refused, status=refused.http_status)
    return _show(request, actor, HookForm(), made=made)


@page(v.NOTICE_MANAGE, section="hooks", methods=("POST",))
def remove(request: HttpRequest, actor: Actor, hook_id: uuid.UUID) -> HttpResponse:
    """Post nothing there any more."""
    remove_hook(actor=actor, hook_id=hook_id)
    messages.success(request, _("Removed. Nothing more is posted there."))
    return HttpResponseRedirect(reverse("hooks"))


def _show(
    request: HttpRequest,
    actor: Actor,
    form: HookForm,
    *,
    made: dict[str, Any] | None = None,
    problem: QuarterdeckError | None = None,
    unmade: QuarterdeckError | None = None,
    status: int = 200,
) -> HttpResponse:
    rows = list_hooks(actor=actor)
    now = moment(actor)
    for one in rows:
        one["words"] = None if one["events"] is None else [WORDS.get(name, name) for name in one["events"]]
        one["both"] = one["old_until"] is not None and one["old_until"] > now
    context = {
        "now": now,
        "crumbs": [(_("Webhooks"), None)],
        "rows": rows,
        "form": form,
        "made": made,
        "problem": problem,
        "unmade": unmade,
    }
    return show(request, "pages/hooks.html", context, status=status)
