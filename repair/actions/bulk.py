"""Many cases at once: a list frozen with its versions, a preview, one review for all, and the hand on the brake.

Items are carried out by the scheduler (:mod:`repair.bulk_duty`), each by the very actions a person uses on one case.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from repair.actions.base import insist_on_person
from repair.actions.propose import ALSO_NEEDS, MOST_PENDING
from repair.actions.resolve import DECISIONS
from repair.errors import BulkMoved, SamePerson
from repair.foresight import foresee_items
from repair.law import (
    ABORTED,
    BULK_MOVES,
    BULK_REVIEWING,
    IN_BULK,
    KEEP_PENDING,
    LEFT_OUT,
    NOT_BEGUN,
    PAUSED,
    RUNNING,
)
from repair.models import BulkItem, BulkRepair
from repair.queries import cases_that_fit
from repair.reviews import tell_reviewers
from repair.verbs import REVIEW, WORK
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, Stale
from runtime.kernel.ids import parse_uuid, uuid7
from runtime.machine.frame import Frame

MOST_CASES = 1_000
MOST_PER_MINUTE = 600
FILTERS = ("kind", "tool", "risk", "alike", "run", "mine", "unowned", "overdue")


def prepare_bulk(
    *,
    actor: Actor,
    resolution: str,
    filter: dict[str, Any],
    reason: str,
    per_minute: int = 60,
    hours: float | None = None,
) -> dict[str, Any]:
    """Freeze the open cases that fit, with their versions, and say of each whether the resolution is permitted.

    ``filter`` has the names of FILTERS; ``per_minute`` is 1 to 600; ``hours`` belongs to keep_pending. Nothing is
    ordered by it. Returns {bulk_id, state, version, needs_review, why_review, total, left_out}. Raises BadInput for an
    empty or too large set, PermissionDenied. Verb ``repair.work`` and what the resolution needs besides.
    """
    text = check_reason(reason, required=True)
    _check(resolution, filter, per_minute, hours)
    _authorize(actor, resolution)
    user_id = insist_on_person(actor)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            now = unit.tx.now()
            cases = cases_that_fit(actor, filter, now, most=MOST_CASES + 1)
            if not cases:
                raise BadInput("No case fits, so nothing is prepared.", where="/filter", remediation="Choose others.")
            if len(cases) > MOST_CASES:
                raise BadInput(
                    f"More than {MOST_CASES} cases fit.", where="/filter", remediation="Narrow the filter down."
                )
            foreseen = foresee_items(unit.tx, actor, resolution, cases)
            why = next((one["second"] for one in foreseen if one["second"] and not one["why_not"]), None)
            bulk = BulkRepair.objects.create(
                id=uuid7(), tenant_id=actor.tenant_id, resolution=resolution, filter=filter, reason=text, hours=hours,
                per_minute=per_minute, needs_review=why is not None, why_review=why or "", created_by=actor.label,
                created_user_id=user_id, created_at=now,
            )  # fmt: skip
            BulkItem.objects.bulk_create(
                BulkItem(
                    id=uuid7(), tenant_id=actor.tenant_id, bulk_id=bulk.id, position=place, case_id=case.id,
                    case_version=case.version, state=LEFT_OUT if one["why_not"] else NOT_BEGUN,
                    finished_at=now if one["why_not"] else None,
                    result={"code": "left_out", "detail": one["why_not"]} if one["why_not"] else {},
                )
                for place, (case, one) in enumerate(zip(cases, foreseen, strict=True))
            )  # fmt: skip
            left = sum(1 for one in foreseen if one["why_not"])
            _record(unit, actor, "repair.bulk.prepare", bulk, text, cases=len(cases), left_out=left)
            return {**_answer(bulk), "total": len(cases), "left_out": left}

    answer: dict[str, Any] = insist(once)
    return answer


def order_bulk(*, actor: Actor, bulk_id: uuid.UUID, expected_version: int) -> dict[str, Any]:
    """Order what was prepared, by who prepared it: it begins, or waits for another person's review.

    Ordered again it is answered as it stands. Raises BulkMoved, Conflict when every item was left out, Stale, NotFound,
    PermissionDenied. Verb ``repair.work``.
    """

    def order(unit: Frame, bulk: BulkRepair) -> None:
        if bulk.created_user_id != actor.user_id:
            raise Conflict(f"{bulk.created_by} prepared it and orders it.", remediation="Prepare one yourself.")
        _authorize(actor, bulk.resolution)
        if not BulkItem.objects.filter(bulk_id=bulk.id, state=NOT_BEGUN).exists():
            raise Conflict("Every case was left out; nothing would be done.", remediation="Choose others.")
        move_bulk(bulk, BULK_REVIEWING if bulk.needs_review else RUNNING)
        if bulk.state == RUNNING:
            _begin(unit, bulk)
        else:
            tell_reviewers(unit.tx, unit.tx.now(), bulk_id=bulk.id)

    return _act(actor, WORK, "repair.bulk.order", bulk_id, expected_version, "", order, (BULK_REVIEWING, RUNNING))


def review_bulk(
    *, actor: Actor, bulk_id: uuid.UUID, decision: str, expected_version: int, comment: str = ""
) -> dict[str, Any]:
    """Approve an ordered bulk repair, which begins it, or send it back, which ends it; by another person.

    The approval stands for the review that each case would need by itself. Raises SamePerson, BadInput, BulkMoved,
    Stale, NotFound, PermissionDenied. Verb ``repair.review`` and what the resolution needs besides.
    """
    if decision not in DECISIONS:
        raise BadInput("There is no such decision.", where="/decision", remediation="Decide `approve` or `send_back`.")
    text = check_reason(comment, required=decision == "send_back")

    def review(unit: Frame, bulk: BulkRepair) -> None:
        user_id = insist_on_person(actor)
        if user_id == bulk.created_user_id:
            raise SamePerson(f"{actor.label} ordered it; another person reviews it.")
        if bulk.resolution == "write_off":
            authorize(actor, ALSO_NEEDS[bulk.resolution])
        if bulk.state != BULK_REVIEWING:
            raise _moved(bulk)
        if decision == "send_back":
            move_bulk(bulk, ABORTED, why=text)
            bulk.finished_at = unit.tx.now()
            return
        bulk.reviewed_by, bulk.reviewed_user_id, bulk.reviewed_at = actor.label, user_id, unit.tx.now()
        move_bulk(bulk, RUNNING)
        _begin(unit, bulk)

    done = (RUNNING,) if decision == "approve" else (ABORTED,)
    return _act(actor, REVIEW, "repair.bulk.review", bulk_id, expected_version, text, review, done, by_me="reviewed_by")


def pause_bulk(*, actor: Actor, bulk_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Stop a running bulk repair after the item under way. Raises BulkMoved, NotFound. Verb ``repair.work``."""
    text = check_reason(reason)

    def pause(_unit: Frame, bulk: BulkRepair) -> None:
        move_bulk(bulk, PAUSED, why=text or f"{actor.label} paused it.")

    return _act(actor, WORK, "repair.bulk.pause", bulk_id, None, text, pause, (PAUSED,))


