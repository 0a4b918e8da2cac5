"""Submitting work: Task, Run, first Steps and their events in one transaction (C2.1), one by one or many at once."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

import orjson

from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.admission import check_tenant
from runtime.actions.attributes import Referred, bounds_below, check_capabilities, check_parent, check_success
from runtime.actions.base import WORK_CHANNEL, frame
from runtime.actions.manifests import Policies, clock_and_policies, manifest_of, tool_pools
from runtime.actions.references import keep_references
from runtime.actions.sessions import check_owner
from runtime.actions.starting import Draft, insert_runs, start_run
from runtime.actions.terms import TERMS, check_terms
from runtime.graph.inputs import check_input
from runtime.graph.plan import Plan
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.classes import WorkClass, due_of
from runtime.kernel.errors import BadInput, NotFound, QuarterdeckError, RequestKeyConflict
from runtime.kernel.ids import uuid7
from runtime.machine.frame import Frame
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

MAX_BULK = 1000


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """What a caller asks for (A4.1). ``input`` is a strictly parsed JSON value; times are aware datetimes."""

    workflow: str
    input: Any
    version: int | None = None
    request_key: str | None = None
    goal: str = ""
    name: str = ""
    priority: int = 0
    pool: str = "default"
    agent: str = ""
    session: str | None = None
    scope: dict[str, Any] = field(default_factory=dict)
    success: dict[str, Any] = field(default_factory=dict)
    retry: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    scheduled_at: datetime | None = None
    data_time: datetime | None = None
    deadline: datetime | None = None
    budget: dict[str, Any] = field(default_factory=dict)
    parent: uuid.UUID | None = None

    def payload_sha256(self) -> bytes:
        """Return the digest that a request key is bound to (C2.2): all that was asked for, without the key."""
        times = (self.scheduled_at, self.data_time, self.deadline)
        return digest(
            canonical_bytes(
                [
                    self.workflow, self.version, self.input, self.goal, self.name, self.priority, self.pool, self.agent,
                    self.session, self.scope, self.success, self.retry, self.timeout, self.budget,
                    *[t.isoformat() if t else None for t in times],
                    # Last, and only where it is named: keys given out before there were parents stay what they are.
                    *([str(self.parent)] if self.parent else []),
                ]
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a submit: accepted, which is neither queued nor running (C2.1)."""

    task_id: uuid.UUID
    run_id: uuid.UUID
    replayed: bool = False


def submit_task(*, actor: Actor, request: SubmitRequest) -> Accepted:
    """Accept one task. Raises what :func:`submit_bulk` answers per item."""
    answer = submit_bulk(actor=actor, requests=[request])[0]
    if isinstance(answer, QuarterdeckError):
        raise answer
    return answer


def submit_bulk(*, actor: Actor, requests: list[SubmitRequest]) -> list[Accepted | QuarterdeckError]:
    """Accept many tasks in one transaction; the answer at each place is Accepted or the problem of that item.

    Same request key and payload: the first answer again, ``replayed``. Same key, other payload: RequestKeyConflict.
    An item with a problem writes nothing; the others are accepted. Raises BadInput when there are too many,
    Unavailable when somebody else's submit holds one of the keys for too long. An item that finds too much waiting
    for its priority is answered QueueFull.
    """
    if len(requests) > MAX_BULK:
        raise BadInput(f"At most {MAX_BULK} tasks in one request.", where="", remediation="Send them in parts.")
    answer: list[Accepted | QuarterdeckError] = insist(partial(_submit, actor, requests))
    return answer


