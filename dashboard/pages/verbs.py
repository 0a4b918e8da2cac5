"""Verbs of an operator: a dialog that says what would follow, and the act itself by POST with the version shown.

GET shows, POST acts; both on one address per verb. A stale version is answered with what changed since.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.forms.verbs import VerbForm
from dashboard.pages.console import identity, local_path, page, show
from dashboard.presenters import consequences, states
from dashboard.presenters.undoing import all_steps
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.actions import runs as run_actions
from runtime.actions import steps as step_actions
from runtime.actions.reruns import rerun_task
from runtime.actions.verifying import ask_now
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, CursorExpired, PermissionDenied
from runtime.queries import run_parts
from runtime.queries.forcing import preview_force
from runtime.queries.graphs import read_graph
from runtime.queries.reruns import preview_rerun
from runtime.queries.runs import read_events, read_run
from runtime.queries.steps import read_step

MOST_SINCE = 500

STEP_ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "rerun": step_actions.rerun_step,
    "skip": step_actions.skip_step,
    "unskip": step_actions.unskip_step,
    "hold": step_actions.hold_step,
    "release": step_actions.release_step,
    "kill": step_actions.kill_step,
    "mark-successed": step_actions.force_step,
}
RUN_ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "pause": run_actions.pause_run,
    "resume": run_actions.resume_run,
    "cancel": run_actions.cancel_run,
}


@page(v.RUN_READ, section="runs", methods=("GET", "HEAD", "POST"))
def step_verb(request: HttpRequest, actor: Actor, step_id: str, verb: str) -> HttpResponse:
    """Show the dialog of a step's verb, or do it."""
    if verb not in STEP_ACTIONS:
        raise Http404
    step = read_step(actor=actor, step_id=identity(step_id, "step"))
    context = _subject(actor, step["run_id"])
    node = next((one for one in all_steps(context["graph"]) if one["id"] == step["node"]), None)
    if node is None or node["step"] is None or node["step"]["id"] != step["id"]:
        raise Conflict(_("This execution version was superseded."), remediation=_("Act on the current one."))
    context.update(
        verb=verb,
        of="step",
        subject=node["title"],
        version=node["step"]["version"],
        typed=str(step["id"])[-6:] if verb in consequences.TYPED else "",
        effects=consequences.of_step(verb, node, context["graph"], context["operations"]),
        permission=consequences.PERMISSION[verb],
        node=node,
        url=reverse("step-verb", args=[step["id"], verb]),
        back=f"{reverse('run', args=[step['run_id']])}?step={step['node']}",
        required=verb == "mark-successed",
        ahead=_titled(context["graph"], preview_force(actor=actor, step_id=step["id"]))
        if verb == "mark-successed"
        else None,
        again=_titled(context["graph"], preview_rerun(actor=actor, step_id=step["id"])) if verb == "rerun" else None,
    )
    action = STEP_ACTIONS[verb]
    return _dialog(request, actor, context, lambda **asked: action(actor=actor, step_id=step["id"], **asked))


def _titled(graph: dict[str, Any], preview: dict[str, Any]) -> dict[str, Any]:
    """Return a preview with its nodes under the titles that the page shows."""
    titles = {one["id"]: one["title"] for one in graph["nodes"]}
    lists = ("starts", "may_start", "runs", "may_run", "ended", "reused")
    named = {name: [titles.get(one, one) for one in preview[name]] for name in lists if name in preview}
    return {**preview, **named}


@page(v.RUN_READ, section="runs", methods=("GET", "HEAD", "POST"))
def run_verb(request: HttpRequest, actor: Actor, run_id: uuid.UUID, verb: str) -> HttpResponse:
    """Show the dialog of a run's verb, or do it."""
    if verb not in consequences.RUN_VERBS:
        raise Http404
    context = _subject(actor, run_id)
    found = context["run"]
    context.update(
        verb=verb,
        of="run",
        subject=found["name"] or found["workflow"],
        version=found["version"],
        typed="",
        effects=consequences.of_run(verb, found, context["graph"], context["operations"]),
        permission=consequences.RUN_PERMISSION[verb],
        url=reverse("run-verb", args=[run_id, verb]),
        back=reverse("run", args=[run_id]),
        required=False,
    )

    def act(*, expected_version: int | None, reason: str) -> dict[str, Any]:
        if verb == "rerun":
            return rerun_task(actor=actor, task_id=found["task_id"], reason=reason)
        return RUN_ACTIONS[verb](actor=actor, run_id=run_id, expected_version=expected_version, reason=reason)

    return _dialog(request, actor, context, act)


