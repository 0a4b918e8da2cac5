"""Cases open by themselves, in the transaction of the change that needs a person (C8.4, invariant 7)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from repair.models import Case, Entry, Fact
from repair.policy import Policy, policy_of, risk_of
from runtime.kernel.canonical import loads
from runtime.kernel.errors import NotFound
from runtime.kernel.ids import uuid7
from runtime.kernel.seams import CASE_KINDS, CaseNeed
from runtime.machine.rows import UNDO_KINDS
from runtime.models import Operation, Run, Step
from runtime.store.tx import Tx

ENGINE = "engine"
_DOUBTFUL = ("sent", "unknown", "needs_human", "partially_applied", "compensation_failed")
_APPLIED = ("succeeded", "partially_applied", "compensation_failed")
Subject = tuple[str, uuid.UUID]


def on_needs(tx: Tx, needs: Sequence[CaseNeed]) -> None:
    """Open a case for each subject that has none, and add what is new to those that have one."""
    open_cases(tx, needs, opened_by=ENGINE)


def open_cases(tx: Tx, needs: Sequence[CaseNeed], *, opened_by: str) -> dict[Subject, uuid.UUID]:
    """Open or find the case of each need's subject; returns subject → case. Runs are locked by the caller."""
    wanted = _pointed(needs)
    if not wanted:
        return {}
    now, policy, about = tx.now(), policy_of(tx.tenant_id), _About(wanted)
    drafts = {subject_of(need): _draft(tx, need, about, policy, now, opened_by) for need in wanted}
    Case.objects.bulk_create(drafts.values(), ignore_conflicts=True)
    subjects = list(drafts)
    found = {
        (row.subject_kind, row.subject_id): row
        for row in Case.objects.filter(subject_id__in=[one for _kind, one in subjects]).exclude(state="resolved")
    }
    facts, entries = [], []
    for need in wanted:
        case = found.get(subject_of(need))
        if case is None:
            continue
        new = case.id == drafts[subject_of(need)].id
        if not new and case.answer == "unknown" and _is_there(about, need):
            _take_answer(case, now)
        more = _facts(tx, case, need, now, new=new)
        if need.kind == "invariant_breach" and not (new or more):
            continue  # searched for again every few minutes: what was found before is no news
        facts += more
        data = {"kind": need.kind, "source": need.source}
        entries.append(_entry(tx, case, "opened" if new else "told", opened_by, need.reason, data, now))
    Fact.objects.bulk_create(facts)
    Entry.objects.bulk_create(entries)
    return {subject: case.id for subject, case in found.items()}


def _is_there(about: _About, need: CaseNeed) -> bool:
    operation = about.operations.get(need.operation_id) if need.operation_id else None
    return operation is not None and operation["status"] == "succeeded"


def _take_answer(case: Case, now: datetime) -> None:
    """The ledger knows by now that the effect is there; whoever holds the case sees it, and a stale page is told."""
    Case.objects.filter(id=case.id, version=case.version).update(
        version=case.version + 1, answer="done", answered_by="ledger", answered_at=now
    )


def _tenant(tx: Tx) -> uuid.UUID:
    assert tx.tenant_id is not None
    return tx.tenant_id


def subject_of(need: CaseNeed) -> Subject:
    """Return what a case is about: its operation, else its step, else its run."""
    for kind, value in (("operation", need.operation_id), ("step", need.step_id), ("run", need.run_id)):
        if value is not None:
            return kind, value
    return "other", uuid.uuid5(uuid.NAMESPACE_OID, f"{need.kind}:{need.fingerprint or need.reason}")


def _pointed(needs: Iterable[CaseNeed]) -> list[CaseNeed]:
    """Return the needs, one a subject; a run's own is left out where its effects or its steps have theirs."""
    kept: dict[Subject, CaseNeed] = {}
    for need in needs:
        if need.kind not in ("run_attention", "failed_with_effects"):
            kept.setdefault(subject_of(need), need)
    general = [need for need in needs if need.kind in ("run_attention", "failed_with_effects")]
    if not general:
        return list(kept.values())
    runs = {need.run_id for need in general if need.run_id is not None}
    rows = list(Operation.objects.filter(run_id__in=runs).values("id", "run_id", "step_id", "status", "business_key"))
    undoing = set(Step.objects.filter(run_id__in=runs, kind__in=UNDO_KINDS).values_list("id", flat=True))
    named = set(Case.objects.filter(run_id__in=runs).exclude(state="resolved").values_list("run_id", flat=True))
    for need in general:
        mine = [row for row in rows if row["run_id"] == need.run_id]
        if need.kind == "failed_with_effects":
            # What undid an effect leaves nothing behind that anybody had to look after.
            left = [row for row in mine if row["step_id"] not in undoing]
            if applied := [row["business_key"] for row in left if row["status"] in _APPLIED]:
                kept[subject_of(need)] = replace(need, facts={**need.facts, "effects_applied": applied[:50]})
            continue
        doubtful = [row for row in mine if row["status"] in _DOUBTFUL]
        for row in doubtful:
            one = replace(need, kind="operation_unknown", operation_id=row["id"], step_id=row["step_id"])
            kept.setdefault(subject_of(one), one)
        if not doubtful and need.run_id not in named and not any(one.run_id == need.run_id for one in kept.values()):
            kept.setdefault(subject_of(need), need)
    return list(kept.values())


