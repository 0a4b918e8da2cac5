"""Recording the business verdict on a task: by an authorised verifier, citing evidence (A2.4, A2.5, invariant 12)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.evidence import Reference, cite
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx, tenant_tx

VERDICTS = ("achieved", "not_achieved", "undecided")
_REFERENCE = re.compile(r"([^@\s]{1,200})@([1-9][0-9]{0,8})")


def record_outcome(
    *,
    actor: Actor,
    task_id: uuid.UUID,
    run_id: uuid.UUID,
    verifier: str,
    verdict: str,
    criterion: str,
    evidence: Sequence[Reference],
) -> dict[str, Any]:
    """Append an Outcome; return {outcome_id, task_id, verdict, evidence}. An earlier one stays; the newest is shown.

    ``verifier`` is ``name@version``. A verdict cites evidence of this task, or what becomes evidence by being cited
    (``actions.evidence.cite``); an undecided one may cite none. ``evidence`` in the answer are its ids. Raises
    PermissionDenied, NotFound, BadInput, Conflict (verifier revoked; achieved while an operation is open; nothing is
    stored of what is cited), NotIntact. Verb ``outcome.record``.
    """
    authorize(actor, v.OUTCOME_RECORD)
    named = _REFERENCE.fullmatch(verifier)
    if named is None:
        raise BadInput("A verifier is named with its version.", where="/verifier", remediation="Write `name@1`.")
    if verdict not in VERDICTS:
        raise BadInput("There is no such verdict.", where="/verdict", remediation=f"Use one of: {', '.join(VERDICTS)}.")
    if not evidence and verdict != "undecided":
        raise BadInput("A verdict cites evidence.", where="/evidence", remediation="Name evidence of this task.")
    with tenant_tx(actor.tenant_id) as tx:
        _check_run(tx, task_id, run_id, verdict)
        verifier_id = _verifier(tx, actor, named.group(1), int(named.group(2)))
        cited = cite(tx, actor=actor, task_id=task_id, run_id=run_id, criterion=criterion, references=evidence)
        outcome_id = uuid7()
        tx.send(
            "insert_outcome",
            (outcome_id, tx.tenant_id, task_id, run_id, verifier_id, verdict, criterion, actor.label),
        )
        if cited:
            tx.send("insert_citations", (tx.tenant_id, outcome_id, [uuid7() for _ in cited], cited))
        audit.record(
            tx,
            actor=actor,
            verb=v.OUTCOME_RECORD,
            subject_kind="task",
            subject_id=task_id,
            run_id=run_id,
            result=verdict,
            details={"outcome_id": str(outcome_id), "verifier": verifier, "evidence": [str(one) for one in cited]},
        )
    answer = {"outcome_id": str(outcome_id), "task_id": str(task_id), "verdict": verdict}
    return {**answer, "evidence": [str(one) for one in cited]}


def _check_run(tx: Tx, task_id: uuid.UUID, run_id: uuid.UUID, verdict: str) -> None:
    run = tx.one("run_of_task", (run_id, task_id))
    if run is None:
        raise NotFound("There is no such run of this task.", where="/run_id")
    if verdict == "achieved" and run[2]:
        raise Conflict(
            "The run has an open operation: whether the goal was reached is not known yet.",
            run_id=run_id,
            remediation="Settle the operation first, or record `undecided`.",
        )


def _verifier(tx: Tx, actor: Actor, name: str, number: int) -> uuid.UUID:
    row = tx.one("verifier_named", (name, number))
    if row is None:
        raise NotFound(f"There is no verifier {name}@{number}.", where="/verifier")
    if row[2] is not None:
        raise Conflict(f"The verifier {name}@{number} was revoked.", where="/verifier")
    if row[1] == "machine_check" and not actor.is_engine:
        raise Conflict(
            f"{name}@{number} is a machine check: the engine records it, nobody by hand.",
            where="/verifier",
            remediation="Use a verifier whose method is human_review.",
        )
    return row[0]
