"""Reads of approvals: the inbox, and one request with everything a person decides by."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from approvals.addresses import shown_url
from approvals.askable import left_to, rule_warnings
from approvals.asked import Asked
from approvals.diff import changes
from approvals.law import RISKS, STATES
from approvals.models import Decision, Request
from approvals.people import Rights, approvals_given, deciders_of, roles_asked, voice_of
from approvals.quota import load_of
from approvals.sorting import SORTS, ByDecision, Newest, paged
from approvals.verbs import READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import QuarterdeckError
from runtime.models import Task
from runtime.queries.base import COUNT_BOUND, Page, content, found, hexed, parsed, reading
from runtime.queries.outputs import HUMAN_DECISION
from runtime.store.tx import Tx

# So many lines of a request's history are read at once, the newest: nobody makes a page that no one can open.
MOST_NOTES = 500
_LISTED = [
    "id",
    "kind",
    "run_id",
    "task_id",
    "step_id",
    "node",
    "title",
    "role",
    "state",
    "version",
    "payload_sha256",
    "n_actions",
    "target",
    "requested_by",
    "created_at",
    "deadline",
    "decided_at",
    "decided_by",
    "closed_at",
    "outcome_reason",
    "problem",
    "risk",
    "quorum",
    "assignee",
    "level",
    "editor",
    "on_timeout",
    "subject_kind",
    "separation",
    "assignee_id",
    "assigned_by_id",
    "assigned_by",
]


def list_requests(
    *,
    actor: Actor,
    state: str | None = "pending",
    decided: bool = False,
    mine: bool = False,
    run_id: uuid.UUID | None = None,
    risk: str | None = None,
    workflow: str | None = None,
    sort: str = "deadline",
    cursor: str | None = None,
    limit: int = 50,
    count: bool = False,
) -> Page:
    """Return requests: pending ones by ``sort`` (deadline, risk or age), others newest first.

    Of ``decided`` ones those come first that were decided, or ended otherwise, last.
    By deadline the soonest come first and those without one last; by risk the riskiest, by age the oldest.

    An item: {id, kind, run_id, task_id, step_id, node, title, role, state, version, payload_hash, calls (a number),
    target, requested_by, created_at, deadline, decided_at, decided_by, closed_at, outcome_reason, problem, workflow,
    risk, quorum, approvals, assignee, level, editor, on_timeout, subject_kind, may_decide}.
    ``state`` None means every state, with ``decided`` all but pending; ``mine`` only what the actor may decide.
    Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        rights = Rights(tx, actor)
        rows = Request.objects.all()
        if state is not None:
            rows = rows.filter(state=state)
        if decided:
            rows = rows.exclude(state="pending")
        if run_id is not None:
            rows = rows.filter(run_id=run_id)
        if mine:
            rows = rows.filter(rights.mine())
        if risk is not None:
            rows = rows.filter(risk=RISKS.index(risk))
        if workflow is not None:
            rows = rows.filter(task_id__in=Task.objects.filter(workflow_name=workflow).values("id"))
        counted = len(rows[: COUNT_BOUND + 1].values_list("id")) if count else None
        order = SORTS[sort] if state == "pending" else ByDecision() if decided else Newest()
        listed, following = paged(rows, _LISTED, order, actor, cursor, limit)
        names = _workflows({row["task_id"] for row in listed})
        voices = _voices(rights, {row["id"]: row for row in listed if row["quorum"] > 1})
        for row in listed:
            bound = _Bound(**{one.name: row[one.name] for one in fields(_Bound)})
            row["may_decide"] = row["state"] == "pending" and rights.may_decide(bound)
    return Page([{**_listed(row, names), "approvals": voices[row["id"]]} for row in listed], following, counted)


@dataclass(frozen=True, slots=True)
class _Bound:
    """What of a listed request says who may decide it."""

    kind: str
    role: str
    separation: str
    requested_by: str
    assignee_id: int | None
    assigned_by_id: int | None
    assigned_by: str | None


def _listed(row: dict[str, Any], names: dict[uuid.UUID, str]) -> dict[str, Any]:
    for name in ("separation", "assignee_id", "assigned_by_id", "assigned_by"):
        row.pop(name)
    return _present(row, names)


def _voices(rights: Rights, rows: dict[uuid.UUID, dict[str, Any]]) -> Counter[uuid.UUID]:
    """Return how many have approved each request: of a pending one those whose voice counts now."""
    given: Counter[uuid.UUID] = Counter()
    said = Decision.objects.filter(request_id__in=rows, decision="approve") if rows else Decision.objects.none()
    for request_id, user_id, for_user_id in said.values_list("request_id", "user_id", "for_user_id"):
        row = rows[request_id]
        given[request_id] += row["state"] != "pending" or rights.people.speaks(user_id, for_user_id, row["role"])
    return given