class _About:
    """What the rows say of the subjects, read in three queries for the whole batch."""

    def __init__(self, needs: Sequence[CaseNeed]) -> None:
        operations = [need.operation_id for need in needs if need.operation_id]
        self.operations = {
            row["id"]: row
            for row in Operation.objects.filter(id__in=operations).values(
                "id", "recovery", "status", "external_ref", "error", "run_id", "step_id", "business_key",
                "tool_version__name", "tool_version__number", "tool_version__contract",
            )
        }  # fmt: skip
        steps = [need.step_id for need in needs if need.step_id]
        self.nodes = dict(Step.objects.filter(id__in=steps).values_list("id", "node"))
        runs = [need.run_id for need in needs if need.run_id]
        self.runs = {
            row["id"]: row
            for row in Run.objects.filter(id__in=runs).values("id", "task_id", "task__workflow_name", "status")
        }


def _draft(tx: Tx, need: CaseNeed, about: _About, policy: Policy, now: datetime, opened_by: str) -> Case:
    kind, subject_id = subject_of(need)
    operation = about.operations.get(need.operation_id) if need.operation_id else None
    run = about.runs.get(need.run_id) if need.run_id else None
    error = need.facts.get("error") or {}
    error_class = str(error.get("class") or "") if isinstance(error, dict) else ""
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    tool = f"{operation['tool_version__name']}@{operation['tool_version__number']}" if operation else ""
    recovery = operation["recovery"] if operation else None
    idempotency = loads(bytes(operation["tool_version__contract"])).get("idempotency", "none") if operation else "none"
    workflow = run["task__workflow_name"] if run else ""
    risk = risk_of(recovery, idempotency, need.kind)
    answer, answered_by = _answer(need, operation)
    cause = need.fingerprint or "|".join((need.kind, tool or workflow, error_class, code))
    return Case(
        id=uuid7(),
        tenant_id=_tenant(tx),
        kind=need.kind,
        subject_kind=kind,
        subject_id=subject_id,
        run_id=need.run_id,
        task_id=run["task_id"] if run else None,
        step_id=need.step_id,
        operation_id=need.operation_id,
        node=about.nodes.get(need.step_id, "") if need.step_id else "",
        workflow=workflow,
        tool=tool,
        recovery=recovery,
        title=need.reason or CASE_KINDS[need.kind],
        fingerprint=hashlib.sha256(cause.encode()).hexdigest(),
        error_class=error_class[:40],
        risk=risk,
        answer=answer,
        answered_by=answered_by,
        answered_at=now if answered_by else None,
        opened_by=opened_by,
        opened_at=now,
        due_at=now + policy.due_within(risk),
    )


_FOUND = {
    "applied": "done",
    "partial": "contradicts",
    "conflicts": "contradicts",
    "unreachable": "unreachable",
    "held": "unreachable",
}


def _answer(need: CaseNeed, operation: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Return what is known from outside when a case opens, and whose word that is: the ledger's or the tool's."""
    if operation is not None and operation["status"] == "succeeded":
        return "done", "ledger"
    found = need.facts.get("finding")
    if found == "not_found":
        return ("absent", "query") if need.facts.get("proves_absence") else ("unknown", "query")
    return (_FOUND[found], "query") if found in _FOUND else ("unknown", None)


def _facts(tx: Tx, case: Case, need: CaseNeed, now: datetime, *, new: bool) -> list[Fact]:
    """Return the need's facts that the case does not have yet, the certain and the open ones apart."""
    told = [(True, name, value) for name, value in need.facts.items()]
    told += [(False, name, value) for name, value in need.doubts.items()]
    if not new:
        known = set()
        for name, value in Fact.objects.filter(case_id=case.id).values_list("name", "value"):
            known.add((name, repr(value)))
        told = [one for one in told if (one[1], repr(one[2])) not in known]
    return [
        Fact(id=uuid7(), tenant_id=_tenant(tx), case_id=case.id, certain=certain, name=name[:80], value=value,
             source=need.source, observed_at=now)
        for certain, name, value in told
    ]  # fmt: skip


def _entry(tx: Tx, case: Case, type: str, actor: str, reason: str, data: dict[str, Any], now: datetime) -> Entry:
    return Entry(
        id=uuid7(), tenant_id=_tenant(tx), case_id=case.id, type=type, actor=actor, reason=reason, data=data, at=now
    )


def need_by_hand(kind: str, reason: str, *, run_id: uuid.UUID, step_id: uuid.UUID | None, label: str) -> CaseNeed:
    """Return what a person asks for: about the newest open operation of the step if it has one. Raises NotFound."""
    if not Run.objects.filter(id=run_id).exists():
        raise NotFound("There is no run of that id in this tenant.")
    operation_id = None
    if step_id is not None:
        if not Step.objects.filter(id=step_id, run_id=run_id).exists():
            raise NotFound("There is no step of that id in this run.")
        operation_id = Operation.objects.filter(step_id=step_id).order_by("-id").values_list("id", flat=True).first()
    return CaseNeed(kind, reason, run_id=run_id, step_id=step_id, operation_id=operation_id, source=label)
