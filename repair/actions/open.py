"""Opening a case by hand: about a step, with its newest effect, or about a run."""

from __future__ import annotations

import uuid
from typing import Any

from repair.actions.base import answer_of, insist_on_person
from repair.models import Case
from repair.opening import need_by_hand, open_cases, subject_of
from repair.verbs import OPEN
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor


def open_case(*, actor: Actor, run_id: uuid.UUID, reason: str, step_id: uuid.UUID | None = None) -> dict[str, Any]:
    """Open a case about a step (its newest effect if it has one) or a run; an open one of the same subject is answered.

    Raises BadInput without a reason, NotFound, PermissionDenied. Verb ``repair.open``.
    """
    text = check_reason(reason, required=True)
    authorize(actor, OPEN)
    insist_on_person(actor)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            unit.run(run_id)
            need = need_by_hand("by_hand", text, run_id=run_id, step_id=step_id, label=actor.label)
            case_id = open_cases(unit.tx, [need], opened_by=actor.label)[subject_of(need)]
            case = Case.objects.get(id=case_id)
            opened = case.opened_by == actor.label and case.version == 1
            audit.record(
                unit.tx,
                actor=actor,
                verb="repair.open",
                subject_kind="case",
                subject_id=case_id,
                run_id=run_id,
                result=case.state,
                reason=text,
            )
            return answer_of(case, replayed=not opened)

    return insist(once)
