"""May a lost step go on where it was? Asked before it is scheduled anew, after its old worker was frozen (C4.4).

The run is bound to what its manifest says: workflow, tools, and by whose order. What no longer agrees is not guessed
over and not skipped: the step holds (``recovery``), and the run has an owner who is told why.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

from runtime.kernel.errors import BadInput
from runtime.machine.frame import Frame
from runtime.machine.rows import StepState


def unfit(frame: Frame, steps: Iterable[StepState]) -> dict[uuid.UUID, str]:
    """Return step id → why it may not go on as it is; those that may are left out."""
    steps = [step for step in steps if not step.undoes]
    facts = {row[0]: row[1:] for row in frame.tx.rows("recovery_facts", (sorted({s.run_id for s in steps}),))}
    wanted = {tool for step in steps if (tool := frame.runs[step.run_id].plan.nodes[step.node].tool)}
    contracts = _contracts(frame, wanted)
    found = {}
    for step in steps:
        tool = frame.runs[step.run_id].plan.nodes[step.node].tool
        if (why := _why(facts[step.run_id], tool, contracts.get(tool or ""))) is not None:
            found[step.id] = why
    return found


def _contracts(frame: Frame, references: set[str]) -> dict[str, tuple[str, bool]]:
    """Return reference → (digest of the contract, whether it is retired)."""
    if not references:
        return {}
    # A plan's references have a version each: that was checked when the workflow was registered.
    names, _, numbers = zip(*(one.rpartition("@") for one in sorted(references)), strict=True)
    rows = frame.tx.rows("tools_by_name", (list(names), [int(one) for one in numbers]))
    return {f"{row[1]}@{row[2]}": (bytes(row[4]).hex(), row[7] is not None) for row in rows}


def _why(facts: tuple[Any, ...], tool: str | None, contract: tuple[str, bool] | None) -> str | None:
    body, spec_sha256, spec_whole, left = facts
    try:
        manifest: dict[str, Any] = json.loads(bytes(body))
    except ValueError as problem:
        raise BadInput("The run's manifest cannot be read.") from problem
    if not spec_whole or manifest.get("workflow_sha256") != bytes(spec_sha256).hex():
        return "The workflow version is not the one that the run was bound to."
    if left:
        return "Whoever submitted the task is no longer a member."
    if tool is None:
        return None
    bound = manifest.get("tools", {}).get(tool)
    if contract is None or bound != contract[0]:
        return f"The contract of {tool} is not the one that the run was bound to."
    return f"The tool {tool} was retired." if contract[1] else None