def go_on_with_bulk(*, actor: Actor, bulk_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Let a paused bulk repair go on from where it stands. Raises BulkMoved, NotFound. Verb ``repair.work``."""
    text = check_reason(reason)

    def go_on(unit: Frame, bulk: BulkRepair) -> None:
        if bulk.state != PAUSED:
            raise _moved(bulk)
        move_bulk(bulk, RUNNING)
        _begin(unit, bulk)

    return _act(actor, WORK, "repair.bulk.go_on", bulk_id, None, text, go_on, (RUNNING,))


def abort_bulk(*, actor: Actor, bulk_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Give a bulk repair up: what is done stays, what waits is left as it is. Verb ``repair.work``."""
    text = check_reason(reason, required=True)

    def abort(unit: Frame, bulk: BulkRepair) -> None:
        move_bulk(bulk, ABORTED, why=text)
        bulk.finished_at = unit.tx.now()

    return _act(actor, WORK, "repair.bulk.abort", bulk_id, None, text, abort, (ABORTED,))


def _begin(unit: Frame, bulk: BulkRepair) -> None:
    """Begin now, measured against how long the queue is at this moment."""
    bulk.next_at = unit.tx.now()
    bulk.started_at = bulk.started_at or bulk.next_at
    bulk.watch = {"began_with_s": round(unit.tx.rows("queue_age")[0][0], 1), "since": bulk.next_at.isoformat()}


def _act(
    actor: Actor,
    verb: str,
    audit_verb: str,
    bulk_id: uuid.UUID,
    expected_version: int | None,
    reason: str,
    do: Callable[[Frame, BulkRepair], None],
    done: tuple[str, ...],
    *,
    by_me: str | None = None,
) -> dict[str, Any]:
    """Run one verb on a bulk repair under its lock; one that stands where the verb leads is answered as it is."""
    authorize(actor, verb)
    insist_on_person(actor)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            bulk = BulkRepair.objects.select_for_update().filter(id=bulk_id).first()
            if bulk is None:
                raise NotFound("There is no bulk repair of that id in this tenant.")
            if bulk.state in done and (by_me is None or getattr(bulk, by_me) == actor.label):
                return _answer(bulk)
            if expected_version is not None and expected_version != bulk.version:
                raise Stale(f"The bulk repair is {bulk.state} in version {bulk.version}.", current_version=bulk.version)
            do(unit, bulk)
            bulk.save()
            _record(unit, actor, audit_verb, bulk, reason)
            return _answer(bulk)

    answer: dict[str, Any] = insist(once)
    return answer


def move_bulk(bulk: BulkRepair, to: str, *, why: str = "") -> None:
    """Move a locked bulk repair in memory; who holds it saves it. Raises BulkMoved."""
    if (bulk.state, to) not in BULK_MOVES:
        raise _moved(bulk)
    bulk.state, bulk.version, bulk.why_state = to, bulk.version + 1, why


def _moved(bulk: BulkRepair) -> BulkMoved:
    return BulkMoved(f"The bulk repair is {bulk.state}.", current_state=bulk.state, current_version=bulk.version)


def _answer(bulk: BulkRepair) -> dict[str, Any]:
    return {
        "bulk_id": str(bulk.id),
        "state": bulk.state,
        "version": bulk.version,
        "needs_review": bulk.needs_review,
        "why_review": bulk.why_review,
    }


def _record(unit: Frame, actor: Actor, verb: str, bulk: BulkRepair, reason: str, **more: Any) -> None:
    details = {"resolution": bulk.resolution, "per_minute": bulk.per_minute, "version": bulk.version, **more}
    audit.record(
        unit.tx, actor=actor, verb=verb, subject_kind="bulk_repair", subject_id=bulk.id, result=bulk.state,
        reason=reason, details=details,
    )  # fmt: skip


def _authorize(actor: Actor, resolution: str) -> None:
    authorize(actor, WORK)
    if resolution in ALSO_NEEDS:
        authorize(actor, ALSO_NEEDS[resolution])


def _check(resolution: str, filter: dict[str, Any], per_minute: int, hours: float | None) -> None:
    if resolution not in IN_BULK:
        raise BadInput(
            "There is no such resolution.", where="/resolution", remediation=f"Choose one of: {', '.join(IN_BULK)}."
        )
    if unknown := set(filter) - set(FILTERS):
        raise BadInput(f"{sorted(unknown)[0]} is no filter.", where="/filter")
    if filter.get("run") is not None and parse_uuid(str(filter["run"])) is None:
        raise BadInput("A run is named by its id.", where="/filter/run")
    if not 1 <= per_minute <= MOST_PER_MINUTE:
        raise BadInput(f"1 to {MOST_PER_MINUTE} a minute.", where="/per_minute")
    if (hours is not None) != (resolution == KEEP_PENDING):
        raise BadInput("keep_pending, and nothing else, says after how many hours.", where="/hours")
    if hours is not None and not 0 < hours <= MOST_PENDING.total_seconds() / 3600:
        raise BadInput("The new due date lies within the next 30 days.", where="/hours")
