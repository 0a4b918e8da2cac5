"""Reads of cases: the list by due date, groups of one cause, and one case with everything that is known of it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet

from repair.addressee import tool_owner
from repair.chains import escalation_of
from repair.law import (
    COMPENSATE,
    KEEP_PENDING,
    RESOLUTIONS,
    RESOLVED,
    RESUME_STEP,
    SETTLED,
    WRITE_OFF,
    permitted,
    why_not,
)
from repair.models import Case, Entry, Fact, Proposal
from repair.policy import needs_second, policy_of
from repair.reviews import cases_to_review, proposals_of
from repair.runbooks import runbook_for
from repair.standing import POISON, About, why_not_now
from repair.subject import add_subject
from repair.undoing import verification, why_not_undone
from repair.verbs import READ
from repair.verbs import WRITE_OFF as MAY_WRITE_OFF
from runtime.access.authorize import may
from runtime.access.verbs import MESSAGE_RESOLVE, OPERATION_COMPENSATE, PAYLOAD_READ
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.queries.base import COUNT_BOUND, Page, cursor_of, found, position_of, reading
from runtime.store.tx import Tx

LISTED = [
    "id", "kind", "subject_kind", "run_id", "task_id", "step_id", "operation_id", "node", "workflow", "tool",
    "recovery", "title", "fingerprint", "error_class", "risk", "state", "version", "answer", "answered_by",
    "answered_at", "owner", "owner_epoch", "claimed_at", "opened_by", "opened_at", "due_at", "escalations",
    "escalated_to", "resolution", "resolved_by", "resolved_at", "verified_by",
]  # fmt: skip
_NO_UNDOING = "Your role does not order that an effect is undone."
FACET_BOUND = 5_000


def _filtered(actor: Actor, **wanted: Any) -> QuerySet[Case]:
    """Return the cases that fit; ``state`` None means every open one, the names are those of :func:`list_cases`."""
    rows = Case.objects.all()
    state = wanted.get("state")
    rows = rows.filter(state=state) if state else rows.exclude(state=RESOLVED)
    for name, column in (
        ("kind", "kind"),
        ("tool", "tool"),
        ("risk", "risk"),
        ("alike", "fingerprint"),
        ("run", "run_id"),
    ):
        if wanted.get(name):
            rows = rows.filter(**{column: wanted[name]})
    if wanted.get("mine"):
        rows = rows.filter(owner=actor.label)
    if wanted.get("unowned"):
        rows = rows.filter(owner__isnull=True)
    if wanted.get("overdue_at"):
        rows = rows.filter(due_at__lte=wanted["overdue_at"])
    return cases_to_review(actor, rows) if wanted.get("review") else rows


def cases_that_fit(actor: Actor, wanted: dict[str, Any], now: datetime, *, most: int) -> list[Case]:
    """Return at most ``most`` open cases that fit, the soonest due first; in the tenant's transaction."""
    named = {name: value for name, value in wanted.items() if name != "overdue"}
    rows = _filtered(actor, **named, overdue_at=now if wanted.get("overdue") else None)
    return list(rows.order_by("due_at", "id")[:most])


def list_cases(
    *,
    actor: Actor,
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
    overdue: bool = False,
    **wanted: Any,
) -> Page:
    """Return cases: open ones by due date (soonest first), resolved ones newest first.

    An item holds LISTED, ``overdue`` and ``tool_owner``, who answers for the tool by its contract. Filters: state,
    kind, tool, risk, alike (a fingerprint), run, mine, unowned, and ``review``: only what waits for the actor's review,
    each with ``review`` {repair_id, resolution, proposed_by, proposed_at}. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        now = tx.now()
        rows = _filtered(actor, **wanted, overdue_at=now if overdue else None)
        counted = len(rows.order_by()[: COUNT_BOUND + 1].values_list("id")) if count else None
        newest = wanted.get("state") == RESOLVED
        name = "cases.resolved" if newest else "cases"
        position = position_of(name, actor, cursor)
        if newest:
            rows = rows.filter(id__lt=position[0]) if position else rows
            listed = list(rows.order_by("-id").values(*LISTED)[: limit + 1])
        else:
            if position:
                after = datetime.fromisoformat(position[0])
                # Not as an OR: the index is entered at the position, however far down the list that is.
                rows = rows.filter(due_at__gte=after).exclude(due_at=after, id__lte=position[1])
            listed = list(rows.order_by("due_at", "id").values(*LISTED)[: limit + 1])
        following = None
        if len(listed) > limit:
            listed = listed[:limit]
            last = listed[-1]
            following = cursor_of(
                name, actor, [str(last["id"])] if newest else [last["due_at"].isoformat(), str(last["id"])]
            )
        shown = [_present(tx, row, now) for row in listed]
        if wanted.get("review"):
            proposals = proposals_of(row["id"] for row in shown)
            shown = [{**row, "review": proposals.get(row["id"])} for row in shown]
    return Page(shown, following, counted)


def _present(tx: Tx, row: dict[str, Any], now: datetime) -> dict[str, Any]:
    row["overdue"] = row["state"] != RESOLVED and row["due_at"] <= now
    row["tool_owner"] = tool_owner(tx, row["tool"])
    return row


def case_facets(*, actor: Actor) -> dict[str, Any]:
    """Return {kind: {kind: count}, total, overdue, mine, unowned, at} over the open cases.

    Bounded to the FACET_BOUND cases that are due first. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        now = tx.now()
        rows = tx.dicts("case_facets", {"now": now, "owner": actor.label, "bound": FACET_BOUND})
    kinds = {row["kind"]: row["total"] for row in rows}
    sums = {name: sum(row[name] for row in rows) for name in ("total", "overdue", "mine", "unowned")}
    return {**sums, "kind": kinds, "at": now}


