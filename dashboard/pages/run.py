"""A run: its head, and one tab of what happened to it. The address holds tab, selection and filters."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.pages import hands, requests, run_tabs
from dashboard.pages.console import identity, page, show
from dashboard.pages.step import drawer_of
from dashboard.presenters import consequences, kept
from dashboard.presenters.layers import cancelled_note, layers
from dashboard.presenters.undoing import all_steps
from dashboard.templatetags.qd import bounded
from repair.queries import cases_of_run
from repair.verbs import READ as REPAIR_READ
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.kernel.actor import Actor
from runtime.queries import run_parts
from runtime.queries.graphs import read_graph
from runtime.queries.runs import read_run
from runtime.queries.tasks import read_outcome, read_task


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab: its word, what fills it, and the permission without which it is not named."""

    word: Any
    fill: Callable[[HttpRequest, Actor, dict[str, Any]], dict[str, Any]]
    verb: str = v.RUN_READ


TABS = {
    "graph": Tab(gettext_lazy("Graph"), run_tabs.graph),
    "timeline": Tab(gettext_lazy("Timeline"), run_tabs.timeline),
    "steps": Tab(gettext_lazy("Steps"), run_tabs.steps),
    "events": Tab(gettext_lazy("Events"), run_tabs.events),
    "operations": Tab(gettext_lazy("Operations"), run_tabs.operations, v.OPERATION_READ),
    "approvals": Tab(gettext_lazy("Approvals"), run_tabs.approvals, "approval.read"),
    "repairs": Tab(gettext_lazy("Repairs"), run_tabs.repairs, "repair.read"),
    "artifacts": Tab(gettext_lazy("Artifacts"), run_tabs.artifacts, v.ARTIFACT_READ),
    "why": Tab(gettext_lazy("Why"), run_tabs.why),
    "audit": Tab(gettext_lazy("Audit"), run_tabs.audit, v.AUDIT_READ),
}


HEAD_ALONE = "pages/run/head_alone.html"


@page(v.RUN_READ, section="runs")
def run(request: HttpRequest, actor: Actor, run_id: uuid.UUID, tab: str = "graph") -> HttpResponse:
    """Show a run under one tab; with ``?step=`` that node's drawer beside it, with ``?until=`` its graph as it was."""
    if tab not in TABS:
        raise Http404
    chosen = TABS[tab]
    context = head(request, actor, run_id, tab)
    authorize(actor, chosen.verb)
    if request.headers.get("X-Refresh") == "head":
        # For a live page, every other second: what its own stream does not bring.
        return show(request, HEAD_ALONE, context, fragment=HEAD_ALONE)
    if tab == "graph" and "until" in request.GET:
        context.update(run_tabs.past(request, actor, context))
        return show(request, "pages/run/past.html", context)
    context.update(chosen.fill(request, actor, context))
    if node := request.GET.get("step"):
        context["drawer"] = drawer_of(request, actor, context, node)
        context["crumbs"][-1] = (context["crumbs"][-1][0], reverse("run", args=[run_id]))
        context["crumbs"].append((context["drawer"]["node"]["title"], None))
    return show(request, f"pages/run/{tab}.html", context)


