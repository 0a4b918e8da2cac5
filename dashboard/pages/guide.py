"""What the marks mean: every state with its mark and a sentence, as the law has it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from dashboard.pages.console import page, show
from dashboard.presenters import states
from runtime.kernel.actor import Actor


@page()
def states_page(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the sheet of marks."""
    says = {
        "waiting": _("Its inputs, a timer or a retry are not there yet."),
        "queued": _("Ready; waits for a worker."),
        "running": _("A worker has it, under a lease."),
        "hold": _("Waits for a person or an event, and occupies no worker."),
        "succeeded": _("Its owner reported a result that was checked."),
        "failed": _("It ended without a result; its failure policy follows."),
        "killed": _("A person or a cancel ended it; late results are refused."),
        "skipped": _("It never ran; the cause stands beside it."),
        "mark_successed": _("A person set its success. Execution status only."),
        "unknown": _("Whether it had its effect is not known. Nothing is sent again."),
    }
    context = {
        "crumbs": [(_("What the marks mean"), None)],
        "steps": [(name, says[name]) for name in states.STEP],
        "runs": states.RUN_ORDER,
        "operations": list(states.OPERATION),
        "approvals": [name for name in states.APPROVAL if name != "escalated"],
        "risks": ["low", "medium", "high", "critical"],
    }
    return show(request, "pages/states.html", context)
