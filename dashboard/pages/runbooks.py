"""Runbooks: the Markdown that cases show by tool and error class, its versions, and the form that writes the next."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import page, show
from dashboard.presenters.markdown import markdown
from repair.actions.runbooks import MOST_CHARACTERS, write_runbook
from repair.runbooks import list_runbooks, runbook_versions
from repair.verbs import READ, RUNBOOK
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, PermissionDenied, QuarterdeckError
from runtime.queries.definitions import list_tools


@page(READ, section="runbooks", methods=("GET", "HEAD", "POST"))
def runbooks(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show every runbook, one of them with its versions, and write its next version."""
    asked = request.POST if request.method == "POST" else request.GET
    tool, error_class = asked.get("tool", "")[:220].strip(), asked.get("error_class", "")[:40].strip()
    problem: QuarterdeckError | None = None
    if request.method == "POST":
        try:
            return _write(request, actor, tool, error_class)
        except (BadInput, Conflict, PermissionDenied) as refused:
            problem = refused
    versions = runbook_versions(actor=actor, tool=tool, error_class=error_class)
    newest = versions[0] if versions else None
    wanted = asked.get("version", "")
    shown = next((one for one in versions if str(one["version"]) == wanted), newest)
    context = {
        "crumbs": [(_("Repairs"), reverse("repairs")), (_("Runbooks"), None)],
        "rows": list_runbooks(actor=actor),
        "tool": tool,
        "error_class": error_class,
        "chosen": "tool" in asked or "error_class" in asked,
        "versions": versions,
        "shown": shown,
        "html": markdown(shown["text"]) if shown else "",
        "newest": newest["version"] if newest else 0,
        "text": request.POST.get("text", "") if problem else (shown["text"] if shown else ""),
        "problem": problem,
        "may_write": may(actor, RUNBOOK),
        "names": _tools(actor),
        "most": MOST_CHARACTERS,
    }
    return show(request, "pages/runbooks.html", context, status=problem.http_status if problem else 200)


def _write(request: HttpRequest, actor: Actor, tool: str, error_class: str) -> HttpResponse:
    version = request.POST.get("expected_version", "")
    answer: dict[str, Any] = write_runbook(
        actor=actor,
        tool=tool,
        error_class=error_class,
        text=request.POST.get("text", ""),
        expected_version=int(version) if version.isdecimal() and len(version) < 10 else 0,
        reason=request.POST.get("reason", ""),
    )
    messages.success(request, _("Written as version %(n)d.") % {"n": answer["version"]}, extra_tags="succeeded")
    return HttpResponseRedirect(f"{reverse('runbooks')}?{urlencode({'tool': tool, 'error_class': error_class})}")


def _tools(actor: Actor) -> list[str]:
    if not may(actor, v.TOOL_READ):
        return []
    return sorted({one["name"] for one in list_tools(actor=actor, limit=500).items})
