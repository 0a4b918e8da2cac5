"""Search by id, business key, request key or name: a page, and JSON for the command palette."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.search import search_targets
from approvals.verbs import READ
from dashboard.pages.console import page
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.unseen import marked
from runtime.queries.tasks import search


def found(actor: Actor, text: str) -> list[dict[str, Any]]:
    """Return what a text may mean, with the pending decisions about it, each run's first."""
    if len(text) < 2:
        return []
    asked = search_targets(actor=actor, text=text) if may(actor, READ) else []
    hits = [{"kind": "approval", "label": one["target"], "task_id": None, **one} for one in asked]
    return hits + search(actor=actor, text=text)


def address(hit: dict[str, Any]) -> str:
    """Return where a hit leads."""
    kind = hit["kind"]
    if kind == "workflow":
        return reverse("workflow", args=[hit["label"]])
    if kind == "step":
        return f"{reverse('run', args=[hit['run_id']])}?step={hit['label']}"
    if kind == "approval":
        return reverse("approval", args=[hit["id"]])
    if kind == "operation":
        return reverse("run-tab", args=[hit["run_id"], "operations"])
    if kind == "task" and not hit["run_id"]:
        return reverse("task", args=[hit["id"]])
    return reverse("run", args=[hit["run_id"]]) if hit["run_id"] else reverse("runs")


@page(v.TASK_READ)
def as_json(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Answer what a text may mean, at most 12, with the address of each."""
    text = request.GET.get("q", "").strip()[:200].replace("\x00", "")
    hits = found(actor, text)[:12]
    words = {
        "task": _("task"),
        "run": _("run"),
        "step": _("step"),
        "operation": _("effect outside"),
        "workflow": _("workflow"),
        "approval": _("decision"),
        "artifact": _("artifact"),
    }
    items = [
        {"kind": one["kind"], "label": marked(one["label"] or ""), "url": address(one), "more": words[one["kind"]]}
        for one in hits
        if one["kind"] != "artifact"
    ]
    return JsonResponse({"items": items})


@page(v.TASK_READ)
def jump(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Lead from a text to what it means when that is one thing, else to the list of runs that it means."""
    text = request.GET.get("q", "").strip()[:200].replace("\x00", "")
    hits = found(actor, text)
    if len(hits) == 1:
        return HttpResponseRedirect(address(hits[0]))
    from urllib.parse import urlencode

    return HttpResponseRedirect(f"{reverse('runs')}?{urlencode({'q': text, 'within': 'all'})}")
