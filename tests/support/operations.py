"""Operations as a worker leaves them, for tests that drive the engine by hand."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.graph.plans import plan_of
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.ids import uuid7
from runtime.machine.frame import Frame
from runtime.machine.operations import OperationState, move_operation, note_intent, write_operations
from runtime.models import ToolVersion
from runtime.store.arrays import arrays
from runtime.store.tx import tenant_tx
from runtime.worker.work import Claimed
from tests.support.engine import Engine


def send(
    engine: Engine,
    claimed: Claimed,
    business_key: str,
    *,
    recovery: str = "human",
    tool: str = "core.noop",
    arguments: dict[str, Any] | None = None,
) -> uuid.UUID:
    """Commit ``intended → sent`` for a claimed step, as a worker does before its call; returns the operation's id."""
    operation_id = uuid7()
    payload = canonical_bytes(arguments or {})
    with tenant_tx(engine.tenant.id) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(claimed.run_id)
        frame.load([(run.id, claimed.node.id)])
        step = run.steps[claimed.node.id]
        version = ToolVersion.objects.filter(name=tool).values_list("id", flat=True).order_by("-number").first()
        row = (
            operation_id, business_key, payload, digest(payload), version, recovery, run.id, step.id,
            step.execution_version, step.attempt, step.owner_epoch, "service:test",
        )  # fmt: skip
        tx.send("insert_operations", (tx.tenant_id, run.now, *arrays("utxxutuuiiit", [row])))
        [found] = tx.rows("operations_by_key", (tx.tenant_id, [business_key]))
        operation = OperationState(*found)
        note_intent(run, step, operation)
        move_operation(run, step, operation, "sent", by="owner")
        write_operations(tx, [operation])
        frame.flush()
    claimed.operation_id, claimed.business_key = operation_id, business_key
    return operation_id
