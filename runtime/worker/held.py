"""What a worker believes it runs against what runs under its session by the rows: there should be no difference."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from functools import partial

import structlog

from runtime.store.arrays import arrays
from runtime.store.tx import plain_rows, tenant_tx
from runtime.worker.execute import Prepared
from runtime.worker.maintenance.each import attempt_runs, by_tenant
from runtime.worker.maintenance.lost import return_forgotten
from runtime.worker.underway import UnderWay

log = structlog.get_logger(__name__)


def heed_missed(running: UnderWay) -> None:
    """Tell calls to end that were asked to while nobody listened. Raises what says that the database is away.

    A kill is found by :func:`compare`: the step is not ours any more. One whose call may be changing something outside
    stays ours, and is only asked (C5.5).
    """
    if not running.missed:
        return
    running.missed = False
    calls = [one.claimed for one in running.values()]
    try:
        for tenant_id, rows in by_tenant((c.tenant_id, c.run_id, c.step_id, c.owner_epoch) for c in calls).items():
            with tenant_tx(tenant_id, deferred=True) as tx:
                for (step_id,) in tx.rows("asked_to_end", arrays("uui", rows)):
                    running[step_id].cancel.set()
    except BaseException:
        running.missed = True
        raise


def compare(
    session_id: uuid.UUID,
    running: Mapping[uuid.UUID, Prepared],
    known: Collection[uuid.UUID],
    doubtful: Collection[uuid.UUID],
) -> int:
    """Compare, mend, and return how many steps were given back. Raises what says that the database is away.

    A step that the worker does not know (``known`` are the steps of its calls and reports) would run for ever: its
    session lives on and nobody else looks after it. It is given back like one of a lost worker. A call whose step is
    not ours any more is told to end: the notice of its kill was not heard. In ``doubtful`` tenants the outcome of a
    claim is still open. Called by the worker's own thread, between two transactions, while the lease is held.
    """
    rows = plain_rows("steps_held_by", (session_id,))
    held = {step_id: epoch for _tenant, _run, _node, step_id, epoch in rows}
    for step_id, prepared in running.items():
        if held.get(step_id) != prepared.claimed.owner_epoch:
            prepared.cancel.set()
    forgotten = [row for row in rows if row[3] not in known and row[0] not in doubtful]
    given_back = 0
    for tenant_id, steps in by_tenant(forgotten).items():
        log.error("steps were forgotten", tenant=str(tenant_id), steps=[str(step[2]) for step in steps])
        give_back = partial(return_forgotten, session_id, tenant_id)
        given_back += attempt_runs("forgotten", tenant_id, [step[:2] for step in steps], give_back)
    return given_back
