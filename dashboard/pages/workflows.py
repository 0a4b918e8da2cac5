"""Workflows and their versions: what is registered, how it goes, and the form that starts a task."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.forms.start import StartForm, example_of
from dashboard.pages.console import page, show
from dashboard.presenters import states, unasked
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may, may_each
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.graph.plan import edges_of
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict
from runtime.queries.console import use_of_workflows
from runtime.queries.definitions import list_versions, list_workflows, read_version
from runtime.queries.recovery import recovery_points


@page(v.WORKFLOW_READ, section="workflows")
def workflows(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the registered workflows with what their newest runs came to."""
    found = list_workflows(actor=actor, cursor=request.GET.get("cursor"), limit=100)
    use = use_of_workflows(actor=actor) if may(actor, v.RUN_READ) else {}
    mine = may_each(actor, v.TASK_SUBMIT, [one["id"] for one in found.items])
    rows = [{**one, "use": _use(use, one["name"]), "may_start": one["id"] in mine} for one in found.items]
    context = {"crumbs": [(_("Workflows"), None)], "page": found, "rows": rows}
    return show(request, "pages/workflows.html", context)


def _use(use: dict[tuple[str, int], dict[str, Any]], name: str, number: int | None = None) -> dict[str, Any]:
    """Return {states: [(status, count)], total, newest} over one version or all of them."""
    counts: dict[str, int] = {}
    newest = None
    for (workflow, version), row in use.items():
        if workflow != name or (number is not None and version != number):
            continue
        newest = max(newest, row["newest"]) if newest else row["newest"]
        for status, count in row.items():
            if status != "newest":
                counts[status] = counts.get(status, 0) + count
    ordered = [(one, counts[one]) for one in states.RUN_ORDER if one in counts]
    return {"states": ordered, "total": sum(counts.values()), "newest": newest}


@page(v.WORKFLOW_READ, section="workflows")
def workflow(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """Show one workflow in one version, by default the newest."""
    versions = list_versions(actor=actor, name=name, cursor=request.GET.get("cursor"), limit=50)
    asked = request.GET.get("version", "")
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 9 else versions.items[0]["version"]
    found = read_version(actor=actor, name=name, number=number)
    use = use_of_workflows(actor=actor) if may(actor, v.RUN_READ) else {}
    spec, newest = found["spec"], versions.items[0]["version"]
    # An older version is not what the next task runs: what it would ask is nobody's concern any more.
    warned = found if number >= newest else {"warnings": []}
    context = {
        "crumbs": [(_("Workflows"), reverse("workflows")), (name, None)],
        "unasked": unasked.rows(warned, [node.get("title") or node["id"] for node in spec["nodes"]]),
        "versions": [{**one, "use": _use(use, name, one["version"])} for one in versions.items],
        "page": versions,
        "one": found,
        "spec": spec,
        "nodes": _nodes(spec),
        "use": _use(use, name),
        "recovery": recovery_points(actor=actor, workflow=name) if may(actor, v.RUN_READ) else None,
        "newest": newest,
        "may_start": may(actor, v.TASK_SUBMIT, found["workflow_id"]),
    }
    return show(request, "pages/workflow.html", context)


def _nodes(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes with everything that comes before each under ``before``: what a switch leads to as well."""
    before: dict[str, list[str]] = {}
    for edge in edges_of(spec):
        before.setdefault(edge.target, []).append(edge.source)
    return [{**node, "before": before.get(node["id"], [])} for node in spec.get("nodes", [])]


@page(v.WORKFLOW_READ, section="workflows", methods=("GET", "HEAD", "POST"))
def start(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """Show the form that starts a task of a workflow, or submit it; the same action as the API's."""
    versions = list_versions(actor=actor, name=name, limit=1)
    found = read_version(actor=actor, name=name, number=versions.items[0]["version"])
    if not may(actor, v.TASK_SUBMIT, found["workflow_id"]):
        authorize(actor, v.TASK_SUBMIT, found["workflow_id"])
    schema = found["spec"].get("input_schema") or {}
    form = StartForm(request.POST or None, initial={"input": json.dumps(example_of(schema), indent=2)})
    problem = None
    if request.method == "POST" and form.is_valid():
        asked = SubmitRequest(
            workflow=name,
            input=form.cleaned_data["input"],
            name=form.cleaned_data["name"],
            request_key=form.cleaned_data["key"] or None,
        )
        try:
            accepted = submit_task(actor=actor, request=asked)
        except (BadInput, Conflict) as refused:
            problem = refused
        else:
            messages.success(request, _("Accepted. It is queued as soon as its first step may run."))
            return HttpResponseRedirect(reverse("run", args=[accepted.run_id]))
    context = {
        "crumbs": [
            (_("Workflows"), reverse("workflows")),
            (name, reverse("workflow", args=[name])),
            (_("Start"), None),
        ],
        "one": found,
        "form": form,
        "schema": schema,
        "problem": problem,
    }
    status = 400 if request.method == "POST" else 200
    return show(request, "pages/start.html", context, status=problem.http_status if problem else status)
