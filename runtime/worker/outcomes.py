"""A verifier node's verdict: Evidence first, then the Outcome that cites it, by an authorised verifier (A2.4, A2.5)."""

from __future__ import annotations

from runtime.kernel.errors import PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.machine.apply import note
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import Tx
from runtime.worker.work import Report


def record_verdict(tx: Tx, run: RunState, step: StepState, report: Report) -> None:
    """Write Evidence and Outcome in the completing transaction.

    Raises PermissionDenied when the named verifier is not registered in this tenant or was revoked: the step then
    fails alone and no Outcome is written (invariant 12).
    """
    verdict = report.verdict
    assert verdict is not None
    assert report.output is not None
    name, _, number = str(verdict["verifier"]).rpartition("@")
    row = tx.one("verifier_by_name", (name, int(number)))
    if row is None:
        raise PermissionDenied(f"Verifier {verdict['verifier']} is not authorised in this tenant.", step_id=step.id)
    evidence_id, outcome_id = uuid7(), uuid7()
    tx.send(
        "verdict_insert_evidence",
        (
            evidence_id, tx.tenant_id, run.task_id, run.id, step.id, verdict["criterion"], verdict["source"],
            report.output, report.output_sha256, run.now,
        ),
    )  # fmt: skip
    tx.send(
        "verdict_insert_outcome",
        (
            outcome_id, tx.tenant_id, run.task_id, run.id, row[0], verdict["verdict"], verdict["criterion"],
            str(verdict["verifier"]), run.now,
        ),
    )  # fmt: skip
    tx.send("verdict_insert_citation", (uuid7(), tx.tenant_id, outcome_id, evidence_id))
    note(
        run,
        "OUTCOME_RECORDED",
        step,
        payload={"outcome_id": str(outcome_id), "verdict": verdict["verdict"], "verifier": verdict["verifier"]},
        output_sha256=report.output_sha256,
    )
