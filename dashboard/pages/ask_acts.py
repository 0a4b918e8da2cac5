"""The dialogs of what is done with a request beside deciding it: each shows, asks why, and calls one action on POST."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from approvals.actions import handling, times
from approvals.actions.propose import propose_edit
from approvals.actions.revoke import revoke_grant
from approvals.queries import get_request, roles_to_ask
from approvals.teams import list_groups
from approvals.verbs import DECIDE
from dashboard.forms import asks as ask_forms
from dashboard.pages.console import page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.queries.people import list_members


@dataclass(frozen=True, slots=True)
class Kind:
    """One act: its words, its form, what it calls, and what it says afterwards."""

    question: Any
    consequence: Any
    word: Any
    told: Any
    form: type[forms.Form]
    action: Callable[..., dict[str, Any]]
    grave: bool = False


KINDS = {
    "claim": Kind(
        gettext_lazy("Take it on?"),
        gettext_lazy("Nobody else decides it until you do, give it back, or it is escalated."),
        gettext_lazy("Take it on"),
        gettext_lazy("It is yours. Nobody else decides it now."),
        ask_forms.ClaimForm,
        handling.claim_request,
    ),
    "release": Kind(
        gettext_lazy("Give it back?"),
        gettext_lazy("Everybody of its role can decide it again."),
        gettext_lazy("Give it back"),
        gettext_lazy("Everybody of its role can decide it again."),
        ask_forms.ReasonForm,
        handling.release_request,
    ),
    "delegate": Kind(
        gettext_lazy("Hand it over?"),
        gettext_lazy("That person alone decides it then, in your right where they have none. Both names are kept."),
        gettext_lazy("Hand over"),
        gettext_lazy("Handed over. Your own open tabs decide nothing any more."),
        ask_forms.DelegateForm,
        handling.delegate_request,
    ),
    "extend": Kind(
        gettext_lazy("Give more time?"),
        gettext_lazy("What is asked stays the same; only the deadline moves."),
        gettext_lazy("Give more time"),
        gettext_lazy("The deadline was moved."),
        ask_forms.ExtendForm,
        times.extend_request,
    ),
    "escalate": Kind(
        gettext_lazy("Escalate it now?"),
        gettext_lazy("Others are asked, with a new deadline. Nobody has it any more."),
        gettext_lazy("Escalate"),
        gettext_lazy("Escalated. It waits for others now."),
        ask_forms.EscalateForm,
        times.escalate_request,
    ),
    "propose": Kind(
        gettext_lazy("Propose a change?"),
        gettext_lazy("A new proposal supersedes this one. It is checked by the tool's schema and needs an approval."),
        gettext_lazy("Propose"),
        gettext_lazy("Your proposal waits for a decision. The one before is superseded."),
        ask_forms.ProposeForm,
        propose_edit,
    ),
    "revoke": Kind(
        gettext_lazy("Take the grant back?"),
        gettext_lazy("What was sent stays sent. What was not sent asks anew."),
        gettext_lazy("Take back"),
        gettext_lazy("Taken back. What was not sent asks anew."),
        ask_forms.ReasonForm,
        revoke_grant,
        grave=True,
    ),
}  # fmt: skip


@page(DECIDE, section="inbox", methods=("GET", "HEAD", "POST"))
def act(request: HttpRequest, actor: Actor, request_id: uuid.UUID, name: str) -> HttpResponse:
    """Show the dialog of one act, or do it."""
    if name not in KINDS:
        raise Http404
    kind = KINDS[name]
    found = get_request(actor=actor, request_id=request_id)
    sent = request.POST if request.method == "POST" else None
    form = kind.form(sent, initial=_initial(request, name, found), **_choices(actor, name, found["kind"]))
    shown = ask_forms.ShownForm(sent, initial={"revision": found["revision"]})
    problem: QuarterdeckError | None = None
    if sent is not None and not shown.is_valid():
        detail, mend = _("The form does not say what it was shown for."), _("Load the page again and repeat the act.")
        problem = BadInput(detail, where="/revision", remediation=mend)
    elif sent is not None and form.is_valid():
        words = {**_words(name, form.cleaned_data), **_revision(name, shown)}
        try:
            answer = kind.action(actor=actor, request_id=request_id, **words)
        except (Conflict, BadInput, PermissionDenied) as refused:
            problem = refused
        else:
            messages.success(request, str(kind.told), extra_tags="succeeded")
            return _gone(request, reverse("approval", args=[answer["approval_id"]]))
    status = problem.http_status if problem else 400 if request.method == "POST" else 200
    context = {
        "crumbs": [
            (_("Inbox"), reverse("inbox")),
            (found["title"], reverse("approval", args=[request_id])),
            (_("Act"), None),
        ],
        "one": found,
        "kind": kind,
        "form": form,
        "shown": shown,
        "problem": problem,
        "url": reverse("approval-act", args=[request_id, name]),
        "back": reverse("approval", args=[request_id]),
        "members": _members(actor) if name == "delegate" else [],
    }
    return show(request, "pages/ask_act.html", context, fragment="components/ask_dialog.html", status=status)


def _initial(request: HttpRequest, name: str, found: dict[str, Any]) -> dict[str, Any]:
    if name != "propose":
        return {}
    calls = (found.get("shown") or {}).get("calls") or []
    node = request.GET.get("node")
    call = next((one for one in calls if one["node"] == node), calls[0] if calls else {"node": "", "arguments": {}})
    quoted = {"version": found["version"], "payload_hash": found["payload_hash"]}
    return {"node": call["node"], "arguments": ask_forms.pretty(call["arguments"]), **quoted}


def _choices(actor: Actor, name: str, kind: str) -> dict[str, Any]:
    if name != "escalate":
        return {}
    groups = [one["name"] for one in list_groups(actor=actor)] if may(actor, v.MEMBER_READ) else []
    return {"roles": roles_to_ask(actor=actor, kind=kind), "groups": groups}


def _words(name: str, data: dict[str, Any]) -> dict[str, Any]:
    words = dict(data)
    if name == "propose":
        words["comment"], words["node"] = words.pop("reason"), words["node"] or None
    if name == "escalate":
        words["role"] = words["role"] or None
    return words


def _revision(name: str, shown: ask_forms.ShownForm) -> dict[str, Any]:
    """Return what binds an act to the request as it was shown; a proposal quotes version and payload hash instead."""
    return {} if name == "propose" else {"expected_revision": shown.cleaned_data["revision"]}


def _members(actor: Actor) -> list[str]:
    if not may(actor, v.MEMBER_READ):
        return []
    return sorted(one["username"] for one in list_members(actor=actor) if one["username"] != actor.name)


def _gone(request: HttpRequest, target: str) -> HttpResponse:
    if getattr(request, "htmx", False):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = target
        return response
    return HttpResponseRedirect(target)
