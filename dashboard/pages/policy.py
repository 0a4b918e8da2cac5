"""The tenant's policy: rules as people read them, their history, dry runs, proposing and activating by POST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.decide import decide_request
from approvals.actions.policies import propose_policy, try_policy, withdraw_policy
from approvals.queries import get_request, list_policies, warnings_of_rules
from approvals.settings import KEY
from approvals.verbs import POLICY
from dashboard.forms.asks import pretty
from dashboard.forms.decide import DecisionForm
from dashboard.forms.policy import PolicyForm
from dashboard.pages.console import moment, page, show
from dashboard.presenters import asks, unasked
from dashboard.presenters import policy as words
from runtime.access.authorize import may
from runtime.access.verbs import LIMIT_READ
from runtime.graph.problems import warned
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied, QuarterdeckError
from runtime.queries.settings import list_settings


@dataclass
class _Said:
    """What came of a POST that is answered with the page itself."""

    form: PolicyForm | None = None
    tried: dict[str, Any] | None = None
    deciding: DecisionForm | None = None
    problem: QuarterdeckError | None = None
    status: int = 200


@page(POLICY, section="policy", methods=("GET", "HEAD", "POST"))
def policy(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show one version of the rules, by default the active one; by POST try others on the past, or propose them."""
    if request.method != "POST":
        return _show(request, actor, _Said())
    proposing = "propose" in request.POST
    form = PolicyForm(request.POST, proposing=proposing)
    if not form.is_valid():
        return _show(request, actor, _Said(form, status=400))
    try:
        if not proposing:
            return _show(request, actor, _Said(form, try_policy(actor=actor, rules=form.cleaned_data["rules"])))
        made = propose_policy(
            actor=actor,
            rules=form.cleaned_data["rules"],
            note=form.cleaned_data["note"],
            policy_id=form.cleaned_data["policy_id"],
        )
    except (BadInput, Conflict, PermissionDenied) as problem:
        if problem.where == "/policy_id":  # a form that was sent before and changed since: what it says now is new
            form.renew()
        return _show(request, actor, _Said(form, problem=problem, status=problem.http_status))
    if "warning" in made:
        messages.warning(
            request,
            _("Proposed. You are the only administrator, so nobody can activate it: make a second member one."),
            extra_tags="hold",
        )
    else:
        messages.success(request, _("Proposed. Another administrator activates it."), extra_tags="succeeded")
    return _to(made["version"])


@page(POLICY, section="policy", methods=("POST",))
def decide(request: HttpRequest, actor: Actor, number: int) -> HttpResponse:
    """Activate or reject a proposed version, by deciding its request; the same action as the inbox's."""
    one = _version(list_policies(actor=actor), number)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _show(request, actor, _Said(deciding=form, status=400), number)
    asked = form.cleaned_data
    try:
        answer = decide_request(
            actor=actor,
            request_id=one["approval_id"],
            decision=asked["decision"],
            version=asked["version"],
            payload_hash=asked["payload_hash"],
            comment=asked["comment"],
        )
    except (Conflict, PermissionDenied) as problem:
        return _show(request, actor, _Said(deciding=form, problem=problem, status=problem.http_status), number)
    if answer["state"] == "approved":
        messages.success(request, _("Active. It judges every call from now on."), extra_tags="succeeded")
    else:
        messages.success(request, _("Rejected. Nothing changes."), extra_tags="failed")
    return _to(number)


@page(POLICY, section="policy", methods=("POST",))
def withdraw(request: HttpRequest, actor: Actor, number: int) -> HttpResponse:
    """Take a proposed version back; its request is cancelled."""
    one = _version(list_policies(actor=actor), number)
    try:
        withdraw_policy(actor=actor, policy_id=one["policy_id"], reason=request.POST.get("reason", ""))
    except (BadInput, Conflict) as problem:
        return _show(request, actor, _Said(problem=problem, status=problem.http_status), number)
    messages.success(request, _("Withdrawn. Nobody activates it any more."))
    return _to(number)