def head(request: HttpRequest, actor: Actor, run_id: uuid.UUID, tab: str) -> dict[str, Any]:
    """Return what every tab shows: the run, its task's other runs, the five layers, counts, verbs."""
    found = read_run(actor=actor, run_id=run_id)
    graph = read_graph(actor=actor, run_id=run_id)
    now = graph["at"]
    operations = run_parts.list_operations(actor=actor, run_id=run_id) if may(actor, v.OPERATION_READ) else []
    asked = requests.of_run(actor, run_id)
    cases = cases_of_run(actor=actor, run_id=run_id) if may(actor, REPAIR_READ) else []
    task = read_task(actor=actor, task_id=found["task_id"]) if may(actor, v.TASK_READ) else None
    outcome = read_outcome(actor=actor, task_id=found["task_id"]) if task else None
    runs = [one["id"] for one in reversed(task["runs"])] if task else [run_id]
    number = runs.index(run_id) + 1 if run_id in runs else 1
    title = found["name"] or found["workflow"]
    allowed = run_parts.permitted(
        actor=actor, run_id=run_id, verbs=[*consequences.PERMISSION.values(), *consequences.RUN_PERMISSION.values()]
    )
    return {
        "now": now,
        "run": found,
        "title": title,
        "graph": graph,
        "operations": operations,
        "requests": asked,
        "cases": cases,
        "task": task,
        "number": number,
        "runs": runs,
        "tab": tab,
        "tabs": _tabs(actor, run_id, found, graph, operations, asked, cases),
        "layers": layers(found, graph, outcome),
        "cancelled_note": cancelled_note(found, operations),
        "by_hand": hands.words(hands.marked(actor, [found])[0]["by_hand"]),
        "outcome": outcome,
        "criterion": kept.criterion(found, found["success"]),
        "budget": kept.budget(found["budget"], found["budget_used"]),
        "permissions": kept.permissions(found["scope"]),
        "allowed": allowed,
        "may_ask": may(actor, v.OPERATION_QUERY),
        "verbs": _verbs(found, graph, operations, allowed),
        "crumbs": [
            (_("Tasks"), reverse("tasks")),
            (title, reverse("task", args=[found["task_id"]])),
            (_("Run %(n)d") % {"n": number}, None),
        ],
    }


def _tabs(
    actor: Actor,
    run_id: uuid.UUID,
    found: dict[str, Any],
    graph: dict[str, Any],
    operations: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    cases: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    counts: dict[str, int | str] = {
        "steps": len(all_steps(graph)),
        "events": found["seq"],
        "operations": bounded(len(operations), run_parts.OPERATION_BOUND - 1),
        "approvals": bounded(len(asked), requests.RUN_BOUND - 1),
        "repairs": len(cases),
    }
    hot = {}
    if any(
        one["status"] in ("unknown", "needs_human", "partially_applied", "compensation_failed") for one in operations
    ):
        hot["operations"] = "unknown"
    if any(one["state"] == "pending" for one in asked):
        hot["approvals"] = "hold"
    if any(one["state"] != "resolved" for one in cases):
        hot["repairs"] = "unknown"
    return [
        {
            "name": name,
            "word": tab.word,
            "url": reverse("run", args=[run_id]) if name == "graph" else reverse("run-tab", args=[run_id, name]),
            "count": counts.get(name),
            "hot": hot.get(name),
        }
        for name, tab in TABS.items()
        if may(actor, tab.verb)
    ]


def _verbs(
    found: dict[str, Any], graph: dict[str, Any], operations: list[dict[str, Any]], allowed: frozenset[str]
) -> list[dict[str, Any]]:
    """Return the run's verbs that make sense now; one that is refused says why in its place."""
    ended = found["status"] in consequences.states.ENDED_RUNS
    names = ["rerun"] if ended else [*(["resume"] if found["paused"] else ["pause"]), "cancel"]
    rows = []
    for name in names:
        why = consequences.of_run(name, found, graph, operations).refusal
        if consequences.RUN_PERMISSION[name] not in allowed:
            why = _("Your role may not do this.")
        rows.append(
            {
                "name": name,
                "word": consequences.verb_word(name, "run"),
                "grave": name in consequences.GRAVE,
                "refusal": why,
                "url": reverse("run-verb", args=[found["id"], name]),
            }
        )
    return rows


@page(v.RUN_READ)
def drawer(request: HttpRequest, actor: Actor, run_id: uuid.UUID, node: str) -> HttpResponse:
    """Show one step's drawer alone, for a page that is open already: the link that asks names the new address."""
    context = head(request, actor, run_id, "graph")
    context["drawer"] = drawer_of(request, actor, context, node)
    if not getattr(request, "htmx", False):
        return HttpResponseRedirect(f"{reverse('run', args=[run_id])}?{urlencode({'step': node})}")
    return show(request, "pages/run/drawer.html", context, fragment="pages/run/drawer.html")


@page(v.RUN_READ)
def step_address(request: HttpRequest, actor: Actor, step_id: str) -> HttpResponse:
    """Lead from a step's id to its run's page with the drawer open."""
    from runtime.queries.steps import read_step

    step = read_step(actor=actor, step_id=identity(step_id, "step"))
    return HttpResponseRedirect(f"{reverse('run', args=[step['run_id']])}?{urlencode({'step': step['node']})}")