def _submit(actor: Actor, requests: list[SubmitRequest]) -> list[Accepted | QuarterdeckError]:
    answers: list[Accepted | QuarterdeckError | None] = [None] * len(requests)
    with frame(actor) as unit:
        now, policies, classes = clock_and_policies(unit.tx)
        # Many items of one request name the same workflow, parent or verifier: each is looked up once.
        version = cache(lambda name, number: unit.tx.one("workflow_version", {"name": name, "number": number}))
        referred = Referred(unit.tx)
        # A key that is taken is answered from its task, whatever would be said of the request today.
        held, owners = _held(unit.tx, requests), _owners(unit.tx, requests)
        drafts: dict[int, Draft] = {}
        for index, request in enumerate(requests):
            try:
                found = version(request.workflow, request.version)
                # A permission on this one workflow widens the role; without either, not even its existence is told.
                authorize(actor, "task.submit", found[3] if found is not None else None)
                if known := held.get((request.workflow, request.request_key)):
                    answers[index] = _again(request, known)
                else:
                    check_owner(actor, owners.get(request.session or ""))
                    check_parent(referred, actor, request.parent)
                    drafts[index] = _draft(unit, request, now, found, policies, classes, referred)
            except QuarterdeckError as problem:
                answers[index] = problem
        # In the order of their keys: two requests with the same keys never wait for each other in a circle.
        ordered = sorted(drafts, key=lambda i: (requests[i].workflow, requests[i].request_key or ""))
        inserted = _insert_tasks(unit, actor, [(drafts[i], requests[i]) for i in ordered], now)
        fresh = {i: d for i, d in drafts.items() if d.task_id in inserted}
        runs = [start_run(unit, actor, draft, now) for draft in fresh.values()]
        insert_runs(unit, runs, list(fresh.values()))
        unit.flush()
        for index, draft in fresh.items():
            answers[index] = Accepted(draft.task_id, draft.run_id)
        # Taken meanwhile, or twice in this request; the first one's run is written by now.
        late = {i: requests[i] for i, d in drafts.items() if d.task_id not in inserted}
        held = _held(unit.tx, list(late.values()))
        for index, request in late.items():
            answers[index] = _again(request, held[request.workflow, request.request_key])
        if fresh:
            unit.tx.notify(WORK_CHANNEL)
            _audit(unit, actor, list(fresh.values()))
    return [answer for answer in answers if answer is not None]


def _draft(
    unit: Frame,
    request: SubmitRequest,
    now: datetime,
    found: tuple[Any, ...] | None,
    policies: Policies,
    classes: dict[str, WorkClass],
    referred: Referred,
) -> Draft:
    """Make a draft of a request.

    ``found`` is the row of the workflow version it names; ``policies`` and ``classes`` are the tenant's;
    ``referred`` is what the request's items name, read already where another one named it.
    """
    if found is None:
        version = "" if request.version is None else f" in version {request.version}"
        raise NotFound(
            f"There is no workflow {request.workflow!r}{version}.",
            where="/workflow",
            remediation="GET workflows/ lists the registered ones.",
        )
    version_id, _number, spec_sha256, _workflow_id = found
    plan = unit.plan_of(unit.tx, version_id)
    _check(request, plan)
    check_success(referred, request.success, plan)
    check_capabilities(unit.tx, request.scope, version_id, plan)
    check_tenant(unit.tx, request.priority, len(plan.roots))
    body = canonical_bytes(request.input)
    if b'"artifact_id"' in body:
        keep_references(unit.tx, request.input)
    return Draft(
        task_id=uuid7(),
        run_id=uuid7(),
        version_id=version_id,
        manifest_id=manifest_of(unit.tx, version_id, bytes(spec_sha256), plan, policies),
        plan=plan,
        payload_sha256=request.payload_sha256(),
        input=body,
        deadline=_deadline(request, now, classes),
        priority=request.priority,
        pool=request.pool,
        scheduled_at=request.scheduled_at,
        pools=tool_pools(unit.tx, version_id, plan),
        parent=request.parent,
        budget=request.budget,
        bounds=bounds_below(referred.run(request.parent)) if request.parent else (),
    )


def _deadline(request: SubmitRequest, now: datetime, classes: dict[str, WorkClass]) -> datetime | None:
    """Return until when the task's first run has to end: as it says itself, else as its class says (C7.2)."""
    start, deadline = max(now, request.scheduled_at or now), request.deadline
    try:
        if request.timeout is not None:
            limit = start + timedelta(seconds=request.timeout)
            return min(limit, deadline) if deadline else limit
        return deadline or due_of(classes, request.priority, start)
    except OverflowError:
        detail = "scheduled_at and the time limit together lie beyond the year 9999."
        where = "/scheduled_at" if request.timeout is None else "/timeout"
        raise BadInput(detail, where=where, remediation="Plan it earlier.") from None


def _check(request: SubmitRequest, plan: Plan) -> None:
    check_input(plan, request.input)
    if not -100 <= request.priority <= 100:
        raise BadInput("priority lies between -100 and 100.", where="/priority")
    if request.timeout is not None and not 0 < request.timeout <= 10 * 365 * 86400:
        raise BadInput("timeout is a positive number of seconds, at most ten years.", where="/timeout")
    check_terms({name: getattr(request, name) for name in TERMS})
    for name in ("goal", "name", "agent", "pool", "session", "request_key", "workflow"):
        _check_text(name, getattr(request, name))