def _workflows(task_ids: set[uuid.UUID]) -> dict[uuid.UUID, str]:
    wanted = task_ids - {None}
    return dict(Task.objects.filter(id__in=wanted).values_list("id", "workflow_name")) if wanted else {}


def _present(row: dict[str, Any], names: dict[uuid.UUID, str]) -> dict[str, Any]:
    row["payload_hash"] = hexed(row.pop("payload_sha256"))
    row["calls"] = row.pop("n_actions")
    row["workflow"] = names.get(row["task_id"], "")
    row["risk"] = RISKS[row["risk"]]
    return row


def get_request(*, actor: Actor, request_id: uuid.UUID) -> dict[str, Any]:
    """Return one request as a list does, and with it what the decision is made by.

    {…, goal, task_name, run_status, step_status, shown, action_hash, actions [{node, tool, business_key,
    arguments_hash, contract_hash, operation_id, consumed_at}], decisions [{decision, actor, version, comment, at,
    output_kind}], start_by, start_within_seconds, target_version, comment, now, approvals, notes [{kind, actor, text,
    details, at}] (the newest MOST_NOTES; notes_cut: there are more), deciders [{actor, role}], proposals [{id, version,
    state, editor}], supersedes, superseded_by,
    blocked (the code of why this actor may not decide), waits_for (``askable.LEFT_TO``: who could decide it today; None
    once it is closed), revision (how often people changed it), redacted}. ``changes``
    is what it changes of the proposal before (``changes_cut``: and more), ``shown`` exactly what ``payload_hash`` is
    the hash of; both need
    ``payload.read``. Raises NotFound. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        rows = tx.dicts("approval_read", (request_id,))
        row = found(rows[0] if rows else None, "approval")
        actions = tx.dicts("approval_actions", (request_id,))
        decisions = tx.dicts("approval_decisions", (request_id,))
        notes = tx.dicts("approval_notes", {"id": request_id, "most": MOST_NOTES + 1})
        proposals = tx.dicts("approval_proposals", {"id": request_id})
        deciders = deciders_of(tx, row["role"]) if may(actor, v.MEMBER_READ) else []
        approved = approvals_given(tx, row["state"], row["role"], decisions)
        blocked = _why_not(tx, actor, row)
        waits_for = left_to(tx, row, decisions, approved)
    shown = row.pop("shown")
    for name in ("tenant_id", "remind_at", "assignee_id", "assigned_by_id", "editor_id", "ladder"):
        row.pop(name)
    row["revision"] -= row["reminders"]
    row["action_hash"] = hexed(row.pop("action_sha256"))
    row = _present(row, {row["task_id"]: row.pop("workflow_name")})
    row["actions"] = [_present_action(one) for one in actions]
    said = ("decision", "actor", "for_actor", "version", "comment", "at")
    row["decisions"] = [{**{name: one[name] for name in said}, "output_kind": HUMAN_DECISION} for one in decisions]
    answers = [one["answer"] for one in decisions if one["answer"] is not None]
    row["approvals"], row["waits_for"] = approved, waits_for
    row["notes"], row["notes_cut"] = [_present_note(one) for one in notes[-MOST_NOTES:]], len(notes) > MOST_NOTES
    row["deciders"] = [{"actor": f"user:{name}", "role": its} for name, its in deciders]
    row["blocked"] = blocked
    row["may_decide"] = row["state"] == "pending" and blocked is None
    row["supersedes"], row["redacted"] = row.pop("supersedes_id"), not may(actor, v.PAYLOAD_READ)
    row["proposals"] = [{name: one[name] for name in ("id", "version", "state", "editor")} for one in proposals]
    if not row["redacted"]:
        row["shown"] = content(shown)
        # What is no run's has no task: its goal stands in what is shown alone.
        row["goal"] = row["goal"] or row["shown"].get("goal", "")
        row["answer"] = content(answers[0]) if answers else None
        row["changes"], row["changes_cut"] = _changes(proposals, request_id)
    return row


def wait_state(*, actor: Actor, request_id: uuid.UUID) -> dict[str, Any]:
    """Return how a request stands, in one read by its key: what waiting for a decision looks at.

    {approval_id, state, outcome_reason, decided_at, decided_by, comment, deadline, start_by, superseded_by,
    action_hash, payload_hash, version, now}. Raises NotFound. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        rows = tx.dicts("approval_wait", (request_id,))
    row: dict[str, Any] = found(rows[0] if rows else None, "approval")
    row["action_hash"], row["payload_hash"] = hexed(row.pop("action_sha256")), hexed(row.pop("payload_sha256"))
    return row