@page(v.OPERATION_READ, section="runs", methods=("POST",))
def ask(request: HttpRequest, actor: Actor, operation_id: uuid.UUID) -> HttpResponse:
    """Let the tool be asked now about an effect that is not settled, and go back to where that was shown."""
    ask_now(actor=actor, operation_id=operation_id, reason=request.POST.get("reason", ""))
    messages.success(request, _("The tool is asked within a second. What it says is in the run's events."))
    return _gone(request, local_path(request.POST.get("next", "")))


def _subject(actor: Actor, run_id: uuid.UUID) -> dict[str, Any]:
    found = read_run(actor=actor, run_id=run_id)
    return {
        "run": found,
        "graph": read_graph(actor=actor, run_id=run_id),
        "operations": run_parts.list_operations(actor=actor, run_id=run_id) if may(actor, v.OPERATION_READ) else [],
        "crumbs": [
            (_("Runs"), reverse("runs")),
            (found["name"] or found["workflow"], reverse("run", args=[run_id])),
            (_("Act"), None),
        ],
    }


def _dialog(
    request: HttpRequest, actor: Actor, context: dict[str, Any], act: Callable[..., dict[str, Any]]
) -> HttpResponse:
    verb, of = context["verb"], context["of"]
    if context["permission"] not in run_parts.permitted(
        actor=actor, run_id=context["run"]["id"], verbs=[context["permission"]]
    ):
        authorize(actor, context["permission"])
    form = VerbForm(
        request.POST if request.method == "POST" else None,
        initial={"version": context["version"], "seq": context["run"]["seq"]},
        typed=context["typed"],
        required=context["required"],
    )
    context.update(
        form=form,
        question=consequences.question(verb, context["subject"], of),
        word=consequences.verb_word(verb, of),
        keep=consequences.way_out(verb, context["effects"].before, of),
        grave=verb in consequences.GRAVE,
    )
    if request.method == "POST" and form.is_valid():
        try:
            asked = {"expected_version": form.cleaned_data["version"], "reason": form.cleaned_data["reason"]}
            if context["typed"]:
                asked["evidence"] = form.cleaned_data["evidence"]
            answer = act(**asked)
        except (Conflict, BadInput, PermissionDenied) as problem:
            context.update(problem=problem, changes=_since(actor, context, form.cleaned_data["seq"]))
            return _show(request, context, status=problem.http_status)
        messages.success(request, _told(verb, of, context, answer), extra_tags="succeeded")
        return _gone(request, _target(request, context, answer))
    return _show(request, context, status=400 if request.method == "POST" else 200)


def _show(request: HttpRequest, context: dict[str, Any], *, status: int) -> HttpResponse:
    return show(request, "pages/verb.html", context, fragment="components/verb_dialog.html", status=status)


def _since(actor: Actor, context: dict[str, Any], seq: int | None) -> list[dict[str, Any]]:
    """Return what happened to the subject since the reader was shown it: the newest, however long the ledger is."""
    if seq is None:
        return []
    node = context["node"]["id"] if "node" in context else None
    run_id = context["run"]["id"]
    try:
        after = max(seq, context["run"]["seq"] - MOST_SINCE)
        # What committed since this request read the run comes on top.
        found = read_events(actor=actor, run_id=run_id, after=after, limit=2 * MOST_SINCE)["events"]
    except CursorExpired:
        return []
    later = [one for one in found if node is None or one["node"] in (node, None)]
    return [one for one in later if one["to_status"] or one["actor"] != "engine"][-8:]


def _told(verb: str, of: str, context: dict[str, Any], answer: dict[str, Any]) -> str:
    if verb == "rerun" and of == "run":
        return _("A new run of the task was accepted.")
    if "asked" in answer:
        return _("Another admin was asked to agree; until then nothing changes.")
    state = states.word(answer["status"], of)
    return _("%(subject)s is now %(state)s.") % {"subject": context["subject"], "state": state}


def _target(request: HttpRequest, context: dict[str, Any], answer: dict[str, Any]) -> str:
    """Return where the act leads: to the run that it made, else to the run's page and tab that its dialog lay over."""
    run_id = str(answer.get("run_id", context["run"]["id"]))
    if run_id != str(context["run"]["id"]):
        return reverse("run", args=[run_id])
    there = local_path(request.headers.get("HX-Current-URL", ""))
    under = there.startswith(reverse("run", args=[run_id])) and "/verbs/" not in there
    return there if under else str(context["back"])


def _gone(request: HttpRequest, target: str) -> HttpResponse:
    if getattr(request, "htmx", False):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = target
        return response
    return HttpResponseRedirect(target)
