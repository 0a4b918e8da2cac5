"""The repair desk: what needs a person by due date, and one case with its facts and the moves that are permitted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.pages import views
from dashboard.pages.console import identity, page, show
from dashboard.pages.repair_diagnosis import diagnosis
from dashboard.presenters import repair_ahead as ahead
from dashboard.presenters import repairs as words
from dashboard.presenters.markdown import markdown
from dashboard.presenters.repair_chain import escalation
from dashboard.presenters.repair_moves import lookup, proof
from repair import queries
from repair.actions.claim import claim_case, hand_over_case, hands_over_others, release_case
from repair.actions.investigate import ask_tool, record_answer
from repair.actions.open import open_case
from repair.actions.propose import keep_pending, propose_resolution
from repair.actions.resolve import resolve_case, review_proposal
from repair.law import ANSWERS, HELD
from repair.resuming import preview_resume
from repair.reviews import count_reviews
from repair.verbs import OPEN, READ, REVIEW, RUNBOOK, WORK
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import BadInput, Conflict, InvalidJSON, PermissionDenied, QuarterdeckError
from runtime.kernel.ids import uuid7
from runtime.queries.people import list_members
from runtime.queries.run_parts import database_now
from runtime.tools.validation import MAX_ARGUMENT_BYTES

VIEWS = ("open", "mine", "unowned", "overdue", "review", "resolved")
HOURS = {"1": 1, "4": 4, "8": 8, "24": 24, "72": 72}


@page(READ, section="repairs")
def repairs(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the open cases by due date, and those of one cause together."""
    asked = request.GET
    view, narrowed = wanted(request)
    found = queries.list_cases(actor=actor, cursor=asked.get("cursor"), limit=50, **narrowed)
    facets = queries.case_facets(actor=actor)
    filtered = any(asked.get(name) for name in ("kind", "tool", "risk", "alike"))
    # Shown above the whole list only.
    largest = queries.case_groups(actor=actor, limit=6) if view == "open" and not filtered else []
    groups = [one for one in largest if one["count"] > 1]
    context = {
        "now": facets["at"],
        "crumbs": [(_("Repairs"), None)],
        "view": view,
        "page": found,
        "rows": [words.row(one) for one in found.items],
        "facets": facets,
        "reviews": count_reviews(actor=actor, bulks=False) if may(actor, REVIEW) else None,
        "kinds": [(name, words.kind_word(name), n) for name, n in sorted(facets["kind"].items())],
        "groups": [{**one, "word": words.kind_word(one["kind"])} for one in groups],
        "filtered": filtered,
        "saved": views.saved(actor, views.REPAIRS),
        "asked": asked.urlencode(),
    }
    return show(request, "pages/repairs.html", context)


