"""An effect whose outcome nothing automatic can find gets a person (invariant 7)."""

from __future__ import annotations

from runtime.graph.propagate import attention
from runtime.machine.needs import doubt_effect
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState


def hand_over(
    run: RunState, operation: OperationState, evidence: str, *, step: StepState | None = None, owner: str | None = None
) -> None:
    """Give an effect that nothing automatic can settle to a person, with the evidence there is.

    ``owner`` is who answers for its tool, None: those on call.
    """
    doubt_effect(run, operation, evidence, step=step)
    if run.attention is None and not run.ended:
        attention(run, evidence, owner)