def case_groups(*, actor: Actor, limit: int = 50) -> list[dict[str, Any]]:
    """Return open cases by cause: {fingerprint, kind, tool, error_class, count, due_at}, the largest first.

    Bounded to the FACET_BOUND cases that are due first. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        return tx.dicts("case_groups", {"bound": FACET_BOUND, "most": limit})


def count_due(*, actor: Actor, bound: int = 100) -> tuple[int, int]:
    """Return (open cases, overdue ones), each at most ``bound``. Verb ``repair.read``."""
    with reading(actor, READ) as tx:
        now = tx.now()
        # By due date: as far as the bound goes, what is overdue comes first.
        due = list(Case.objects.exclude(state=RESOLVED).order_by("due_at").values_list("due_at", flat=True)[:bound])
        return len(due), sum(1 for one in due if one <= now)


def get_case(*, actor: Actor, case_id: uuid.UUID) -> dict[str, Any]:
    """Return one case as a list does, and with it what a person decides by.

    {…, confirmed [fact], doubts [fact], entries, proposals, moves [{resolution, permitted, why_not, second}], contract,
    operation, run, step, concerned, lease, epochs, stale, chain, left, alike (others of its cause that are open),
    verification, escalation, runbook, now}. A fact: {name, value, source, observed_at}. A doubt that a later certain
    fact of the same name ended
    is left out. ``run`` names its workflow version and manifest; ``lease`` is that of the worker that runs the step
    now, None for none; the contract's ``lookup`` says how its query is read. ``concerned`` are the steps on which a
    claim of a case about a run takes a new epoch, each with its worker's lease; ``epochs`` and ``stale`` are then those
    of all of them. ``chain`` are the step's newest events, oldest first, by which it got here; ``left`` is {deadline,
    attempts}: until when the run may go on, and how many of its contract's attempts the step has not made.
    ``escalation``: whom it goes up to, and when (:func:`repair.chains.escalation_of`). Raises NotFound. Verb
    ``repair.read``.
    """
    with reading(actor, READ) as tx:
        now = tx.now()
        row = found(
            Case.objects.filter(id=case_id).values(*LISTED, "proposal_id", "asked_at", "owner_user_id").first(), "case"
        )
        case = _present(tx, row, now)
        facts = list(
            Fact.objects.filter(case_id=case_id)
            .order_by("id")
            .values("name", "value", "certain", "source", "observed_at")
        )
        case["confirmed"], case["doubts"] = _apart([dict(one) for one in facts])
        case["entries"] = list(
            Entry.objects.filter(case_id=case_id).order_by("id").values("type", "actor", "reason", "data", "at")
        )
        case["proposals"] = _proposals(case_id, may(actor, PAYLOAD_READ))
        alike = Case.objects.filter(fingerprint=case["fingerprint"]).exclude(state=RESOLVED)
        case["alike"] = alike.exclude(id=case_id).count()
        add_subject(tx, case)
        case["moves"] = _moves(tx, actor, case)
        case["escalation"] = escalation_of(case)
        case["runbook"] = runbook_for(case["tool"], case["error_class"])
        case["verification"] = verification(tx, case)
        case["now"] = now
    return case


def _apart(facts: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    certain = [one for one in facts if one["certain"]]
    names = {one["name"]: one["observed_at"] for one in certain}
    if "external" in names:
        # What was seen outside ends the question whether it was applied.
        names.setdefault("applied", names["external"])
    doubts = {
        one["name"]: one
        for one in facts
        if not one["certain"] and not (one["name"] in names and names[one["name"]] >= one["observed_at"])
    }
    keep = ("name", "value", "source", "observed_at")
    newest = {one["name"]: one for one in certain}
    # What was seen outside is kept word by word; of what the engine knows, the newest word counts.
    shown = [one for one in certain if one["name"] == "external" or newest[one["name"]] is one]
    return [{k: one[k] for k in keep} for one in shown], [{k: one[k] for k in keep} for one in doubts.values()]


def _proposals(case_id: uuid.UUID, whole: bool) -> list[dict[str, Any]]:
    """Return what was proposed, newest first; an output is content, for who may read that (A9.8)."""
    rows = (
        Proposal.objects.filter(case_id=case_id)
        .order_by("-proposed_at")
        .values(
            "id", "resolution", "arguments", "reason", "answer", "proposed_by", "proposed_user_id", "proposed_at",
            "needs_review", "decision", "reviewed_by", "reviewed_at", "comment",
        )
    )  # fmt: skip
    proposals: list[dict[str, Any]] = [dict(row) for row in rows]
    for one in proposals:
        if not whole:
            one["arguments"] = {name: value for name, value in one["arguments"].items() if name != "output"}
    return proposals


def _moves(tx: Tx, actor: Actor, case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every resolution with whether it is permitted, why not, and why a second person has to look."""
    contract, policy = case["contract"], policy_of(tx.tenant_id)
    allowed = permitted(case["recovery"], case["answer"], case["kind"])
    rows = []
    for name in (KEEP_PENDING, *RESOLUTIONS):
        why = why_not(name, case["recovery"], case["answer"], case["kind"])
        if why is None and name != KEEP_PENDING:
            why = why_not_now(tx, About.of(case), name)
        if why is None and name == COMPENSATE:
            why = _why_not_undone(tx, actor, case)
        if why is None and _quarantined(case, name) and not may(actor, MESSAGE_RESOLVE):
            why = "Your role does not replay or discard messages."
        if why is None and name == "write_off" and not may(actor, MAY_WRITE_OFF):
            why = "Administrators only. Leaves the effect open in the books for good."
        second = None
        if name != KEEP_PENDING:
            second = needs_second(
                policy,
                name,
                recovery=case["recovery"],
                idempotency=contract["idempotency"] if contract else "none",
                answered_by=case["answered_by"],
            )
        rows.append(
            {"resolution": name, "permitted": name in allowed and why is None, "why_not": why, "second": second}
        )
    order: dict[str, int] = {
        "record_success": 0,
        "confirm_absent": 1,
        "resume_step": 2,
        "compensate": 3,
        KEEP_PENDING: 4,
        "write_off": 5,
    }
    if case["answer"] in ("unknown", "unreachable"):
        order[KEEP_PENDING] = -1
    rows.sort(key=lambda one: (not one["permitted"], order[str(one["resolution"])]))
    return rows


