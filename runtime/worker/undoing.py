"""What a step that undoes an effect calls: read when it is chosen, before anything is counted for its tool (C4.5)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from runtime.graph.plan import NodePlan
from runtime.machine.rows import UNDO_KINDS, RunState, StepState
from runtime.store.tx import Tx
from runtime.worker.work import UndoFacts


@dataclass(frozen=True, slots=True)
class UndoOrder:
    """The order that a step of this kind carries out: its tool (name@version), its own deadline, the operation."""

    tool: str
    deadline: datetime | None
    facts: UndoFacts

    def node_of(self, node: NodePlan) -> NodePlan:
        """Return the node as it is called: a workflow may leave the tool that undoes to the contract."""
        return node if node.kind == "compensation_check" else replace(node, tool=self.tool)


def undo_orders(tx: Tx, steps: Iterable[StepState]) -> dict[uuid.UUID, UndoOrder]:
    """Return step → order for those of ``steps`` that undo or check; where none does, nothing is asked."""
    wanted = [step.id for step in steps if step.kind in UNDO_KINDS]
    if not wanted:
        return {}
    return {
        step_id: UndoOrder(tool, deadline, UndoFacts(key, *operation))
        for step_id, tool, key, deadline, *operation in tx.rows("undo_facts", (wanted,))
    }


def called(run: RunState, step: StepState, orders: dict[uuid.UUID, UndoOrder]) -> NodePlan:
    """Return the node of a step with the tool that it calls."""
    node: NodePlan = run.plan.nodes[step.node]
    order = orders.get(step.id)
    return node if order is None else order.node_of(node)
