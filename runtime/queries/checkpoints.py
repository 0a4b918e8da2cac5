"""The point a run would be recovered from (C4.2): everything that going on needs, as of one event.

It is written piece by piece, each in the transaction of what it tells of: an intent, a send, an external confirmation,
the begin of a compensation, the end of a step (C4.3). Nothing of it lags behind the ledger, so it is read, not copied.
"""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.queries import outputs
from runtime.queries.base import found, parsed, reading

_PARSED = ("attention", "manifest", "steps", "operations", "approvals")


def read_recovery_point(*, actor: Actor, run_id: uuid.UUID) -> dict[str, Any]:
    """Return what recovery goes on from, complete up to ``run_seq``. Raises NotFound. Verb ``run.read``.

    {run_id, run_seq, status, version, task_id, deadline, cancel_requested, cancel_by, paused, attention, workflow,
    workflow_version, workflow_sha256, manifest_sha256, manifest, at, steps, operations, approvals}. A step has its
    dependencies by kind, attempt, owner_epoch, worker session and lease, timer, and its stored ``result``, whose kind
    says what it is: an observation, a candidate, or an external fact; ``output_kind`` what kind of output. No payload
    is among it.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("recovery_point", (run_id,))
        row = found(rows[0] if rows else None, "run")
    point = {**row, **{name: parsed(row[name]) for name in _PARSED}}
    for step in point["steps"] or []:
        if step["result"] is not None:
            step["result"]["output_kind"] = outputs.of_node(step["kind"])
    return point
