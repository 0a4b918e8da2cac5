"""What becomes of a step whose owner was taken away: maintenance takes what is lost, a person what is in a case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from runtime.actions.verifying import can_be_asked
from runtime.graph import propagate
from runtime.graph.owners import owner_of
from runtime.graph.propagate import park
from runtime.machine.apply import move_step
from runtime.machine.operations import OperationState, move_operation
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import Tx

Verdict = Literal["killed", "unknown", "parked", "unsent"]


def own_the_doubt(tx: Tx, run: RunState, operation: OperationState, why: str) -> None:
    """Let the reconciler ask about an unknown operation at once, or give its run an owner."""
    askable = can_be_asked(tx, operation)
    owner = None if askable else owner_of(tx, operation)
    propagate.own_the_doubt(run, operation, why, askable=askable, owner=owner)


def judge(
    tx: Tx,
    run: RunState,
    step: StepState,
    operations: Iterable[OperationState],
    *,
    unfit: str | None,
    why: str,
    reason: str,
    actor: str | None = None,
    may_hold: bool = True,
) -> Verdict:
    """Judge a step that is unknown because its owner was fenced off, and move it where that says (A6.2, C4.4).

    ``operations`` are the step's open ones; ``unfit`` says why it may not go on as it is (``recovery.py``), ``why``
    what is told of a doubt. Returns ``killed`` in a cancelled run (what is open outside is looked after by itself),
    ``unknown`` while something is open, ``parked`` when a person has to look, and ``unsent`` when nothing of it is
    outside: then the caller lets it go on. Without ``may_hold`` a workflow's ``on_lost: hold`` is passed over.
    """
    operations = list(operations)
    for one in operations:
        if one.status in ("intended", "sent"):
            move_operation(run, step, one, "unknown", by="engine", actor=actor, reason=reason)
        if one.status == "unknown":
            own_the_doubt(tx, run, one, why)
    if run.cancel_requested and not step.undoes:
        move_step(run, step, "killed", by="cancel", cause="cancelled", actor=actor, reason=reason)
        return "killed"
    if operations:
        return "unknown"
    holds = may_hold and unfit is None and run.plan.nodes[step.node].on_lost == "hold"
    if unfit is None and not holds:
        return "unsent"
    move_step(run, step, "waiting", by="engine", cause="reconciled", reason="nothing was sent")
    if unfit is not None:
        park(run, step, unfit)
    else:
        move_step(run, step, "hold", by="engine", cause="review", reason=reason)
    return "parked"
