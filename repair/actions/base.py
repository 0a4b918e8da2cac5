"""One case under a person's hands: run, step and operation locked before it, all changed in one transaction.

The order is that of every action: authorize → frame → run → operation → case → changes → flush → audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from repair.errors import CaseNotHeld, CaseResolved, OtherCaseVersion
from repair.law import HELD, RESOLVED
from repair.models import Case, Entry, Fact
from runtime.access.authorize import authorize
from runtime.actions.acting import Act, insist
from runtime.actions.base import check_reason, frame
from runtime.actions.repairing import lock_operation
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.machine.frame import Frame
from runtime.machine.operations import OperationState
from runtime.machine.rows import StepState
from runtime.tools.contract import ToolContract
from runtime.tools.registry import tool_of


@dataclass(slots=True)
class Desk:
    """A case under lock, with what it is about; ``act`` is None for a case without a run."""

    unit: Frame
    actor: Actor
    reason: str
    case: Case
    now: datetime
    act: Act | None
    step: StepState | None
    operation: OperationState | None
    changes: dict[str, Any] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def set(self, **changes: Any) -> None:
        """Change columns of the case when this is closed; the guard judges the move."""
        self.changes |= changes
        for name, value in changes.items():
            setattr(self.case, name, value)

    def tell(self, type: str, **data: Any) -> None:
        """Append what happened to the case's own history."""
        self.entries.append(
            Entry(
                id=uuid7(), tenant_id=self.actor.tenant_id, case_id=self.case.id, type=type, actor=self.actor.label,
                reason=self.reason, data=data, at=self.now,
            )
        )  # fmt: skip

    def learn(self, name: str, value: Any, *, certain: bool = True, source: str | None = None) -> None:
        """Append a fact with its source and time."""
        self.facts.append(
            Fact(
                id=uuid7(), tenant_id=self.actor.tenant_id, case_id=self.case.id, certain=certain, name=name,
                value=value, source=source or self.actor.label, observed_at=self.now,
            )
        )  # fmt: skip

    def contract(self) -> ToolContract | None:
        """Return the contract of the tool the case is about, None when it is about none."""
        return tool_of(self.unit.tx, self.case.tool).contract if self.case.tool else None

    def output_contract(self) -> ToolContract | None:
        """Return the contract that an output of the step has to fit; its node's tool where the case names none."""
        node = self.act.run.plan.nodes.get(self.step.node) if self.act is not None and self.step is not None else None
        named = self.case.tool or (node.tool if node is not None else None)
        return tool_of(self.unit.tx, named).contract if named else None

    def insist_on_owner(self) -> None:
        """Raise CaseNotHeld unless the actor holds the case."""
        if self.case.state not in HELD or self.case.owner != self.actor.label:
            holder = f"{self.case.owner} holds it" if self.case.owner else "Nobody holds it"
            raise CaseNotHeld(f"{holder}; it is {self.case.state}.", **there(self.case))

    def close(self) -> None:
        """Write the run's changes, then the case's, as one compare-and-set."""
        if self.act is not None:
            self.act.close()
        if self.changes:
            version = self.case.version
            rows = Case.objects.filter(id=self.case.id, version=version)
            if rows.update(version=version + 1, **self.changes) != 1:
                raise OtherCaseVersion("The case was changed by somebody else first.", case_id=str(self.case.id))
            self.case.version = version + 1
        Fact.objects.bulk_create(self.facts)
        Entry.objects.bulk_create(self.entries)


def there(case: Case) -> dict[str, Any]:
    """Return what is there now, for a refusal."""
    return {
        "run_id": case.run_id,
        "case_id": str(case.id),
        "current_state": case.state,
        "current_version": case.version,
        "owner": case.owner,
        "since": case.claimed_at.isoformat() if case.claimed_at else None,
        "resolution": case.resolution,
    }


