"""What is written when runs end, for hooks that hear of it (A4.5); light to load, since every worker does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import orjson

from approvals.law import RUN_EVENTS
from runtime.queries.success import success_of
from runtime.store.tx import Tx

# How long a process remembers whether a tenant has such hooks: runs that nobody hears of cost one question a second.
_REMEMBERED_SECONDS = 1.0
_known: dict[uuid.UUID, tuple[float, bool]] = {}


def on_ends(tx: Tx, run_ids: Sequence[uuid.UUID]) -> None:
    """Write a message for each run and each hook that names its new status, in the transaction of the change."""
    assert tx.tenant_id is not None
    until, wanted = _known.get(tx.tenant_id, (0.0, False))
    if (now := time.monotonic()) >= until:
        wanted = bool(tx.rows("run_hooks_wanted", (tx.tenant_id, list(RUN_EVENTS)))[0][0])
        _known[tx.tenant_id] = (now + _REMEMBERED_SECONDS, wanted)
    if wanted:
        # What the criterion has come to by now: an execution that completed is no business success by itself.
        judged = {str(run_id): one["status"] for run_id, one in success_of(tx, run_ids).items()}
        tx.send("run_hooks_told", (orjson.dumps(judged).decode(), list(run_ids)))


def forget(tenant_id: uuid.UUID) -> None:
    """Ask anew in this process: a hook was added."""
    _known.pop(tenant_id, None)