def states_in(tx: Tx, request_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return the states of requests whose readers may read them, in the tenant's transaction: one read for all."""
    return dict(tx.rows("approval_states", (list(request_ids),)))


def list_decisions(*, actor: Actor, request_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, list[dict[str, Any]]]:
    """Return what was said to each of several requests, in its order: {decision, actor, comment, at}.

    Verb ``approval.read``.
    """
    said: dict[uuid.UUID, list[dict[str, Any]]] = {one: [] for one in request_ids}
    with reading(actor, READ):
        rows = Decision.objects.filter(request_id__in=list(request_ids)).order_by("at", "id")
        for row in rows.values("request_id", "decision", "actor", "comment", "at"):
            one: dict[str, Any] = {**row}
            said[one.pop("request_id")].append(one)
    return said


def _why_not(tx: Tx, actor: Actor, row: dict[str, Any]) -> str | None:
    """Return the code of why the actor may not decide a pending request, None when they may."""
    try:
        voice_of(tx, actor, Asked(**{one.name: row[one.name] for one in fields(Asked)}))
    except QuarterdeckError as problem:
        return problem.code
    return None


def _changes(proposals: list[dict[str, Any]], request_id: uuid.UUID) -> tuple[list[dict[str, Any]], bool]:
    """Return what a proposal changes of the one before it, typed, and whether it changes more than that."""
    place = next((i for i, one in enumerate(proposals) if one["id"] == request_id), 0)
    after = content(proposals[place]["shown"])
    # A call that asks again as people edited it stands beside what the workflow itself would send.
    before = content(proposals[place - 1]["shown"]) if place else _asked_before(after)
    for one in (before, after):
        one["calls"] = [{k: v for k, v in call.items() if k != "original"} for call in one.get("calls") or []]
        if one.get("target"):
            one["target"] = {k: v for k, v in one["target"].items() if k != "was"}
    names = ("payload", "calls", "target", "evidence")
    return changes({n: before.get(n) for n in names}, {n: after.get(n) for n in names})


def _asked_before(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what stands beside a first proposal: the workflow's own arguments, the target as it was approved."""
    calls = shown.get("calls") or []
    before = {**shown, "calls": [{**call, "arguments": call.get("original", call["arguments"])} for call in calls]}
    if "was" in (shown.get("target") or {}):
        before["target"] = {**shown["target"], "version": shown["target"]["was"]}
    return before


def _present_note(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "details": parsed(row["details"])}


def _present_action(row: dict[str, Any]) -> dict[str, Any]:
    del row["id"]
    row["arguments_hash"] = hexed(row.pop("arguments_sha256"))
    row["contract_hash"] = hexed(row.pop("contract_sha256"))
    return row


def count_pending(*, actor: Actor, mine: bool = True, bound: int = COUNT_BOUND) -> int:
    """Return how many requests are pending, at most ``bound``. Verb ``approval.read``."""
    with reading(actor, READ) as tx:
        rows = Request.objects.filter(state="pending")
        if mine:
            rows = rows.filter(Rights(tx, actor).mine())
        return len(rows.values_list("id")[:bound])


def review_load(*, actor: Actor) -> dict[str, Any]:
    """Return the tenant's review limits and the actor's own load beside them: {most_held, most_decided, held, decided}.

    ``decided`` counts the last hour. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        return asdict(load_of(tx, actor.user_id))


def list_hooks(*, actor: Actor) -> list[dict[str, Any]]:
    """Return where events are posted: {hook_id, url, format, events, secret_version, old_until, …}.

    Of a chat's address the host only. Verb ``notice.manage``.
    """
    with reading(actor, v.NOTICE_MANAGE) as tx:
        rows = tx.dicts("hooks")
    for row in rows:
        row["hook_id"], row["url"] = row.pop("id"), shown_url(row["url"], row["format"])
        row["events"] = parsed(row["events"])
    return rows


def list_policies(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the tenant's policies, the newest first: {policy_id, version, rules, sha256, note, state, …}.

    At most 200. Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        rows = tx.dicts("policies")
    for row in rows:
        row["policy_id"], row["rules"] = row.pop("id"), content(row["rules"])
        row["sha256"], row["approval_id"] = hexed(row["sha256"]), row.pop("request_id")
    return rows


def roles_to_ask(*, actor: Actor, kind: str) -> list[str]:
    """Return the roles in which somebody could decide a request of this kind. Verb ``approval.read``."""
    with reading(actor, READ) as tx:
        return sorted(role for role, somebody in roles_asked(tx, kind).items() if somebody)


def warnings_of_rules(*, actor: Actor, rules: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what proposing rules that were checked would warn of today: {where, detail, remediation}.

    Verb ``approval.read``.
    """
    with reading(actor, READ) as tx:
        return rule_warnings(tx, rules)


__all__ = [
    "SORTS",
    "STATES",
    "count_pending",
    "get_request",
    "list_decisions",
    "list_hooks",
    "list_policies",
    "list_requests",
    "review_load",
    "roles_to_ask",
    "states_in",
    "wait_state",
    "warnings_of_rules",
]