def insist_on_person(actor: Actor) -> int:
    """Return the actor's user id. Raises PermissionDenied for a program: a repair is a person's."""
    if actor.kind != "user" or actor.user_id is None:
        raise PermissionDenied(f"{actor.label} is no person; a repair has a person behind it.")
    return actor.user_id


def answer_of(case: Case, *, replayed: bool = False, **more: Any) -> dict[str, Any]:
    """Return what every verb on a case answers with."""
    return {
        "case_id": str(case.id),
        "state": case.state,
        "version": case.version,
        "owner": case.owner,
        "owner_epoch": case.owner_epoch,
        "answer": case.answer,
        "due_at": case.due_at,
        "resolution": case.resolution,
        "run_id": str(case.run_id) if case.run_id else None,
        "step_id": str(case.step_id) if case.step_id else None,
        "replayed": replayed,
        **more,
    }


def act_on_case(
    *,
    actor: Actor,
    verb: str,
    audit_verb: str,
    case_id: uuid.UUID,
    expected_version: int | None,
    reason: str,
    do: Callable[[Desk], dict[str, Any]],
    already: Callable[[Case], dict[str, Any] | None] = lambda _case: None,
    reason_required: bool = False,
) -> dict[str, Any]:
    """Run one verb on one case and answer with what is there then; the shape of every action of this app.

    ``already`` answers a repeated request from the row, whatever version it names; it writes nothing. ``do`` changes
    the desk and returns what is added to the answer. Raises PermissionDenied, NotFound, CaseResolved, OtherCaseVersion.
    """
    text = check_reason(reason, required=reason_required)
    authorize(actor, verb)
    insist_on_person(actor)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            desk = open_desk(unit, actor, case_id, text)
            case = desk.case
            if (answer := already(case)) is not None:
                return answer
            if case.state == RESOLVED:
                raise CaseResolved(f"It was resolved by {case.resolved_by}: {case.resolution}.", **there(case))
            if expected_version is not None and expected_version != case.version:
                said = f"The case is {case.state} in version {case.version}; you were shown version {expected_version}."
                raise OtherCaseVersion(said + _whose(case, actor), **there(case))
            before = {"state": case.state, "version": case.version, "owner": case.owner}
            more = do(desk)
            desk.close()
            after = {"state": case.state, "version": case.version, "owner": case.owner}
            audit.record(
                unit.tx,
                actor=actor,
                verb=audit_verb,
                subject_kind="case",
                subject_id=case.id,
                run_id=case.run_id,
                result=case.state,
                reason=text,
                details={"before": before, "after": after, "title": case.title[:300], **_plain(more)},
            )
            return answer_of(case, **more)

    return insist(once)


def _whose(case: Case, actor: Actor) -> str:
    """Return who holds the case since when, where that is somebody else."""
    if case.owner in (None, actor.label) or case.claimed_at is None:
        return ""
    return f" {case.owner} holds it since {case.claimed_at.isoformat(timespec='seconds')}."


def _plain(more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in more.items() if isinstance(value, str | int | bool | dict | None)}


def open_desk(unit: Frame, actor: Actor, case_id: uuid.UUID, reason: str) -> Desk:
    """Lock a case after its run and its operation (engine.md 1). Raises NotFound."""
    shown = Case.objects.filter(id=case_id).first()
    if shown is None:
        raise NotFound("There is no case of that id in this tenant.")
    act, step, operation = None, None, None
    if shown.run_id is not None:
        act = Act(unit, unit.run(shown.run_id), actor, reason)
        if shown.node:
            unit.load([(shown.run_id, shown.node)])
            step = act.run.steps.get(shown.node)
        if shown.operation_id is not None:
            operation = lock_operation(act, shown.operation_id)
        about = operation.step_id if operation is not None else shown.step_id
        if step is not None and step.id != about:
            # It was run again since: the case says nothing of its newer execution, and does nothing to it.
            step = None
    case = Case.objects.select_for_update().get(id=case_id)
    return Desk(unit, actor, reason, case, unit.tx.now(), act, step, operation)
