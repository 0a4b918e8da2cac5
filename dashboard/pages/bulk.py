"""One verb on several runs: ids and versions are frozen when the preview is shown, then done a few per second.

What is left to do travels in a signed field, so a page that is closed half-way has done what it says and no more; each
item is answered by itself, and one that moved since the preview is left alone.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import page, show
from dashboard.presenters import consequences, states, terms
from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.actions import runs as actions
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, QuarterdeckError
from runtime.kernel.ids import parse_uuid
from runtime.queries.runs import list_runs

VERBS = {"pause": actions.pause_run, "resume": actions.resume_run, "cancel": actions.cancel_run}
MOST = 100
PER_SECOND = 5
# So many are done in one request; the page then goes on with the rest.
CHUNK = 10
_SALT = "quarterdeck.bulk"
_LIFE_SECONDS = 900


def offered(actor: Actor) -> list[tuple[str, str]]:
    """Return (verb, word) of what this reader may do to several runs."""
    return [(name, consequences.verb_word(name, "run")) for name in VERBS if may(actor, f"run.{name}")]


@page(v.RUN_READ, section="runs", methods=("POST",))
def bulk(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the preview of chosen runs, or do the next part of a frozen list."""
    if frozen := request.POST.get("frozen"):
        return _act(request, actor, _thaw(actor, frozen))
    verb = request.POST.get("verb", "")
    if verb not in VERBS:
        raise BadInput(_("There is no such act on several runs."), where="/verb")
    authorize(actor, f"run.{verb}")
    ids = [one for one in (parse_uuid(text) for text in request.POST.getlist("run")) if one is not None]
    if not ids:
        raise BadInput(_("No run was chosen, so nothing is done."), where="/run", remediation=_("Choose runs first."))
    if len(ids) > MOST:
        raise BadInput(_("At most 100 runs at once."), where="/run", remediation=_("Choose fewer."))
    rows = list_runs(actor=actor, among=ids, limit=MOST).items
    items = [_item(verb, row) for row in rows]
    todo = [[str(one["id"]), one["version"]] for one in items if not one["refusal"]]
    back = request.POST.get("back", "")[:1000]
    state = {"verb": verb, "todo": todo, "done": [], "reason": "", "back": back}
    return _show(request, actor, state, items=items, preview=True)


def _item(verb: str, row: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"nodes": [], "edges": []}
    refusal = consequences.of_run(verb, row, empty, []).refusal
    return {**row, "refusal": refusal}


def _act(request: HttpRequest, actor: Actor, state: dict[str, Any]) -> HttpResponse:
    verb = state["verb"]
    authorize(actor, f"run.{verb}")
    reason = request.POST.get("reason", state["reason"])
    for run_id, version in state["todo"][:CHUNK]:
        begun = time.monotonic()
        state["done"].append([run_id, *_one(actor, verb, run_id, version, reason)])
        time.sleep(max(0.0, 1 / PER_SECOND - (time.monotonic() - begun)))
    state.update(todo=state["todo"][CHUNK:], reason=reason)
    return _show(request, actor, state, preview=False)


def _one(actor: Actor, verb: str, run_id: str, version: int, reason: str) -> tuple[str, str]:
    """Return (state, words) of what became of one item."""
    try:
        answer = VERBS[verb](actor=actor, run_id=uuid.UUID(run_id), expected_version=version, reason=reason)
    except QuarterdeckError as problem:
        return "refused", f"{terms.problem_word(problem)}: {problem.detail}"
    return answer["status"], states.word(answer["status"], "run")


def _show(request: HttpRequest, actor: Actor, state: dict[str, Any], **more: Any) -> HttpResponse:
    names = {}
    if state["done"]:
        ids = [one[0] for one in state["done"]]
        names = {str(row["id"]): row["name"] for row in list_runs(actor=actor, among=ids, limit=MOST).items}
    every = len(state["todo"]) + len(state["done"])
    context = {
        "crumbs": [(_("Runs"), f"{reverse('runs')}?{state['back']}"), (_("Several runs"), None)],
        "word": consequences.verb_word(state["verb"], "run"),
        "state": state,
        "done": [(run_id, names.get(run_id) or run_id[-8:], mark, text) for run_id, mark, text in state["done"]],
        "frozen": signing.dumps({**state, "actor": actor.label, "tenant": str(actor.tenant_id)}, salt=_SALT),
        "count": len(state["todo"]),
        "every": every,
        "part": 100 * len(state["done"]) // max(1, every),
        "grave": state["verb"] in consequences.GRAVE,
        "per_second": PER_SECOND,
        "back": f"{reverse('runs')}?{state['back']}",
        **more,
    }
    return show(request, "pages/bulk.html", context)


def _thaw(actor: Actor, frozen: str) -> dict[str, Any]:
    """Return the frozen list. Raises BadInput for one of somebody else, an old one, or none of ours."""
    try:
        state = signing.loads(frozen, salt=_SALT, max_age=_LIFE_SECONDS)
    except signing.BadSignature:
        state = {}
    if state.get("actor") != actor.label or state.get("tenant") != str(actor.tenant_id):
        raise BadInput(_("This list is too old or not yours; nothing more is done."), where="/frozen")
    return state
