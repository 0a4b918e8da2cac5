"""One request: what exactly would happen, why it is asked, who decides until when; decided by POST only."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.answer import answer_input
from approvals.actions.comments import MOST_ATTACHED, check_media_type, check_size, comment_request
from approvals.actions.decide import decide_request
from approvals.actions.own import EXTERNAL
from approvals.past import past_of
from approvals.queries import get_request, list_requests
from approvals.verbs import ANSWER, DECIDE, POLICY, READ
from dashboard.forms.answer import AnswerForm
from dashboard.forms.decide import DecisionForm
from dashboard.pages import requests
from dashboard.pages.console import moment, page, show
from dashboard.presenters import asks, payload, place
from dashboard.presenters import policy as rules
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.actions.artifacts import upload_artifact
from runtime.actions.base import check_reason
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.queries.graphs import read_graph

MOST_FOLLOWS = 6
MOST_PAST = 6


@page(READ, section="inbox", methods=("GET", "HEAD", "POST"))
def approval(request: HttpRequest, actor: Actor, request_id: uuid.UUID) -> HttpResponse:
    """Show one request, or decide it. Opening it changes nothing, whoever or whatever opens it."""
    if request.method == "POST":
        return _decide(request, actor, request_id)
    return _show(request, actor, request_id, DecisionForm())


def _decide(request: HttpRequest, actor: Actor, request_id: uuid.UUID) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _show(request, actor, request_id, form, status=400)
    asked = form.cleaned_data
    try:
        answer = decide_request(
            actor=actor,
            request_id=request_id,
            decision=asked["decision"],
            version=asked["version"],
            payload_hash=asked["payload_hash"],
            comment=asked["comment"],
        )
    except (Conflict, PermissionDenied) as problem:
        if not may(actor, DECIDE):
            raise
        return _show(request, actor, request_id, form, problem=problem, status=problem.http_status)
    messages.success(request, _told(answer), extra_tags="succeeded" if asked["decision"] == "approve" else "failed")
    return HttpResponseRedirect(reverse("approval", args=[answer["approval_id"]]))


def _told(answer: dict[str, Any]) -> str:
    if answer["state"] == "pending":
        left = answer["quorum"] - answer["approvals"]
        return _("Your approval counts. Still needed: %(n)d.") % {"n": max(1, left)}
    if answer["decision"] == "approve":
        return _("Approved. The step goes on.") if answer["step_id"] else _("Approved.")
    return _("Rejected. Nothing is sent.")


@page(ANSWER, section="inbox", methods=("POST",))
def answer(request: HttpRequest, actor: Actor, request_id: uuid.UUID) -> HttpResponse:
    """Answer a request for an input; the answer is the step's output and approves nothing."""
    found = get_request(actor=actor, request_id=request_id)
    schema = (found.get("shown") or {}).get("form")
    if found["kind"] != "input" or schema is None:
        raise Http404
    form = AnswerForm(request.POST, schema=schema)
    if not form.is_valid():
        return _show(request, actor, request_id, DecisionForm(), answering=form, status=400)
    try:
        answer_input(
            actor=actor,
            step_id=found["step_id"],
            value=form.value(),
            version=form.cleaned_data["version"],
            payload_hash=form.cleaned_data["payload_hash"],
        )
    except (BadInput, Conflict) as problem:
        status = problem.http_status
        return _show(request, actor, request_id, DecisionForm(), answering=form, problem=problem, status=status)
    messages.success(request, _("Answered. The step goes on."), extra_tags="succeeded")
    return HttpResponseRedirect(reverse("approval", args=[request_id]))


@page(READ, section="inbox", methods=("POST",))
def comment(request: HttpRequest, actor: Actor, request_id: uuid.UUID) -> HttpResponse:
    """Add a comment; it decides nothing."""
    files = request.FILES.getlist("file")
    if len(files) > MOST_ATTACHED:
        raise BadInput(_("At most %(n)d files are attached.") % {"n": MOST_ATTACHED}, where="/file")
    # Looked at whole before anything is stored: of a comment that is refused nothing stays.
    for one in files:
        check_size(one.size or 0, "/file")
        check_media_type(one.content_type or "", "/file")
    get_request(actor=actor, request_id=request_id)
    text = check_reason(request.POST.get("text", ""), required=True)
    attached = [_upload(actor, one) for one in files]
    comment_request(actor=actor, request_id=request_id, text=text, attachments=attached)
    messages.success(request, _("Your comment is there. It decides nothing."), extra_tags="succeeded")
    return HttpResponseRedirect(f"{reverse('approval', args=[request_id])}#history")


def _upload(actor: Actor, file: UploadedFile) -> dict[str, Any]:
    body = file.read()
    made = upload_artifact(actor=actor, body=body, media_type=file.content_type or "", sha256=digest(body))
    name = "".join(one for one in file.name or "" if one.isprintable())[-200:]
    return {"artifact_id": made["artifact_id"], "sha256": made["sha256"], "name": name}


