"""Tasks: the list, and one with its runs, its input for those who may read it, and who decided its outcome."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages import views
from dashboard.pages.console import page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
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
    context = {
        "crumbs": [(_("Tasks"), reverse("tasks")), (title, None)],
        "task": found,
        "title": title,
        "outcome": read_outcome(actor=actor, task_id=task_id),
        "may_start": may(actor, v.RUN_CREATE),
    }
    return show(request, "pages/task.html", context)
