"""An effect nobody knows the outcome of gets a next query time, or a person (invariant 7)."""

from __future__ import annotations

from runtime.actions.verifying import can_be_asked
from runtime.graph import propagate
from runtime.graph.owners import owner_of
from runtime.graph.propagate import attention
from runtime.machine.needs import doubt_effect
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import Tx


def own_the_doubt(tx: Tx, run: RunState, operation: OperationState, why: str) -> None:
    """Let the reconciler ask about an unknown operation at once, or give its run an owner."""
    askable = can_be_asked(tx, operation)
    owner = None if askable else owner_of(tx, operation)
    propagate.own_the_doubt(run, operation, why, askable=askable, owner=owner)


def hand_over(
    run: RunState, operation: OperationState, evidence: str, *, step: StepState | None = None, owner: str | None = None
) -> None:
    """Give an effect that nothing automatic can settle to a person, with the evidence there is.

    ``owner`` is who answers for its tool, None: those on call.
    """
    doubt_effect(run, operation, evidence, step=step)
    if run.attention is None and not run.ended:
        attention(run, evidence, owner)