def wanted(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return the view that the address asks for, and what it narrows the list to."""
    asked = request.GET
    view = asked.get("view", "open")
    view = view if view in VIEWS else "open"
    return view, {
        "state": "resolved" if view == "resolved" else None,
        "mine": view == "mine",
        "unowned": view == "unowned",
        "overdue": view == "overdue",
        "review": view == "review",
        **{name: asked.get(name) or None for name in ("kind", "tool", "risk", "alike")},
    }


@page(READ, section="repairs")
def shift(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show what the next shift takes over: what is open with its last entry, and what was resolved."""
    hours = HOURS.get(request.GET.get("hours", ""), 8)
    report = queries.shift_report(actor=actor, hours=hours)
    rows = []
    for one in report["open"]:
        last = one["last"]
        told = {"word": words.happened(last, one), "actor": last["actor"], "at": last["at"]} if last else None
        rows.append({**words.row(one), "last": told})
    context = {
        "now": report["at"],
        "crumbs": [(_("Repairs"), reverse("repairs")), (_("Hand-over of the shift"), None)],
        "report": report,
        "rows": rows,
        "ended": [words.row(one) for one in report["ended"]],
        "hours": hours,
        "choices": [1, 4, 8, 24],
    }
    return show(request, "pages/shift.html", context)


@page(READ, section="repairs", methods=("GET", "HEAD"))
def repair(request: HttpRequest, actor: Actor, case_id: uuid.UUID) -> HttpResponse:
    """Show one case. Opening it changes nothing."""
    return _show(request, actor, case_id)


def _show(
    request: HttpRequest,
    actor: Actor,
    case_id: uuid.UUID,
    *,
    problem: QuarterdeckError | None = None,
    typed: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    case = queries.get_case(actor=actor, case_id=case_id)
    mine = case["state"] in HELD and case["owner"] == actor.label
    may_hand = mine or (case["state"] in HELD and may(actor, WORK) and hands_over_others(actor))
    proposal = next((one for one in case["proposals"] if one["id"] == case["proposal_id"]), None)
    may_review = (
        case["state"] == "reviewing"
        and proposal is not None
        and may(actor, REVIEW)
        and actor.user_id not in (proposal["proposed_user_id"], case["owner_user_id"])
    )
    context = {
        "now": case["now"],
        "crumbs": [(_("Repairs"), reverse("repairs")), (words.kind_word(case["kind"]), None)],
        "case": words.row(case),
        "track": words.track(case),
        "confirmed": words.confirmed(case),
        "doubts": words.facts(case["doubts"]),
        "moves": words.moves(case),
        "ahead": _ahead(actor, case) if mine else None,
        "history": words.history(case),
        "stays": words.stays_open(case),
        "escalation": escalation(case),
        "epochs": words.epochs(case),
        "under_way": sum(one["status"] == "running" for one in case["concerned"]),
        "reference": words.reference_of(case),
        "answers": [(name, words.ANSWER[name]) for name in ANSWERS],
        "answer_word": words.ANSWER[case["answer"]],
        "proposal": proposal,
        "diagnosis": diagnosis(actor, case),
        "lookup": lookup(case["contract"]),
        "proof": proof(case),
        "runbook": markdown(case["runbook"]["text"]) if case["runbook"] else "",
        "may_write": may(actor, RUNBOOK),
        "verification": case["verification"],
        "proposal_word": words.move_word(case, proposal["resolution"]) if proposal else "",
        "mine": mine,
        "may_work": may(actor, WORK),
        "may_review": may_review,
        "may_claim": case["state"] == "open" and may(actor, WORK),
        "queryable": case["operation"] is not None and bool((case["contract"] or {}).get("query")),
        "may_ask": may(actor, v.OPERATION_QUERY),
        "may_hand": may_hand,
        "members": _members(actor, case["owner"]) if may_hand else [],
        "repair_id": uuid7(),
        "problem": problem,
        "typed": typed or {},
        "hours": HOURS,
    }
    return show(request, "pages/repair.html", context, status=status)


def _ahead(actor: Actor, case: dict[str, Any]) -> dict[str, Any] | None:
    return ahead.ahead(preview_resume(actor=actor, case_id=case["id"])) if ahead.may_resume(case) else None


def _members(actor: Actor, owner: str) -> list[str]:
    """Return the names of those to whom a case can be handed: all who work on repairs but its owner."""
    if not may(actor, v.MEMBER_READ):
        return []
    names = [one["username"] for one in list_members(actor=actor) if one["role"] in ("oncall", "admin")]
    return sorted(name for name in names if f"user:{name}" != owner)


@page(READ, section="repairs", methods=("POST",))
def act(request: HttpRequest, actor: Actor, case_id: uuid.UUID, verb: str) -> HttpResponse:
    """Do one verb on a case as it was shown; a refusal is told on the page, with what was typed."""
    if verb not in _VERBS:
        raise Http404
    asked = {name: str(value) for name, value in request.POST.items()}
    try:
        told = _VERBS[verb](actor, case_id, asked)
    except (Conflict, BadInput, PermissionDenied) as problem:
        return _show(request, actor, case_id, problem=problem, typed=asked, status=problem.http_status)
    messages.success(request, told, extra_tags="succeeded")
    return HttpResponseRedirect(reverse("repair", args=[case_id]))


def _version(asked: dict[str, str]) -> int:
    """Return the version that a form was shown in. Raises BadInput for a form without one."""
    value = asked.get("version", "")
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        mend = _("Load the page again and repeat the act.")
        raise BadInput(_("The form does not say which version it was shown."), where="/version", remediation=mend)
    return int(value)


def _claim(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    answer = claim_case(actor=actor, case_id=case_id, expected_version=_version(asked))
    if answer["owner_epoch"] is None:
        return _("The case is yours.")
    if (n := answer.get("fenced_count", 0)) > 1:
        return ngettext(
            "The case is yours, and %(n)d step has a new epoch.",
            "The case is yours, and %(n)d steps have a new epoch.",
            n,
        ) % {"n": n}
    return _("The case is yours, under epoch %(epoch)d.") % {"epoch": answer["owner_epoch"]}


def _release(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    release_case(actor=actor, case_id=case_id, expected_version=_version(asked), reason=asked.get("reason", ""))
    return _("Released. Anybody on call may take it.")


def _hand_over(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    to = asked.get("to", "")
    hand_over_case(
        actor=actor, case_id=case_id, to=to, expected_version=_version(asked), reason=asked.get("reason", "")
    )
    return _("Handed over to %(name)s.") % {"name": to}


def _ask(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    answer = ask_tool(actor=actor, case_id=case_id, expected_version=_version(asked))
    return _("The tool was asked: %(answer)s") % {"answer": words.ANSWER[answer["answer"]]}


def _answer(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    record_answer(
        actor=actor,
        case_id=case_id,
        answer=asked.get("answer", ""),
        evidence=asked.get("evidence", ""),
        source=asked.get("source", ""),
        reference=asked.get("reference", ""),
        expected_version=_version(asked),
    )
    return _("Recorded under your name, beside what is believed here.")


_ARGUMENTS = {"record_success": ("external_ref",), "resume_step": ("preview",)}


def _propose(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    resolution = asked.get("resolution", "")
    arguments: dict[str, Any] = {name: asked[name] for name in _ARGUMENTS.get(resolution, ()) if asked.get(name)}
    if resolution == "record_success" and asked.get("output", "").strip():
        arguments["output"] = _json(asked["output"])
    answer = propose_resolution(
        actor=actor,
        case_id=case_id,
        resolution=resolution,
        reason=asked.get("reason", ""),
        arguments=arguments,
        expected_version=_version(asked),
        repair_id=identity(asked.get("repair_id", ""), "proposal"),
    )
    if answer["needs_review"]:
        return _("Proposed. Another person has to look at it.")
    resolve_case(
        actor=actor, case_id=case_id, expected_version=None, repair_id=identity(answer["repair_id"], "proposal")
    )
    return _("Carried out. The case is resolved.")


def _json(text: str) -> Any:
    try:
        return parse_strict(text.encode(), max_bytes=MAX_ARGUMENT_BYTES, max_depth=100)
    except InvalidJSON as problem:
        mend = _("Write it as JSON, as the tool answers.")
        raise BadInput(problem.detail, where="/arguments/output", remediation=mend) from problem


def _review(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    decision = asked.get("decision", "")
    review_proposal(
        actor=actor,
        case_id=case_id,
        repair_id=identity(asked.get("repair_id", ""), "proposal"),
        decision=decision,
        comment=asked.get("comment", ""),
        expected_version=_version(asked),
    )
    return _("Approved and carried out.") if decision == "approve" else _("Sent back.")


def _keep(actor: Actor, case_id: uuid.UUID, asked: dict[str, str]) -> str:
    hours = HOURS.get(asked.get("hours", ""), 4)
    keep_pending(
        actor=actor,
        case_id=case_id,
        due_at=database_now(actor=actor) + timedelta(hours=hours),
        reason=asked.get("reason", ""),
        expected_version=_version(asked),
    )
    return _("Kept pending until its new due date.")


_VERBS: dict[str, Callable[[Actor, uuid.UUID, dict[str, str]], str]] = {
    "claim": _claim,
    "release": _release,
    "hand-over": _hand_over,
    "ask": _ask,
    "answer": _answer,
    "propose": _propose,
    "review": _review,
    "keep-pending": _keep,
}


@page(OPEN, section="repairs", methods=("POST",))
def opened(request: HttpRequest, actor: Actor, run_id: uuid.UUID) -> HttpResponse:
    """Open a case about a run or one of its steps, and show it."""
    step = request.POST.get("step", "")
    answer = open_case(
        actor=actor,
        run_id=run_id,
        step_id=identity(step, "step") if step else None,
        reason=request.POST.get("reason", ""),
    )
    return HttpResponseRedirect(reverse("repair", args=[answer["case_id"]]))