def _quarantined(case: dict[str, Any], resolution: str) -> bool:
    """Whether the resolution replays or discards messages."""
    return case["kind"] == POISON and resolution in (RESUME_STEP, WRITE_OFF)


def _why_not_undone(tx: Tx, actor: Actor, case: dict[str, Any]) -> str | None:
    if case["recovery"] is None:
        return None if may(actor, OPERATION_COMPENSATE) else _NO_UNDOING
    run, contract = case["run"], case["contract"]
    plan = plan_of(tx, run["workflow_version_id"]) if run else None
    why = why_not_undone(plan, case["node"], contract["compensation"] if contract else None)
    if why is None and not may(actor, OPERATION_COMPENSATE):
        why = _NO_UNDOING
    return why


def cases_of_run(*, actor: Actor, run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return a run's cases, open ones first. Verb ``repair.read``."""
    with reading(actor, READ) as tx:
        now = tx.now()
        rows = Case.objects.filter(run_id=run_id).order_by("-id").values(*LISTED)[:200]
        found_rows = [_present(tx, row, now) for row in rows]
    return sorted(found_rows, key=lambda one: one["state"] == RESOLVED)


def repairs_of_runs(*, actor: Actor, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return run → how many of its cases a person resolved, for a page of runs. Verb ``repair.read``."""
    with reading(actor, READ):
        rows = Case.objects.filter(run_id__in=list(run_ids), state=RESOLVED).exclude(resolution=SETTLED)
        return dict(rows.order_by().values_list("run_id").annotate(n=Count("id")))


def shift_report(*, actor: Actor, hours: float = 8.0) -> dict[str, Any]:
    """Return what the next shift takes over: {since, at, opened, resolved, escalated, handed_over, open, ended,
    by_owner}.

    ``open`` are the cases still open by due date (at most 200), each with ``last``: the newest entry about it;
    ``ended`` those resolved in the last ``hours``. Numbers count entries since then. Verb ``repair.read``.
    """
    with reading(actor, READ) as tx:
        at = tx.now()
        since = at - timedelta(hours=hours)
        counts = dict(Entry.objects.filter(at__gte=since).values_list("type").annotate(n=Count("id")))
        rows = Case.objects.exclude(state=RESOLVED).order_by("due_at", "id").values(*LISTED)[:200]
        still = [_present(tx, dict(row), at) for row in rows]
        newest = Entry.objects.filter(case_id__in=[one["id"] for one in still]).order_by("case_id", "-id")
        entries = newest.distinct("case_id").values("case_id", "type", "actor", "reason", "data", "at")
        last = {entry["case_id"]: dict(entry) for entry in entries}
        ended = (
            Case.objects.filter(state=RESOLVED, resolved_at__gte=since).order_by("-resolved_at").values(*LISTED)[:200]
        )
        resolved = [_present(tx, dict(row), at) for row in ended]
    owners: dict[str, int] = {}
    for one in still:
        one["last"] = last.get(one["id"])
        owners[one["owner"] or ""] = owners.get(one["owner"] or "", 0) + 1
    numbers = {name: counts.get(name, 0) for name in ("opened", "resolved", "escalated", "handed_over")}
    return {**numbers, "since": since, "at": at, "open": still, "ended": resolved, "by_owner": owners}
