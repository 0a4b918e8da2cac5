"""Carrying bulk repairs out: item after item in small transactions, at the set rate, with an eye on the capacity.

An item is taken by compare-and-set and a lease, and carried out by the actions that a person uses on one case, in the
names of who ordered and who reviewed it, with the rights they have by then. Its id is the repair_id: whoever takes it
up after a crash finds what was done and does nothing twice.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db.models import Q

from repair.actions.base import there
from repair.actions.bulk import move_bulk
from repair.actions.claim import claim_case, release_case
from repair.actions.investigate import ask_tool
from repair.actions.propose import keep_pending, propose_resolution
from repair.actions.resolve import resolve_case, review_proposal
from repair.bulk_watch import look
from repair.errors import CaseResolved, NotPermitted, OtherCaseVersion
from repair.foresight import asks_first, reference_of
from repair.law import (
    BROKEN,
    CARRIED_OUT,
    DONE_ALL,
    HELD,
    KEEP_PENDING,
    NOT_BEGUN,
    PAUSED,
    RECORD_SUCCESS,
    REFUSED,
    RESOLVED,
    RUNNING,
    WORKING,
    permitted,
    why_not,
)
from repair.models import BulkItem, BulkRepair, Case
from runtime.access.identity import actor_in_tenant
from runtime.actions.base import frame
from runtime.kernel.actor import Actor, engine
from runtime.kernel.errors import BadInput, Conflict, QuarterdeckError, Unavailable
from runtime.store.tx import tenant_tx
from runtime.tools.registry import tool_of
from runtime.worker.maintenance.each import attempt_due

log = structlog.get_logger(__name__)

_BULKS = 20
_ITEMS_PER_TURN, _SECONDS_PER_TURN = 20, 5.0
_LEASE = timedelta(seconds=60)
# A scheduler that was away does not make up for more than this.
_BEHIND = timedelta(seconds=1)
_KEPT = ("state", "resolution", "run_id", "resumed", "undoing", "external_ref", "due_at")


@dataclass(frozen=True, slots=True)
class Taken:
    """An item under way: ``again`` says that somebody had begun it before."""

    item_id: uuid.UUID
    case_id: uuid.UUID
    case_version: int
    begun_at: datetime
    again: bool
    resolution: str
    reason: str
    hours: float | None
    by: int
    reviewer: int | None


def carry_bulks() -> int:
    """Carry out the items of bulk repairs that are due; returns how many were answered."""
    return attempt_due("repair_bulk", "due_bulk_repairs", _BULKS, _turn)


def _turn(tenant_id: uuid.UUID, bulk_id: uuid.UUID) -> int:
    until, answered = time.monotonic() + _SECONDS_PER_TURN, 0
    while answered < _ITEMS_PER_TURN and time.monotonic() < until:
        taken = _take(tenant_id, bulk_id)
        if taken is None:
            break
        _answer(tenant_id, taken)
        answered += 1
    return answered


def _take(tenant_id: uuid.UUID, bulk_id: uuid.UUID) -> Taken | None:
    """Take the next item that is due, None when none is; ends the bulk repair after its last, stops it when it must."""
    with frame(engine(tenant_id)) as unit:
        rows = BulkRepair.objects.select_for_update(skip_locked=True)
        bulk, now = rows.filter(id=bulk_id, state=RUNNING).first(), unit.tx.now()
        if bulk is None or bulk.next_at is None or bulk.next_at > now:
            return None
        seen = look(unit.tx, bulk)
        bulk.watch = {**bulk.watch, **seen.measured}
        if seen.stop:
            move_bulk(bulk, PAUSED, why=seen.stop)
            bulk.save()
            return None
        item = _next(bulk, now)
        if item is None:
            if not bulk.items.filter(state=WORKING).exists():
                move_bulk(bulk, DONE_ALL)
                bulk.finished_at = now
            else:
                bulk.next_at = now + _BEHIND
            bulk.save()
            return None
        again = item.state == WORKING
        item.state, item.begun_at, item.taken_until = WORKING, item.begun_at or now, now + _LEASE
        item.save(update_fields=["state", "begun_at", "taken_until"])
        bulk.next_at = max(bulk.next_at, now - _BEHIND) + timedelta(seconds=60 / bulk.per_minute * seen.slower)
        bulk.save(update_fields=["next_at", "watch"])
        return Taken(
            item.id, item.case_id, item.case_version, item.begun_at, again, bulk.resolution, bulk.reason, bulk.hours,
            bulk.created_user_id, bulk.reviewed_user_id,
        )  # fmt: skip


def _next(bulk: BulkRepair, now: datetime) -> BulkItem | None:
    waits = Q(state=NOT_BEGUN) | Q(state=WORKING, taken_until__lte=now)
    return bulk.items.select_for_update().filter(waits).order_by("position").first()


def _answer(tenant_id: uuid.UUID, taken: Taken) -> None:
    try:
        state, result = CARRIED_OUT, _carry(tenant_id, taken)
    except Unavailable as problem:
        # Its rows are held, or the database is away: taken up again when the lease is over.
        log.info("a bulk repair's item waits", item=str(taken.item_id), problem=problem.detail)
        return
    except QuarterdeckError as problem:
        state, result = REFUSED, {**problem.as_refusal(), "detail": problem.detail[:500]}
    except Exception as problem:
        log.exception("a bulk repair's item failed", item=str(taken.item_id))
        broken = QuarterdeckError(type(problem).__name__, remediation="Look into the log, then take its case by hand.")
        state, result = BROKEN, {**broken.as_refusal(), "code": "internal"}
    with tenant_tx(tenant_id) as tx:
        rows = BulkItem.objects.filter(id=taken.item_id, state=WORKING)
        rows.update(state=state, result=result, finished_at=tx.now(), taken_until=None)


def _carry(tenant_id: uuid.UUID, taken: Taken) -> dict[str, Any]:
    """Claim the case in the version that was frozen, propose, have it reviewed or resolve it; each step once."""
    person = actor_in_tenant(tenant_id, taken.by)
    with tenant_tx(tenant_id) as tx:
        case, now = Case.objects.get(id=taken.case_id), tx.now()
    if case.state == RESOLVED:
        if case.proposal_id == taken.item_id:
            return {"state": case.state, "resolution": case.resolution, "run_id": str(case.run_id)}
        raise CaseResolved(f"It was resolved by {case.resolved_by}: {case.resolution}.")
    claimed_here = _claim(person, case, taken)
    try:
        if taken.resolution == KEEP_PENDING:
            due_at = now + timedelta(hours=taken.hours or 1.0)
            answer = keep_pending(
                actor=person, case_id=case.id, due_at=due_at, reason=taken.reason, expected_version=None
            )
        else:
            arguments = _reference(tenant_id, person, case, taken) if taken.resolution == RECORD_SUCCESS else {}
            answer = _resolve(tenant_id, person, case, taken, arguments)
    except Unavailable:
        raise
    except QuarterdeckError:
        if claimed_here:
            with suppress(QuarterdeckError):
                why = "A bulk repair was refused on it."
                release_case(actor=person, case_id=case.id, expected_version=None, reason=why)
        raise
    plain = {name: answer[name] for name in _KEPT if answer.get(name) is not None}
    return {**plain, "due_at": answer["due_at"].isoformat()} if "due_at" in plain else plain


def _claim(person: Actor, case: Case, taken: Taken) -> bool:
    """Claim the case unless it is the person's already; returns whether this item has claimed it."""
    mine = case.state in HELD and case.owner == person.label
    if mine and taken.again and case.claimed_at is not None and case.claimed_at >= taken.begun_at:
        return True
    if case.version != taken.case_version:
        raise OtherCaseVersion(f"The case is {case.state} in version {case.version}; it changed since the preview.")
    answer = claim_case(actor=person, case_id=case.id, expected_version=taken.case_version, reason=taken.reason)
    return not answer["replayed"]


