"""The words of what resuming a step would do. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

# Why it may not be ordered now; the preview's own words are English, the reader's are looked up here.
SENTENCES = (
    gettext_lazy("The case names no step to resume."),
    gettext_lazy("Its step was run again since."),
    gettext_lazy("A newer run of the task is there."),
    gettext_lazy("Nothing new starts in the run."),
    gettext_lazy("The step has not ended; it goes on by itself."),
)
HOW = {
    "goes_on": gettext_lazy("The step goes on where it stands."),
    "again": gettext_lazy(
        "The step is run again in this run, as its next execution version; approvals behind it ask anew."
    ),
    "new_run": gettext_lazy(
        "The run has ended: a new run of the task starts. Results are reused while their input and tools are the same."
    ),
    "undoing": gettext_lazy("The step goes on undoing its effect."),
    "nothing": gettext_lazy("Nothing runs; the step only fails."),
}


def may_resume(case: dict[str, Any]) -> bool:
    """Whether resuming a step is one of the permitted moves."""
    permitted = any(one["resolution"] == "resume_step" and one["permitted"] for one in case["moves"])
    return permitted and case["step_id"] is not None


def ahead(preview: dict[str, Any]) -> dict[str, Any]:
    """Return the preview of a resume with its words: {how, why_not, lists [(word, steps)], cost [text], preview}."""
    lists = [
        (_("Will run"), preview["runs"]),
        (_("May run, behind a switch"), preview["perhaps"]),
        (_("Ended first"), preview["ended"]),
        (_("Reused, not run"), preview["reused"]),
    ]
    cost, told = preview["cost"], []
    if cost is not None:
        told = [
            _("%(n)d calls, %(most)d with every retry") % {"n": cost["calls"], "most": cost["calls_most"]},
            _("%(n)d of them change something outside") % {"n": cost["writes"]},
            _("at most %(n)s s of calls") % {"n": f"{cost['seconds_most']:g}"},
        ]
        if cost["people"]:
            told.append(_("%(n)d people are asked") % {"n": cost["people"]})
    return {
        "how": HOW[preview["how"]],
        "why_not": _(preview["why_not"]) if preview["why_not"] else "",
        "lists": [(word, steps) for word, steps in lists if steps],
        "cost": told,
        "preview": preview["preview"],
    }
