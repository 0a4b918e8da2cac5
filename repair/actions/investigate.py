"""Looking outside before anything is decided: the tool is asked by key, or a person says what they saw."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from repair.actions.base import Desk, act_on_case, there
from repair.errors import AskedTooSoon, CaseResolved, NotPermitted
from repair.law import ABSENT, ANSWERS, CLAIMED, CONTRADICTS, DONE, INVESTIGATING, RESOLVED, UNKNOWN, UNREACHABLE
from repair.models import Case
from repair.policy import ASK_AGAIN_SECONDS
from repair.verbs import WORK
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict
from runtime.kernel.unseen import is_blank
from runtime.store.tx import tenant_tx
from runtime.tools.query import Finding
from runtime.tools.registry import tool_of
from runtime.worker.asking import query_operation

MAX_EVIDENCE = 2000
ASK_SECONDS = 10.0


# What a tool's finding says of the effect. Not found counts as absent only where it proves that.
_SAYS = {
    "applied": DONE,
    "partial": CONTRADICTS,
    "conflicts": CONTRADICTS,
    "unreachable": UNREACHABLE,
    "held": UNREACHABLE,
}


def says(finding: Finding) -> str:
    """Return which answer of the law a finding is."""
    if finding.kind == "not_found":
        return ABSENT if finding.proves else UNKNOWN
    return _SAYS.get(finding.kind, UNKNOWN)


def ask_tool(*, actor: Actor, case_id: uuid.UUID, expected_version: int | None, reason: str = "") -> dict[str, Any]:
    """Ask the tool now, by the operation's key, and record what it said: at most every 10 s, and no longer than 10 s.

    Nothing is settled by it. Raises AskedTooSoon, Conflict when the tool names no query, CaseNotHeld,
    OtherCaseVersion, NotFound, PermissionDenied. Verb ``repair.work``.
    """

    def ask(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        case, operation = desk.case, desk.operation
        contract = desk.contract()
        if operation is None or contract is None or not contract.query:
            raise Conflict(
                f"{case.tool or 'This case'} names no query.",
                remediation="Look outside yourself, and record what you saw with its source.",
                **there(case),
            )
        if case.asked_at is not None and desk.now < case.asked_at + timedelta(seconds=ASK_AGAIN_SECONDS):
            left = (case.asked_at + timedelta(seconds=ASK_AGAIN_SECONDS) - desk.now).total_seconds()
            raise AskedTooSoon(f"{case.tool} was asked a moment ago.", retry_after=round(left, 1), **there(case))
        desk.set(state=INVESTIGATING if case.state == CLAIMED else case.state, asked_at=desk.now)
        desk.tell("asked", tool=contract.query, key=str(operation.id))
        return {"operation_id": str(operation.id)}

    asked = act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.ask",
        case_id=case_id,
        expected_version=expected_version,
        reason=reason,
        do=ask,
    )
    operation_id = uuid.UUID(asked["operation_id"])
    # In no transaction: the tool may take its time.
    finding = query_operation(tenant_id=actor.tenant_id, operation_id=operation_id, seconds=ASK_SECONDS)
    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.investigate",
        case_id=case_id,
        expected_version=None,
        reason=finding.message[:500],
        do=lambda desk: take_finding(desk, finding),
    )


def take_finding(desk: Desk, finding: Finding) -> dict[str, Any]:
    """Record what the tool said as a fact and as the case's answer."""
    answer = says(finding)
    value = {"answer": answer, "seen_at": finding.asked, "evidence": finding.message, **finding.facts()}
    desk.learn("external", value, certain=answer not in (UNKNOWN, UNREACHABLE), source="query")
    desk.set(answer=answer, answered_by="query", answered_at=desk.now)
    desk.tell("answered", **value)
    return {"finding": finding.kind}


def ask_again_before(actor: Actor, case_id: uuid.UUID, due: Callable[[Case], bool]) -> Finding | None:
    """Ask the tool once more before a case that is ``due`` is closed; None where it cannot be asked or is silent."""
    with tenant_tx(actor.tenant_id) as tx:
        case = Case.objects.filter(id=case_id).exclude(state=RESOLVED).first()
        if case is None or case.operation_id is None or not case.tool or not due(case):
            return None
        if not tool_of(tx, case.tool).contract.query:
            return None
    finding = query_operation(tenant_id=actor.tenant_id, operation_id=case.operation_id, seconds=ASK_SECONDS)
    return None if finding.kind in ("unreachable", "held") else finding


@contextmanager
def kept(actor: Actor, verb: str, case_id: uuid.UUID, finding: Finding | None) -> Iterator[None]:
    """Record what the tool said in an act of its own when it is why an act was refused, and let the refusal go on."""
    try:
        yield
    except NotPermitted as refused:
        if finding is not None:
            with suppress(CaseResolved):
                now = act_on_case(
                    actor=actor,
                    verb=verb,
                    audit_verb="repair.investigate",
                    case_id=case_id,
                    expected_version=None,
                    reason=finding.message[:500],
                    do=lambda desk: take_finding(desk, finding),
                )
                refused.extra["current_version"] = now["version"]
        raise


def record_answer(
    *,
    actor: Actor,
    case_id: uuid.UUID,
    answer: str,
    evidence: str,
    source: str,
    expected_version: int | None,
    reference: str = "",
) -> dict[str, Any]:
    """Record what a person saw outside: the answer, where it was seen, and the reference it has there.

    It is a fact under that person's name, beside what is believed here; it settles nothing by itself. ``done`` needs
    the external reference. Raises BadInput, CaseNotHeld, CaseResolved, OtherCaseVersion, NotFound, PermissionDenied.
    Verb ``repair.work``.
    """
    _check(answer, evidence, source, reference)

    def record(desk: Desk) -> dict[str, Any]:
        desk.insist_on_owner()
        case = desk.case
        value = {"answer": answer, "evidence": evidence.strip(), "seen_at": source.strip()}
        if not is_blank(reference):
            value["external_ref"] = reference.strip()
        desk.learn("external", value, certain=answer not in ("unknown", "unreachable"))
        desk.set(
            state=INVESTIGATING if case.state == CLAIMED else case.state,
            answer=answer,
            answered_by=desk.actor.label,
            answered_at=desk.now,
        )
        desk.tell("answered", **value)
        return {}

    return act_on_case(
        actor=actor,
        verb=WORK,
        audit_verb="repair.investigate",
        case_id=case_id,
        expected_version=expected_version,
        reason=evidence,
        do=record,
    )


def _check(answer: str, evidence: str, source: str, reference: str) -> None:
    if answer not in ANSWERS:
        raise BadInput("There is no such answer.", where="/answer", remediation=f"Say one of: {', '.join(ANSWERS)}.")
    for name, text in (("evidence", evidence), ("source", source)):
        if is_blank(text):
            raise BadInput(
                "An answer from outside has its evidence and its source.",
                where=f"/{name}",
                remediation="Say what you saw, and where.",
            )
    for name, text in (("evidence", evidence), ("source", source), ("reference", reference)):
        if len(text) > MAX_EVIDENCE or "\x00" in text:
            raise BadInput("That is too long.", where=f"/{name}", remediation="Shorten it.")
    if answer == DONE and is_blank(reference):
        raise BadInput(
            "What is done outside has a reference there.",
            where="/reference",
            remediation="Give the receipt, booking or message number.",
        )