def _reference(tenant_id: uuid.UUID, person: Actor, case: Case, taken: Taken) -> dict[str, str]:
    """Return the arguments of a recorded success: the reference somebody told, or what the tool says of the key now."""
    with tenant_tx(tenant_id) as tx:
        reference = reference_of(case)
        contract = tool_of(tx, case.tool).contract if case.tool else None
    if asks_first(case, contract, known=reference is not None):
        ask_tool(actor=person, case_id=case.id, expected_version=None, reason=taken.reason)
        with tenant_tx(tenant_id):
            case = Case.objects.get(id=case.id)
            reference = reference_of(case)
        if (reason := why_not(RECORD_SUCCESS, case.recovery, case.answer, case.kind)) is not None:
            allowed = sorted(permitted(case.recovery, case.answer, case.kind))
            raise NotPermitted(reason, permitted=allowed, answer=case.answer, **there(case))
    if reference is None:
        raise BadInput("Nobody has said which reference it has outside.", where="/arguments/external_ref")
    return {"external_ref": reference}


def _resolve(
    tenant_id: uuid.UUID, person: Actor, case: Case, taken: Taken, arguments: dict[str, str]
) -> dict[str, Any]:
    said = propose_resolution(
        actor=person,
        case_id=case.id,
        resolution=taken.resolution,
        reason=taken.reason,
        expected_version=None,
        arguments=arguments,
        repair_id=taken.item_id,
    )
    if not said["needs_review"]:
        return resolve_case(actor=person, case_id=case.id, expected_version=None, repair_id=taken.item_id)
    if taken.reviewer is None:
        raise Conflict("A second person has to look at it by itself.", remediation="Propose it on its own page.")
    return review_proposal(
        actor=actor_in_tenant(tenant_id, taken.reviewer),
        case_id=case.id,
        repair_id=taken.item_id,
        decision="approve",
        expected_version=None,
        comment=taken.reason,
    )
