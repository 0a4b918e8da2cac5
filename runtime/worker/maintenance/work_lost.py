"""How much work each lost worker cost, against what the workflow allows: more of it is told at once (C4.3).

A step is recovered from its last committed boundary: its start, an intent, a send, a confirmation. What its worker did
after that is lost. ``queries.recovery`` reads the same of the past.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from runtime.machine.frame import Frame
from runtime.machine.rows import StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx
from runtime.worker.maintenance.alerts import RECOVERY_POINT, Finding, add_to_alert, step_subject


def measure(tx: Tx, steps: Sequence[StepState]) -> dict[uuid.UUID, float]:
    """Return step id → seconds of work that the loss of its present attempt cost at most."""
    rows = arrays("uui", [(step.run_id, step.id, step.attempt) for step in steps])
    return {step_id: seconds for _run_id, step_id, seconds in tx.rows("work_lost", rows)}


def tell(frame: Frame, steps: Sequence[StepState], costs: Mapping[uuid.UUID, float]) -> None:
    """Open or widen one alert a workflow about the steps whose loss cost more than it allows; after the flush."""
    found: dict[str, Finding] = {}
    for step in steps:
        plan = frame.runs[step.run_id].plan
        if plan.recovery_point_s is not None and costs.get(step.id, 0.0) > plan.recovery_point_s:
            what = f"More work lost than the workflow allows: {plan.name}"
            finding = found.setdefault(plan.name, Finding("recovery_point", "warning", what))
            finding.subjects.append(step_subject(step.id, step.run_id, step.node))
    for name, finding in sorted(found.items()):
        add_to_alert(frame.tx, f"{RECOVERY_POINT}{name}"[:300], finding)
