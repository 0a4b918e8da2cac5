"""One decision on several requests: each payload is shown, ids and hashes are frozen, each is answered by itself."""

from __future__ import annotations

from typing import Any

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.bulk import RISKY, decide_many, wanted_word
from approvals.law import RISKS
from approvals.queries import get_request
from approvals.verbs import DECIDE
from dashboard.pages import requests
from dashboard.pages.console import page, show
from dashboard.presenters import payload
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, QuarterdeckError
from runtime.kernel.ids import parse_uuid

MOST = 30  # each payload is rendered and read
_SALT = "quarterdeck.decide-several"
_LIFE_SECONDS = 900


@page(DECIDE, section="inbox", methods=("POST",))
def several(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show chosen requests whole, or decide what was frozen when they were shown."""
    authorize(actor, v.PAYLOAD_READ)
    if frozen := request.POST.get("frozen"):
        return _decide(request, actor, _thaw(actor, frozen))
    ids = [one for one in (parse_uuid(text) for text in request.POST.getlist("ask")) if one is not None]
    if not ids:
        raise BadInput(
            _("No request was chosen, so nothing is decided."), where="/ask", remediation=_("Choose requests first.")
        )
    if len(ids) > MOST:
        detail = _("At most %(n)d requests at once: each is read.") % {"n": MOST}
        raise BadInput(detail, where="/ask", remediation=_("Choose fewer."))
    found = [get_request(actor=actor, request_id=one) for one in dict.fromkeys(ids)]
    return _show(request, actor, [_item(one) for one in requests.named(actor, found)])


def _item(one: dict[str, Any]) -> dict[str, Any]:
    """Return what is frozen of a request, and what is shown of it."""
    shown = one.get("shown") or {}
    calls, asked = [_call(call) for call in shown.get("calls") or []], payload.fields(shown.get("payload"))
    evidence = [{**file, "url": requests.artifact_url(file["artifact_id"])} for file in shown.get("evidence") or []]
    cut = asked.cut or any(call["cut"] for call in calls)
    left_out = ""
    if not one["may_decide"] or one["problem"]:
        left_out = _("It can't be approved by you; it is left out.")
    elif cut:
        left_out = _("Too long to be decided with others. Open it by itself.")
    shape = [one["node"], one["title"], *sorted(call["tool"] for call in calls)]
    return {
        "id": str(one["id"]),
        "version": one["version"],
        "payload_hash": one["payload_hash"],
        "title": one["title"],
        "name": one["run_name"],
        "risk": one["risk"],
        "shape": shape,
        "target": shown.get("target"),
        "evidence": evidence,
        "fields": asked.rows,
        "cut": asked.cut,
        "calls": calls,
        "left_out": left_out,
    }


def _call(call: dict[str, Any]) -> dict[str, Any]:
    rows, cut = payload.fields(call["arguments"])
    named = {name: call[name] for name in ("node", "tool", "business_key")}
    return {**named, "fields": rows, "cut": cut}


def _show(
    request: HttpRequest, actor: Actor, items: list[dict[str, Any]], *, problem: QuarterdeckError | None = None
) -> HttpResponse:
    shape = items[0]["shape"]
    for one in items:
        if one["shape"] != shape and not one["left_out"]:
            one["left_out"] = _("It is of another shape than the first; decide it by itself.")
    going = [one for one in items if not one["left_out"]]
    risky = any(RISKS.index(one["risk"]) >= RISKY for one in going)
    state = {"items": going, "all": items, "actor": actor.label, "tenant": str(actor.tenant_id)}
    context = {
        "crumbs": _crumbs(),
        "items": items,
        "count": len(going),
        "risky": risky,
        "words": {name: wanted_word(name, len(going)) for name in ("approve", "reject")},
        "frozen": signing.dumps(state, salt=_SALT, compress=True),
        "problem": problem,
        "typed": request.POST,
    }
    return show(request, "pages/ask_several.html", context, status=problem.http_status if problem else 200)


def _decide(request: HttpRequest, actor: Actor, state: dict[str, Any]) -> HttpResponse:
    quoted = [{name: one[name] for name in ("id", "version", "payload_hash")} for one in state["items"]]
    decision = request.POST.get("decision", "")
    try:
        answer = decide_many(
            actor=actor,
            decision=decision,
            items=quoted,
            comment=request.POST.get("comment", ""),
            confirm=request.POST.get("confirm", ""),
        )
    except BadInput as problem:
        return _show(request, actor, state["all"], problem=problem)
    frozen = {one["id"]: one for one in state["items"]}
    context = {
        "crumbs": _crumbs(),
        "answer": answer,
        "done": [{**one, **{name: frozen[one["id"]][name] for name in ("title", "name")}} for one in answer["items"]],
    }
    return show(request, "pages/ask_several.html", context)


def _crumbs() -> list[tuple[str, str | None]]:
    return [(_("Inbox"), reverse("inbox")), (_("Several requests"), None)]


def _thaw(actor: Actor, frozen: str) -> dict[str, Any]:
    """Return the frozen list. Raises BadInput for one of somebody else, an old one, or none of ours."""
    try:
        state = signing.loads(frozen, salt=_SALT, max_age=_LIFE_SECONDS)
    except signing.BadSignature:
        state = {}
    if state.get("actor") != actor.label or state.get("tenant") != str(actor.tenant_id):
        raise BadInput(_("This list is too old or not yours; nothing more is done."), where="/frozen")
    return state
