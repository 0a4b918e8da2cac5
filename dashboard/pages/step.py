"""One step in the drawer: its operation, attempts, input and output, events, why it stands where it does."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages import run_tabs
from dashboard.presenters import consequences
from dashboard.presenters import why as why_answers
from dashboard.presenters.undoing import all_steps
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound
from runtime.queries.arguments import read_arguments
from runtime.queries.effects import read_operation
from runtime.queries.steps import read_step

PARTS = ("overview", "attempts", "content", "events", "why")


def drawer_of(request: HttpRequest, actor: Actor, context: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the drawer's content for ``node``; ``?part=`` chooses what of it. Raises NotFound.

    A step that undoes an effect is no node of the graph and has a drawer all the same.
    """
    found = next((one for one in all_steps(context["graph"]) if one["id"] == node), None)
    if found is None or found["step"] is None:
        raise NotFound(f"This run has no step {node[:80]!r}.")
    step = read_step(actor=actor, step_id=found["step"]["id"])
    part = request.GET.get("part", "overview")
    part = part if part in PARTS else "overview"
    facts = run_tabs.facts(actor, context, found)
    operations = facts.operations
    run_url = reverse("run", args=[context["run"]["id"]])
    return {
        "node": found,
        "step": step,
        "part": part,
        "parts": _parts(step, facts),
        "url": f"{run_url}?{urlencode({'step': node})}",
        "partial": reverse("run-drawer", args=[context["run"]["id"], node]),
        "operation": _operation(actor, operations[-1]["id"]) if operations else None,
        "operations": operations,
        "events": list(reversed(facts.events)),
        "answers": why_answers.answer(facts),
        "attempts": facts.attempts,
        "arguments": read_arguments(actor=actor, step_id=step["id"]) if part == "content" else None,
        "verbs": _verbs(context, found, step),
        "request": next((one for one in facts.requests if one["state"] == "pending"), None),
        "may_read": may(actor, v.PAYLOAD_READ),
    }


def _operation(actor: Actor, operation_id: Any) -> dict[str, Any] | None:
    return read_operation(actor=actor, operation_id=operation_id) if may(actor, v.OPERATION_READ) else None


def _parts(step: dict[str, Any], facts: why_answers.Facts) -> list[tuple[str, str, int | None]]:
    words = {
        "overview": _("Overview"),
        "attempts": _("Attempts"),
        "content": _("Output"),
        "events": _("Events"),
        "why": _("Why"),
    }
    counts = {"attempts": len(facts.attempts), "events": len(facts.events)}
    return [(name, words[name], counts.get(name)) for name in PARTS]


def _verbs(context: dict[str, Any], node: dict[str, Any], step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the step's verbs: those that fit its state, and of the rest those that a reader would look for."""
    rows = []
    for name in consequences.STEP_VERBS:
        effects = consequences.of_step(name, node, context["graph"], context["operations"])
        refusal = effects.refusal
        unfit = bool(consequences.possible(name, node["step"]))
        if not refusal and consequences.PERMISSION[name] not in context["allowed"]:
            refusal = _("Your role may not do this.")
        if unfit and name not in ("rerun",):
            continue
        rows.append(
            {
                "name": name,
                "word": consequences.verb_word(name),
                "grave": name in consequences.GRAVE,
                "refusal": refusal,
                "url": reverse("step-verb", args=[step["id"], name]),
            }
        )
    return rows
