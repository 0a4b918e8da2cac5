"""Tasks and repairs as files, and the reader's own views of both lists."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse

from dashboard.pages import export, repairs, tasks, views
from dashboard.pages.console import page
from repair import queries
from repair.verbs import READ
from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries.tasks import list_tasks

_TASK = "id name workflow workflow_version request_key priority pool scheduled_at deadline created_by created_at"
_CASE = (
    "id kind title state risk tool workflow run_id node error_class owner opened_at due_at overdue resolution "
    "resolved_by resolved_at"
)


def _columns(names: str) -> export.Columns:
    def reader(name: str) -> Any:
        return lambda row: row[name]

    return {name: reader(name) for name in names.split()}


@page(v.TASK_READ)
def tasks_file(request: HttpRequest, actor: Actor, kind: str) -> HttpResponseBase:
    """Send the tasks as the list is filtered, without their inputs, as CSV or JSON."""
    wanted = tasks.wanted(request)

    def chunk(cursor: str | None) -> Any:
        return list_tasks(actor=actor, cursor=cursor, limit=export.PAGE, **wanted)

    return export.stream(kind, "tasks", _columns(_TASK), chunk)


@page(READ)
def repairs_file(request: HttpRequest, actor: Actor, kind: str) -> HttpResponseBase:
    """Send the cases as the list is filtered, as CSV or JSON."""
    wanted = repairs.wanted(request)[1]

    def chunk(cursor: str | None) -> Any:
        return queries.list_cases(actor=actor, cursor=cursor, limit=export.PAGE, **wanted)

    return export.stream(kind, "repairs", _columns(_CASE), chunk)


@page(v.TASK_READ, section="tasks", methods=("POST",))
def task_views(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Keep or forget a view of the tasks."""
    return _keep(request, actor, views.TASKS, reverse("tasks"))


@page(READ, section="repairs", methods=("POST",))
def repair_views(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Keep or forget a view of the repairs."""
    return _keep(request, actor, views.REPAIRS, reverse("repairs"))


def _keep(request: HttpRequest, actor: Actor, kind: views.Kind, url: str) -> HttpResponse:
    if name := request.POST.get("forget"):
        views.forget(actor, kind, name)
        return HttpResponseRedirect(url)
    query = request.POST.get("query", "")[:2000]
    views.save(actor, kind, request.POST.get("name", ""), query)
    return HttpResponseRedirect(f"{url}?{query}")