def _to(number: int) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('policy')}?version={number}")


def _version(rows: list[dict[str, Any]], number: int) -> dict[str, Any]:
    found = next((row for row in rows if row["version"] == number), None)
    if found is None:
        raise NotFound("There is no version of that number.")
    return found


def _chosen(request: HttpRequest, rows: list[dict[str, Any]], number: int | None) -> dict[str, Any] | None:
    """Return the version that is asked for, else the active one, else the newest."""
    asked = request.GET.get("version", "")
    if number is None and asked.isascii() and asked.isdigit() and len(asked) < 9:
        number = int(asked)
    if number is not None:
        return _version(rows, number)
    return next((row for row in rows if row["state"] == "active"), rows[0] if rows else None)


def _show(request: HttpRequest, actor: Actor, said: _Said, number: int | None = None) -> HttpResponse:
    rows = [words.version_row(row) for row in list_policies(actor=actor)]
    one = _chosen(request, rows, number)
    active = next((row for row in rows if row["state"] == "active"), None)
    before = active["rules"] if one and active and one["state"] == "proposed" else None
    rules = one["rules"] if one else words.EXAMPLE
    context = {
        "now": moment(actor),
        "crumbs": [(_("Policy"), None)],
        "one": one,
        "active": active,
        "overtaken": bool(one and active and one["state"] == "proposed" and one["version"] < active["version"]),
        "versions": rows,
        "waiting": [row for row in rows if row["state"] == "proposed"],
        "rules": words.rules_of(rules, before) if one else [],
        "gone": words.gone(rules, before),
        "form": said.form or PolicyForm(initial={"rules": pretty(rules)}),
        "facts": words.FACTS.items(),
        "default": _default(actor),
        "problem": said.problem,
        "refused": bool(said.problem and said.form),  # told at the form, which may lie far below the top
        "tried": said.tried and _tried(said.tried, said.form),
        "unasked": _unasked(actor, one),
        **_asked(actor, one, said),
    }
    return show(request, "pages/policy.html", context, status=said.status)


def _default(actor: Actor) -> dict[str, Any]:
    """Return what the tenant says of writing calls while no version is active: {value, set, text}."""
    if not may(actor, LIMIT_READ):
        return {}
    said = next(one for one in list_settings(actor=actor) if one["key"] == KEY)
    return {**said, "text": words.DEFAULTS[said["value"]]}


def _unasked(actor: Actor, one: dict[str, Any] | None) -> dict[str, Any]:
    """Return whom a version that judges, or waits to, would ask in vain today."""
    if one is None or one["state"] not in ("active", "proposed"):
        return {}
    found = warned(warnings_of_rules(actor=actor, rules=one["rules"]))
    return unasked.rows(found, [rule["name"] for rule in one["rules"]])


def _tried(found: dict[str, Any], form: PolicyForm | None) -> dict[str, Any]:
    rules = form.cleaned_data["rules"] if form else []
    return {
        "unasked": unasked.rows(found, [rule["name"] for rule in rules]),
        "counts": words.counts_of(found),
        "differences": words.differences_of(found),
        "items": words.items_of(found),
        "calls": found["calls"],
    }


def _asked(actor: Actor, one: dict[str, Any] | None, said: _Said) -> dict[str, Any]:
    """Return the request of a version: what its dry run came to, and the form that activates it where it waits."""
    if one is None or one["approval_id"] is None:
        return {}
    found = get_request(actor=actor, request_id=one["approval_id"])
    shown = found.get("shown") or {}
    past = (shown.get("payload") or {}).get("on_the_past")
    return {
        "asked": found,
        "raw": shown,
        "past": past and {"counts": words.counts_of(past), "differences": words.differences_of(past)},
        "may_not": asks.why_not(found),
        "deciding": said.deciding or DecisionForm(),
    }
