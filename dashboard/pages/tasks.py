"""Tasks: the list, and one with its runs, its input for those who may read it, and who decided its outcome."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages import views
from dashboard.pages.console import page, show
from dashboard.presenters import kept
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.runs import success_of_runs
from runtime.queries.tasks import list_tasks, read_outcome, read_task


def wanted(request: HttpRequest) -> dict[str, Any]:
    """Return what the address narrows the list to."""
    return {"workflow": request.GET.get("workflow", "")[:200].replace("\x00", "") or None}


@page(v.TASK_READ, section="tasks")
def tasks(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show a page of tasks, newest first."""
    asked = wanted(request)
    found = list_tasks(actor=actor, cursor=request.GET.get("cursor"), limit=50, count=True, **asked)
    context = {
        "crumbs": [(_("Tasks"), None)],
        "page": found,
        **asked,
        "saved": views.saved(actor, views.TASKS),
        "asked": request.GET.urlencode(),
    }
    return show(request, "pages/tasks.html", context)


@page(v.TASK_READ, section="tasks")
def task(request: HttpRequest, actor: Actor, task_id: uuid.UUID) -> HttpResponse:
    """Show one task."""
    found = read_task(actor=actor, task_id=task_id)
    title = found["name"] or found["workflow"]
    judged = {}
    if found["success"] and may(actor, v.RUN_READ):
        judged = success_of_runs(actor=actor, run_ids=[run["id"] for run in found["runs"]])
    for run in found["runs"]:
        run["criterion"] = kept.criterion(run, judged.get(run["id"]))
    context = {
        "crumbs": [(_("Tasks"), reverse("tasks")), (title, None)],
        "task": found,
        "title": title,
        "outcome": read_outcome(actor=actor, task_id=task_id),
        "criterion": kept.asked(found["success"]),
        "budget": kept.budget(found["budget"]),
        "permissions": kept.permissions(found["scope"]),
        "parent": next((run["parent"] for run in found["runs"] if run["parent"]), None),
        "may_start": may(actor, v.RUN_CREATE),
    }
    return show(request, "pages/task.html", context)