def _check_text(name: str, value: str | None) -> None:
    limit = {"goal": 20_000, "name": 300, "pool": 60}.get(name, 200)
    if value is None:
        return
    if len(value) > limit:
        raise BadInput(f"{name} has at most {limit} characters.", where=f"/{name}")
    if not _storable(value):
        raise BadInput(f"{name} holds a character that cannot be stored (NUL or half of a pair).", where=f"/{name}")
    if name == "request_key" and not value:
        raise BadInput("An Idempotency-Key is not empty.", where="/request_key")


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _insert_tasks(
    unit: Frame, actor: Actor, drafts: list[tuple[Draft, SubmitRequest]], now: datetime
) -> set[uuid.UUID]:
    if not drafts:
        return set()
    ids = _sessions(unit.tx, actor, {r.session for _d, r in drafts if r.session})
    rows = [
        (
            d.task_id, d.version_id, r.workflow, r.name, r.goal, r.request_key, d.payload_sha256, d.input, r.priority,
            r.pool, r.agent, ids.get(r.session) if r.session else None, _dump(r.scope), _dump(r.success),
            _dump(r.retry), _dump(r.budget), r.timeout, r.scheduled_at, r.data_time, r.deadline, actor.label, now,
        )
        for d, r in drafts
    ]  # fmt: skip
    inserted = unit.tx.rows("insert_tasks", (unit.tx.tenant_id, *arrays("uuttttxxittuttttfzzztz", rows)))
    return {row[0] for row in inserted}


def _owners(tx: Tx, requests: list[SubmitRequest]) -> dict[str, str]:
    """Return key → owner of the sessions that are named and there."""
    keys = {r.session for r in requests if r.session and _storable(r.session)}
    return {row[0]: row[2] for row in tx.rows("sessions_by_key", (sorted(keys),))} if keys else {}


def _sessions(tx: Tx, actor: Actor, keys: set[str]) -> dict[str, uuid.UUID]:
    """Return key → id of the sessions, making those that are missing.

    Raises PermissionDenied for one that somebody else made at this very moment.
    """
    if not keys:
        return {}
    rows = tx.rows("sessions_by_key", (sorted(keys),))
    # In one order everywhere: two requests that make the same sessions must not wait for each other in a circle.
    if missing := sorted(keys - {row[0] for row in rows}):
        tx.send("insert_sessions", (tx.tenant_id, actor.label, [uuid7() for _ in missing], missing))
        rows += tx.rows("sessions_by_key", (missing,))
    for _key, _id, owner in rows:
        check_owner(actor, owner)
    return {row[0]: row[1] for row in rows}


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


def _held(tx: Tx, requests: list[SubmitRequest]) -> dict[tuple[str, str | None], tuple[uuid.UUID, bytes, uuid.UUID]]:
    """Return (workflow, request key) → task, digest of its payload and first run, of the keys that are taken."""
    keys = {(r.workflow, r.request_key) for r in requests if r.request_key and _storable(r.workflow + r.request_key)}
    if not keys:
        return {}
    return {(row[0], row[1]): row[2:] for row in tx.rows("tasks_by_request_key", arrays("tt", sorted(keys)))}


def _again(request: SubmitRequest, held: tuple[uuid.UUID, bytes, uuid.UUID]) -> Accepted | QuarterdeckError:
    """Answer a request whose key was there before, from the task that holds it (C2.2)."""
    task_id, payload_sha256, run_id = held
    if bytes(payload_sha256) != request.payload_sha256():
        return RequestKeyConflict(where="Idempotency-Key", task_id=str(task_id))
    return Accepted(task_id, run_id, replayed=True)


def _audit(unit: Frame, actor: Actor, drafts: list[Draft]) -> None:
    first = drafts[0]
    ids = [str(draft.task_id) for draft in drafts]
    audit.record(
        unit.tx,
        actor=actor,
        verb="task.submit",
        subject_kind="task",
        subject_id=str(first.task_id),
        run_id=first.run_id if len(drafts) == 1 else None,
        result="accepted",
        reason="",
        details={"count": len(ids), "tasks_sha256": digest(canonical_bytes(ids)).hex()},
    )