def _show(
    request: HttpRequest,
    actor: Actor,
    request_id: uuid.UUID,
    form: DecisionForm,
    *,
    answering: AnswerForm | None = None,
    problem: QuarterdeckError | None = None,
    status: int = 200,
) -> HttpResponse:
    found = get_request(actor=actor, request_id=request_id)
    shown = found.get("shown") or {}
    run_id = found["run_id"]
    graph = read_graph(actor=actor, run_id=run_id) if run_id and may(actor, v.RUN_READ) else None
    follows = payload.follows(graph, found["node"]) if graph else []
    fields, calls = payload.fields(shown.get("payload")), _calls(found, shown)
    context = {
        "now": found.get("now") or moment(actor),
        "crumbs": [(_("Inbox"), reverse("inbox")), (found["title"], None)],
        "one": found,
        "fields": fields,
        "calls": calls,
        "cut": fields.cut or found.get("changes_cut") or any(call["fields"].cut for call in calls),
        "changes": asks.rows_of(found.get("changes") or []),
        "evidence": [{**one, "url": requests.artifact_url(one["artifact_id"])} for one in shown.get("evidence") or []],
        "hides": payload.hides(shown),
        "reasons": asks.risk_reasons(shown),
        "panel": asks.panel(found),
        "history": [
            {**line, "files": [{**file, "url": requests.artifact_url(file["artifact_id"])} for file in line["files"]]}
            for line in asks.history(found)
        ],
        "may_attach": may(actor, v.ARTIFACT_WRITE),
        "may_read_files": may(actor, v.PAYLOAD_READ),
        "before": [] if calls else _before(actor, found),
        "past": _past(actor, found) if calls else None,
        "place": place.place(graph, found["node"]) if graph else None,
        "follows": follows[:MOST_FOLLOWS],
        "follow_more": max(0, len(follows) - MOST_FOLLOWS),
        "form": form,
        "answering": answering or _answering(found, shown),
        "answered": payload.fields(found.get("answer")),
        "problem": problem,
        "waiting": requests.count_mine(actor),
        "raw": shown,
        "approve_word": _approve_word(shown),
        "may_not": asks.why_not(found),
        "left_to": asks.left_to(found),
        "acts": _acts(actor, found),
        "policy": rules.of_request(shown),
        "about_policy": found["subject_kind"] == "policy",
        "about_own": found["subject_kind"] == EXTERNAL,
        "about_force": found["subject_kind"] == "force",
        "may_propose": may(actor, POLICY),
    }
    return show(request, "pages/approval.html", context, status=status)


def _answering(found: dict[str, Any], shown: dict[str, Any]) -> AnswerForm | None:
    if found["kind"] != "input" or "form" not in shown or not found["may_decide"]:
        return None
    quoted = {"version": found["version"], "payload_hash": found["payload_hash"]}
    return AnswerForm(schema=shown["form"], initial=quoted)


def _calls(found: dict[str, Any], shown: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls that approving permits, with the arguments of each as fields where they may be read."""
    listed = shown.get("calls") or []
    by_node = {str(one.get("node")): one for one in listed if isinstance(one, dict)}
    rows = []
    for action in found["actions"]:
        call = by_node.get(action["node"], {})
        told = {"undo": asks.undoing(call), "lost": asks.lost_answer(call)} if "effect" in call else {}
        fields = payload.fields(call.get("arguments"))
        rows.append({**action, **told, "fields": fields, "sent": action["consumed_at"]})
    return rows


def _before(actor: Actor, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the last decided requests of the same step of the same workflow: what was said there before."""
    if not found["workflow"]:
        return []
    rows = list_requests(actor=actor, state=None, decided=True, workflow=found["workflow"], limit=60).items
    own = {one["id"] for one in found["proposals"]}
    same = [one for one in rows if one["node"] == found["node"]]
    return requests.named(actor, [one for one in same if one["id"] not in own][:5])


def _past(actor: Actor, found: dict[str, Any]) -> dict[str, Any]:
    """Return what was decided before about the same tool and target, and the reader's own acts, in words."""
    past = past_of(actor=actor, request_id=found["id"])
    alike = requests.named(actor, [{**one, "workflow": ""} for one in past["alike"][:MOST_PAST]])
    return {
        "alike": alike,
        "more": len(past["alike"]) - len(alike),
        "own": [{**one, "words": asks.own_words(one)} for one in past["own"][:MOST_PAST]],
    }


def _approve_word(shown: dict[str, Any]) -> str:
    """Return what the button says: the act with its amount, never "OK"."""
    amount = payload.amount_of(shown.get("payload"))
    return _("Approve %(amount)s") % {"amount": amount} if amount else _("Approve")


def _acts(actor: Actor, found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (act, word) of what this reader may do with it now beside deciding."""
    if not may(actor, DECIDE):
        return []
    if found["state"] == "approved" and found["actions"]:
        return [("revoke", _("Take back"))]
    if found["state"] != "pending":
        return []
    rows = []
    if found["may_decide"]:
        called = found["actions"] and (found["run_id"] or found["subject_kind"] == EXTERNAL)
        if called and not found["problem"] and not found["redacted"]:
            rows.append(("propose", _("Propose a change")))
        if found["quorum"] == 1:
            rows.append(("delegate", _("Hand over")))
            if found["assignee"] is None:
                rows.append(("claim", _("Take it on")))
        rows += [("extend", _("More time")), ("escalate", _("Escalate"))]
    if found["assignee"] and (found["may_decide"] or actor.label == found["assigned_by"] or _is_admin(actor)):
        rows.append(("release", _("Give it back")))
    return rows


def _is_admin(actor: Actor) -> bool:
    return may(actor, v.MEMBER_MANAGE)
